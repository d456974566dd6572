#!/usr/bin/env python3
"""The bootstrap of `trapline diff` once more, plainly, by docs/diff.md.

  diff_oracle.py TRAPLINE BEFORE AFTER [ROWS]

Of the first ROWS rows (3). Exits come from `trapline export --to jsonl`; number and length of the blocks, and the seed, are those
that the diff prints. Rate, mean, p50 and p99 of every row that was tested, their intervals and
p-values have to agree within 1e-6.
"""
import bisect
import itertools
import json
import math
import operator
import os
import statistics
import subprocess
import sys
import tempfile

MASK = (1 << 64) - 1
PER_MILLE = {"p50": 500, "p99": 990}


def random_numbers(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield (z ^ (z >> 31)) >> 32


def bucket_middle(value):
    """The middle of the histogram's bucket: 128 to each power of two."""
    if value < 128:
        return value
    width = 1 << (value.bit_length() - 8)
    return value // width * width + (width - 1) // 2


def student_cdf(t, degrees):
    """By Simpson's rule on the angle, where the density is smooth."""
    end, steps = math.atan(t / math.sqrt(degrees)), 4000
    height = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    area = sum((1 if i in (0, steps) else 4 if i % 2 else 2) * math.cos(end * i / steps) ** (degrees - 1)
               for i in range(steps + 1))
    return 0.5 + height * area * end / steps / 3


def student_quantile(probability, degrees):
    low, high = 0.0, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return low


def summed(values, weights):
    return sum(map(operator.mul, values, weights))


class Side:
    def __init__(self, trapline, path, described, seed, resamples):
        report = json.loads(subprocess.run([trapline, "report", path, "--format", "json"],
                                           capture_output=True, text=True, check=True).stdout)
        begin, end = report["interval"]["start_ns"], report["interval"]["end_ns"]
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "rows.jsonl")
            subprocess.run([trapline, "export", path, "--to", "jsonl", "-o", out], check=True,
                           stderr=subprocess.DEVNULL)
            with open(out, encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines]
        self.blocks, width = described["blocks"], described["block_ns"]
        self.wall = [width / 1e9] * (self.blocks - 1) + [(end - begin - width * (self.blocks - 1)) / 1e9]
        self.rows = {}
        for row in rows:
            at = row["start_ns"] + row["total_ns"] - begin
            block = min(at // width, self.blocks - 1)
            self.rows.setdefault(row["reason"], []).append((row["total_ns"], block))
        self.tables = {}
        numbers = random_numbers(seed)
        self.draws = []
        for _ in range(resamples):
            weights = [0] * self.blocks
            for _ in range(self.blocks):
                weights[next(numbers) * self.blocks >> 32] += 1
            self.draws.append(weights)

    def table(self, key):
        """Exits and time of each block; the values of the buckets, and the exits of each block up to each."""
        if key not in self.tables:
            counts, totals, buckets = [0] * self.blocks, [0] * self.blocks, {}
            for total, block in self.rows[key]:
                counts[block] += 1
                totals[block] += total
                buckets.setdefault(bucket_middle(total), [0] * self.blocks)[block] += 1
            values = sorted(buckets)
            up_to = list(itertools.accumulate((buckets[value] for value in values),
                                              lambda a, b: [x + y for x, y in zip(a, b)]))
            self.tables[key] = counts, totals, values, up_to
        return self.tables[key]

    def figure(self, key, metric, weights):
        counts, totals, values, up_to = self.table(key)
        if metric in PER_MILLE:
            rank = -(-summed(counts, weights) * PER_MILLE[metric] // 1000)
            if rank == 0:
                return None
            return values[bisect.bisect_left(up_to, rank, key=lambda row: summed(row, weights))]
        base = summed(self.wall if metric == "rate" else counts, weights)
        return summed(counts if metric == "rate" else totals, weights) / base if base else None

    def estimate(self, key, metric):
        """(value, relative variance, degrees of freedom)"""
        value = self.figure(key, metric, [1] * self.blocks)
        drawn = [one for one in (self.figure(key, metric, w) for w in self.draws) if one is not None]
        variance = statistics.variance(drawn) / value ** 2 * self.blocks / (self.blocks - 1)
        if metric in PER_MILLE:
            variance += 1 / 256 ** 2 / 3
        with_it = len({block for _, block in self.rows[key]})
        return value, variance, min(self.blocks, with_it) - 1


def main():
    trapline, *paths = sys.argv[1:4]
    most_rows = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    diff = json.loads(subprocess.run([trapline, "diff", *paths, "--format", "json"],
                                     capture_output=True, text=True, check=True).stdout)
    before, after = (Side(trapline, path, diff[side][0], 2 * diff["seed"] + turn, diff["resamples"])
                     for turn, (path, side) in enumerate(zip(paths, ("before", "after"))))
    compared = failed = 0
    for row in diff["rows"][:most_rows]:
        for metric in ("rate", "mean", "p50", "p99"):
            printed = row[metric]
            if not printed["tested"] or printed["change"] is None or printed["change"] == -1:
                continue
            (a, va, da), (b, vb, db) = (side.estimate(row["key"], metric) for side in (before, after))
            degrees = (va + vb) ** 2 / (va ** 2 / da + vb ** 2 / db)
            effect, error = math.log(b / a), math.sqrt(va + vb)
            reach = student_quantile((1 + diff["confidence"]) / 2, degrees) * error
            t = min(abs(effect) / error, abs(b - a) / math.hypot(a * math.sqrt(va), b * math.sqrt(vb)))
            expected = {"before": a, "after": b, "change": b / a - 1, "low": math.expm1(effect - reach),
                        "high": math.expm1(effect + reach), "p": 2 * (1 - student_cdf(t, degrees))}
            for name, value in expected.items():
                compared += 1
                if not math.isclose(value, printed[name], rel_tol=1e-6, abs_tol=1e-6):
                    failed += 1
                    print(f"{metric} of {row['key']}: {name} is {printed[name]}, by the oracle {value}")
    print(f"{compared} figures compared, {failed} differ")
    sys.exit(failed != 0 or compared == 0)


main()
