#!/usr/bin/env python3
"""How `trapline report` scales with CPUs, vCPUs and VMs: instructions an event, by callgrind, and memory.

  scale.py --trapline PATH [--events N] [--by KEYS]

The recordings are of make_scaled.py. An event's instructions are those of twice N events over those of N: opening the
recording, whose share a longer one has less of, is told by itself.
"""
import argparse
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from instructions import MIX, counted, figure, made  # pylint: disable=wrong-import-position
from bench_report import measured  # pylint: disable=wrong-import-position

SHAPES = {"2 CPUs, a VM": (2, 1), "64 CPUs, a VM of 64 vCPUs": (64, 1), "64 CPUs, 1,000 VMs": (64, 1000)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--events", type=int, default=1_100_000)
    parser.add_argument("--by", default="reason")
    options = parser.parse_args()
    base = None
    with tempfile.TemporaryDirectory(prefix="trapline-bench-") as name:
        for shape, (cpus, vms) in SHAPES.items():
            read = []
            for times in (1, 2):
                session = pathlib.Path(name, f"{cpus}-{vms}-{times}")
                events = made("make_scaled.py", MIX, session, "--cpus", cpus, "--vms", vms, "--events", times * options.events)
                command = [options.trapline, "report", "--by", options.by, session]
                read.append((events, counted(command)))
            rss = measured(command).rss
            (few, of_few), (many, of_many) = read
            each = (of_many - of_few) / (many - few)
            base = base or (each, rss)
            print(f"{shape:28}{each:8.1f} instructions an event ({each / base[0]:.2f} x), {(of_few - few * each) / 1e6:.0f} million "
                  f"for opening it; {rss / 1024:.1f} MiB ({rss / base[1]:.2f} x)")
            figure(f"report, {shape}", each, "instructions an event", each / base[0], "2 CPUs")
            figure(f"resident, {shape}", rss / 1024, "MiB", rss / base[1], "2 CPUs")


if __name__ == "__main__":
    main()
