#!/usr/bin/env python3
"""The same guest on hosts of several vendors: the same devices and functions, count by count.

usage: same_guest.py TRAPLINE DATA-FOLDER

The demo guest does the same work on every x86 host, and its twin on every arm64 host; both write the same
characters and touch as many pages (tests/guest). Only what the guest causes itself is compared:
interrupts come when the host's clock says.
"""
import sys

import tables

INTERRUPTS = ("interrupt", "vintr", "EXTERNAL_INTERRUPT", "INTERRUPT_WINDOW", "IRQ")
IMAGE = "vmx/demo-guest.elf"
REFERENCE = "vmx/demo.dat"
OTHERS = ("vmx/demo-no-ept.dat", "vmx/demo-5.10.dat", "vmx/demo-6.12.dat", "vmx/demo-7.3.dat", "vmx/demo-2cpus.dat",
          "kernels/demo-5.10.dat", "kernels/demo-7.3.dat")
# The twin for arm64 has other devices.
ARM64, ARM64_IMAGE = "box/demo-arm64.dat", "box/demo-guest-arm64.elf"
ARM64_OTHERS = ("kernels/demo-arm64-5.10.dat", "kernels/demo-arm64-6.12.dat",
                "kernels/demo-arm64-7.3.dat")
# What writes a character, of each twin: the arm64 one asks its UART first whether there is room.
CHARACTERS = ("console_char", "port 0x402 write"), ("uart_char", "mmio 0x9000000 write")
# A host may take a page away again, and the guest faults once more.
AT_LEAST = ("touch_page", "-")


def counts(trapline, folder, recording, image=IMAGE, what="device"):
    """(function, device) -> exits, without interrupts and what the firmware did."""
    groups = tables.of(trapline, "report", f"{folder}/{recording}", "--symbols", f"{folder}/{image}",
                       "--by", f"function,{what},reason", "--top", "10000")["groups"]
    rows = {}
    for row in groups["rows"]:
        function, device, reason = row["key"].split(" / ")
        if reason not in INTERRUPTS and function not in ("-", "start32", "start64", "leave"):
            rows[function, device] = rows.get((function, device), 0) + row["count"]
    return rows


def different(name, got, reference, expected):
    """The rows in which two recordings differ, as sentences."""
    for key in sorted(expected.keys() | got.keys()):
        want, have = expected.get(key, 0), got.get(key, 0)
        if have != want and not (key == AT_LEAST and have > want):
            yield f"{name}: {' / '.join(key)}: {have}, {reference} has {want}"


def main():
    trapline, folder = sys.argv[1:]
    expected = counts(trapline, folder, REFERENCE)
    wrong = []
    if len(expected) < 9 or sum(expected.values()) < 1300:
        wrong.append(f"{REFERENCE}: too little to compare: {expected}")
    for recording in OTHERS:
        wrong += different(recording, counts(trapline, folder, recording), REFERENCE, expected)
    twin = counts(trapline, folder, ARM64, ARM64_IMAGE)
    if len(twin) < 6 or sum(twin.values()) < 160:
        wrong.append(f"{ARM64}: too little to compare: {twin}")
    for recording in ARM64_OTHERS:
        wrong += different(recording, counts(trapline, folder, recording, ARM64_IMAGE), ARM64, twin)
    if twin.get(AT_LEAST, 0) != expected[AT_LEAST]:
        wrong.append(f"{ARM64}: {AT_LEAST}: {twin.get(AT_LEAST, 0)}, {REFERENCE} has {expected[AT_LEAST]}")
    written = [counts(trapline, folder, *of, "detail").get(key, 0)
               for of, key in zip(((REFERENCE, IMAGE), (ARM64, ARM64_IMAGE)), CHARACTERS)]
    if written[0] != written[1] or not written[0]:
        wrong.append(f"characters written: {REFERENCE} {written[0]}, {ARM64} {written[1]}")
    for line in wrong:
        print(line)
    if not wrong:
        print(f"{len(expected)} functions and devices, {sum(expected.values())} exits: the same on each x86 "
              f"host; {len(twin)} and {sum(twin.values())}: on each arm64 host; {written[0]} characters and "
              f"{expected[AT_LEAST]} pages on both")
    return 1 if wrong else 0


sys.exit(main())
