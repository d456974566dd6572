#!/usr/bin/env python3
"""The truth of guest-clock-vmx: readings of mono on the host and in its guest, stamped by the host's TSC.

usage: tsc_truth.py HOST-SYNC GUEST-SYNC HOST.dat

Both files are what trapline-sync printed; of their series those without another action. The guest's TSC
is the host's plus an offset that KVM wrote (kvm_write_tsc_offset, in HOST.dat), the same for all vCPUs.
Prints "STAMP RECORD" (docs/formats/sync.md), as the plugin of an emulator around both does for guest-clock;
STAMP lies between the readings around the record's no-op.
"""
import re
import subprocess
import sys

RECORD = re.compile(r"trapline: guest 1 (\d+) (\d+)(.*)")
READING = r" %s mono=(\d+) tsc=(\d+)"


def offset_of(recording: str) -> int:
    text = subprocess.run(["trace-cmd", "report", "-N", "-i", recording], check=True, capture_output=True,
                          text=True).stdout
    offsets: dict[int, int] = {}
    for vcpu, offset in re.findall(r"kvm_write_tsc_offset: +vcpu=(\d+) prev=\d+ next=(\d+)", text):
        offsets[int(vcpu)] = int(offset)
    assert len(set(offsets.values())) == 1, f"the vCPUs have offsets of their own: {offsets}"
    return next(iter(offsets.values()))


def print_stamped(path: str, offset: int) -> None:
    """A record has the reading before its no-op, the next one that after it."""
    lines = [(int(match[1]), match[3], line) for line in open(path, encoding="utf-8")
             if (match := RECORD.match(line)) and int(match[1]) % 8 == 0]
    for (series, text, line), (next_series, next_text, _) in zip(lines, lines[1:] + [(-1, "", "")]):
        before, after = re.search(READING % "before", text), re.search(READING % "after", next_text)
        if before and after and series == next_series:
            stamp = (int(before[2]) + int(after[2])) // 2
        else:
            stamp = int((before or re.search(READING % "after", text))[2])
        print((stamp - offset) % 2**64, re.sub(r" tsc=\d+", "", line), end="")


def main() -> None:
    host, guest, recording = sys.argv[1:]
    print_stamped(host, 0)
    print_stamped(guest, offset_of(recording))


main()
