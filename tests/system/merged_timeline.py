"""Checks `trapline timeline` of a session with guest functions, line by line.

usage: merged_timeline.py TIMELINE-TEXT GUEST-ELF

Every exit whose rip lies in a function that was recorded must stand between that function's call and
its return, as the innermost call. Prints checked=N wrong=N, and each wrong line.
"""
import re
import subprocess
import sys

CALL = re.compile(r"^\S+  vCPU 0 +(call|return from) (\S+)\(\)$")
EXIT = re.compile(r"^\S+  vCPU 0 +exit \S+, in (\S+)\+0x[0-9a-f]+$")


def main() -> None:
    text, elf = sys.argv[1:]
    with open(text, encoding="utf-8") as file:
        lines = file.read().splitlines()
    recorded = {m[2] for line in lines if (m := CALL.match(line))}
    names = subprocess.run(["nm", elf], check=True, capture_output=True, text=True).stdout.split()
    assert recorded and recorded <= set(names), recorded
    stack: list[str] = []
    checked = wrong = 0
    for line in lines:
        if match := CALL.match(line):
            if match[1] == "call":
                stack.append(match[2])
            else:
                assert stack and stack.pop() == match[2], line
        elif (match := EXIT.match(line)) and match[1] in recorded:
            checked += 1
            if not stack or stack[-1] != match[1]:
                wrong += 1
                print(f"in {stack[-1] if stack else 'nothing'}: {line}", file=sys.stderr)
    print(f"checked={checked} wrong={wrong}")


main()
