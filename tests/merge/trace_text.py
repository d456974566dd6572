#!/usr/bin/env python3
"""trace_text.py TRAPLINE PATH...: the report of a recording's text is the recording's own.

Each recording below the paths is printed by `trace-cmd report`, with nanoseconds, without, and raw. Counts have
to be equal, times as well where the text has nanoseconds, else to a microsecond for each interval that is summed up.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BY = "reason,detail,device"
FORMS = (["-t"], [], ["-R"])
PARTS = ("total_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")


def report(trapline, path, unit=()):
    run = subprocess.run([trapline, "report", str(path), "--by", BY, "--format", "json", "--top", "100000", *unit],
                         capture_output=True, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr.decode().replace(str(path), "FILE")


def rows_of(found):
    return {row["key"]: row for row in found["tables"]["groups"]["rows"]}


def differences(expected, found, exact):
    if isinstance(expected, str) or isinstance(found, str):
        if expected != found:
            yield f"refused: {expected if isinstance(expected, str) else found}".strip()
        return
    resolutions = [source["resolution_ns"] for of in (expected, found) for source in of["tables"]["sources"]["rows"]]
    if resolutions != [None, None if exact or expected["head"]["time_unit"] == "cycles" else 1000]:
        yield f"resolutions of the recording and of the text: {resolutions}"
    for name, value in expected["tables"]["counters"].items():
        if found["tables"]["counters"][name] != value:
            yield f"counter {name}: {value} in the recording, {found['tables']['counters'][name]} in the text"
    of_text = rows_of(found)
    for key, row in rows_of(expected).items():
        other = of_text.pop(key, None)
        if other is None:
            yield f"row {key} ({row['count']}) is not in the text's report"
            continue
        if other["count"] != row["count"]:
            yield f"row {key}: {row['count']} exits, {other['count']} in the text"
            continue
        # An exit has an interval or two of each part, and more where it slept more often.
        room = 0 if exact else 1000 * row["count"] * 2
        for part in PARTS:
            if row.get(part) is None or other.get(part) is None:
                if row.get(part) != other.get(part):
                    yield f"row {key}: {part} {row.get(part)}, {other.get(part)} in the text"
            elif abs(row[part] - other[part]) > room:
                yield f"row {key}: {part} {row[part]}, {other[part]} in the text"
    for key, row in of_text.items():
        yield f"row {key} ({row['count']}) is in the text's report alone"


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
