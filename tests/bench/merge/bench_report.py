#!/usr/bin/env python3
"""How fast `trapline report` reads, against its peers, on the same file in one run.

  bench_report.py --trapline PATH --loop PATH [--events N] [--runs N] [--quick] [--perf-data FILE]

Every round runs each program once, so that a change of the machine's speed meets all of them; what
counts is the median of user + system time (rusage) over the rounds; wall time stands beside it (walls.py compares it).
Prints medians, ratios and PASS or FAIL per bound; the exit status is 1 when a bound is missed. --quick is what ctest
runs: a tenth of the events and generous bounds, to notice a slip, not to measure.
"""
import argparse
import contextlib
import fcntl
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from figures import figure  # pylint: disable=wrong-import-position

RECOMPRESS = HERE.parent.parent / "support" / "recompress.py"
BASE = HERE.parent.parent / "data" / "svm-linux-2vcpu.dat"
# perf kvm stat records exits and little else, which cost more than the average event of BASE.
EXITS = HERE.parent.parent / "data" / "box" / "demo-v6.dat"
RSS_BOUND = 64 << 10  # KiB


class Run(typing.NamedTuple):
    """One run, or the medians of several and how many."""
    cpu: float  # seconds
    rss: int  # KiB, the most
    wall: float
    waited: float = 0  # seconds in which its first thread was ready to run, and another ran
    spread: float = 0  # of the walls' middle half, over the median
    runs: int = 1


def measured(command):
    with open(os.devnull, "wb") as null:
        begin = time.monotonic()
        child = subprocess.Popen(command, stdout=null, stderr=null)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        wall = time.monotonic() - begin
        with open(f"/proc/{child.pid}/schedstat", encoding="ascii") as stat:
            waited = int(stat.read().split()[1]) / 1e9
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"failed with {child.returncode}: {' '.join(map(str, command))}")
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss, wall, waited)


def spread(values):
    if len(values) < 2:
        return 0
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / quarters[1]


def alternate(commands, runs, lock):
    """A Run of medians by name; slow ones run in the first round only."""
    seen = {name: [] for name in commands}
    for turn in range(runs):
        with contextlib.ExitStack() as stack:
            if lock:
                fcntl.flock(stack.enter_context(open(lock, "a", encoding="ascii")), fcntl.LOCK_EX)
            for name, (command, slow) in commands.items():
                if not slow or turn == 0:
                    seen[name].append(measured(command))
    return {name: Run(statistics.median(run.cpu for run in runs), max(run.rss for run in runs),
                      statistics.median(run.wall for run in runs), statistics.median(run.waited for run in runs),
                      spread([run.wall for run in runs]), len(runs))
            for name, runs in seen.items()}


def make(maker, base, path, events, *options):
    made = subprocess.run([sys.executable, HERE / maker, base, path, "--events", str(events),
                           *options], check=True, capture_output=True, text=True)
    return path, int(made.stdout.split(": ")[1].split()[0])


