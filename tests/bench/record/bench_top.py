#!/usr/bin/env python3
"""What trapline top costs while it watches.

usage: bench_top.py TRAPLINE LOAD [--rate EVENTS-PER-SECOND] [--seconds S] [--recording FILE]

FILE should have millions of events: of a small one opening it is most of the time.
TRAPLINE is build/release/merge/trapline, LOAD bench_record_load of the build. Needs root. An instance of
this script's own records the system calls of LOAD; top reads it. That is the price of the pages: such
events are counted and not decoded. What KVM's and the scheduler's events cost beside that is the CPU time
of top on a recording of them, divided by its events. Prints the share of one CPU of both at the rate, the
largest resident set and the losses.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from figures import figure  # pylint: disable=wrong-import-position

INSTANCES = Path("/sys/kernel/tracing/instances")
parser = argparse.ArgumentParser()
parser.add_argument("trapline")
parser.add_argument("load")
parser.add_argument("--rate", type=float, default=100_000)
parser.add_argument("--seconds", type=float, default=10)
parser.add_argument("--recording", default="tests/data/box/linux-irq.dat")
options = parser.parse_args()


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def live() -> tuple[float, int, int, int]:
    instance = INSTANCES / f"trapline-bench-top-{os.getpid()}"
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text("8192")
        load = subprocess.Popen([options.load, str(options.rate / 2), str(options.seconds)], stdout=subprocess.PIPE)
        (instance / "set_event_pid").write_text(str(load.pid))
        (instance / "events/raw_syscalls/enable").write_text("1")
        top = subprocess.Popen([options.trapline, "top", "--batch", "--instance", instance.name],
                               stdout=subprocess.PIPE, text=True)
        time.sleep(options.seconds - 1)
        status = Path(f"/proc/{top.pid}/status").read_text()
        rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        top.terminate()
        before = used()
        lines = [json.loads(line) for line in top.communicate()[0].splitlines()]
        cpu = used() - before
        load.communicate()
        return cpu, rss, sum(line["head"]["events"] for line in lines), sum(line["head"]["losses"]["events"] for line in lines)
    finally:
        (instance / "events/raw_syscalls/enable").write_text("0")
        instance.rmdir()


cpu, rss, events, lost = live()
print(f"live: {events} events, {cpu:.2f} CPU s of top: {cpu / events * 1e9:.0f} ns an event, "
      f"{100 * cpu / events * options.rate:.1f} % of a CPU at {options.rate:.0f}/s; {rss / 1024:.1f} MiB; {lost} lost")
figure("top, live", cpu / events * 1e9, "ns an event")
rounds, before = 10, used()
for _ in range(rounds):  # what opening costs: all but the first millisecond is left unread
    subprocess.run([options.trapline, "top", "--batch", "--interval", "1ms", "--count", "1", options.recording],
                   stdout=subprocess.DEVNULL, check=True)
opening, before = used() - before, used()
for _ in range(rounds):
    text = subprocess.run([options.trapline, "top", "--batch", options.recording], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
read = rounds * sum(json.loads(line)["head"]["events"] for line in text.splitlines())
cpu = used() - before - opening
print(f"{options.recording}: {read} events, {cpu:.2f} CPU s beside {opening:.2f} for opening it: {cpu / read * 1e9:.0f} ns an event, "
      f"{100 * cpu / read * options.rate:.1f} % of a CPU at {options.rate:.0f}/s")
figure("top, of a recording", cpu / read * 1e9, "ns an event")
