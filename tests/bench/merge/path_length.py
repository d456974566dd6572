#!/usr/bin/env python3
"""How many functions of ours a report passes: from the command line to the opening of its recording, and from there
back to the first byte of its output. Counts the frames of gdb's backtraces, inlined ones included, at File::open() and
at the first write to standard output; a lambda counts as the function that it stands in.

usage: path_length.py TRAPLINE RECORDING
"""
import re
import subprocess
import sys
import tempfile

SCRIPT = """
set pagination off
set print frame-arguments none
break trapline::File::open
break write if $rdi == 1
run
bt
delete 1
continue
bt
kill
"""


def functions(trace):
    """Those of our source files, from the outermost in; a lambda is part of the function around it."""
    found = []
    for line in reversed(trace):
        frame = re.match(r"#\d+\s+(?:0x[0-9a-f]+ in )?(.*) \(.*\) at \S*/((?:merge|backend_ftrace)/\S+:\d+)", line)
        if frame and not frame[1].startswith("operator()") and "std::function" not in frame[1]:
            found.append((re.sub(r"\(.*", "", frame[1]), frame[2]))
    return found


def main():
    trapline, recording = sys.argv[1:]
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write(SCRIPT)
        script.flush()
        done = subprocess.run(["gdb", "-q", "-batch", "-x", script.name, "--args", trapline, "report", recording],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    traces = []
    for line in done.stdout.split("\n"):
        if line.startswith("#0"):
            traces.append([])
        if line.startswith("#"):
            traces[-1].append(line)
    if len(traces) != 2:
        sys.exit(f"path_length.py: {len(traces)} backtraces, not two: gdb, or symbols in the build, are missing")
    for what, trace in zip(("to the opening", "to the output"), traces):
        passed = functions(trace)
        print(f"{what}: {len(passed)} functions")
        for name, place in passed:
            print(f"  {name} {place}")


main()
