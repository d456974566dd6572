"""Every key of the JSON that commands print is in the document of its format, and every column of rows.

usage: doc_keys.py SOURCE-TREE TRAPLINE

Commands are run on recordings that fill as many keys as possible; a key counts as documented where the
document has it as a word.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT, TRAPLINE = Path(sys.argv[1]), sys.argv[2]
LINUX, DEMO, TCG = "tests/data/box/linux-irq.dat", "tests/data/box/demo-ioctl.dat", "tests/merge/tcg/both.trapline"
SPANS = ["tests/merge/guest-clock/host.dat", "tests/merge/guest-clock/guest.dat", "tests/merge/guest-clock/sync.txt",
         "--guest-span", "sched_switch:next_pid..sched_switch:prev_pid"]
ALL = ["--irq", "--halt", "--phases", "--waits", "--steal", "--kernel", "--faults", "--guest", "--slower-than", "1ms", "--top", "2"]
CASES = [
    ("report", ["report", LINUX, *ALL, "--format", "json"]),
    ("report", ["report", LINUX, "--by", "span", "--format", "json"]),
    ("report", ["report", "tests/merge/requests/blk-iothread.dat", "--by", "span", "--format", "json"]),
    ("report", ["report", "tests/merge/requests/vhost-net.dat", "--by", "span", "--format", "json"]),
    ("report", ["report", TCG, "--format", "json"]),
    ("report", ["report", *SPANS, "--by", "guest-span", "--format", "json"]),
    ("page", ["report", LINUX, "--phases", "--format", "page-data"]),
    ("page", ["report", *SPANS, "--format", "page-data"]),
    ("diff", ["diff", DEMO, DEMO, "--format", "json"]),
    ("explain", ["explain", LINUX, "--format", "json"]),
    ("explain", ["explain", *SPANS, "--format", "json"]),
    ("stalls", ["stalls", "tests/merge/planted/disk.dat", "--format", "json"]),
    ("advise", ["advise", "tests/data/svm-linux-2vcpu.dat", "--format", "json"]),
    ("top", ["top", LINUX, "--batch"]),
]
ROWS = [("exits", LINUX), ("requests", LINUX), ("interrupts", LINUX), ("functions", TCG),
        ("vhost", "tests/merge/requests/vhost-net.dat"), ("faults", "tests/merge/planted/pages-copied")]
# The report's tables, and what explain says of intervals, stand in the page as they are.
DOCUMENTS = {"report": ["formats/report", "formats/faults"], "page": ["formats/page", "formats/report", "formats/stalls", "explain"], "diff": ["formats/diff", "formats/report"],
             "rows": ["formats/rows"],
             "stalls": ["formats/stalls", "formats/report"], "advise": ["advise", "formats/report"],
             "explain": ["explain", "formats/report"], "top": ["top", "formats/report"]}


def printed(arguments):
    return subprocess.run([TRAPLINE, *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def keys(value):
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def words_of(name):
    text = "".join((ROOT / f"docs/{document}.md").read_text(encoding="utf-8") for document in DOCUMENTS[name])
    return set(re.findall(r"[\w-]+", text))


def main():
    failures, checked = [], 0
    for name, arguments in CASES:
        text = printed(arguments)
        found = set(keys(json.loads(text if arguments[-1] != "--batch" else text.partition("\n")[0])))
        checked += len(found)
        failures += [f"docs/{DOCUMENTS[name][0]}.md lacks {key}, of trapline {' '.join(arguments)}"
                     for key in sorted(found - words_of(name))]
    for rows, recording in ROWS:
        first = printed(["export", recording, "--format", "jsonl", "--rows", rows, "-o", "-"]).partition("\n")[0]
        found = set(json.loads(first))
        checked += len(found)
        failures += [f"docs/formats/rows.md lacks {key}, of --rows {rows}" for key in sorted(found - words_of("rows"))]
    print(f"{checked} keys, {len(failures)} failed")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures) or checked < 300)


main()
