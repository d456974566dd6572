#!/usr/bin/env python3
"""The causes of planted page faults are those of the guest's own order: which page it reads and writes when.

  planted_faults.py TRAPLINE FOLDER NAME...    sessions that tests/data/record/pages made, arm64-*: recordings

The guest goes through its pages, from 16 MiB of its memory on. Of pages-ballooned, whose guest is a Linux, pages.txt has those that its
balloon took after began.txt, and pagemap (/proc/PID/pagemap of the guest's memory) says which of them were there until then. Of
pages-answered uffd.txt has the pages that the server of user space answered; of pages-touched and pages-swapped-in smaps and pagemap of
32 MiB of the guest's memory were read at both ends; of pages-reclaimed memory.events of its cgroup.
"""
import collections
import json
import re
import struct
import sys
from pathlib import Path

import fault_oracle
import host_cpu_oracle
import recording
import tables

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
    "pages-answered": [("userfaultfd", "plant-uffd")],
    "pages-touched": [("first-touch", None)],
    "pages-swapped-in": [("swap", None)],
    "pages-collapsed": [("first-touch", None), ("removed", "plant-collapse")],
    "pages-khugepaged": [("first-touch", None), ("removed", "khugepaged")],
    "pages-reclaimed": [("first-touch", None)],
}
ARM64 = {
    "arm64-touched": [("first-touch", None)],
    "arm64-copied": [("was-there", None), ("copy", None), ("copy", None)],
    "arm64-served": [("userfaultfd", "plant-uffd")],
    "arm64-file": [("file", None)],
    "arm64-logged": [("first-touch", None), ("write-protected", None)],
    "arm64-ring": [("first-touch", None), ("write-protected", None)],
    "arm64-swapped": [("swap", None)],
}
ALL = CHECKS | ANEW | ARM64
FIRST_ARM64 = 0x40000000 + FIRST  # its memory begins at 1 GiB
REPEATED = {"pages-logged": 600, "arm64-logged": 600, "arm64-ring": 600, "pages-reclaimed": 12000}  # at least so many of them
HUGE = {"pages-huge": 200, "pages-collapsed": 200, "pages-khugepaged": 200}  # pages that are 2 MiB apart
MANY = {"pages-reclaimed": 12000}
MOST_OF_QEMU = 5  # pages that QEMU touched first, for the firmware
LEAST_RECLAIMS = 200  # faults in which pages were reclaimed
# How pages of a cause were removed, or how writes are logged.
HOW = {"arm64-ring": {"write-protected": "dirty ring"}, "pages-collapsed": {"removed": "madvise(MADV_COLLAPSE)"},
       "pages-khugepaged": {"removed": "collapse of pages"}, "pages-zapped": {"removed": "madvise(MADV_DONTNEED)"}}
SLOTS = {"pages-logged": "pc.ram"}  # the memory slot in which they are


def first(name):
    return FIRST_ARM64 if name in ARM64 else FIRST


def size_of(name):
    """(how far its pages are apart, how many there are)"""
    return (LARGE, HUGE[name]) if name in HUGE else (PAGE, MANY.get(name, PAGES))


