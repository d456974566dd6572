#!/usr/bin/env python3
"""Recordings that lack what tells who kept a vCPU waiting: nothing is claimed, and it is said what to record.

  fewer_claims.py TRAPLINE FOLDER    FOLDER is tests/data
"""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import version_2  # noqa: E402

NO_WAKING = "unknown (record sched:sched_waking)"
NO_SWITCH = "sched_switch was not recorded"
NO_WAKEUPS = "no wake-ups were recorded"


def main():
    trapline, folder = sys.argv[1:]
    wrong = []

    def report(name):
        run = subprocess.run([trapline, "report", f"{folder}/{name}", "--waits", "--steal", "--format", "json"],
                             stdout=subprocess.PIPE, check=True)
        return version_2.loads(run.stdout)

    def expect(name, what, holds):
        if not holds:
            wrong.append(f"{name}: {what}")

    def said(got, text):
        return any(text in note for note in got["notes"])

    # No event of the scheduler: no wait at all, and the reader is told.
    name = "box/demo-local.dat"
    got = report(name)
    expect(name, "waits without sched_switch", not any(
        table["rows"] or table["total_ns"] for table in [*got["waits"].values(), *got["steal"]]))
    expect(name, f"no note '{NO_SWITCH}'", said(got, NO_SWITCH))

    # Switches without wake-ups, x86 and arm64: who ran is known, who woke is not.
    for name, sleeps in (("svm-mono.dat", False), ("arm64/kvm-arm64-linux.dat", True)):
        got = report(name)
        blocked = got["waits"]["halted"]
        expect(name, "no culprit of preempted time", got["waits"]["preempted"]["rows"])
        expect(name, f"a waker without wake-ups: {blocked['rows']}",
               {row["culprit"] for row in blocked["rows"]} == ({NO_WAKING} if sleeps else set()))
        expect(name, f"no note '{NO_WAKEUPS}'", said(got, NO_WAKEUPS))

    # sched_wakeup alone: a wake-up in the interrupt that passed it on is nobody's.
    name = "svm-linux-2vcpu.dat"
    rows = {row["culprit"]: row["ns"] for row in report(name)["waits"]["halted"]["rows"]}
    expect(name, f"nothing is unknown without sched_waking: {rows}", rows.get(NO_WAKING, 0) > 0)
    expect(name, "a timer or an interrupt without its events",
           not any(key == "timer" or key.startswith("interrupt") for key in rows))

    # Losses: what one of them touches is left out, and counted.
    name = "svm-2vcpu-lost.dat"
    got = report(name)
    expect(name, f"no exit is left out: {got['counters']}",
           got["counters"]["gaps"] > 0 and got["counters"]["closed_by_loss"] > 0)
    expect(name, "no note of waits that are left out", said(got, "waits during which events were lost are left out"))

    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
