"""Checks the kernel functions that trapline reads in a uftrace directory against uftrace's own.

usage: kernel_calls.py TRAPLINE DIRECTORY

By `uftrace dump`: every entry and exit of a kernel function of the directory's tasks, with its time, name
and depth, is on the timeline, once, and in the same order; the user's functions are around them.
"""
import re
import subprocess
import sys

DUMP = re.compile(r"^ *(\d+\.\d{9}) +(\d+): \[(entry|exit )\] ([^\s(]+)\([0-9a-f]+\) depth: (\d+)")
SHOWN = re.compile(r"^(\d+\.\d{9})  (.{16})( *)(call|return from) (\S+?)\(")


def main() -> None:
    trapline, directory = sys.argv[1:]
    run = {"check": True, "capture_output": True, "text": True, "errors": "replace"}
    dump = subprocess.run(["uftrace", "dump", "--no-pager", "-d", directory], **run).stdout
    info = open(f"{directory}/info", encoding="utf-8", errors="replace").read()
    tasks = re.search(r"taskinfo:tids=([\d,]+)", info)[1].split(",")
    kernel, user = [], []
    records = None
    for line in dump.splitlines():
        if line.startswith("reading "):
            records = kernel if "kernel-cpu" in line else user if line[8].isdigit() else None
        match = DUMP.match(line)
        if match and records is not None and match[2] in tasks:
            records.append((match[1], match[3] == "entry", match[4], int(match[5])))
    shown = subprocess.run([trapline, "timeline", directory], **run).stdout
    lines = [match for match in map(SHOWN.match, shown.splitlines()) if match]
    calls = [(m[1], m[4] == "call", m[5], len(m[3]) // 2) for m in lines if m[5] != "linux:schedule"]
    user_times = {record[0] for record in user}
    depth = 0  # of the user's functions
    wrong, seen = 0, []
    for time, entry, name, at in calls:
        if time in user_times and (time, entry, name) in {u[:3] for u in user}:
            depth = at + entry
        else:
            seen.append((time, entry, name, at - depth))
    for ours, theirs in zip(seen, kernel):
        if ours != theirs:
            wrong += 1
            if wrong < 10:
                print(f"trapline {ours}, uftrace {theirs}")
    print(f"{len(kernel)} kernel records by uftrace, {len(seen)} by trapline, {wrong} differ; "
          f"{len(user)} of the user's, {len(calls) - len(seen)} by trapline")
    raise SystemExit(bool(wrong or len(seen) != len(kernel) or len(kernel) < 100
                          or len(user) != len(calls) - len(seen)))


main()
