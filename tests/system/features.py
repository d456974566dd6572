#!/usr/bin/env python3
"""docs/features.md: every test that it names exists, and a row without one says why.

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
    return name in LISTS or (SOURCES / "tests/system" / name).exists()


def faults_of(test):
    for name in re.findall(r"`([^`]+)`", test):
        if not is_test(name):
            yield f"no test is called {name}"
    for name in re.findall(r"\b(?:[A-Z]\w+\.)?[A-Z][a-z]+(?:[A-Z]\w*)+\b", re.sub("`[^`]+`", "", test)):
        fixture, _, case = name.rpartition(".")
        if case not in CASES and case not in FIXTURES or fixture and fixture not in FIXTURES:
            yield f"no case is called {name}"


faults, rows = [], 0
for number, line in enumerate((SOURCES / "docs/features.md").read_text(encoding="utf-8").splitlines(), 1):
    cells = re.split(r"(?<!\\)\|", line)
    if len(cells) != 5 or cells[1].strip() in ("feature", "---"):
        continue
    rows += 1
    test = cells[3].strip()
    if test == "-" and "left out: " not in cells[2]:
        faults.append(f"{number}: no test, and no reason for it")
    faults += [f"{number}: {fault}" for fault in faults_of(test)]
print("\n".join(faults))
print(f"{rows} features, {len(faults)} faults")
sys.exit(bool(faults) or rows < 30)
