#!/usr/bin/env python3
"""How often `trapline diff` claims a change between runs of one steady guest, and how often it finds a planted one.

usage: steady_runs.py [--figures FILE] TRAPLINE BY ROW RUN... [--delayed NAME RUN...]...

RUNs are recordings of one guest (tests/bench/merge/slow-device); those after --delayed are of the same guest with a
delay in the device of ROW, a row of `trapline diff --by BY`. Splits the first RUNs into two sides of 5 in every way,
and at random of 4, 3 and 1, and compares 5 of them, chosen at random, with 5 delayed ones; each time with
`trapline diff` itself. Prints a line for each: in how many comparisons anything was claimed to be proven; with a
delay, in how many of them ROW was (p50, mean or time in QEMU), and in how many a duration of anything else. A slow
device makes the guest's rounds longer, so rates and shares of all rows do change.
--figures: writes every run's figures, for tests/merge/compare/compare_stats_test.cc, as lines GROUP,ROW,METRIC,VALUE...
"""
import itertools
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import version_2  # noqa: E402

METRICS = ("rate", "mean", "p50", "p99", "share", "cost", "kernel", "user", "preempted", "blocked", "halted")
DURATIONS = ("p50", "p99", "mean", "kernel", "preempted", "blocked")
DELAYED = ("p50", "mean", "user")
TIMES = 100


def diff(trapline, by, before, after, *words):
    done = subprocess.run([trapline, "diff", "--by", by, "--format", "json", "--before", *before, "--after", *after, *words],
                          check=True, capture_output=True, text=True)
    return version_2.loads(done.stdout)


def proven(comparison, metrics):
    return {(row["key"], metric) for row in comparison["rows"] for metric in metrics if row[metric]["proven"]}


def claims(trapline, by, splits):
    """Of splits of runs of one guest: how many, and in how many something is proven."""
    splits = list(splits)
    found = [proven(diff(trapline, by, *split), METRICS) for split in splits]
    for one in filter(None, found):
        print("  claimed:", *(f"{metric} of {key}" for key, metric in sorted(one)), file=sys.stderr)
    return len(splits), sum(map(bool, found))


def write_figures(path, trapline, by, groups):
    names = list(groups)
    with open(path, "w", encoding="utf-8") as out:
        for name in names:
            other = groups[names[1 if name == names[0] else 0]]
            rows = diff(trapline, by, groups[name], other)["rows"]
            for row in sorted(rows, key=lambda row: row["key"]):
                for metric in METRICS:
                    values = row[metric]["before_runs"]
                    if values and row["before_count"] + row["after_count"] >= 50:
                        print(name, row["key"], metric, *("" if v is None else f"{v:.7g}" for v in values), sep=",", file=out)


def main():
    words = sys.argv[1:]
    figures = words[1] if words[0] == "--figures" else None
    trapline, by, name, *words = words[2:] if figures else words
    groups, group = {}, "same"
    while words:
        word = words.pop(0)
        if word == "--delayed":
            group = words.pop(0)
        else:
            groups.setdefault(group, []).append(word)
    if figures:
        write_figures(figures, trapline, by, groups)
    same = groups.pop("same")
    draw = random.Random(17)
    print("| runs of a side | comparisons | something proven |")
    print("|---|---|---|")
    halves = {frozenset((frozenset(half), frozenset(same) - frozenset(half))) for half in itertools.combinations(same, len(same) // 2)}
    for size in (1, 3, 4, 5):
        if size == 5 and len(same) == 10:
            splits = [tuple(sorted(map(sorted, half))) for half in halves]
        elif size == 1:
            splits = [((a,), (b,)) for a, b in itertools.combinations(same, 2)]
        else:
            drawn = [draw.sample(same, 2 * size) for _ in range(TIMES)]
            splits = [(one[:size], one[size:]) for one in drawn]
        count, claimed = claims(trapline, by, splits)
        print(f"| {size} | {count} | {claimed} ({100 * claimed / count:.1f} %) |", flush=True)
    print("\n| delay | comparisons, 5 against 5 | found | claims of other durations |")
    print("|---|---|---|---|")
    for group, runs in groups.items():
        found = others = 0
        for _ in range(TIMES):
            comparison = diff(trapline, by, draw.sample(same, 5), draw.sample(runs, 5))
            found += bool(proven(comparison, DELAYED) & {(name, metric) for metric in DELAYED})
            # p99 and preempted time of the slow row are its own.
            others += any(key != name for key, _ in proven(comparison, DURATIONS))
        print(f"| {group} | {TIMES} | {found} | {others} |", flush=True)


main()
