#!/usr/bin/env python3
"""Rows of page faults have QEMU's memory, and the place in it, of a session with memory slots: slots.py TRAPLINE SESSION

SESSION has no slots; a copy gets some: pc.ram from 0 on and from 1 MiB on, both of one memory, and one that came while
it was recorded. The place of each row is computed a second time, and the ranges of the working set have the pages of first faults.
"""
import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tables  # noqa: E402

trapline, session = sys.argv[1:]
HALF, END = 0x100000, 1 << 40
SLOTS = [{"first": 0, "last": HALF - 1, "name": "pc.ram", "offset": 0x40000000},
         {"first": HALF, "last": END, "name": "pc.ram", "offset": 0}]
NEW = {"first": END + 1, "last": END + 0xFFFF, "name": "new", "offset": 0}


def place(address):
    if address is None:
        return None, None
    slot = next(slot for slot in SLOTS if slot["first"] <= address <= slot["last"])
    return slot["name"], slot["offset"] + address - slot["first"]


def main():
    wrong = [f"without slots a row has {row}" for kind in ("faults", "working-set") for row in tables.rows(trapline, session, kind)
             if row["slot"] is not None or row["slot_offset"] is not None]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "session"
        shutil.copytree(session, copy)
        description = json.loads((copy / "session.json").read_text(encoding="utf-8"))
        description["pid"] = tables.rows(trapline, session, "faults")[0]["vm"]
        description["edges"] = [{"slots": SLOTS}, {"slots": [*SLOTS, NEW]}]
        (copy / "session.json").write_text(json.dumps(description), encoding="utf-8")
        faults, ranges = tables.rows(trapline, copy, "faults"), tables.rows(trapline, copy, "working-set")
    for row in faults + ranges:
        if (row["slot"], row["slot_offset"]) != place(row["address"]):
            wrong.append(f"{row['address']:#x} is told at {row['slot_offset']} of {row['slot']}, and is at {place(row['address'])}")
    wrong += [f"the range from {row['address']:#x} is in two slots" for row in ranges if row["address"] < HALF < row["address"] + row["length"]]
    if not any(row["address"] < HALF for row in faults) or not any(row["address"] >= HALF for row in faults):
        wrong.append("no fault is in one of the slots")
    firsts = {row["address"] & ~0xFFF for row in faults if row["first"] == 1}
    pages = [page for row in ranges for page in range(row["address"], row["address"] + row["length"], 4096)]
    if not firsts <= set(pages) or len(pages) != len(set(pages)):
        wrong.append("the ranges have not each page of a first fault once")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
