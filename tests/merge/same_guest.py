#!/usr/bin/env python3
"""The same guest on hosts of several vendors: the same devices and functions, count by count.

usage: same_guest.py TRAPLINE DATA-FOLDER

The demo guest does the same work on every x86 host, its arm64 twin some of it (tests/guest). Only what
the guest causes itself is compared: interrupts come when the host's clock says.
"""
import json
import subprocess
import sys

INTERRUPTS = ("interrupt", "vintr", "EXTERNAL_INTERRUPT", "INTERRUPT_WINDOW", "IRQ")
IMAGE = "vmx/demo-guest.elf"
REFERENCE = "vmx/demo.dat"
OTHERS = ("vmx/demo-no-ept.dat", "vmx/demo-5.10.dat", "vmx/demo-7.3.dat", "kernels/demo-5.10.dat",
          "kernels/demo-7.3.dat")
# The twin for arm64 has other devices; it touches the same pages.
ARM64, ARM64_IMAGE = "box/demo-arm64.dat", "box/demo-guest-arm64.elf"
# A host may take a page away again, and the guest faults once more.
AT_LEAST = ("touch_page", "-")


def counts(trapline, folder, recording, image=IMAGE):
    """(function, device) -> exits, without interrupts and what the firmware did."""
    run = subprocess.run(
        [trapline, "report", f"{folder}/{recording}", "--symbols", f"{folder}/{image}",
         "--by", "function,device,reason", "--top", "10000", "--format", "json"],
        check=True, stdout=subprocess.PIPE)
    rows = {}
    for row in json.loads(run.stdout)["groups"]["rows"]:
        function, device, reason = row["key"].split(" / ")
        if reason not in INTERRUPTS and function not in ("[unknown]", "start32", "start64", "leave"):
            rows[function, device] = rows.get((function, device), 0) + row["count"]
    return rows


def main():
    trapline, folder = sys.argv[1:]
    expected = counts(trapline, folder, REFERENCE)
    wrong = []
    if len(expected) < 9 or sum(expected.values()) < 1300:
        wrong.append(f"{REFERENCE}: too little to compare: {expected}")
    for recording in OTHERS:
        got = counts(trapline, folder, recording)
        for key in sorted(expected.keys() | got.keys()):
            want, have = expected.get(key, 0), got.get(key, 0)
            if have != want and not (key == AT_LEAST and have > want):
                wrong.append(f"{recording}: {' / '.join(key)}: {have}, {REFERENCE} has {want}")
    touched = counts(trapline, folder, ARM64, ARM64_IMAGE).get(AT_LEAST, 0)
    if touched != expected[AT_LEAST]:
        wrong.append(f"{ARM64}: {AT_LEAST}: {touched}, {REFERENCE} has {expected[AT_LEAST]}")
    for line in wrong:
        print(line)
    if not wrong:
        print(f"{len(expected)} functions and devices, {sum(expected.values())} exits: the same on each host")
    return 1 if wrong else 0


sys.exit(main())
