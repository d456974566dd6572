#!/usr/bin/env python3
"""trace_text.py TRAPLINE PATH...: the report of a recording's text is the recording's own.

Each recording below the paths is printed by `trace-cmd report`, with nanoseconds, without, and raw. Counts have
to be equal, times as well where the text has nanoseconds, else to a microsecond for each interval that is summed up.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tables

BY = "reason,detail,device"
FORMS = (["-t"], [], ["-R"])
PARTS = ("total_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")


def report(trapline, path, unit=()):
    _, found, complaint = tables.asked(trapline, "report", path, "--by", BY, *unit)
    return found or complaint.replace(str(path), "FILE")


def differences(expected, found, exact):
    if isinstance(expected, str) or isinstance(found, str):
        if expected != found:
            yield f"refused: {expected if isinstance(expected, str) else found}".strip()
        return
    resolutions = [source["resolution_ns"] for of in (expected, found) for source in of["tables"]["sources"]["rows"]]
    if resolutions != [None, None if exact or expected["head"]["time_unit"] == "cycles" else 1000]:
        yield f"resolutions of the recording and of the text: {resolutions}"
    # An exit has an interval or two of each part, and more where it slept more often.
    yield from tables.differences(expected["tables"], found["tables"], ("count", *PARTS), expected["tables"]["counters"],
                                  0 if exact else 2000)


def main():
    trapline, *paths = sys.argv[1:]
    recordings = [found for path in paths
                  for found in ([Path(path)] if Path(path).is_file() else sorted(Path(path).rglob("*.dat")))]
    wrong = compared = 0
    with tempfile.TemporaryDirectory() as work:
        text = Path(work) / "trace.txt"
        for recording in recordings:
            expected = report(trapline, recording)
            for form in FORMS:
                with text.open("wb") as out:
                    subprocess.run(["trace-cmd", "report", *form, "-i", str(recording)], stdout=out,
                                   stderr=subprocess.DEVNULL, check=True)
                # Of clocks that trace-cmd does not know it prints whole numbers.
                whole = re.search(rb"^ *\S.*-\d+ +\[\d+\] +\d+: ", text.read_bytes(), re.MULTILINE)
                compared += 1
                cycles = "head" in expected and expected["head"]["time_unit"] == "cycles"
                unit = ("--unit", "cycles" if cycles else "ns") if whole else ()
                all_of = list(differences(expected, report(trapline, text, unit), bool("-t" in form or whole)))
                wrong += bool(all_of)
                for one in all_of[:6]:
                    print(f"{recording} {' '.join(form)}: {one}")
    print(f"{compared} reports of {len(recordings)} recordings' texts: {wrong} differ")
    return 1 if wrong or not compared else 0


sys.exit(main())
