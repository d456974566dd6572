#!/usr/bin/env python3
"""What trapline record costs beside trace-cmd's own recorder, on the same load.

usage: bench_record.py BUILD-FOLDER [--rounds N] [--seconds S] [--rate EVENTS-PER-SECOND] [--long | --snapshot | --flight]

Needs root, trace-cmd and a quiet machine. CPU time is user + system of the recorder and its children,
without the load; beside it, with that of the kernel's threads, which write back what nobody syncs. MiB are
those of the pages: what stands before them, trace-cmd's 7 MiB of symbols above all, says nothing of the events.
In a recording of a second, starting and ending take most of the time.
trace-cmd runs with the same buffers and writes the uncompressed version 6 file, in a mount namespace
where the control files that it only wants to reset are /dev/null (they are locked on some machines).
--long records 1 GiB with trapline alone and says what was lost. --snapshot: trapline alone, watching for
exits that never come; MiB are those that went by. --flight: the flight recorder (of two seconds, so that
its memory is full soon) at --rate, alone and watching for exits that never come; its share of one CPU, and
the largest resident set before and after a snapshot.
"""
import argparse
import json
import mmap
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from figures import figure  # pylint: disable=wrong-import-position

TRACEFS = Path("/sys/kernel/tracing")
BUFFER_KB = "8192"
RESET_ONLY = ["set_ftrace_filter", "set_ftrace_notrace", "set_ftrace_pid", "set_ftrace_notrace_pid"]


def start_load(build: Path, rate: float, seconds: float) -> subprocess.Popen:
    load = [build / "tests/bench/record/bench_record_load", str(rate / 2), str(seconds)]
    return subprocess.Popen(load, stdout=subprocess.PIPE, text=True)


def kernel_threads() -> float:
    """CPU seconds that those alive have used."""
    used = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "stat").read_text().rpartition(")")[2].split()[1] == "2":  # kthreadd's
                used += int((process / "schedstat").read_text().split()[0])
        except OSError:  # it ended
            pass
    return used / 1e9


def run(command: list, **more) -> tuple[float, int, subprocess.CompletedProcess]:
    """CPU seconds, the largest resident set in KiB, and what came out."""
    done = subprocess.run(["/usr/bin/env", "python3", "-c", WRAPPER, *map(str, command)],
                          capture_output=True, text=True, **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    facts = json.loads(done.stdout.splitlines()[-1])
    return facts["cpu"], facts["rss"], done


# A process of its own: the load is a child of this one, and must not count.
WRAPPER = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss}))
sys.exit(code)
"""


def page_mib(trace_dat: Path) -> float:
    """MiB of all CPUs' pages in a trace.dat of version 6: the flyrecord of each buffer has (offset, size) of each CPU."""
    size, title, at = 0, b"flyrecord\0", -1
    with trace_dat.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while (at := data.find(title, at + 1)) >= 0:
            size += sum(struct.unpack_from(f"<{2 * os.cpu_count()}Q", data, at + len(title))[1::2])
        assert size <= len(data)
    return size / 2**20


def trapline(build: Path, folder: Path, rate: float, seconds: float, snapshot: bool = False) -> dict:
    load = start_load(build, rate, seconds)
    session = folder / "run"
    what = ["--snapshot-on", "exit > 10s"] if snapshot else ["--no-kvm"]
    cpu, rss, done = run([build / "merge/trapline", "record", "-o", session, *what, "--events",
                          "raw_syscalls", "--buffer-size", BUFFER_KB + "K", "--pid", load.pid])
    events = int(load.communicate()[0])
    facts = json.loads((session / "session.json").read_text())
    lost = sum(loss["overwritten"] + loss["dropped"] for loss in facts["losses"])
    mib = page_mib(session / "trace.dat")
    if snapshot:
        mib = float(re.search(r"none of the ([0-9.]+) MiB", done.stderr)[1])
    shutil.rmtree(session)
    return {"cpu": cpu, "rss": rss, "lost": lost, "events": events, "mib": mib}


def trace_cmd(build: Path, folder: Path, rate: float, seconds: float) -> dict:
    name = f"trapline-bench-{os.getpid()}"
    instance = TRACEFS / "instances" / name
    instance.mkdir()
    try:
        masked = [place / file for file in RESET_ONLY for place in (TRACEFS, instance)]
        masked.append(TRACEFS / "ftrace_enabled")
        masked.append(Path("/proc/sys/kernel/ftrace_enabled"))
        mounts = "; ".join(f"[ ! -e {file} ] || mount --bind /dev/null {file}" for file in masked)
        load = start_load(build, rate, seconds)
        data = folder / "trace.dat"
        cpu, rss, _ = run(["unshare", "-m", "sh", "-c", mounts + '; exec "$@"', "sh", "trace-cmd",
                           "record", "-q", "-o", data, "--file-version", "6", "-B", name, "-C", "mono",
                           "-b", BUFFER_KB, "-e", "raw_syscalls", "sleep", str(seconds)])
        events = int(load.communicate()[0])
        mib = page_mib(data)
        data.unlink()
    finally:
        for _ in range(100):
            try:
                instance.rmdir()
                break
            except OSError:
                time.sleep(0.05)
    return {"cpu": cpu, "rss": rss, "lost": 0, "events": events, "mib": mib}


