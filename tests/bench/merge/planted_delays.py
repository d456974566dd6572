#!/usr/bin/env python3
"""What `trapline diff` finds of delays that were planted in one device.

usage: planted_delays.py [--check] TRAPLINE ROW BY BEFORE AFTER:NANOSECONDS...

The recordings are those of tests/bench/merge/slow-device: BEFORE without a delay, in each AFTER every exit of
ROW (a row of `trapline diff --by BY`) takes NANOSECONDS longer in QEMU. Prints a line for each AFTER and each
of ROW's figures that a constant delay moves by a known amount: mean, p50, time in QEMU; what was planted, as a
part of that figure before; what diff found, with its interval, and whether it calls it real. Then what
else diff calls real: durations of other rows, and ROW's parts other than time in QEMU. The guest's loop takes
longer with a slow device, so rates and shares do change and are left out.
--check: ends with 1 when, of p50 or of the time in QEMU, a delay of 10 % or more is not real or an interval does
not hold what was planted, or when anything else is claimed. The mean is not held to it: it also has what a few
exits lost to other threads.
"""
import json
import subprocess
import sys

DURATIONS = ("mean", "p50", "p99", "kernel", "user", "preempted", "blocked", "cost")
FIGURES = ("mean", "p50", "user")
# The delay is measured by readings of the clock, one of which is there without a delay, too.
READING_NS = 65
HIT = ("mean", "p50", "p99", "user", "cost")  # of the slow row: the delay is in QEMU


def percent(value: float) -> str:
    return f"{100 * value:+.2f} %".replace("-", "−")


def main() -> None:
    args = sys.argv[1:]
    check = args[:1] == ["--check"]
    trapline, name, by, before, *afters = args[check:]
    failures = []
    print("| after | figure | before | planted | found | 95 % interval | real |")
    print("|---|---|---|---|---|---|---|")
    claimed = []
    for spec in afters:
        after, _, delay = spec.rpartition(":")
        file = after.rpartition("/")[2]
        text = subprocess.run([trapline, "diff", before, after, "--by", by, "--top", "0", "--format", "json"],
                              check=True, capture_output=True, text=True).stdout
        diff = json.loads(text)
        for sentence in diff["warnings"]:
            print(sentence, file=sys.stderr)
        rows = {row["key"]: row for row in diff["rows"]}
        for figure in FIGURES:
            found = rows[name][figure]
            if not found["tested"]:
                print(f"| {file} | {figure} | | {int(delay):,} ns | not tested | | |")
                failures.append(f"{figure} of {file} is not tested")
                continue
            planted = int(delay) / found["before"]
            print(f"| {file} | {figure} | {found['before'] / 1000:.2f} µs | {percent(planted)} "
                  f"| {percent(found['change'])} | {percent(found['low'])} to {percent(found['high'])} "
                  f"| {'yes' if found['real'] else 'no'} |")
            if figure == "mean":
                continue
            if planted >= 0.1 and not found["real"]:
                failures.append(f"{figure} of {file} is not found")
            least = planted - READING_NS / found["before"]
            if not (found["low"] <= planted and least <= found["high"]):
                failures.append(f"{figure} of {file}: the interval does not hold {percent(planted)}")
        claimed += [f"{file}: {metric} of {key} {percent(row[metric]['change'])}"
                    for key, row in rows.items() for metric in DURATIONS
                    if row[metric].get("real") and not (key == name and metric in HIT)]
    print(f"\nOthers called real: {', '.join(claimed) or 'none'}.")
    for failure in failures + claimed:
        print(failure, file=sys.stderr)
    sys.exit(1 if check and (failures or claimed) else 0)


main()
