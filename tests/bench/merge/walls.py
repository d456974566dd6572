#!/usr/bin/env python3
"""Walls beside those of the peers, on all CPUs and pinned to one, in turns: medians and ratios.

  walls.py --trapline PATH --loop PATH [--events N] [--runs N] [--quick]

Ends with status 3 and without a figure if the machine is too busy to tell: other work took more than a twentieth of its
CPUs before, a pinned run waited for its CPU for more than 1 % of its CPU time (medians), or the walls of a pinned report
differ by more than 5 % in the middle half of the runs. Then the bounds: with several CPUs, a report takes at most 1.02 x
the wall and 1.15 x the CPU time of a pinned one, whatever the file; a line of `timeline` at most 0.7 x the wall of
`trace-cmd report`; rows, beside the report's own time, at most 2 x that of copying their bytes by read and write.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from bench_report import BASE, EXITS, RECOMPRESS, Bounds, alternate, figure, make  # pylint: disable=wrong-import-position

BUSY = 3
MOST_BUSY, MOST_WAIT, MOST_SPREAD = 0.05, 0.01, 0.05
PINNED = ", pinned"


def busy_share(seconds=2):
    """How much of all CPUs' time something ran meanwhile."""
    def times():
        with open("/proc/stat", encoding="ascii") as stat:
            fields = [int(word) for word in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]  # idle, and idle with a disk at work
    all_before, idle_before = times()
    time.sleep(seconds)
    all_after, idle_after = times()
    return 1 - (idle_after - idle_before) / (all_after - all_before)


def too_busy(medians):
    """Why the machine was too busy; "" if it was not."""
    for what, run in medians.items():
        if what.endswith(PINNED) and run.waited > MOST_WAIT * run.cpu:
            return f"{what} waited for its CPU for {run.waited / run.cpu:.1%} of its CPU time"
        if what.startswith("report") and what.endswith(PINNED) and run.spread > MOST_SPREAD:
            return f"the walls of {what} differ by {run.spread:.0%}"
    return ""


def end_as_busy(why):
    print(f"the machine is too busy to tell: {why}")
    sys.exit(BUSY)


def made(folder, events):
    """The recordings by name."""
    def path(name):
        return folder / f"{name}.dat"
    make("make_recording.py", BASE, path("mix"), events)
    make("make_recording.py", EXITS, path("exits"), events)
    make("make_recording.py", BASE, path("zstd"), events, "--zstd")
    make("make_recording.py", BASE, path("tenth"), events // 10)
    make("make_recording.py", EXITS, path("200 KiB"), 5000)
    for name, vms in (("64 CPUs", "1"), ("1,000 VMs", "1000")):
        make("make_scaled.py", BASE, folder / name, events // 10, "--vms", vms)
    # By processes of their own: what this one needed would count as its children's.
    subprocess.run([sys.executable, RECOMPRESS, "zlib", path("zstd"), path("zlib")], check=True, capture_output=True)
    with open(folder / "text", "wb") as out:
        subprocess.run(["trace-cmd", "report", path("tenth")], check=True, stdout=out, stderr=subprocess.DEVNULL)
    return {name: found for name in ("mix", "exits", "zstd", "zlib", "200 KiB", "64 CPUs", "1,000 VMs", "text")
            for found in (path(name), folder / name) if found.exists()}


def commands_of(options, folder, files):
    for name, path in files.items():
        yield f"report, {name}", [options.trapline, "report", path]
    for name in ("mix", "exits"):
        yield f"libtracecmd loop, {name}", [options.loop, files[name]]
    yield "timeline", [options.trapline, "timeline", folder / "tenth.dat"]
    yield "trace-cmd report", ["trace-cmd", "report", folder / "tenth.dat"]
    for form in ("jsonl", "csv"):
        rows = folder / f"rows.{form}"
        yield f"rows, {form}", [options.trapline, "export", "--rows", "exits", "--format", form, "--force", "-o", rows,
                                files["mix"]]
        yield f"copy of {form}", ["dd", f"if={rows}", f"of={rows}.copy", "bs=64K", "status=none"]


def tell(medians, files):
    """Prints the ratios and whether they are within the bounds. Returns the number of those that are not."""
    bounds = Bounds()
    for name in files:
        both, pinned = medians[f"report, {name}"], medians[f"report, {name}{PINNED}"]
        figure(f"wall, {name}, all CPUs", both.wall, "s", both.wall / pinned.wall, "pinned")
        figure(f"CPU time, {name}, all CPUs", both.cpu, "s", both.cpu / pinned.cpu, "pinned")
        bounds.check(f"{name}: wall of all CPUs over pinned", both.wall / pinned.wall, 1.02)
        bounds.check(f"{name}: CPU time of all CPUs over pinned", both.cpu / pinned.cpu, 1.15)
    for pin in ("", PINNED):
        for name, loop in (("mix", "mix"), ("exits", "exits"), ("zstd", "mix"), ("zlib", "mix")):
            wall = medians[f"report, {name}{pin}"].wall
            figure(f"wall, {name}{pin}", wall, "s", wall / medians[f"libtracecmd loop, {loop}{pin}"].wall, "libtracecmd loop")
        lines, peer = medians[f"timeline{pin}"].wall, medians[f"trace-cmd report{pin}"].wall
        figure(f"timeline{pin}", lines, "s", lines / peer, "trace-cmd report")
        bounds.check(f"timeline{pin} over trace-cmd report", lines / peer, 0.7)
        for form in ("jsonl", "csv"):
            rows = medians[f"rows, {form}{pin}"].cpu - medians[f"report, mix{pin}"].cpu
            copy = medians[f"copy of {form}{pin}"].cpu
            figure(f"CPU time of rows, {form}{pin}", rows, "s", rows / copy, "copying")
            if form == "jsonl":
                bounds.check(f"CPU time of rows, {form}{pin}, over copying", rows / copy, 2)
    return bounds.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--loop", required=True, help="the program of tracecmd_loop.c")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="few events, once, however busy the machine is")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trapline-bench-") as name:
        folder = pathlib.Path(name)
        files = made(folder, 200_000 if options.quick else options.events)
        commands = {}
        for what, command in commands_of(options, folder, files):
            commands[what] = (command, False)
            commands[what + PINNED] = (["taskset", "-c", "0", *command], False)
        if not options.quick and (before := busy_share()) > MOST_BUSY:
            end_as_busy(f"other work takes {before:.0%} of the CPUs")
        medians = alternate(commands, 1 if options.quick else options.runs, None)
    print(f"{'':32}{'wall s':>9}{'CPU s':>9}{'waited':>9}{'spread':>9}")
    for what, run in medians.items():
        print(f"{what:32}{run.wall:9.3f}{run.cpu:9.3f}{run.waited / max(run.cpu, 1e-9):9.1%}{run.spread:9.1%}")
    if not options.quick and (why := too_busy(medians)):
        end_as_busy(why)
    failed = tell(medians, files)
    sys.exit(1 if failed and not options.quick else 0)


if __name__ == "__main__":
    main()
