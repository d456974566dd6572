#!/usr/bin/env python3
"""What `trapline diff` finds of delays that were planted in one device.

usage: planted_delays.py [--check] TRAPLINE ROW BY BEFORE AFTER:NANOSECONDS...

The recordings are those of tests/bench/merge/slow-device: BEFORE without a delay, in each AFTER every exit of
ROW (a row of `trapline diff --by BY`) takes NANOSECONDS longer. Prints a line for each AFTER: what was
planted, as a part of the row's mean before; what diff found, with its interval; whether it calls it real;
and what else it calls real, of the durations of other rows and of the row's parts other than user time.
The guest's loop takes longer with a slow device, so rates and shares do change and are left out.
--check: ends with 1 when a delay of 20 % or more is not real, when an interval does not hold what was
planted, or when anything else is claimed.
"""
import json
import subprocess
import sys

DURATIONS = ("mean", "p50", "p99", "kernel", "user", "preempted", "blocked", "cost")
HIT = ("mean", "p50", "p99", "user", "cost")  # of the slow row: the delay is in QEMU


def percent(value: float) -> str:
    return f"{100 * value:+.2f} %".replace("-", "−")


def main() -> None:
    args = sys.argv[1:]
    check = args[:1] == ["--check"]
    trapline, name, by, before, *afters = args[check:]
    failed = 0
    print("| after | planted | exits, before and after | found in the mean | 95 % interval | real | others called real |")
    print("|---|---|---|---|---|---|---|")
    for spec in afters:
        after, _, delay = spec.rpartition(":")
        text = subprocess.run([trapline, "diff", before, after, "--by", by, "--top", "0", "--format", "json"],
                              check=True, capture_output=True, text=True).stdout
        diff = json.loads(text)
        for sentence in diff["warnings"]:
            print(sentence, file=sys.stderr)
        rows = {row["key"]: row for row in diff["rows"]}
        mean = rows[name]["mean"]
        planted = int(delay) / mean["before"]
        others = [f"{metric} of {key} {percent(row[metric]['change'])}"
                  for key, row in rows.items() for metric in DURATIONS
                  if row[metric].get("real") and not (key == name and metric in HIT)]
        print(f"| {after.rpartition('/')[2]} | {int(delay):,} ns, {percent(planted)} "
              f"| {rows[name]['before_count']:,}, {rows[name]['after_count']:,} | {percent(mean['change'])} "
              f"| {percent(mean['low'])} to {percent(mean['high'])} | {'yes' if mean['real'] else 'no'} "
              f"| {', '.join(others) or 'none'} |")
        failed += bool(diff["warnings"] or others or not mean["low"] <= planted <= mean["high"]
                       or (planted >= 0.2 and not mean["real"]))
    sys.exit(1 if check and failed else 0)


main()
