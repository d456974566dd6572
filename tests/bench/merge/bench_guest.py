#!/usr/bin/env python3
"""How fast `trapline report` reads the plugin's records of guest functions, beside uftrace report, in turns.

  bench_guest.py --trapline PATH --build build/release [--runs N]

The directory is the one that the plugin writes of the benchmark's guest, 22.8 million records. CPU time, medians.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from bench_report import alternate, figure  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    qemu = subprocess.run([ROOT / "scripts" / "fetch", "qemu10"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    guest = options.build.resolve() / "tests/guest/plugin/x86_64-calls-O2.elf"
    plugin = options.build.resolve() / "plugin/libtrapline_plugin.so"
    with tempfile.TemporaryDirectory(prefix="trapline-bench-") as name:
        subprocess.run([f"{qemu}/bin/qemu-system-x86_64", "-accel", "tcg", "-display", "none", "-nodefaults", "-serial", "null",
                        "-no-reboot", "-device", "isa-debug-exit,iobase=0x501", "-kernel", guest, "-plugin",
                        f"{plugin},symbols={guest}"], cwd=name, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        data = pathlib.Path(name, "uftrace.data")
        records = sum(file.stat().st_size for file in data.glob("*.dat")) // 16
        commands = {"trapline report": ([options.trapline, "report", data], False)}
        if shutil.which("uftrace"):
            commands["uftrace report"] = (["uftrace", "report", "--no-pager", "-d", data], False)
        medians = alternate(commands, options.runs, None)
    for what, run in medians.items():
        print(f"{what:20}{run.cpu:8.2f} s {run.cpu / records * 1e9:8.1f} ns a record {run.wall:8.2f} s wall "
              f"{run.rss / 1024:8.1f} MiB, {run.runs} runs")
    ours, theirs = (medians[name].cpu if name in medians else None for name in ("trapline report", "uftrace report"))
    figure("report, guest functions", ours / records * 1e9, "ns a record", ours / theirs if theirs else None,
           "uftrace report" if theirs else "-")


if __name__ == "__main__":
    main()
