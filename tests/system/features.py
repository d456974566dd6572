#!/usr/bin/env python3
"""Every row of docs/features.md has a line in tests/system/features.txt, whose tests exist, or says why it has none.

  features.py SOURCES
"""
import pathlib
import re
import sys

SOURCES = pathlib.Path(sys.argv[1])


def texts(pattern):
    return "\n".join(path.read_text(encoding="utf-8")
                     for path in sorted((SOURCES / "tests").rglob(pattern)))


LISTS = texts("CMakeLists.txt")
CASES = set(re.findall(r"TEST(?:_F|_P)?\(\s*\w+,\s*(\w+)\)", texts("*_test.cc")))
FIXTURES = set(re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),", texts("*_test.cc")))


def is_test(name):
    name = name.split("*")[0].split("…")[0].rstrip("/.")
    return name in LISTS or name in CASES or name in FIXTURES or (SOURCES / "tests/system" / name).exists()


def lines(path):
    return enumerate((SOURCES / path).read_text(encoding="utf-8").splitlines(), 1)


tests, faults, rows = {}, [], 0
for number, line in lines("tests/system/features.txt"):
    if line.startswith("#"):
        continue
    feature, _, names = line.rpartition(" | ")
    tests[feature] = number
    faults += [f"features.txt:{number}: no test is called {name}" for name in names.split() if not is_test(name)]
for number, line in lines("docs/features.md"):
    cells = re.split(r"(?<!\\)\|", line)
    if len(cells) != 4 or cells[1].strip() in ("feature", "---"):
        continue
    rows += 1
    if tests.pop(cells[1].strip(), None) is None and "left out: " not in cells[2]:
        faults.append(f"features.md:{number}: no test, and no reason for it")
faults += [f"features.txt:{number}: no feature is called {feature}" for feature, number in tests.items()]
print("\n".join(faults))
print(f"{rows} features, {len(faults)} faults")
sys.exit(bool(faults) or rows < 30)
