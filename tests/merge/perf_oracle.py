#!/usr/bin/env python3
"""A perf.data as perf itself reads it, and as trapline does.

  perf_oracle.py TRAPLINE FILE…

Of each FILE:
- `perf report -D`: the number of samples, and the time of each to the nanosecond, in order
- `perf script`: the number of each event, samples of code among them; it leaves out samples whose registers are the guest's
  (its cpumode), which are counted apart
- `perf kvm stat report`: count, minimum, maximum and sum of each exit reason, where no event was lost
"""
import collections
import csv
import os
import re
import shutil
import subprocess
import sys

DUMPED = re.compile(r"^(?:\d+ )?(\d+) 0x[0-9a-f]+(?:@\S+)? \[0x[0-9a-f]+\]: PERF_RECORD_SAMPLE\(IP, (0x[0-9a-f]+)\)")
GUEST_MODES = (4, 5)  # PERF_RECORD_MISC_GUEST_KERNEL, _USER
US = 1000
CODE = "cpu-clock:k"  # the event whose samples are of code


def run(*command, status=(0,)):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode not in status:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def ns(text):
    seconds, _, rest = text.partition(".")
    return int(seconds) * 10**9 + int(rest.ljust(9, "0"))


class File:
    def __init__(self, trapline, path):
        self.trapline, self.path, self.faults = trapline, path, []

    def expect(self, what, perf, ours):
        if perf != ours:
            self.faults.append(f"{self.path}: {what}: perf {perf}, trapline {ours}")

    def our_counts(self):
        counts, reading = {}, False
        for line in run(self.trapline, "info", self.path).splitlines():
            words = line.split()
            if words[:2] == ["event", "count"]:
                reading = True
            elif reading and len(words) == 2:
                counts[words[0]] = int(words[1].replace(",", ""))
        return counts

    def events(self):
        dumped = [DUMPED.match(line) for line in run("perf", "report", "-D", "-i", self.path).splitlines()]
        dumped = [(int(match[1]), int(match[2], 16) & 7) for match in dumped if match]
        times = [ns(line.split()[0]) for line in run(self.trapline, "timeline", self.path).splitlines()
                 if re.match(r"\d+\.\d{9} ", line) and not re.search(r" (fork|lost)( |$)", line)]
        self.expect("times", sorted(time for time, _ in dumped), times)
        ours = self.our_counts()
        self.expect("samples", len(dumped), sum(ours.values()))
        script = collections.Counter("sample" if name == CODE else name for name in re.findall(
            r"\d+\.\d{9}: +([\w-]+:\w+):", run("perf", "script", "--ns", "-F", "time,event", "-i", self.path)))
        in_guest = sum(mode in GUEST_MODES for _, mode in dumped)
        self.expect("events that perf script prints", len(dumped) - in_guest, sum(script.values()))
        for name in sorted(set(script) | set(ours)):
            if not 0 <= ours.get(name, 0) - script[name] <= in_guest:
                self.expect(name, script[name], ours.get(name, 0))
        return f"{len(dumped)} events, {in_guest} of them not in perf script"

    def exits(self):
        if "kvm:kvm_exit" not in self.our_counts():
            return "no exits"
        if "lost         nothing" not in run(self.trapline, "info", self.path):
            return "events were lost"
        rows = list(csv.DictReader(run(self.trapline, "report", self.path, "--format", "csv").splitlines()))
        ours = {row["key"]: row for row in rows if row["key"] != "all exits"}
        done = subprocess.run(["perf", "kvm", "-i", self.path, "stat", "report"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if "No trace sample to read" in done.stdout:
            return "perf kvm stat report does not read what came from a pipe"
        text = done.stdout
        theirs = re.findall(r"^ +(\S.*?) +(\d+) +[\d.]+% +[\d.]+% +([\d.]+)us +([\d.]+)us +([\d.]+)us ", text, re.M)
        self.expect("exit reasons", sorted(row[0] for row in theirs), sorted(ours))
        for reason, count, least, most, mean in theirs:
            row = ours.get(reason)
            if row is None:
                continue
            self.expect(f"{reason}: count", int(count), int(row["count"]) - int(row["cut"]) - int(row["open"]))
            for name, value in (("min_ns", least), ("max_ns", most), ("mean_ns", mean)):
                if abs(float(value) * US - int(row[name])) > 0.01 * US:  # what it prints
                    self.expect(f"{reason}: {name}", value, row[name])
        return f"{sum(int(row[1]) for row in theirs)} exits as perf kvm stat report has them"


def main():
    trapline, *paths = sys.argv[1:]
    if shutil.which("perf") is None:
        print("SKIP: perf is missing; install linux-perf")
        return 1 if os.environ.get("TRAPLINE_REQUIRE_SYSTEM") == "1" else 77
    faults = []
    for path in paths:
        file = File(trapline, path)
        print(f"{path}: {file.events()}; {file.exits()}")
        faults += file.faults
    for fault in faults:
        print(fault[:2000])
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