class Bounds:
    def __init__(self):
        self.failed = 0

    def check(self, what, value, bound, unit=""):
        good = value <= bound
        self.failed += not good
        print(f"{'PASS' if good else 'FAIL'}  {what}: {value:.3g}{unit}, at most {bound:.3g}{unit}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--loop", required=True, help="the program of tracecmd_loop.c")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--once", action="store_true",
                        help="run trace-cmd report, which takes a minute, in the first round only")
    parser.add_argument("--lock", help="a file to flock during each round, to keep others quiet")
    parser.add_argument("--perf-data", help="whole.perf.data of record_perf: compares with perf kvm stat report")
    options = parser.parse_args()
    events = 1_000_000 if options.quick else options.events
    slack = 2.0 if options.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="trapline-bench-") as name:
        folder = pathlib.Path(name)
        plain, count = make("make_recording.py", BASE, folder / "plain.dat", events)
        zstd, _ = make("make_recording.py", BASE, folder / "zstd.dat", events, "--zstd")
        zlib, text = folder / "zlib.dat", folder / "small.txt"
        # By a process of its own: what this one needed would count as its children's.
        subprocess.run([sys.executable, RECOMPRESS, "zlib", zstd, zlib], check=True)
        small, small_count = make("make_recording.py", BASE, folder / "small.dat", events // 10)
        with open(text, "wb") as out:
            subprocess.run(["trace-cmd", "report", small], check=True, stdout=out)
        ours = [options.trapline, "report", "--by", "reason"]
        commands = {
            "trapline report, uncompressed": (ours + [plain], False),
            "trapline report, zstd": (ours + [zstd], False),
            "trapline report, zlib": (ours + [zlib], False),
            "trapline report, text": (ours + [text], False),
            "trapline report, culprits": ([options.trapline, "report", "--by",
                                           "preempted-by,blocked-on", plain], False),
            "trapline report, a tenth": (ours + [small], False),
            "minimal libtracecmd loop": ([options.loop, plain], False),
            "trace-cmd report": (["trace-cmd", "report", plain],
                                 options.quick or options.once),
        }
        perf_count = exits_count = 0
        if options.perf_data:
            exits, exits_count = make("make_recording.py", EXITS, folder / "exits.dat", events)
            commands["trapline report, exits"] = (ours + [exits], False)
            perf, perf_count = make("make_perf_data.py", options.perf_data, folder / "perf.data",
                                    events)
            commands["perf kvm stat report"] = (["perf", "kvm", "-i", perf, "stat", "report"],
                                                False)
            commands["trapline report, perf.data"] = (ours + [perf], False)
        medians = alternate(commands, options.runs, options.lock)
        counts = {"trapline report, a tenth": small_count, "trapline report, text": small_count,
                  "perf kvm stat report": perf_count, "trapline report, perf.data": perf_count,
                  "trapline report, exits": exits_count}
        print(f"{count} events of {BASE.name}, {os.path.getsize(plain) >> 20} MiB; "
              f"{os.path.getsize(zstd) >> 20} MiB with zstd\n")
        print(f"{'':32}{'median s':>9}{'M/s':>8}{'wall s':>8}{'max RSS MiB':>13}{'runs':>6}")
        for what, run in medians.items():
            speed = counts.get(what, count) / run.cpu / 1e6
            print(f"{what:32}{run.cpu:9.3f}{speed:8.2f}{run.wall:8.3f}{run.rss / 1024:13.1f}{run.runs:6}")
        print()
        seconds = {what: run.cpu for what, run in medians.items()}
        rss = {what: run.rss for what, run in medians.items()}
        plain_time = seconds["trapline report, uncompressed"]
        for peer in ("minimal libtracecmd loop", "trace-cmd report"):
            figure("report", plain_time, "s", plain_time / seconds[peer], peer)
        figure("report, resident", rss["trapline report, uncompressed"] / 1024, "MiB",
               rss["trapline report, uncompressed"] / rss["minimal libtracecmd loop"], "minimal libtracecmd loop")
        for what in ("zstd", "zlib", "text", "culprits"):
            name = f"trapline report, {what}"
            each, all_ = seconds[name] / counts.get(name, count), plain_time / count
            figure(f"report, {what}", each * 1e9, "ns an event", each / all_, "report")
        bounds = Bounds()
        bounds.check("CPU time over trace-cmd report's",
                     plain_time / seconds["trace-cmd report"], slack / 25)
        bounds.check("CPU time over the libtracecmd loop's",
                     plain_time / seconds["minimal libtracecmd loop"], slack / 1.4)
        bounds.check("CPU time of zstd over uncompressed",
                     seconds["trapline report, zstd"] / plain_time, slack * 2)
        bounds.check("CPU time of zlib over uncompressed",
                     seconds["trapline report, zlib"] / plain_time, slack / 0.35)
        bounds.check("CPU time per event of text over uncompressed",
                     seconds["trapline report, text"] / small_count / (plain_time / count),
                     slack / 0.08)
        bounds.check("CPU time by culprits over by reason",
                     seconds["trapline report, culprits"] / plain_time, slack * 1.5)
        if options.perf_data:
            each = seconds["perf kvm stat report"] / perf_count
            figure("report", plain_time / count * 1e9, "ns an event", plain_time / count / each, "perf kvm stat report")
            bounds.check("CPU time per event over perf kvm stat's", plain_time / count / each,
                         slack / 2)
            of_exits = seconds["trapline report, exits"] / exits_count
            bounds.check("CPU time per event of perf.data over uncompressed exits",
                         seconds["trapline report, perf.data"] / perf_count / of_exits, slack / 0.6)
        for what in ("uncompressed", "zstd", "zlib", "text", "culprits", "a tenth"):
            bounds.check(f"resident, {what}", rss[f"trapline report, {what}"] / 1024,
                         RSS_BOUND / 1024, " MiB")
    return 1 if bounds.failed else 0


if __name__ == "__main__":
    sys.exit(main())
