#!/usr/bin/env python3
"""The statistics of `trapline diff` once more, plainly, by docs/diff.md.

  diff_oracle.py TRAPLINE BEFORE... -- AFTER...

Exits come from `trapline export --format jsonl`, the length of a run, its vCPUs and its guest time from what the diff
prints of it. Every run's figures, every side's, changes, intervals, p-values and what is proven have to agree
within 1e-6.
"""
import itertools
import math
import statistics
import sys

import tables

PARTS = ("kernel", "user", "preempted", "blocked", "halted")
EXTENSIVE = ("rate", "share", "cost")
METRICS = ("rate", "mean", "p50", "p99", "share", "cost", *PARTS)
BUCKET_ERROR = {"p50": 1 / 256 / math.sqrt(3), "p99": 1 / 256 / math.sqrt(3)}
ROUNDING = 1e-9
UNIT = 1  # of the stamps, in ns: the recordings here have no coarser ones


def bucket_middle(value):
    """The middle of the histogram's bucket: 128 to each power of two."""
    if value < 128:
        return value
    width = 1 << (value.bit_length() - 8)
    return value // width * width + (width - 1) // 2


def student_cdf(t, degrees):
    """By Simpson's rule on the angle, where the density is smooth."""
    end, steps = math.atan(t / math.sqrt(degrees)), 2000
    height = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    area = sum((1 if i in (0, steps) else 4 if i % 2 else 2) * math.cos(end * i / steps) ** (degrees - 1)
               for i in range(steps + 1))
    return 0.5 + height * area * end / steps / 3


def student_quantile(probability, degrees):
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return low