def planted(name, rows):
    """Each planted fault with what it is."""
    expected = ALL[name]
    size, pages = size_of(name)
    faults = collections.defaultdict(list)
    for row in rows:
        if row["address"] is not None:
            faults[row["address"] // size].append(row)
    for i in range(pages):
        of_page = faults[first(name) // size + i]
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


def pages_of(rows, *causes):
    return {row["address"] // PAGE * PAGE for row in rows if row["address"] is not None and (not causes or row["cause"] in causes)}


def of_qemu(pages, told, rows):
    """The pages on which the guest did not fault while they were not there: QEMU touched them before, for the firmware."""
    others = pages - told
    return others if len(others) <= MOST_OF_QEMU and others <= pages_of(rows, "was-there") else set()


def answered(path, rows):
    """The pages that were served are those of the server's own log."""
    log = [int(line.split()[3], 16) for line in (path / "uffd.txt").read_text(encoding="utf-8").splitlines()]
    told = pages_of(rows, "userfaultfd")
    print(f"{path.name}: {len(log)} pages in the server's log, {len(told)} of them by a fault")
    if len(log) != len(set(log)) or told | of_qemu(set(log), told, rows) != set(log):
        yield f"{path.name}: pages of the server's log and those of its faults differ in {sorted(set(log) ^ told)}"


def edges(path, rows):
    """The pages that came between the two readings are those of the faults with the cause."""
    (cause, _), = ANEW[path.name]
    before, after = ([word for word, in struct.iter_unpack("<Q", (path / f"pagemap-{which}").read_bytes())] for which in ("begin", "end"))
    readings = [dict(re.findall(r"^(Rss|Swap): +(\d+) kB", (path / f"smaps-{which}").read_text(encoding="utf-8"), re.M))
                for which in ("begin", "end")]
    there = {of: {FIRST + i * PAGE for i, word in enumerate(words) if word >> 63} for of, words in enumerate((before, after))}
    swapped = {of: {FIRST + i * PAGE for i, word in enumerate(words) if word >> 62 & 1} for of, words in enumerate((before, after))}
    came, left_swap = there[1] - there[0], swapped[0] - swapped[1]
    told = {page for page in pages_of(rows, cause) if FIRST <= page < FIRST + len(after) * PAGE}
    print(f"{path.name}: {len(came)} pages came, {len(told)} of them by a fault; {readings}")
    if told | of_qemu(came, told, rows) != came or there[0] - there[1] or left_swap != (came if cause == "swap" else set()):
        yield f"{path.name}: pages that came and those of its faults differ in {sorted(came ^ told)}"
    rss, swap = (int(readings[1][of]) - int(readings[0][of]) for of in ("Rss", "Swap"))
    if (rss, swap) != (4 * len(came), -4 * len(left_swap)):
        yield f"{path.name}: by smaps {rss} kB came and {swap} kB left swap, by pagemap {len(came)} and {len(left_swap)} pages"


def reclaimed(path, rows):
    """The time in reclaim is that of its events in the fault; and the kernel counted as many reclaims."""
    begun, inside, total = {}, collections.defaultdict(list), 0
    events, _ = recording.read(f"{path}/trace.dat")
    for event in events:
        if event.name == "mm_vmscan_memcg_reclaim_begin":
            begun[event.tid], total = event.at, total + 1
        elif event.name == "mm_vmscan_memcg_reclaim_end" and event.tid in begun:
            inside[event.tid].append((begun.pop(event.tid), event.at))
    for row in rows:
        end = row["start_ns"] + row["total_ns"]
        ns = sum(min(to, end) - max(since, row["start_ns"]) for since, to in inside[row["tid"]] if since < end and to > row["start_ns"])
        if ns != row["reclaim_ns"]:
            yield f"{path.name}: {row['reclaim_ns']} ns in reclaim of the fault at {row['start_ns']}, by its events {ns}"
    counts = [int(count) for count in re.findall(r"^max (\d+)$", (path / "memory.events").read_text(encoding="utf-8"), re.M)]
    of_faults = [row for row in rows if row["reclaim_ns"]]
    print(f"{path.name}: {total} reclaims, {counts[1] - counts[0]} by the kernel's count, in {len(of_faults)} faults")
    # QEMU's end is not recorded.
    if not FOUND * (counts[1] - counts[0]) <= total <= counts[1] - counts[0] or len(of_faults) < LEAST_RECLAIMS:
        yield f"{path.name}: {total} reclaims in {len(of_faults)} faults, and the kernel counted {counts[1] - counts[0]}"
    right = sum(row["cause"] == "first-touch" for row in of_faults)
    if right < FOUND * len(of_faults):
        yield f"{path.name}: of {len(of_faults)} faults in which pages were reclaimed {right} are first touches"


def without_swaps(trapline, path, rows):
    """Where the recording does not know the swap areas, the page is one of a disk."""
    disk = pages_of(tables.rows(trapline, path / "trace.dat", "faults"), "disk")
    if disk != pages_of(rows, "swap"):
        yield f"{path.name}: without session.json {len(disk)} pages come from a disk"


MORE = {"pages-answered": answered, "pages-touched": edges, "pages-swapped-in": edges, "pages-reclaimed": reclaimed}


def check(trapline, folder, name):
    path = Path(folder) / name
    path = path if (path / "session.json").exists() else path / "trace.dat"
    rows = tables.rows(trapline, path, "faults")
    if name.startswith("pages-quiet"):
        yield from quiet(name, path, rows)
        return
    faults = list(ballooned(path, rows) if name == "pages-ballooned" else planted(name, rows))
    right = wrong = time = right_time = wrong_time = 0
    for row, (cause, by) in faults:
        fits = (row["cause"] == cause and (by is None or by in (row["by"] or ""))
                and row["how"] == HOW.get(name, {}).get(cause, row["how"]))
        errs = not fits and row["cause"] != "not-known"
        right, wrong, time = right + fits, wrong + errs, time + row["total_ns"]
        right_time, wrong_time = right_time + fits * row["total_ns"], wrong_time + errs * row["total_ns"]
    if name not in ("pages-ballooned", "pages-collapsed", "pages-khugepaged"):
        size, pages = size_of(name)
        whole = [row for row in tables.rows(trapline, path, "working-set") if row["address"] == first(name)]
        if [(row["length"], row["faults"]) for row in whole] != [(pages * size, pages)]:
            yield f"{name}: the guest's pages are no single range of the working set: {whole}"
    if name in SLOTS:
        report = tables.of(trapline, "report", path, "--faults", "--top", "1000")
        regions = [row for row in report["fault_regions"]["rows"] if row["address"] == FIRST]
        edges = json.loads((Path(path) / "session.json").read_text())["edges"]
        # A slow QEMU may not answer before it ends.
        slot = SLOTS[name] if all(edge.get("slots") for edge in edges) else None
        if {row["slot"] for row in regions} != {slot}:
            yield f"{name}: the memory slots of its regions are {[row['slot'] for row in regions]}"
    if name in MORE:
        yield from MORE[name](path, rows)
    if ALL.get(name) == [("swap", None)]:
        yield from without_swaps(trapline, path, rows)
    known = LEAST_BALLOONED if name == "pages-ballooned" else REPEATED.get(name, size_of(name)[1] * len(ALL[name]))
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
