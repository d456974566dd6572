#!/usr/bin/env python3
"""sums.py TRAPLINE SPEEDSCOPE_FOLDER RECORDING...: the sums by reason of jsonl, csv and folded equal the report's, those
by who woke the vCPU too, and speedscope's own importer reads folded ("-": without it)."""
import collections
import contextlib
import csv
import io
import re
import pathlib
import subprocess
import sys
import tempfile

SUPPORT = pathlib.Path(__file__).resolve().parents[2] / "support"
sys.path[:0] = [str(SUPPORT), str(SUPPORT.with_name("merge"))]
import tables  # noqa: E402
from node_server import NodeServer  # noqa: E402

PARTS = ("kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")


def export(trapline, recording, *options):
    done = subprocess.run([trapline, "export", recording, "--allow-empty", "-o", "-", *options], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{recording}: export {options}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8")


def sums_of_rows(rows):
    sums = collections.defaultdict(lambda: [0] * (2 + len(PARTS)))
    for row in rows:
        for i, value in enumerate([1, row["total_ns"], *(row[part] for part in PARTS)]):
            sums[row["reason"]][i] += int(value or 0)
        assert int(row["total_ns"] or 0) == sum(int(row[part] or 0) for part in PARTS), row
    return dict(sums)


def sums_of_wakers(rows, vcpus):
    """Rows are written as they come: a thread without an exit so far is not yet named as the vCPU it is."""
    names = {vcpu["tid"]: f"vCPU {vcpu['vcpu']}" for vcpu in vcpus}
    sums = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        waker = "[halted]" if row["halt"] else row["woken_by"] if row["woken_by"] is not None else "-"
        thread = re.fullmatch(r".* \(tid (\d+)\)", waker)
        if thread and int(thread[1]) in names:
            waker = names[int(thread[1])]
        sums[waker][0] += 1
        sums[waker][1] += row["total_ns"] or 0
    return dict(sums)


def sums_of_nested(rows):
    sums = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        key = "[halted]" if row["halt"] else row["nested"]
        sums[key][0] += 1
        sums[key][1] += row["total_ns"] or 0
    return dict(sums)


def sums_of_folded(text, device_follows):
    sums = collections.Counter()
    for line in text.splitlines():
        stack, weight = line.rsplit(" ", 1)
        frames = stack.split(";")
        reasons = [frame for frame in frames[-2:] if frame in device_follows]
        sums[reasons[-1] if reasons else "?"] += int(weight)
    return dict(sums)


class Speedscope(NodeServer):
    """speedscope's importer, started once for many files."""

    def __init__(self, folder):
        super().__init__(SUPPORT / "speedscope.js", folder)

    def sums(self, text):
        with tempfile.TemporaryDirectory() as work:
            path = pathlib.Path(work) / "x.folded"
            path.write_text(text, encoding="utf-8")
            said = self.ask(path, "speedscope does not read folded stacks")
        sums = collections.Counter()
        for profile in said["profiles"]:
            for frame, weight in profile["weights"].items():
                sums[frame.split(" {")[0]] += weight
        return sums


def check(trapline, speedscope, recording):
    def counts(report):
        return {key: [row["count"], row["total_ns"] or 0] for key, row in tables.by_key(report).items()}

    wanted = {key: [row["count"], row["total_ns"] or 0, *(row[part] or 0 for part in PARTS)]
              for key, row in tables.by_key(tables.of(trapline, "report", recording)).items()}
    problems = []

    def expect(what, found, right):
        if found != right:
            problems.append(f"{recording}: {what}: {found}, the report has {right}")

    rows = tables.rows(trapline, recording)
    expect("jsonl", sums_of_rows(rows), wanted)
    by_waker = tables.of(trapline, "report", recording, "--by", "blocked-on")
    expect("jsonl, woken_by", sums_of_wakers(rows, by_waker["vcpus"]["rows"]), counts(by_waker))
    expect("jsonl, nested", sums_of_nested(rows), counts(tables.of(trapline, "report", recording, "--by", "nested")))
    expect("csv", sums_of_rows(csv.DictReader(io.StringIO(export(trapline, recording, "--format", "csv")))), wanted)
    for weight, column in (("time", 1), ("count", 0), ("user", 3)):
        folded = export(trapline, recording, "--format", "folded", "--weight", weight)
        expect(f"folded by {weight}", sums_of_folded(folded, wanted),
               {key: row[column] for key, row in wanted.items() if row[column]})
        if speedscope and weight == "time" and folded:
            found = speedscope.sums(folded)
            expect("folded in speedscope", {key: found[key] for key in wanted if key in found},
                   {key: row[1] for key, row in wanted.items() if row[1]})
    for problem in problems:
        print(problem[:2000])
    return not problems


def main():
    trapline, folder, *recordings = sys.argv[1:]
    with contextlib.nullcontext() if folder == "-" else Speedscope(folder) as speedscope:
        good = [check(trapline, speedscope, recording) for recording in recordings]
    print(f"{len(good)} recordings, {good.count(False)} with differences")
    return 0 if good and all(good) else 1


sys.exit(main())
