#!/usr/bin/env python3
"""shift_bound_oracle.py TRAPLINE HOST GUEST: how well a guest's time shift fits its host's recording.

HOST and GUEST are a pair of `trace-cmd record -A`. Where the guest's events lie in the runs of its vCPUs, from
kvm_entry to kvm_exit, and how far they all could be moved, is computed once more from trace-cmd's texts; the
number of events and of runs and the error that Trapline prints have to be the same. Moved by more than a
millisecond, the guest is refused.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import recording
import tables

LINE = re.compile(r"-(\d+) +\[(\d+)\].*? (\d+)\.(\d{9}): +(\w+):")
TIME_SHIFT = 12


def events(path):
    """[(ns, cpu, thread, name)] of a recording, as trace-cmd prints them."""
    with recording.readable(path) as file:
        text = "\n".join(recording.report_lines(file))
    return [(int(seconds) * 10**9 + int(ns), int(cpu), int(thread), name)
            for thread, cpu, seconds, ns, name in LINE.findall(text)]


def vcpus(path):
    """{the guest's CPU: its thread} of the GUEST option."""
    with recording.readable(path) as file:
        text = subprocess.run(["trace-cmd", "dump", "--options", file], capture_output=True, check=True, text=True).stdout
    found = re.search(r"(\d+) \[Guest CPUs\]\n((?:\s+\d+ \d+ \[guest cpu, host pid\]\n)*)", text)
    return {int(cpu): int(thread) for cpu, thread in re.findall(r"(\d+) (\d+) \[guest", found[2])}


def expected_fit(host, guest):
    threads = vcpus(host)
    runs, inside, least, most, outside = {}, 0, -10**18, 10**18, 0
    where = {}  # by thread: (in the guest?, since)
    merged = sorted([(at, 0, thread, name) for at, _, thread, name in events(host)
                     if name in ("kvm_entry", "kvm_exit") and thread in threads.values()]
                    + [(at, 1, threads[cpu], "") for at, cpu, _, _ in events(guest) if cpu in threads])
    for at, of_guest, thread, name in merged:
        runs_in, since, last = where.get(thread, (None, 0, None))
        if of_guest:
            if runs_in is None:
                continue
            if not runs_in:
                outside += 1
                continue
            inside += 1
            if last is None:
                runs[thread, since] = 1
                least = max(least, since - at)
            where[thread] = (True, since, at)
        else:
            if name == "kvm_exit" and last is not None:
                most = min(most, at - last)
            where[thread] = (name == "kvm_entry", at, None)
    return inside, len(runs), max(-least, most), outside


def moved(path, folder, cycles):
    """The guest's recording with a shift that is off by so many counts."""
    data = bytearray(Path(path).read_bytes())
    at, found = 0, 0
    while (at := data.find(struct.pack("<H", TIME_SHIFT), at)) >= 0:
        size, = struct.unpack_from("<I", data, at + 2)
        place = at + 6 + 16
        at += 2
        if size < 40 or size > 65536 or place + 4 > len(data):
            continue
        samples, = struct.unpack_from("<I", data, place)
        cpus, = struct.unpack_from("<I", data, at + 16)
        if not 1 <= samples <= 64 or size != 16 + cpus * (4 + samples * 32):
            continue
        for _ in range(cpus):
            for sample in range(samples):
                offset = place + 4 + 8 * (samples + sample)
                struct.pack_into("<q", data, offset, struct.unpack_from("<q", data, offset)[0] + cycles)
            place += 4 + samples * 24
        found += 1
    assert found == 1, found
    copy = os.path.join(folder, "moved.dat")
    Path(copy).write_bytes(data)
    return copy


def main():
    trapline, host, guest = sys.argv[1:4]
    if not os.path.exists(host) or not os.path.exists(guest):
        print(f"SKIPPED: there is no {host}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        inside, runs, error, outside = expected_fit(host, guest)
        source = tables.of(trapline, "report", host, guest)["sources"]["rows"][1]
        print(f"{inside} events in {runs} runs, {outside} outside, ± {error} ns; printed: {source['method']}, "
              f"± {source['error_ns']} ns")
        wrong = source["method"] != f"time shift; all {inside} events lie in {runs} runs of the vCPUs"
        wrong |= source["error_ns"] != error or outside != 0 or inside < 100
        off = moved(guest, folder, 5_000_000)
        refused = subprocess.run([trapline, "report", host, off], capture_output=True, text=True, check=False)
        print(f"moved: status {refused.returncode}, {refused.stderr.strip()}")
        wrong |= refused.returncode == 0 or "time shift is not that of these recordings" not in refused.stderr
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
