#!/usr/bin/env python3
"""Makes a large trace.dat from a real one: its ring-buffer pages again and again, later each time.

  make_recording.py BASE OUT [--events N] [--zstd]

BASE is any recording that trace-cmd reads; it goes through `trace-cmd convert` to version 6 first.
OUT is version 6 without compression, or with --zstd version 7 as trace-cmd writes it by default. No
root, no kernel: only the times of pages and the table of the CPUs' data change, so trace-cmd, perf's
libraries and KernelShark read it as they read BASE.
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from recompress import converted  # noqa: E402
from ring_page import entries_of  # noqa: E402

PAGE = 4096


def page_events(page, stamps=None):
    """(events, time of the last) of one page.

    `stamps` receives (offset, time) of each absolute time stamp.
    """
    time, = struct.unpack_from("<Q", page)
    count, last = 0, time
    for at, kind, delta, word in entries_of(page):
        if kind == 31:
            if stamps is not None:
                stamps.append((at, (word << 27) + delta))
            time = (time & ~((1 << 59) - 1)) | ((word << 27) + delta)
        else:
            time += delta + ((word << 27) if kind == 30 else 0)
        if kind <= 28:
            count, last = count + 1, time
    return count, last


def put_stamp(pages, at, time):
    """Makes the absolute time stamp there this one."""
    struct.pack_into("<II", pages, at, 31 | (time & (1 << 27) - 1) << 5, time >> 27 & 0xffffffff)


def cpu_table(data):
    """The offset of version 6's table of {u64 offset, u64 size}, and its entries."""
    assert data[10:12] == b"6\0", "not a version 6 file"
    at = data.index(b"flyrecord\0") + len(b"flyrecord\0")
    first = struct.unpack_from("<Q", data, at)[0]
    # The CPU count stands before the options; the table ends before the first CPU's data.
    entries = []
    while at + 16 * (len(entries) + 1) <= first:
        offset, size = struct.unpack_from("<QQ", data, at + 16 * len(entries))
        if offset % PAGE or not size or offset + size > len(data):
            break
        entries.append((offset, size))
    return at, entries


def write_repeated(data, wanted, out):
    """Returns the number of events written."""
    table, entries = cpu_table(data)
    cpus = [[bytearray(data[o + i:o + i + PAGE]) for i in range(0, size, PAGE)]
            for o, size in entries]
    cpus = [[page for page in pages if page_events(page)[0]] for pages in cpus]
    counted = [page_events(page) for pages in cpus for page in pages]
    events = sum(count for count, _ in counted)
    begin = min(struct.unpack_from("<Q", pages[0])[0] for pages in cpus)
    step = max(last for _, last in counted) - begin + 100_000
    times = -(-wanted // events)
    head = bytearray(data[:entries[0][0]])
    offset = len(head)
    for index, pages in enumerate(cpus):
        struct.pack_into("<QQ", head, table + 16 * index, offset, times * len(pages) * PAGE)
        offset += times * len(pages) * PAGE
    out.write(head)
    for pages in cpus:
        starts = [struct.unpack_from("<Q", page)[0] for page in pages]
        joined = bytearray(b"".join(pages))
        absolute = []  # time stamps inside pages
        for index, page in enumerate(pages):
            stamps = []
            page_events(page, stamps)
            absolute += [(index * PAGE + at, time) for at, time in stamps]
        for i in range(times):
            for index, start in enumerate(starts):
                struct.pack_into("<Q", joined, index * PAGE, start + i * step)
            for at, time in absolute:
                put_stamp(joined, at, time + i * step)
            out.write(joined)
    return events * times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base")
    parser.add_argument("out")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--zstd", action="store_true", help="version 7, compressed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(options.out))) as folder:
        data = converted(options.base)
        target = os.path.join(folder, "big.dat") if options.zstd else options.out
        with open(target, "wb") as out:
            events = write_repeated(data, options.events, out)
        if options.zstd:
            subprocess.run(["trace-cmd", "convert", "--file-version", "7", "--compression", "zstd",
                            "-i", target, "-o", options.out], check=True,
                           stdout=subprocess.DEVNULL)
    print(f"{options.out}: {events} events, {os.path.getsize(options.out)} bytes")


if __name__ == "__main__":
    sys.exit(main())
