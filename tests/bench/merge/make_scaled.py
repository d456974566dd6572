#!/usr/bin/env python3
"""Makes the session of a larger host from a recording of two CPUs and a VM of two vCPUs: a stretch of it again and again.

  make_scaled.py BASE OUT-FOLDER [--cpus 64] [--vms 1] [--events N] [--stretch EVENTS]

Every two CPUs have a copy of the stretch at the same time, with CPUs, threads and vCPUs of its own. With one VM all
threads are its, and it has a vCPU for each CPU; with more, each copy is of the next VM, of two vCPUs, whose threads
move from CPU to CPU. BASE goes through `trace-cmd convert` to version 6.
"""
import argparse
import json
import os
import re
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
from make_recording import PAGE, converted, cpu_table, entries_of, page_events, put_stamp  # pylint: disable=wrong-import-position

PIDS = 1000  # those of BASE are below
CPU_COUNT = 8  # an option of the file
CPU_FIELDS = ("cpu", "cpu_id", "target_cpu", "orig_cpu", "dest_cpu")


def fields_of(head):
    """By event: [(offset, what to add to the number there: "pid", "cpu" or "vcpu")]."""
    found = {}
    for name, number, text in re.findall(rb"name: (\w+)\nID: (\d+)\nformat:\n(.*?)\nprint fmt", head, re.S):
        fields = []
        for field, offset, size in re.findall(rb"field:[^;]*?(\w+);\toffset:(\d+);\tsize:(\d+)", text):
            field = field.decode()
            kind = "pid" if field.endswith("pid") else "vcpu" if field == "vcpu_id" else "cpu" if field in CPU_FIELDS else ""
            if kind and size == b"4":
                fields.append((int(offset), kind))
        found[int(number)] = (name.decode(), fields)
    return found


def events_of(page):
    """(offset of the payload, number) of each event."""
    for at, kind, _, _ in entries_of(page):
        if kind <= 28:
            payload = at + (4 if kind else 8)
            yield payload, struct.unpack_from("<H", page, payload)[0]


