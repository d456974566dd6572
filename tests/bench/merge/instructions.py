#!/usr/bin/env python3
"""Instructions of the commands that read a recording, by callgrind: the same on a busy machine.

  instructions.py --trapline PATH [--events 1100000] [--loop PATH] [--check]

Prints each command's instructions an event and over those of `report --by reason`. --loop adds the libtracecmd loop.
The page has the tables of three commands (report, its requests, stalls): last comes the page over their sum, with what
they have in common counted once. --check runs only the commands of MOST, and fails if one takes more.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from figures import figure  # pylint: disable=wrong-import-position

DATA = HERE.parents[1] / "data"
# x report. What they add to it an event is what it was at 1.15 and 1.3, before report took a fifth less; and report alone
# takes a shorter way than with any table.
MOST = {"report": 1, "report --host-cpu": 1.27, "report --faults": 1.44}
MIX, EXITS = DATA / "svm-linux-2vcpu.dat", DATA / "box" / "demo-v6.dat"


def counted(command):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode or not found:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-500:]}")
    return int(found[1])


def made(maker, base, path, *options):
    """The number of its events."""
    done = subprocess.run([sys.executable, HERE / maker, base, path, *map(str, options)], check=True, capture_output=True,
                          text=True)
    return int(done.stdout.split(": ")[1].split()[0])


def commands_of(trapline, loop, mix, exits):
    report = [trapline, "report", "--by", "reason"]
    null = ["--force", "-o", os.devnull]
    yield "report", [*report, mix], mix
    yield "report, exits alone", [*report, exits], exits
    for option in ("--irq", "--halt", "--waits", "--host-cpu", "--faults"):
        yield f"report {option}", [*report, option, mix], mix
    yield "report --by span", [trapline, "report", "--by", "span", mix], mix
    yield "stalls", [trapline, "stalls", mix], mix
    yield "timeline", [trapline, "timeline", mix], mix
    yield "report, the page's tables", [*report, "--irq", "--halt", "--guest", "--waits", mix], mix
    yield "page", [*report, "--irq", "--halt", "--guest", "--waits", "--format", "html", *null, mix], mix
    for form in ("perfetto", "jsonl", "folded"):
        yield f"export {form}", [trapline, "export", mix, "--format", form, *null], mix
    if loop:
        yield "libtracecmd loop", [loop, mix], mix


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--loop", help="the program of tracecmd_loop.c")
    parser.add_argument("--events", type=int, default=1_100_000)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check and not shutil.which("valgrind"):
        print("skipped: there is no valgrind")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="trapline-bench-") as name:
        mix, exits = pathlib.Path(name, "mix.dat"), pathlib.Path(name, "exits.dat")
        events = {path: made("make_recording.py", base, path, "--events", options.events)
                  for path, base in ((mix, MIX), (exits, EXITS))}
        report, of = None, {}
        for what, command, path in commands_of(options.trapline, options.loop, mix, exits):
            if options.check and what not in MOST:
                continue
            of[what] = each = counted(command) / events[path]
            report = report or each
            print(f"{what:28}{each:9.1f} instructions an event{each / report:7.2f} x report")
            figure(what, each, "instructions an event", each / report, "report --by reason")
        if options.check:
            sys.exit(any(of[what] > most * report for what, most in MOST.items()))
        same_tables = (of["report, the page's tables"] + of["report --by span"] - report +
                       of["stalls"] - of["report --waits"])
        print(f"page: {of['page'] / same_tables:.2f} x the text of the same tables")
        figure("page, same tables", of["page"], "instructions an event", of["page"] / same_tables, "text of the same tables")


if __name__ == "__main__":
    main()
