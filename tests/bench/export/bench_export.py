#!/usr/bin/env python3
"""How fast `trapline export` writes, and how much memory it takes: CPU time (rusage) of each format, median of the runs.

  bench_export.py --trapline PATH [--events N] [--runs N]

The recording is tests/data/svm-linux-2vcpu.dat again and again (tests/bench/merge/make_recording.py). The output goes
to /dev/null: a disk's speed is not the exporter's. docs/performance.md has the figures.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BASE = HERE.parents[1] / "data" / "svm-linux-2vcpu.dat"
MAKER = HERE.parent / "merge" / "make_recording.py"
FORMATS = {
    "jsonl": ["--to", "jsonl"],
    "csv": ["--to", "csv"],
    "jsonl, summary": ["--to", "jsonl", "--rows", "summary"],
    "perfetto": ["--to", "perfetto"],
    "chrome": ["--to", "chrome"],
    "folded": ["--to", "folded"],
}


def measured(command):
    """(CPU seconds, max RSS in MiB) of one run."""
    with open(os.devnull, "wb") as null:
        child = subprocess.Popen(command, stdout=null)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"failed with {child.returncode}: {' '.join(map(str, command))}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def slices_of(data):
    """Begins and instants among the packets of a Perfetto trace."""
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value, at

    def fields(at, end):
        while at < end:
            tag, at = varint(at)
            if tag & 7 == 0:
                value, at = varint(at)
                yield tag >> 3, value, at
            elif tag & 7 == 2:
                length, at = varint(at)
                yield tag >> 3, (at, at + length), at
                at += length
            else:
                at += 8
    count = 0
    for _, packet, _ in fields(0, len(data)):
        for number, event, _ in fields(*packet):
            if number == 11:
                count += any(inner == 9 and value in (1, 3) for inner, value, _ in fields(*event))
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trapline-bench-") as name:
        recording = os.path.join(name, "big.dat")
        small = os.path.join(name, "small.pftrace")
        subprocess.run([sys.executable, MAKER, BASE, recording, "--events", str(options.events)], check=True,
                       stdout=subprocess.DEVNULL)
        # Counted in one turn of the recording; each turn has as many.
        subprocess.run([options.trapline, "export", BASE, "--to", "perfetto", "-o", small], check=True)
        with open(small, "rb") as file:
            slices = slices_of(file.read())
        def exits_of(path):
            command = [options.trapline, "export", path, "--to", "folded", "--weight", "count", "-o", "-"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())
        exits = exits_of(recording)
        slices = slices * exits // exits_of(BASE)
        times = {form: [] for form in FORMATS}
        for _ in range(options.runs):
            for form, how in FORMATS.items():
                times[form].append(measured([options.trapline, "export", recording, *how, "-o", "/dev/null"]))
        print(f"{exits} exits, {slices} slices, {os.path.getsize(recording) >> 20} MiB; median of {options.runs}\n")
        print(f"{'':16}{'CPU s':>8}{'M exits/s':>11}{'M slices/s':>12}{'max RSS MiB':>13}")
        for form, runs in times.items():
            seconds = statistics.median(cpu for cpu, _ in runs)
            speed = f"{slices / seconds / 1e6:12.2f}" if form == "perfetto" else f"{'':12}"
            print(f"{form:16}{seconds:8.2f}{exits / seconds / 1e6:11.2f}{speed}{max(rss for _, rss in runs):13.1f}")


if __name__ == "__main__":
    main()