class Stretch:
    """Pages of each CPU from the middle of the recording, where the VM runs."""

    def __init__(self, data, wanted):
        self.head_end, entries = cpu_table(data)
        self.fields = fields_of(data[:self.head_end])
        pages = [[data[o + i:o + i + PAGE] for i in range(0, size, PAGE)] for o, size in entries]
        starts = sorted(struct.unpack_from("<Q", page)[0] for cpu in pages for page in cpu if page_events(page)[0])
        self.begin, count = starts[len(starts) // 2], 0
        self.pages = [[] for _ in pages]
        inside = sorted((struct.unpack_from("<Q", page)[0], cpu, page) for cpu, all_ in enumerate(pages) for page in all_)
        self.end = self.begin
        for start, cpu, page in inside:
            events, last = page_events(page)
            if start >= self.begin and events and count < wanted:
                self.pages[cpu].append(page)
                self.end = max(self.end, last)
                count += events
        self.events = count

    def copy(self, cpu, pids, cpus, vcpus):
        """The pages of a CPU, with these added to its numbers."""
        add, pages = {"pid": pids, "cpu": cpus, "vcpu": vcpus}, []
        for page in self.pages[cpu]:
            page = bytearray(page)
            for at, number in events_of(page):
                for offset, kind in self.fields.get(number, ("", ()))[1]:
                    value, = struct.unpack_from("<i", page, at + offset)
                    if value > 0 or (value == 0 and kind != "pid"):
                        struct.pack_into("<i", page, at + offset, value + add[kind])
            pages.append(page)
        return pages

    def threads(self):
        """(all, those of vCPUs)."""
        every, vcpus = set(), set()
        for pages in self.pages:
            for page in pages:
                for at, number in events_of(page):
                    pid, = struct.unpack_from("<i", page, at + 4)
                    every.add(pid)
                    if self.fields[number][0] == "kvm_entry":
                        vcpus.add(pid)
        return every - {0}, vcpus


def moved(page, by):
    """The page, later."""
    stamps = []
    page = bytearray(page)
    page_events(page, stamps)
    struct.pack_into("<Q", page, 0, struct.unpack_from("<Q", page)[0] + by)
    for at, time in stamps:
        put_stamp(page, at, time + by)
    return page


def head_of(data, stretch, cpus, names):
    """The file up to the table of the CPUs' data."""
    options = data.index(b"options  \0", data.index(b"\nprint fmt"))
    at = options - 4  # the number of CPUs
    text = next(p for p in range(at - 8, 0, -1) if struct.unpack_from("<Q", data, p)[0] == at - p - 8)
    names = data[text + 8:at] + b"".join(b"%d %s\n" % (pid, name) for pid, name in names)
    rest, one = bytearray(data[options:stretch.head_end]), len(b"options  \0")
    while number := struct.unpack_from("<H", rest, one)[0]:
        size, = struct.unpack_from("<I", rest, one + 2)
        if number == CPU_COUNT:
            struct.pack_into("<I", rest, one + 6, cpus)
        one += 6 + size
    return data[:text] + struct.pack("<Q", len(names)) + names + struct.pack("<I", cpus) + rest


def write(data, stretch, options, out):
    """The number of events."""
    pairs, two = options.cpus // 2, len(stretch.pages)
    assert two == 2, "BASE has not two CPUs"
    threads, _ = stretch.threads()
    turns = -(-options.events // (stretch.events * pairs))
    copies = pairs if options.vms == 1 else options.vms
    names = [(pid + copy * PIDS, b"t%d" % pid) for copy in range(copies) for pid in sorted(threads)]
    head = head_of(data, stretch, options.cpus, names)
    lengths = [turns * len(stretch.pages[cpu % two]) * PAGE for cpu in range(options.cpus)]
    first = -(-(len(head) + 16 * options.cpus) // PAGE) * PAGE
    offsets = [first + sum(lengths[:cpu]) for cpu in range(options.cpus)]
    out.write(head + b"".join(struct.pack("<QQ", *one) for one in zip(offsets, lengths)))
    step = stretch.end - stretch.begin + 100_000
    kept = {}
    for cpu in range(options.cpus):
        out.seek(offsets[cpu])
        pair, own = divmod(cpu, two)
        for turn in range(turns):
            copy = pair if options.vms == 1 else (turn * pairs + pair) % options.vms
            key = copy, pair, own
            if options.vms == 1 and key not in kept:
                kept = {key: stretch.copy(own, copy * PIDS, pair * 2, copy * 2)}
            pages = kept[key] if options.vms == 1 else stretch.copy(own, copy * PIDS, pair * 2, 0)
            out.write(b"".join(moved(page, turn * step) for page in pages))
    return turns * pairs * stretch.events


def session_of(stretch, options):
    _, vcpus = stretch.threads()
    copies = options.cpus // 2 if options.vms == 1 else options.vms
    vms = [{"pid": 10**7 + vm, "name": f"vm{vm}"} for vm in range(options.vms)]
    threads = [{"tid": pid + copy * PIDS, "pid": 10**7 + (copy if options.vms > 1 else 0), "name": f"CPU {i}/KVM"}
               for copy in range(copies) for i, pid in enumerate(sorted(vcpus))]
    return {"closed": True, "clocks": {"trace.dat": "mono"}, "vms": vms, "threads": threads}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("base")
    parser.add_argument("out")
    parser.add_argument("--cpus", type=int, default=64)
    parser.add_argument("--vms", type=int, default=1)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--stretch", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = converted(options.base)
    stretch = Stretch(data, options.stretch)
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "trace.dat"), "wb") as out:
        events = write(data, stretch, options, out)
    with open(os.path.join(options.out, "session.json"), "w", encoding="ascii") as out:
        json.dump(session_of(stretch, options), out)
    print(f"{options.out}: {events} events")


if __name__ == "__main__":
    main()
