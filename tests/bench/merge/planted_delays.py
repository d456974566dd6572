#!/usr/bin/env python3
"""What `trapline diff` finds of delays that were planted in one device.

usage: planted_delays.py TRAPLINE ROW BY BEFORE AFTER:NANOSECONDS...

The recordings are those of tests/bench/merge/slow-device: BEFORE without a delay, in each AFTER every exit of
ROW (a row of `trapline diff --by BY`) takes NANOSECONDS longer in QEMU. Prints a line for each AFTER and each
of ROW's figures that a constant delay moves by a known amount: mean, p50, time in QEMU; what was planted, as a
part of that figure before; what diff found.
Ends with 1 when p50 or the time in QEMU differ from what was planted by more than a hundredth of the figure
(p50: and its bucket), or when diff calls anything of these single runs proven. The mean is not held to it: it
also has what a few exits lost to other threads.
"""
import json
import math
import subprocess
import sys

FIGURES = ("mean", "p50", "user")
MOST_OFF = {"p50": 0.01 + 1 / 128, "user": 0.01}


def percent(value: float) -> str:
    return f"{100 * value:+.2f} %".replace("-", "−")


def main() -> None:
    trapline, name, by, before, *afters = sys.argv[1:]
    failures = []
    print("| after | figure | before | planted | found |")
    print("|---|---|---|---|---|")
    for spec in afters:
        after, _, delay = spec.rpartition(":")
        file = after.rpartition("/")[2]
        text = subprocess.run([trapline, "diff", before, after, "--by", by, "--top", "0", "--format", "json"],
                              check=True, capture_output=True, text=True).stdout
        diff = json.loads(text)
        row = next(row for row in diff["tables"]["changes"]["rows"] if row["key"] == name)
        if diff["head"]["proven_changes"] != 0 or any(row[figure]["proven"] for figure in FIGURES):
            failures.append(f"{file}: a single run is called proven")
        for figure in FIGURES:
            found = row[figure]
            planted = int(delay) / found["before"]
            print(f"| {file} | {figure} | {found['before'] / 1000:.2f} µs | {percent(planted)} "
                  f"| {percent(found['change'])} |")
            if abs(found["change"] - planted) > MOST_OFF.get(figure, math.inf):
                failures.append(f"{figure} of {file}: {percent(found['change'])} for {percent(planted)}")
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


main()
