#!/usr/bin/env python3
"""Lines reached by folder, from what `llvm-cov export -summary-only` prints on standard input.

  coverage_table.py ROOT FOLDER...
"""
import json
import pathlib
import sys

root = pathlib.Path(sys.argv[1]).resolve()
files = {}
for file in json.load(sys.stdin)["data"][0]["files"]:
    path = pathlib.Path(file["filename"])
    if path.is_relative_to(root):
        lines = file["summary"]["lines"]
        files[str(path.relative_to(root))] = (lines["covered"], lines["count"])
for folder in sys.argv[2:]:
    inside = {name: lines for name, lines in files.items() if name.startswith(folder + "/")}
    reached, count = (sum(lines[i] for lines in inside.values()) for i in (0, 1))
    print(f"{folder}: {100 * reached / max(count, 1):.1f} % of {count} lines")
    for name, (covered, lines) in sorted(inside.items(), key=lambda one: one[1][0] - one[1][1]):
        if covered < lines:
            print(f"  {name}: {lines - covered} of {lines} not reached")
