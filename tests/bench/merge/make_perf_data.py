#!/usr/bin/env python3
"""Makes a large perf.data from a small one: its samples again and again, later each time.

  make_perf_data.py BASE OUT [--events N]

See tools/perf/Documentation/perf.data-file-format.txt in the kernel's source. The data section grows,
the feature sections behind it move. perf kvm stat report reads the result as it reads BASE.
"""
import argparse
import struct
import sys

SAMPLE, FINISHED_ROUND = 9, 68
IP, TID, TIME, IDENTIFIER = 1, 2, 4, 1 << 16


def records(data):
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        yield kind, data[at:at + size]
        at += size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("base")
    parser.add_argument("out")
    parser.add_argument("--events", type=int, default=3_000_000)
    options = parser.parse_args()
    with open(options.base, "rb") as file:
        base = file.read()
    assert base[:8] == b"PERFILE2", "not a perf.data"
    attrs, = struct.unpack_from("<Q", base, 24)
    start, size = struct.unpack_from("<QQ", base, 40)
    flags = struct.unpack_from("<4Q", base, 72)
    sample_type, = struct.unpack_from("<Q", base, attrs + 24)
    assert sample_type & TIME, "samples without a time"
    time_at = 8 + 8 * sum(bool(sample_type & bit) for bit in (IDENTIFIER, IP, TID))

    original = base[start:start + size]
    repeated = [(kind, record) for kind, record in records(original)
                if kind in (SAMPLE, FINISHED_ROUND)]
    times = [struct.unpack_from("<Q", record, time_at)[0] if kind == SAMPLE else None
             for kind, record in repeated]
    known = [time for time in times if time is not None]
    step = max(known) - min(known) + 100_000
    block = bytearray(b"".join(record for _, record in repeated))
    places, at = [], 0
    for (_, record), time in zip(repeated, times):
        if time is not None:
            places.append((at + time_at, time))
        at += len(record)
    turns = -(-options.events // len(known))
    grown = (turns - 1) * len(block)
    head = bytearray(base[:start])
    struct.pack_into("<Q", head, 48, size + grown)
    tail = bytearray(base[start + size:])
    for index in range(sum(word.bit_count() for word in flags)):
        offset, length = struct.unpack_from("<QQ", tail, 16 * index)
        struct.pack_into("<QQ", tail, 16 * index, offset + grown, length)
    with open(options.out, "wb") as out:
        out.write(head)
        out.write(original)
        for turn in range(1, turns):
            for place, time in places:
                struct.pack_into("<Q", block, place, time + turn * step)
            out.write(block)
        out.write(tail)
    print(f"{options.out}: {len(known) * turns} events, {start + size + grown + len(tail)} bytes")


if __name__ == "__main__":
    sys.exit(main())
