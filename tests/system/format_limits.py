"""The limits that docs/formats/trace-dat.md states are the constants of the code.

usage: format_limits.py SOURCE-TREE

Each row of the document's table names a value, constants and their file. Every value that a row states
must be one of its constants, and every constant must be stated.
"""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "": 1}


def constant(text, name):
    """The value of `name = EXPRESSION`, an expression of numbers, shifts and a subtraction."""
    found = re.search(rf"\b{name} = ([^;,]+)[;,]", text)
    if not found:
        return None
    digits = re.sub(r"(?<=[0-9])[uUlL]+|'|std::uint\d+_t", "", found.group(1)).replace("{", "(").replace("}", ")")
    if not re.fullmatch(r"[0-9x<>()\s+*-]+", digits):
        return None
    return eval(digits)  # pylint: disable=eval-used


def stated(cell, name):
    """The numbers of the value column, in bytes where they have a unit."""
    numbers = [int(number.replace(",", "")) * UNITS[unit or ""]
               for number, unit in re.findall(r"([0-9][0-9,]*)(?: (KiB|MiB))?", cell)]
    units = re.findall(r"[0-9] (KiB|MiB)", cell)
    if len(numbers) > 1 and units:  # "4 times ..., at least 64 KiB": the numbers with a unit count
        numbers = [number for number in numbers if number >= 1 << 10]
    return [(1 << number) - 1 for number in numbers] if name == "kCommitMask" else numbers


def main():
    failed = rows = 0
    for line in (ROOT / "docs/formats/trace-dat.md").read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"\| [^|]+ \| ([^|]+) \| ((?:`k\w+`, )+)([\w.]+) \|", line)
        if not found:
            continue
        rows += 1
        cell, names, file = found.groups()
        text = (ROOT / "merge/source/trace_dat" / file).read_text(encoding="utf-8")
        names = re.findall(r"k\w+", names)
        code = [constant(text, name) for name in names]
        if sorted(map(str, code)) != sorted(map(str, stated(cell, names[0]))):
            failed += 1
            print(f"FAILED: docs/formats/trace-dat.md says {cell}; {file} has "
                  + ", ".join(f"{name} = {value}" for name, value in zip(names, code)))
    print(f"{rows} rows, {failed} failed")
    sys.exit(failed != 0 or rows < 8)


main()
