"""Bends a guest's clock between two rounds of its sync records, and checks what trapline says of it.

usage: bent_clock.py TRAPLINE FOLDER [MICROSECONDS...]

FOLDER is guest-clock/. The records of its uftrace.data between the rounds before the guest's work and those
after it are moved as by a clock that runs fast and then slow: by nothing at the rounds, by MICROSECONDS in the
middle. No sync record shows that. So trapline must place every record within the error that it prints, or
refuse the recording. The true times are those of a third clock (guest_clock.py), by the unbent records.
"""
import os
import re
import shutil
import struct
import sys
import tempfile

import tables
from guest_clock import between, times, truth

MAGIC, SAMPLES = 5, (14, 15, 3, 4, 7)  # of a record; of perf events with a time at their end


def bend(first: int, last: int, most: float):
    def bent(at: int) -> int:
        if not first < at < last:
            return at
        part = (at - first) / (last - first)
        return at + int(most * 4 * part * (1 - part))
    return bent


def rewrite(folder: str, bent) -> None:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if re.fullmatch(r"\d+\.dat", name):
            data = bytearray(open(path, "rb").read())
            for at in range(0, len(data) - 15, 16):
                time, word = struct.unpack_from("<QQ", data, at)
                if word >> 3 & 7 == MAGIC:
                    struct.pack_into("<Q", data, at, bent(time))
        elif name.startswith("perf-cpu"):
            data = bytearray(open(path, "rb").read())
            at = 0
            while at + 8 <= len(data):
                kind, _, size = struct.unpack_from("<IHH", data, at)
                if size < 8:
                    break
                if kind in SAMPLES:
                    (time,) = struct.unpack_from("<Q", data, at + size - 8)
                    struct.pack_into("<Q", data, at + size - 8, bent(time))
                at += size
        else:
            continue
        with open(path, "wb") as file:
            file.write(data)


def main() -> None:
    trapline, folder, *sizes = sys.argv[1:]
    host, sync = f"{folder}/host.dat", f"{folder}/sync.txt"
    text = open(sync, encoding="utf-8").read()
    series = {int(match[1]) for match in re.finditer(r"guest 1 (\d+) ", text)}
    points = truth(f"{folder}/truth.txt", series)
    line = [(at, host_at) for at, host_at, _ in points]
    of_truth = max(error for _, _, error in points)
    rounds = sorted(int(match[1]) for match in re.finditer(r"before mono=(\d+)", text))
    gap = max(range(1, len(rounds)), key=lambda i: rounds[i] - rounds[i - 1])
    first, last = rounds[gap - 1] + 20_000_000, rounds[gap] - 2_000_000
    own = sorted(times(r"^ *(\d+)\.(\d{9}) +\d+: \[(?:entry|exit )\]", "uftrace", "dump", "--no-pager",
                       "-d", f"{folder}/uftrace.data"))
    placed_at = refused_at = 0
    for size in [float(size) for size in sizes] or [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 60, 100,
                                                    200, 500, 1000, 5000]:
        with tempfile.TemporaryDirectory() as scratch:
            guest = f"{scratch}/uftrace.data"
            shutil.copytree(f"{folder}/uftrace.data", guest)
            rewrite(guest, bend(first, last, size * 1000))
            status, report, complaint = tables.asked(trapline, "report", host, guest, sync)
            peak = 4e9 * size / (last - first)
            if status != 0:
                refused_at += 1
                print(f"{size:6g} us, up to {peak:.0f} ppm: refused: {complaint.strip()[:200]}")
                assert "would be at" in complaint or "contradict" in complaint, complaint
                continue
            source = report["tables"]["sources"]["rows"][1]
            shown = times(r"^ *(\d+)\.(\d{9})  .{16} *(?:call (?!linux:)|return from (?!linux:))",
                          trapline, "timeline", host, guest, sync)
            assert len(own) == len(shown), f"{len(own)} records, {len(shown)} on the timeline"
            off = max(abs(placed - between(line, at)) for at, placed in zip(own, sorted(shown)))
            print(f"{size:6g} us, up to {peak:.0f} ppm: off by {off:.0f} ns, printed {source['error_ns']} ns, "
                  f"truth {of_truth:.0f} ns, {source['assumes']}")
            assert off <= source["error_ns"] + of_truth, "the truth is outside of the printed error"
            placed_at += 1
    assert placed_at and (sizes or refused_at)
    print(f"placed={placed_at} refused={refused_at}")


if __name__ == "__main__":
    main()