def used_by(pid: int) -> tuple[float, int]:
    """CPU seconds and resident KiB of a process that is alive."""
    resident = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    # schedstat's first number is ns on a CPU; the ticks of stat are too coarse for a share of 1 %.
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9, int(resident[1])


def flight(build: Path, folder: Path, rate: float, seconds: float, expression: bool) -> None:
    session = folder / "flight"
    what = ["--snapshot-on", "exit > 10s"] if expression else ["--no-kvm"]
    load = start_load(build, rate, seconds + 4)
    recorder = subprocess.Popen([build / "merge/trapline", "record", "--flight", "2s", "-o", session, *what,
                                 "--events", "raw_syscalls", "--pid", str(load.pid)], stderr=subprocess.PIPE)
    time.sleep(3)
    before, _ = used_by(recorder.pid)
    time.sleep(seconds)
    after, resident = used_by(recorder.pid)
    subprocess.run([build / "merge/trapline", "snapshot", session], check=True, stdout=subprocess.DEVNULL)
    _, largest = used_by(recorder.pid)
    recorder.terminate()
    recorder.wait()
    load.wait()
    print(f"flight{' --snapshot-on' if expression else '':15} at {rate:.0f} events/s: "
          f"{(after - before) / seconds * 100:.2f} % of one CPU, resident {resident / 1024:.1f} MiB, "
          f"{largest / 1024:.1f} MiB with a snapshot")
    figure(f"record --flight{' --snapshot-on' if expression else ''}", (after - before) / seconds * 100, "% of a CPU")
    shutil.rmtree(session)


def with_kernel(recorder, *of) -> dict:
    """A recording's figures, and the CPU seconds with what the kernel's threads used meanwhile."""
    before = kernel_threads()
    figures = recorder(*of)
    return {**figures, "all": figures["cpu"] + kernel_threads() - before}


def show(name: str, runs: list[dict]) -> float:
    """Returns ms of CPU a MiB."""
    middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    print(f"{name:10} CPU {middle['cpu']:6.3f} s  {middle['cpu'] / middle['mib'] * 1000:6.3f} ms/MiB  "
          f"resident {middle['rss'] / 1024:5.1f} MiB  pages {middle['mib']:7.1f} MiB  "
          f"events {middle['events']:.0f}  lost {middle['lost']:.0f}  "
          f"with kernel threads {middle['all'] / middle['mib'] * 1000:6.3f} ms/MiB")
    return middle["cpu"] / middle["mib"] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what a recording costs (docs/performance.md).")
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("--rounds", type=int, default=3, help="recordings with each program (default: 3)")
    parser.add_argument("--seconds", type=float, default=12, help="length of a recording (default: 12)")
    parser.add_argument("--rate", type=float, default=500_000, help="events a second (default: 500000)")
    parser.add_argument("--long", action="store_true", help="record 1 GiB")
    parser.add_argument("--snapshot", action="store_true", help="measure trapline record --snapshot-on")
    parser.add_argument("--flight", action="store_true", help="measure trapline record --flight")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        where = Path(folder)
        if options.long:
            seconds = 1.0 / (options.rate * 48) * 2**30
            figure("record, 1 GiB", show("trapline", [with_kernel(trapline, options.build, where, options.rate, seconds * 1.15)]), "ms a MiB")
            return
        if options.flight:
            flight(options.build, where, options.rate, options.seconds, False)
            flight(options.build, where, options.rate, options.seconds, True)
            return
        if options.snapshot:
            figure("record --snapshot-on", show("snapshot", [
                with_kernel(trapline, options.build, where, options.rate, options.seconds, True) for _ in range(options.rounds)]),
                "ms a MiB")
            return
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(with_kernel(trapline, options.build, where, options.rate, options.seconds))
            theirs.append(with_kernel(trace_cmd, options.build, where, options.rate, options.seconds))
        cost, peer = show("trapline", ours), show("trace-cmd", theirs)
        figure("record", cost, "ms a MiB", cost / peer, "trace-cmd record")


if __name__ == "__main__":
    main()
