"""Counts kvm_exit lines of `trace-cmd report -N` by guest function and reason.

usage: exits_by_function.py GUEST-ELF REPORT-TEXT

An oracle for the tests: it shares nothing with trapline, and takes the symbols from nm.
"""
import collections
import re
import subprocess
import sys

kX86 = r" kvm_exit: .*reason (.+?) rip 0x([0-9a-f]+)"
kArm64 = r" kvm_exit: .*\((\S+)\), PC: 0x([0-9a-f]+)"  # "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: …"


def functions(elf: str) -> list[tuple[int, int, str]]:
    lines = subprocess.run(["nm", "-S", elf], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in lines.splitlines()]
    return [(int(f[0], 16), int(f[1], 16), f[3]) for f in fields if len(f) == 4 and f[2] in "tT"]


def main() -> None:
    elf, report = sys.argv[1:]
    symbols = functions(elf)
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    with open(report, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = re.search(kX86, line) or re.search(kArm64, line)
            if not match:
                continue
            rip = int(match[2], 16)
            names = [name for start, size, name in symbols if start <= rip < start + size]
            counts[names[0] if names else "-", match[1]] += 1
    for (function, reason), count in sorted(counts.items()):
        print(function, reason, count)


main()
