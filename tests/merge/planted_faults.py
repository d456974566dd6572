#!/usr/bin/env python3
"""The causes of planted page faults are those of the guest's own order: which page it reads and writes when.

  planted_faults.py TRAPLINE FOLDER NAME...    sessions that tests/data/record/pages made, arm64-*: recordings

The guest goes through its pages, from 16 MiB of its memory on. Of pages-ballooned, whose guest is a Linux, pages.txt has those that its
balloon took after began.txt, and pagemap (/proc/PID/pagemap of the guest's memory) says which of them were there until then.
"""
import collections
import json
import struct
import subprocess
import sys
from pathlib import Path

import fault_oracle
import host_cpu_oracle
import recording

FIRST, PAGE, LARGE, PAGES, FOUND = 0x1000000, 4096, 2 << 20, 300, 0.95
LEAST_BALLOONED = 1000
LEAST_QUIET = 15  # faults of a quiet guest
QUIET = {"first-touch", "was-there", "file", "write-protected", "not-known"}  # the causes of a guest beside which nothing happens
# What each page's faults are, in order, with who did it; the last of them are all later ones, where they are REPEATED.
CHECKS = {
    "pages-copied": [("was-there", None), ("copy", None), ("copy", None)],
    "pages-served": [("userfaultfd", "plant-uffd")],
    "pages-swapped": [("swap", None)],
    "pages-zapped": [("first-touch", None), ("removed", "plant-zap"), ("removed", "plant-zap")],
}
# The same of those that bill_test records anew.
ANEW = {
    "pages-file": [("file", None)],
    "pages-huge": [("first-touch", None)],
    "pages-logged": [("first-touch", None), ("write-protected", None)],
    "pages-ballooned": [("removed", "qemu-system-x86"), ("first-touch", None)],
}
ARM64 = {
    "arm64-touched": [("first-touch", None)],
    "arm64-copied": [("was-there", None), ("copy", None), ("copy", None)],
    "arm64-served": [("userfaultfd", "plant-uffd")],
    "arm64-file": [("file", None)],
    "arm64-logged": [("first-touch", None), ("write-protected", None)],
}
ALL = CHECKS | ANEW | ARM64
FIRST_ARM64 = 0x40000000 + FIRST  # its memory begins at 1 GiB
REPEATED = {"pages-logged": 600, "arm64-logged": 600}  # at least so many of them
HUGE = {"pages-huge": 200}        # pages of 2 MiB
SLOTS = {"pages-logged": "pc.ram"}  # the memory slot in which they are


def first(name):
    return FIRST_ARM64 if name in ARM64 else FIRST


def planted(name, rows):
    """Each planted fault with what it is."""
    expected = ALL[name]
    size, pages = (LARGE, HUGE[name]) if name in HUGE else (PAGE, PAGES)
    for i in range(pages):
        of_page = [row for row in rows if row["address"] is not None and row["address"] // size == first(name) // size + i]
        wanted = expected + expected[-1:] * (len(of_page) - len(expected) if name in REPEATED else 0)
        yield from zip(of_page, wanted)


def ballooned(path, rows):
    """Each fault on a page that the balloon took, with what it is: a page that was not there is taken from nobody."""
    pages = {int(line, 16) for line in (path / "pages.txt").read_text(encoding="utf-8").split()}
    words = (path / "pagemap").read_bytes()
    there = [word >> 62 != 0 for word, in struct.iter_unpack("<Q", words)]  # present, or swapped out
    began = float((path / "began.txt").read_text(encoding="utf-8")) * 1e9
    for row in rows:
        page = row["address"] // PAGE * PAGE if row["address"] is not None else None
        if page in pages and row["start_ns"] > began:
            yield row, ANEW["pages-ballooned"][0 if there[page // PAGE] else 1]


def quiet(name, path, rows):
    """Of a guest whose memory nothing changes, most faults have their cause, and none has one of a change. Its firmware
    changes the memory slots: what counts begins with the text that the guest writes, byte by byte."""
    events, _ = recording.read(f"{path}/trace.dat")
    bytes_of = [event.at for event in events if event.name == "kvm_pio" and "at 0x402 " in event.text]
    began = bytes_of[-len("planted guest\nleaving now\n")]
    causes = collections.Counter(row["cause"] for row in rows if row["start_ns"] >= began)
    print(f"{name}: {dict(causes)}")
    known = causes.total() - causes["not-known"]
    if set(causes) - QUIET or known < LEAST_QUIET or known < FOUND * causes.total():
        yield f"{name}: the causes of a quiet guest's faults are {dict(causes)}"


def check(trapline, folder, name):
    path = Path(folder) / name / ("trace.dat" if name in ARM64 else "")
    rows = fault_oracle.rows_of(trapline, path)
    if name.startswith("pages-quiet"):
        yield from quiet(name, path, rows)
        return
    faults = list(ballooned(path, rows) if name == "pages-ballooned" else planted(name, rows))
    right = wrong = time = right_time = wrong_time = 0
    for row, (cause, by) in faults:
        fits = row["cause"] == cause and (by is None or by in (row["by"] or ""))
        errs = not fits and row["cause"] != "not-known"
        right, wrong, time = right + fits, wrong + errs, time + row["total_ns"]
        right_time, wrong_time = right_time + fits * row["total_ns"], wrong_time + errs * row["total_ns"]
    if name != "pages-ballooned":
        size, pages = (LARGE, HUGE[name]) if name in HUGE else (PAGE, PAGES)
        whole = [row for row in fault_oracle.rows_of(trapline, path, "working-set") if row["address"] == first(name)]
        if [(row["length"], row["faults"]) for row in whole] != [(pages * size, pages)]:
            yield f"{name}: the guest's pages are no single range of the working set: {whole}"
    if name in SLOTS:
        text = subprocess.run([trapline, "report", path, "--faults", "--top", "1000", "--format", "json"], check=True,
                              capture_output=True).stdout
        regions = [row for row in json.loads(text)["tables"]["fault_regions"]["rows"] if row["address"] == FIRST]
        edges = json.loads((Path(path) / "session.json").read_text())["edges"]
        # A slow QEMU may not answer before it ends.
        slot = SLOTS[name] if all(edge.get("slots") for edge in edges) else None
        if {row["slot"] for row in regions} != {slot}:
            yield f"{name}: the memory slots of its regions are {[row['slot'] for row in regions]}"
    known = LEAST_BALLOONED if name == "pages-ballooned" else REPEATED.get(name, HUGE.get(name, PAGES) * len(ALL[name]))
    print(f"{name}: {right} of {len(faults)} faults have the planted cause, {wrong} another one; of their time "
          f"{right_time / max(time, 1):.2%}, {wrong_time / max(time, 1):.2%}")
    known = max(known, len(faults))
    if right < FOUND * known or wrong > len(faults) / 100 or right_time < FOUND * time or wrong_time > time / 100:
        yield f"{name}: {right} of {known} faults have the planted cause, {wrong} another one"


def main():
    trapline, folder, *names = sys.argv[1:]
    wrong = [line for name in names for line in (*check(trapline, folder, name),
                                                 *fault_oracle.check(trapline, f"{folder}/{name}/trace.dat"),
                                                 *(host_cpu_oracle.check(trapline, f"{folder}/{name}/trace.dat")
                                                   if name.startswith("pages-quiet") else ()))]
    print("\n".join(wrong))
    sys.exit(bool(wrong) or not names)


if __name__ == "__main__":
    main()
