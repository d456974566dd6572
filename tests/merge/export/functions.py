#!/usr/bin/env python3
"""functions.py TRAPLINE - RECORDING...: the rows of guest functions have as many calls of each function as uftrace
counts, and each row's stack is that of a row around it, with the function added."""
import bisect
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tables  # noqa: E402


def calls_by_uftrace(folder):
    done = subprocess.run(["uftrace", "report", "--no-pager", "-f", "call", "-d", folder], capture_output=True,
                          text=True, check=True)
    lines = (re.fullmatch(r" *(\d+)  (.+)", line) for line in done.stdout.splitlines())
    return {match[2]: int(match[1]) for match in lines if match}


def without_a_caller(rows):
    """Rows whose caller, by their stack, is in no row of the same task that lasts as long."""
    around = collections.defaultdict(list)
    for row in rows:
        around[row["tid"], row["task"], row["stack"]].append((row["start_ns"], row["start_ns"] + row["total_ns"]))
    for calls in around.values():
        calls.sort()
    lost = []
    for row in rows:
        caller = row["stack"].rpartition(";")[0]
        calls = around.get((row["tid"], row["task"], caller), [])
        at = bisect.bisect_right(calls, (row["start_ns"], float("inf"))) - 1
        if caller and (at < 0 or calls[at][1] < row["start_ns"] + row["total_ns"]):
            lost.append(row)
    return lost


def check(trapline, recording):
    rows = tables.rows(trapline, recording, "functions")
    folder = pathlib.Path(recording) / "uftrace.data"
    wanted = calls_by_uftrace(folder if folder.is_dir() else recording)
    found = collections.Counter(row["name"] for row in rows)
    # Of the scheduler's events, which have a row too, uftrace's report counts others.
    problems = [f"{name}: {found[name]} rows, uftrace has {wanted.get(name)} calls"
                for name in sorted({*found, *wanted}) if found[name] != wanted.get(name) and name[:6] != "linux:"]
    problems += [f"its stack does not end with it: {row}" for row in rows if row["stack"].split(";")[-1] != row["name"]]
    problems += [f"no row around it has the rest of its stack: {row}" for row in without_a_caller(rows)]
    nested = sum(";" in row["stack"] for row in rows)
    print(f"{recording}: {len(rows)} calls of {len(found)} functions, {nested} with a caller")
    for problem in problems[:20]:
        print(f"{recording}: {problem}")
    return not problems and bool(rows)


trapline, _, *recordings = sys.argv[1:]
results = [check(trapline, recording) for recording in recordings]
print(f"{len(results)} recordings, {results.count(False)} with differences")
sys.exit(0 if results and all(results) else 1)
