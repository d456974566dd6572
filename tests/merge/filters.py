#!/usr/bin/env python3
"""Filters against rows: `report --KIND NAME` has the count and the total of the row NAME of `--by KIND`.

  filters.py TRAPLINE DATA [RECORDING...]    RECORDING: of DATA, instead of all

Of each recording, for the first name of each kind: the rows' sums, the first table's row, what is said of
the filter, and the same of export (rows), explain (its exit is the row's longest), timeline (as many exits), diff
with itself, and top. A name that no exit has is a usage error of each that lists those that there are.
"""
import json
import pathlib
import re
import subprocess
import sys


import tables

KINDS = ["reason", "device", "detail", "function", "vm", "vcpu"]
FIRST = 1  # names of each kind
MOST = 3000  # exits that are written one by one
TRAPLINE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
MISSING = "no such name"


def run(*words):
    return subprocess.run([TRAPLINE, *map(str, words)], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin"})


def report(*words):
    done = run("report", *words, "--format", "json")
    assert done.returncode in (0, 3), (words, done.stderr)
    return json.loads(done.stdout)


def is_row(row):
    return row["key"] not in ("[other]", "[halted]")


def sums(rows):
    return [(row["count"], row["total_ns"]) for row in rows]


def check_said(words, what):
    text = " ".join(run("report", *words).stdout.split())
    assert f"Only {what} with {words[1]} " in text, (words, text)


def check_vcpus(recording, kind, rows):
    """Halts are a row of their own there, of the vCPUs that are asked for."""
    for value in list(dict.fromkeys(re.sub(r".*vCPU ", "", row["key"]) for row in rows))[:FIRST]:
        words = [recording, f"--{kind}", value]
        wanted = [row for row in rows if kind == "vm" or row["key"].endswith(f"vCPU {value}")]
        if kind == "vm":
            wanted = [row for row in rows if row["key"] == value]
        found = [row for row in report(*words, "--by", kind)["tables"]["groups"]["rows"] if is_row(row)]
        assert sorted(sums(found)) == sorted(sums(wanted)), (words, found, wanted)
        check_said(words, "the vCPUs")
        yield value


def check_exits(recording, kind, row):
    words = [recording, f"--{kind}", row["key"]]
    filtered = report(*words, "--by", kind)
    rows, count = filtered["tables"]["groups"]["rows"], tables.ended(row)
    assert sums(rows) == sums([row]), (words, rows, row)
    assert filtered["head"]["filter"] == {kind: row["key"]}, words
    check_said(words, "exits")
    if count > MOST:
        return
    exported = run("export", *words, "--format", "jsonl", "--allow-empty", "-o", "-").stdout.splitlines()
    assert len(exported) == count, (words, len(exported), row)
    lines = run("timeline", *words).stdout.splitlines()
    entries = [line for line in lines if re.search(r"  entry after ", line)]
    assert not entries or len(entries) == count, (words, len(entries), row)
    frames = [json.loads(line) for line in run("top", *words, "--batch", "--interval", "10s").stdout.splitlines()]
    assert sum(one["count"] for frame in frames for one in frame["tables"]["groups"]["rows"]) == count, (words, row)
    if row["total_ns"]:
        explained, = json.loads(run("explain", *words, "--format", "json").stdout)["tables"]["exit"]["rows"]
        assert explained["total_ns"] == row["max_ns"], (words, explained, row)


def check_missing(recording, kind):
    value = "99" if kind == "vcpu" else MISSING
    for command in (["report"], ["timeline"], ["explain"], ["diff", recording], ["top", "--batch"],
                    ["export", "--format", "csv", "-o", "-"]):
        done = run(*command, recording, f"--{kind}", value)
        assert done.returncode == 2, (command, recording, kind, done)
        assert done.stderr.startswith(f"trapline: --{kind} {value}: "), (command, done.stderr)
        assert re.search(r"; (there (is|are) |the recording tells no |no function of )", done.stderr), done.stderr
        assert done.stdout == "", (command, recording, kind)


def main():
    recordings = [DATA / name for name in sys.argv[3:]]
    if not recordings:
        recordings = sorted(path for path in DATA.rglob("*.dat") if run("report", path).returncode in (0, 3))
        recordings += sorted(path.parent for path in DATA.rglob("info") if run("report", path.parent).returncode == 0)
    checked = 0
    for recording in recordings:
        for kind in KINDS:
            groups = report(recording, "--by", kind)["tables"]["groups"]
            if groups["of"] != "exits":
                continue
            rows = [row for row in groups["rows"] if is_row(row)]
            if kind in ("vm", "vcpu"):
                checked += len(list(check_vcpus(recording, kind, rows)))
                continue
            for row in rows[:FIRST]:
                check_exits(recording, kind, row)
                checked += 1
    for kind in KINDS:
        check_missing(DATA / "svm-mono.dat", kind)
    near = run("report", DATA / "svm-mono.dat", "--device", "debugcon").stderr
    assert re.search(r"; there are isa-debugcon, ", near), near
    print(f"{len(recordings)} recordings, {checked} rows")
    assert checked > 4 * len(recordings)


main()
