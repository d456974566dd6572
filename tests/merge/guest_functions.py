"""Checks which exits the functions of a guest caused, as uftrace recorded them inside the guest.

usage: guest_functions.py TRAPLINE FOLDER [CPUID MMIO]

FOLDER is guest-clock or guest-clock-vmx: work.c says how often each function is called, and each call of cpuid_read and
device_write is one exit of a kind of its own, which the host's processor calls CPUID and MMIO (default: SVM's
cpuid and npf). One of its three threads moves between the vCPUs.
"""
import sys

import tables


def rows(trapline: str, folder: str, by: str) -> dict[str, int]:
    files = (f"{folder}/{name}" for name in ("host.dat", "uftrace.data", "sync.txt"))
    groups = tables.of(trapline, "report", *files, "--by", by, "--top", "1000")["groups"]
    return {row["key"]: row["count"] for row in groups["rows"]}


def main() -> None:
    trapline, folder, *reasons = sys.argv[1:]
    cpuid, mmio = reasons or ("cpuid", "npf")
    # Exits by reason and function, and by the function's caller.
    functions = {f"{cpuid} / cpuid_read": 120, f"{mmio} / device_write": 120}
    stacks = {f"{cpuid} / reader;cpuid_read": 100, f"{mmio} / writer;device_write": 100,
              f"{cpuid} / wanderer;cpuid_read": 20, f"{mmio} / wanderer;device_write": 20}
    wrong = 0
    for by, expected in (("reason,function", functions), ("reason,stack", stacks)):
        counts = rows(trapline, folder, by)
        for key, count in expected.items():
            print(f"{key}: {counts.get(key, 0)}, expected {count}")
            wrong += counts.get(key, 0) != count
        # Nothing else of the program makes such exits, and it computes in between.
        for key, count in counts.items():
            kind, _, what = key.partition(" / ")
            if kind in (cpuid, mmio) and what != "-" and key not in expected:
                print(f"{key}: {count}")
                wrong += kind == cpuid
    raise SystemExit(1 if wrong else 0)


main()
