#!/usr/bin/env python3
"""The states of every vCPU add up to its time, and every output says the same of them.

  states.py TRAPLINE PATH...   recordings, and every recording (*.dat) below the folders that are there

Of each recording: the states sum to the vCPU's time, the parts of each row to its total, the rows by device and by
reason to the same; text, CSV, page and `top --batch` have the figures of the JSON. A recording that cannot be opened
is named.
"""
import csv
import io
import json
import pathlib
import re
import subprocess
import sys


PARTS = ("kernel", "user", "preempted", "blocked", "halted")
MOST_POLLED = 1_000_000
STATES = ("guest", *PARTS, "paused", "offline", "not_seen")


def known(ns):
    """null is what the recording cannot tell; sums take it as nothing."""
    return ns or 0


def percent(share):
    """As the text prints it: nothing but 0 reads as 0."""
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


def top_differences(report, frames):
    """(what, top's figure, the report's) of each vCPU's states that do not sum to the report's over top's intervals."""
    vcpus = report["tables"]["vcpus"]["rows"]
    # Of an exit that turns out to have no entry, the time was told of before it became not seen.
    cut = report["tables"]["counters"]["entry_without_exit"] > len(vcpus)
    for vcpu in vcpus:
        of = [one for frame in frames for one in frame["tables"]["vcpus"]["rows"] if one["tid"] == vcpu["tid"]]
        # Polls are known when they end: what an interval told as kernel time is halted then. A vCPU is known
        # when it first enters the guest, and that its machine was switched off when its thread ends.
        ended = known(vcpu["offline_ns"]) if vcpu["end_ns"] < report["head"]["interval"]["end_ns"] else 0
        for state in STATES[:-1]:
            mine, wanted = sum(known(one[f"{state}_ns"]) for one in of), known(vcpu[f"{state}_ns"])
            if state == "offline" and mine <= wanted or 0 <= mine - wanted <= MOST_POLLED + ended:
                continue
            if not cut or mine < wanted:
                yield f"{state} of thread {vcpu['tid']}", mine, wanted


