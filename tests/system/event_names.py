"""Finds names of kernel events in string literals outside the table in merge/model/kernel_events.h.

usage: event_names.py SOURCE-TREE

The names are those of every event format in the recordings of tests/data, which trace-cmd prints, and those of
the table. A literal may say `kvm_exit` only through the table, as events::kvm_exit.name; comments are not looked
at. A name that is an ordinary word (ftrace's print, function) counts only with its system before it.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
TABLE = ROOT / "merge/model/kernel_events.h"
# Comments, includes and characters are skipped, so that a quote in them begins no literal.
TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|^#include[^\n]*|\'(?:\\.|[^\'\\])\'|R"\((?P<raw>.*?)\)"|"(?P<text>(?:\\.|[^"\\\n])*)"',
                    re.DOTALL | re.MULTILINE)


def recorded_names():
    """SYSTEM:NAME is not in what trace-cmd prints: NAME alone."""
    for path in sorted((ROOT / "tests/data").rglob("*.dat")):
        dump = subprocess.run(["trace-cmd", "dump", "--all", path], capture_output=True, text=True, errors="replace")
        yield from re.findall(r"^name: (\w+)$", dump.stdout, re.MULTILINE)


def literals(text):
    for token in TOKENS.finditer(text):
        literal = token["text"] or token["raw"]
        if literal:
            yield text.count("\n", 0, token.start()) + 1, literal


def main():
    full = {name for _, literal in literals(TABLE.read_text(encoding="utf-8"))
            for name in re.findall(r"^\w+:\w+$", literal)}
    recorded = set(recorded_names())
    if len(full) < 80 or len(recorded) < 100:
        sys.exit(f"FAILED: only {len(full)} events are in the table and {len(recorded)} in tests/data")
    names = full | {name for name in recorded | {name.split(":")[1] for name in full} if "_" in name}
    failed = False
    for path in sorted((ROOT / "merge").rglob("*")):
        if path.suffix not in (".h", ".cc", ".c") or path == TABLE:
            continue
        for line, literal in literals(path.read_text(encoding="utf-8")):
            for name in sorted(names & set(re.findall(r"\w+", literal) + re.findall(r"\w+:\w+", literal))):
                failed = True
                print(f"FAILED: {path.relative_to(ROOT)}:{line}: {name} stands in a literal: let it come from "
                      "merge/model/kernel_events.h")
    sys.exit(failed)


main()
