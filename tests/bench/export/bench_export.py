#!/usr/bin/env python3
"""How fast `trapline export` writes, and how much memory it takes: CPU time of each format, median of the runs.

  bench_export.py --trapline PATH [--events N] [--runs N] [--folder FOLDER] [RECORDING...]

Each RECORDING again and again (tests/bench/merge/make_recording.py). Without one it is two of tests/data: one with
QEMU's and the interrupts' events, eight for each exit, and one with KVM's and sched_switch, five for each. The output
goes to /dev/null: a disk's speed is not the exporter's. `python` is the Python package over the rows of jsonl, the
command's time with it. docs/performance.md has the figures.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from figures import figure  # pylint: disable=wrong-import-position

DATA = HERE.parents[1] / "data"
BASES = [DATA / "svm-linux-2vcpu.dat", DATA / "nested" / "svm.dat"]
MAKER = HERE.parent / "merge" / "make_recording.py"
PYTHON = "import sys, trapline\nfor row in trapline.exits(sys.argv[1]): pass"
FORMATS = {
    "report": None,
    "jsonl": ["--format", "jsonl"],
    "csv": ["--format", "csv"],
    "perfetto": ["--format", "perfetto"],
    "folded": ["--format", "folded"],
    "python": PYTHON,
}


def measured(command):
    """(CPU seconds, max RSS in MiB) of one run, by GNU time: what Python starts by itself has Python's RSS at least."""
    done = subprocess.run(["/usr/bin/time", "-f", "%U %S %M", *command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}: {done.stderr}")
    user, system, kilobytes = done.stderr.split()[-3:]
    return float(user) + float(system), int(kilobytes) / 1024


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


def exits_of(trapline, path):
    command = [trapline, "export", path, "--format", "folded", "--weight", "count", "-o", "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def command_of(trapline, recording, how):
    if how is None:
        return [trapline, "report", recording]
    if how is PYTHON:  # it starts the command from PATH
        return [sys.executable, "-c", PYTHON, recording]
    return [trapline, "export", recording, *how, "-o", "/dev/null"]


def measure(base, options, folder):
    recording, small = os.path.join(folder, "big.dat"), os.path.join(folder, "small.pftrace")
    subprocess.run([sys.executable, MAKER, base, recording, "--events", str(options.events)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Slices are counted in one turn of the recording; each turn has as many.
    subprocess.run([options.trapline, "export", base, "--format", "perfetto", "-o", small, "--force"], check=True)
    slices = slices_of(pathlib.Path(small).read_bytes())
    exits = exits_of(options.trapline, recording)
    slices = slices * exits // exits_of(options.trapline, base)
    times = {form: [] for form in FORMATS}
    for _ in range(options.runs):
        for form, how in FORMATS.items():
            times[form].append(measured(command_of(options.trapline, recording, how)))
    print(f"{os.path.relpath(base, DATA)}: {options.events} events, {exits} exits, {slices} slices, "
          f"{os.path.getsize(recording) >> 20} MiB; median of {options.runs}\n")
    print(f"{'':16}{'CPU s':>8}{'M exits/s':>11}{'M slices/s':>12}{'max RSS MiB':>13}")
    for form, runs in times.items():
        seconds = statistics.median(cpu for cpu, _ in runs)
        speed = f"{slices / seconds / 1e6:12.2f}" if form == "perfetto" else f"{'':12}"
        print(f"{form:16}{seconds:8.2f}{exits / seconds / 1e6:11.2f}{speed}{max(rss for _, rss in runs):13.1f}")
        if form != "report":
            report = statistics.median(cpu for cpu, _ in times["report"])
            figure(f"export {form}, {base.name}", seconds, "s", seconds / report, "report")
    print(flush=True)
    os.unlink(recording)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="for the recordings; 100 million events are 4 GiB")
    parser.add_argument("recordings", nargs="*", type=pathlib.Path, default=BASES)
    options = parser.parse_args()
    os.environ["PATH"] = f"{os.path.dirname(os.path.abspath(options.trapline))}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(HERE.parents[2] / "merge" / "python")
    with tempfile.TemporaryDirectory(prefix="trapline-bench-", dir=options.folder) as folder:
        for base in options.recordings:
            measure(base, options, folder)


if __name__ == "__main__":
    main()