class Recording:
    def __init__(self, trapline, path):
        self.trapline, self.path, self.wrong = trapline, str(path), []

    def run(self, command, *options):
        done = subprocess.run([self.trapline, command, self.path, *options], capture_output=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.decode().strip().split("\n")[-1])
        return done.stdout.decode()

    def expect(self, what, got, want):
        if got != want:
            self.wrong.append(f"{what}: {got}, the JSON has {want}")

    def check(self):
        report = json.loads(self.run("report", "--format", "json"))
        self.expect("version", report["version"], 3)
        head, tables = report["head"], report["tables"]
        begin, end = head["interval"]["start_ns"], head["interval"]["end_ns"]
        for vcpu in tables["vcpus"]["rows"]:
            name = f"thread {vcpu['tid']}"
            self.expect(f"{name}: sum of the states", sum(known(vcpu[f"{state}_ns"]) for state in STATES), vcpu["time_ns"])
            self.expect(f"{name}: its time", vcpu["end_ns"] - vcpu["start_ns"], vcpu["time_ns"])
            self.expect(f"{name}: within the recording", begin <= vcpu["start_ns"] <= vcpu["end_ns"] <= end, True)
            self.check_overhead(name, vcpu)
        self.rows(tables)
        self.text(head, tables, self.run("report"))
        self.csv(tables, csv.DictReader(io.StringIO(self.run("report", "--format", "csv"))))
        if head["user_end"] != "none":
            self.page(tables, json.loads(self.run("report", "--format", "page-data"))["recordings"][0]["tables"])
        frames = [json.loads(line) for line in self.run("top", "--batch", "--interval", "1s").splitlines()]
        for what, mine, wanted in top_differences(report, frames) if head["time_unit"] == "ns" else ():
            self.expect(f"top: {what}", mine, wanted)
        return self.wrong

    def check_overhead(self, name, vcpu):
        if vcpu["overhead"] is None:
            return
        of = vcpu["overhead"]
        self.expect(f"{name}: guest time in the overhead", of["guest_ns"], vcpu["guest_ns"])
        states = sum(known(vcpu[f"{state}_ns"]) for state in ("kernel", "user", "blocked"))
        self.expect(f"{name}: no more exit cost than exits", of["exit_ns"] <= states, True)
        self.expect(f"{name}: all but the open exit", states - of["exit_ns"] <= (vcpu["open"] or {"ns": 0})["ns"], True)

    def rows(self, tables):
        sums = None
        for by in ("reason", "device", "vcpu", "reason,device"):
            rows = json.loads(self.run("report", "--format", "json", "--by", by))["tables"]["groups"]["rows"]
            for row in rows:
                self.expect(f"--by {by}: {row['key']}: sum of the parts", sum(known(row[f"{part}_ns"]) for part in PARTS),
                            known(row["total_ns"]))
            mine = {part: sum(known(row[f"{part}_ns"]) for row in rows) for part in (*PARTS, "total")}
            self.expect(f"--by {by}: sums of the rows", mine, sums or mine)
            sums = mine
            if "reason" not in by:
                halted = [row["key"] for row in rows if row["halted_ns"] or row["halts"]]
                self.expect(f"--by {by}: rows with halted time", set(halted) <= {"[halted]"}, True)
        for part in PARTS:
            self.expect(f"{part} of the exits is no more than of the vCPUs",
                        sums[part] <= sum(known(vcpu[f"{part}_ns"]) for vcpu in tables["vcpus"]["rows"]), True)

    def text(self, head, tables, text):
        if head["user_end"] == "none":
            return
        lines = text.split("\n")
        at = next((i for i, line in enumerate(lines) if line.startswith("Of all the vCPU's time")), None)
        if at is None:
            self.expect("a table of vCPUs", tables["vcpus"]["rows"], [])
            return
        names = re.split(r"  +", lines[at].strip())
        names = ["kernel" if name == "kernel or QEMU" else name for name in names[names.index("time") + 1:]]
        table = {}
        # A name that is too long for its column stands on a line of its own.
        for line in re.sub(r"(\(tid \d+\))\n", r"\1", "\n".join(lines[at + 1:])).split("\n"):
            tid = re.search(r"\(tid (\d+)\)", line)
            if not tid:
                break
            table[int(tid[1])] = dict(zip(names, line[tid.end():].split()[-len(names):], strict=True))
        for vcpu in tables["vcpus"]["rows"]:
            for state in STATES:
                ns = vcpu[state + "_ns"]
                share = "-" if ns is None else percent(ns / max(1, vcpu["time_ns"]))
                shown = table.get(vcpu["tid"], {}).get(state.replace("_", " "))
                if shown is not None or vcpu[f"{state}_ns"] and vcpu["tid"] in table:
                    self.expect(f"text: {state} of thread {vcpu['tid']}", shown, share)
        of = head["overhead"]
        said = re.search(r"(?:exits cost|a CPU(?: after a sleep)?, took) (?:at (?:least|most) )?(<?[0-9.]+%).*; (?:for (?:at least )?(<?[0-9.]+%) the vCPUs? waited for a CPU"
                         r"|.*the vCPUs? (never) had to wait|(whether) the vCPUs? had to wait)", text)
        if of and of["share"] is not None:
            not_run = of["not_run_share"]
            self.expect("text: the share of exits", said and said.groups(),
                        (percent(of["share"]), percent(not_run) if not_run else None,
                         "never" if not_run == 0 else None, "whether" if not_run is None else None))

    def csv(self, tables, rows):
        keys = ("count", "cut", "open", "total_ns", *(f"{part}_ns" for part in PARTS), "p50_ns", "max_ns", "max_at_ns")
        self.expect("csv", [[row["key"], *(int(row[key]) if row[key] else None for key in keys)] for row in rows],
                    [[row["key"], *(row[key] for key in keys)] for row in tables["groups"]["rows"]])

    def page(self, tables, page):
        for mine, vcpu in zip(page["vcpus"]["rows"], tables["vcpus"]["rows"], strict=True):
            for state in STATES:
                self.expect(f"page: {state} of thread {vcpu['tid']}", sum(mine["shares"][state]), known(vcpu[f"{state}_ns"]))


def main():
    trapline, *paths = sys.argv[1:]
    files = sorted(file for path in map(pathlib.Path, paths) for file in ([path] if path.is_file() else path.rglob("*.dat")))
    checked = wrong = 0
    for path in files:
        try:
            lines = Recording(trapline, path).check()
        except OSError as error:
            print(f"{path}: left out: {error}")
            continue
        checked += 1
        for line in lines:
            print(f"{path}: {line}")
            wrong += 1
    print(f"{checked} of {len(files)} recordings, {wrong} differences")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