class Run:
    """One recording: the durations and parts of its exits by reason."""

    def __init__(self, trapline, described):
        self.seconds, self.guest, self.vcpus = described["wall_ns"] / 1e9, described["guest_ns"], described["vcpus"]
        self.rows = {}
        for row in tables.rows(trapline, described["path"]):
            self.rows.setdefault(row["reason"], []).append((row["total_ns"], *(row[f"{part}_ns"] or 0 for part in PARTS)))

    def figure(self, key, metric):
        exits = self.rows.get(key, [])
        total = sum(one[0] for one in exits)
        if metric in EXTENSIVE:
            ran = total - sum(one[1 + PARTS.index("preempted")] for one in exits)
            above, below = {"rate": (len(exits), self.seconds), "share": (ran, self.seconds * 1e9 * self.vcpus),
                            "cost": (ran, self.guest)}[metric]
            return above / below if below else None
        if not exits:
            return None
        if metric in PARTS:
            return sum(one[1 + PARTS.index(metric)] for one in exits) / len(exits)
        if metric == "mean":
            return total / len(exits)
        per_mille = {"p50": 500, "p99": 990}[metric]
        if metric == "p99" and len(exits) < 100:
            return None
        durations = sorted(one[0] for one in exits)
        value = durations[max(1, -(-len(exits) * per_mille // 1000)) - 1]
        return value if len(exits) <= 32 else bucket_middle(value)

    def noise(self, key, metric):
        """The variance of a figure of sums: each duration is the difference of two rounded stamps."""
        count, value = len(self.rows.get(key, [])), self.figure(key, metric)
        if metric in BUCKET_ERROR:
            return 0
        if metric == "rate":
            return UNIT ** 2 / 6 * (value / (self.seconds * 1e9)) ** 2
        by = {"share": self.seconds * 1e9 * self.vcpus, "cost": self.guest}.get(metric, count)
        return UNIT ** 2 / 6 * count / by ** 2


class Figure:
    """One figure of all runs, on the scale on which they are compared."""

    def __init__(self, metric, before, after, noises):
        self.there = [value is not None for value in (*before, *after)]
        values = [value for value in (*before, *after) if value is not None]
        self.size = len(before)
        self.logarithms = all(value > 0 for value in values)
        side = statistics.geometric_mean if self.logarithms else statistics.fmean
        self.before, self.after = (side([v for v in one if v is not None]) if any(v is not None for v in one) else None
                                   for one in (before, after))
        self.unit = 1 if self.logarithms else statistics.fmean(values) if values else 0
        counts = [sum(value is not None for value in one) for one in (before, after)]
        self.is_tested = min(counts) >= 3 and self.unit > 0
        scale = math.log if self.logarithms else lambda value: value / self.unit
        self.values = [scale(value) if value is not None and self.unit else None for value in (*before, *after)]
        self.exact = 0
        if metric in BUCKET_ERROR and self.is_tested:
            self.exact = math.log1p(UNIT / min(values)) if self.logarithms else UNIT / self.unit
        typical = statistics.geometric_mean(values) if self.logarithms and values else self.unit
        self.noise = max(noises) / typical ** 2 if noises and typical else 0
        self.floor = ROUNDING ** 2 / 2 + BUCKET_ERROR.get(metric, 0) ** 2

    def welch(self, chosen):
        """(difference, its error, degrees of freedom) with the runs `chosen` before; None: too few."""
        sides = [[], []]
        for run, value in enumerate(self.values):
            if value is not None:
                sides[run not in chosen].append(value)
        if min(map(len, sides)) < 3:
            return None
        a, b = (max(self.noise, statistics.variance(side)) / len(side) + self.floor for side in sides)
        degrees = (a + b) ** 2 / (a ** 2 / (len(sides[0]) - 1) + b ** 2 / (len(sides[1]) - 1))
        return statistics.fmean(sides[1]) - statistics.fmean(sides[0]), math.sqrt(a + b), degrees

    def t(self, chosen):
        found = self.welch(chosen)
        return max(0, abs(found[0]) - self.exact) / found[1] if found else 0


def expected(head, rows, before, after):
    """By (key, metric): what diff has to print."""
    result, tests = {}, {}
    for row in rows:
        key = row["key"]
        for metric in METRICS:
            if not row[metric]["before_runs"]:
                continue  # it does not apply
            sides = [[run.figure(key, metric) for run in side] for side in (before, after)]
            figure = Figure(metric, *sides, [run.noise(key, metric) for run in (*before, *after)
                                             if run.figure(key, metric) is not None])
            got = result[key, metric] = {"before_runs": sides[0], "after_runs": sides[1], "before": figure.before,
                                         "after": figure.after, "tested": False, "proven": False, "change": None}
            if figure.before and figure.after is not None:
                got["change"] = figure.after / figure.before - 1
            if row["before_count"] + row["after_count"] >= 50 and figure.is_tested:
                tests[key, metric] = figure
    allowed, fewer = 1 - head["confidence"], min(len(before), len(after))
    assert head["tests"] == (len(tests) if fewer >= 3 else 0), (head["tests"], len(tests))
    if fewer < 3:
        return result
    as_recorded, largest = set(range(len(before))), []
    if fewer >= 5:
        splits = list(map(set, itertools.combinations(range(len(before) + len(after)), len(before))))
        largest = sorted((max(figure.t(split) for figure in tests.values()) for split in splits), reverse=True)
        assert head["splits"] == len(splits)
    for name, figure in tests.items():
        effect, error, degrees = figure.welch(as_recorded)
        t = figure.t(as_recorded)
        p = 2 * (1 - student_cdf(t, degrees))
        corrected = min(1, p * len(tests))
        reach = student_quantile(1 - allowed / 2 / len(tests), degrees)
        if largest:
            corrected = max(corrected, sum(one >= t * (1 - ROUNDING) for one in largest) / len(largest))
            reach = max(reach, largest[math.ceil(allowed * len(largest) - ROUNDING) - 1])
        width = figure.exact + reach * error
        low, high = effect - width, effect + width
        if figure.logarithms:
            low, high = math.expm1(low), math.expm1(high)
        else:
            low, high = ((end * figure.unit / figure.before if figure.before else None) for end in (low, high))
        result[name] |= {"tested": True, "p": p, "corrected_p": corrected, "low": low, "high": high,
                         "proven": t > reach}
    return result


def agree(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(agree, a, b))
    if None in (a, b) or isinstance(a, bool):
        return a == b
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)


def main():
    trapline, *words = sys.argv[1:]
    cut = words.index("--")
    diff = tables.document(trapline, "diff", "--before", *words[:cut], "--after", *words[cut + 1:])
    head, changes = diff["head"], diff["tables"]["changes"]["rows"]
    before, after = ([Run(trapline, one) for one in diff["tables"][side]["rows"]] for side in ("before", "after"))
    rows = {row["key"]: row for row in changes}
    compared = failed = proven = 0
    for (key, metric), values in expected(head, changes, before, after).items():
        for name, value in values.items():
            compared += 1
            if not agree(value, rows[key][metric].get(name)):
                failed += 1
                print(f"{metric} of {key}: {name} is {rows[key][metric].get(name)}, by the oracle {value}")
        proven += values["proven"]
    print(f"{head['method']}: {compared} figures compared, {failed} differ; {proven} changes are proven")
    sys.exit(failed != 0 or compared == 0 or head["proven_changes"] != proven)


main()
