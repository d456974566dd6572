#!/usr/bin/env python3
"""cut_files.py TRAPLINE FOLDER: recordings of trace-cmd that were cut, beside what lies whole in them.

Each recording of FOLDER, as it is, as version 6 and compressed with zlib, is cut at many offsets. The events of
the pages (of the blocks, where it is compressed) that are whole have to be read, no others; the status is 3 and
the message says so. Where there are none, that is the message, and nothing is printed.
"""
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from recompress import Copy, converted, recompressed, text_at  # noqa: E402
from ring_page import areas, entries_of  # noqa: E402

PAGE = 4096
LEAST_DATA_CUTS = 3


def events_of(page):
    return sum(kind <= 28 for _, kind, _, _ in entries_of(page))


def buffers_v7(data):
    """[(flags, [(cpu, offset, size)])] of a recording of version 7."""
    _, at = text_at(data, 10)
    _, at = text_at(data, at + 6)
    _, at = text_at(data, at)
    following, = struct.unpack_from("<Q", data, at)
    found = []
    while following:
        _, flags, _, size = struct.unpack_from("<HHIQ", data, following)
        body = data[following + 16:following + 16 + size]
        assert not flags & 1
        at = following = 0
        while at < len(body):
            option, size = struct.unpack_from("<HI", body, at)
            value = body[at + 6:at + 6 + size]
            at += 6 + size
            if option == 0:
                following, = struct.unpack_from("<Q", value)
                break
            if option == 3:
                section, = struct.unpack_from("<Q", value)
                _, place = text_at(value, 8)
                _, place = text_at(value, place)
                _, cpus = struct.unpack_from("<II", value, place)
                found.append((struct.unpack_from("<HH", data, section)[1],
                              [struct.unpack_from("<IQQ", value, place + 8 + 20 * i) for i in range(cpus)]))
    return found


def pieces_v7(data, pages):
    """[(end in the file, events)] of what can be whole; `pages`: events of each page, in order of the file."""
    pieces, pages = [], iter(pages)
    for flags, cpus in buffers_v7(data):
        for _, at, size in cpus:
            if size == 0:
                continue
            assert flags & 1
            count, = struct.unpack_from("<I", data, at)
            at += 4
            for _ in range(count):
                packed, plain = struct.unpack_from("<II", data, at)
                at += 8 + packed
                pieces.append((at, sum(next(pages) for _ in range(plain // PAGE))))
    assert next(pages, None) is None
    return pieces


def pages_of(plain):
    """Events of each page of an uncompressed recording of version 7."""
    return [events_of(plain[at + i:at + i + PAGE])
            for _, cpus in buffers_v7(plain) for _, at, size in cpus for i in range(0, size, PAGE)]


def version6(path):
    """The recording as version 6, and its pieces."""
    data = converted(path)
    return data, [(at + PAGE, events_of(data[at:at + PAGE]))
                  for offset, size in areas(data) for at in range(offset, offset + size, PAGE)]


class Check:
    def __init__(self, trapline, folder):
        self.trapline, self.path = trapline, Path(folder) / "cut.dat"
        self.cuts = self.with_events = self.wrong = 0

    def cut(self, name, data, pieces, size):
        self.path.write_bytes(data[:size])
        run = subprocess.run([self.trapline, "info", str(self.path)], capture_output=True, text=True, check=False)
        expected = sum(events for end, events in pieces if end <= size)
        found = re.search(r"^  events +([0-9,]+)$", run.stdout, re.M)
        got = int(found[1].replace(",", "")) if found else 0
        self.cuts += 1
        self.with_events += expected != 0
        says = "cut off" in run.stderr and str(self.path) in run.stderr
        if got == expected and run.returncode == 3 and says and bool(run.stdout) == (expected != 0):
            return
        self.wrong += 1
        print(f"{name} cut at {size} of {len(data)}: {got} events of {expected}, status {run.returncode}, "
              f"{run.stderr.strip()!r}")

    def cut_everywhere(self, name, data, pieces):
        rng = random.Random(name)
        first, last = pieces[0][0], max(end for end, _ in pieces)
        sizes = {rng.randrange(first, last) for _ in range(LEAST_DATA_CUTS)}
        sizes |= {rng.randrange(16, first), first, first - 1, last - 1}
        if data[10:11] == b"7":
            sizes.add(last)  # all events, and no table
        for size in sorted(sizes):
            self.cut(name, data, pieces, size)


def main():
    trapline, folder = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as work:
        check = Check(trapline, work)
        for path in sorted(Path(folder).rglob("*.dat")):
            data = path.read_bytes()
            name = str(path.relative_to(folder))
            if data[10:12] != b"7\0":
                continue
            plain = recompressed(str(path), "none")
            pages = pages_of(plain)
            check.cut_everywhere(name, data, pieces_v7(data, pages))
            packed = Copy(plain, "zlib").write()
            check.cut_everywhere(name + ", zlib", packed, pieces_v7(packed, pages))
            if len(buffers_v7(data)) == 1:
                check.cut_everywhere(name + ", version 6", *version6(path))
    print(f"{check.cuts} cuts, {check.with_events} of them with events: {check.wrong} wrong")
    return 1 if check.wrong or check.with_events < check.cuts // 2 else 0


if __name__ == "__main__":
    sys.exit(main())
