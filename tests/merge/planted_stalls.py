#!/usr/bin/env python3
"""Planted stalls are found, with their names; quiet recordings have none.

  planted_stalls.py TRAPLINE FOLDER NAME    NAME: uffd, stop, stop-vm, migrate, hog, lock, disk, quota; quiet: all quiet-*.dat

scripts/box/record-planted made the recordings. When each stall began and ended is taken from what the plant wrote down
itself, or from trace-cmd's text, as in planted_oracle.py: at least 95 % of that time is told as the stall's cause. The threshold of quiet
recordings was fixed before they were made.
"""
import json
import pathlib
import re
import subprocess
import sys

import oracle
import planted_oracle
from planted_oracle import cut, overlap

FOUND, MOST, QUIET = 0.95, 1.01, "50ms"
SIGSTOP, SIGCONT = 19, 18
STATE = re.compile(r"^runstate_set current_run_state \d+ \(([\w-]+)\) new_state \d+ \(([\w-]+)\)")
DOWNTIME_OFF_NS = 3_000_000  # QEMU counts it in milliseconds, from before its vCPUs stop


def stalls(trapline, path, least="1ms"):
    run = subprocess.run([trapline, "stalls", path, "--min", least, "--top", "0", "--format", "json"],
                         stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)["stalls"]


def told(rows, cause, culprit=""):
    """Nanoseconds of that cause in the vCPUs' stalls."""
    of = [row for row in rows if row["vcpus"] is None]
    return sum(one["ns"] for row in of for one in row["causes"]
               if one["cause"] == cause and culprit in (one["culprit"] or ""))


def by_signals(events):
    begun, spans = None, []
    for event in events:
        if event.name != "signal_generate":
            continue
        signal = oracle.number(event.fields, "sig")
        if signal == SIGSTOP:
            begun = event.at
        elif signal == SIGCONT and begun is not None:
            spans.append((begun, event.at))
            begun = None
    return spans


def by_states(events):
    """From when the VM was stopped for its migration; to when that was done, and to when it went on."""
    times = {}
    for event in events:
        match = STATE.match(event.fields.get("buf", "").partition(": ")[2] or event.fields.get("buf", ""))
        if event.name == "print" and match:
            times[match[1], match[2]] = event.at
    stopped = times["running", "finish-migrate"]
    return stopped, times["finish-migrate", "postmigrate"], times["postmigrate", "running"]


def share(what, found, planted, wrong, most=MOST):
    print(f"{what}: {found} of {planted} ns ({found / planted:.2%})")
    if not FOUND * planted <= found <= most * planted:
        wrong.append(f"{what}: {found} of {planted} ns")


def check_uffd(trapline, folder, wrong):
    """From the fault's message to the thread that serves it until that has its answer."""
    lines = (folder / "uffd.txt").read_text(encoding="utf-8").split("\n")
    spans = [tuple(int(word) for word in line.split()[1:]) for line in lines if line]
    # Before its first exit that is recorded nothing tells of the vCPU.
    events, _ = oracle.read(str(folder / "uffd.dat"))
    first = next(event.at for event in events if event.name == "kvm_exit")
    spans = [span for span in spans if span[0] >= first]
    rows = stalls(trapline, folder / "uffd.dat")
    share(f"{len(spans)} pages of plant-uffd", told(rows, "page", "plant-uffd"),
          sum(end - begin for begin, end in spans), wrong)


def check_stop(trapline, folder, wrong):
    spans = by_signals(oracle.read(str(folder / "stop.dat"))[0])
    rows = stalls(trapline, folder / "stop.dat")
    share(f"{len(spans)} SIGSTOPs", told(rows, "signal"), sum(end - begin for begin, end in spans), wrong)


def check_stop_vm(trapline, folder, wrong):
    """Both vCPUs of a VM: each stopped, and both at once."""
    spans = by_signals(oracle.read(str(folder / "stop-vm.dat"))[0])
    rows = [row for row in stalls(trapline, folder / "stop-vm.dat") if row["vcpus"] == row["vcpus_stopped"] == 2]
    share(f"{len(spans)} SIGSTOPs of a VM with 2 vCPUs", sum(one["ns"] for row in rows for one in row["causes"]
                                                           if one["cause"] == "signal"),
          sum(end - begin for begin, end in spans), wrong)


def check_migrate(trapline, folder, wrong):
    stopped, done, goes_on = by_states(oracle.read(str(folder / "migrate.dat"))[0])
    ms = int(re.search(r"(\d+) ms", (folder / "migrate.txt").read_text(encoding="utf-8"))[1])
    print(f"downtime: query-migrate {ms} ms, by runstate_set {(done - stopped) / 1e6:.1f} ms")
    if abs(done - stopped - ms * 1_000_000) > DOWNTIME_OFF_NS:
        wrong.append(f"downtime: {done - stopped} ns, query-migrate {ms} ms")
    rows = [row for row in stalls(trapline, folder / "migrate.dat")
            if row["begin_ns"] <= stopped + DOWNTIME_OFF_NS and row["begin_ns"] + row["ns"] >= goes_on]
    share("QEMU had stopped the VM", told(rows, "paused"), goes_on - stopped, wrong)


def slept_or_ready(recording, pieces, spans):
    """Nanoseconds of the planted spans in which the vCPU waited, in its exits."""
    vcpu = recording.vcpus[0]
    waits = cut(pieces[vcpu], recording.exits[vcpu])
    return sum(overlap(waits, begin, end) for begin, end in spans)


def check_hog(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "hog.dat"))
    planted = slept_or_ready(recording, recording.ready, recording.runs[recording.planted("plant-hog")])
    share("ready beside plant-hog", told(stalls(trapline, folder / "hog.dat"), "preempted", "plant-hog"), planted, wrong)


def check_lock(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "lock.dat"))
    with open(folder / "lock.txt", encoding="utf-8") as file:
        held = [tuple(int(ns) for ns in line.split()[1:]) for line in file]
    share("plant-lock held QEMU's lock", told(stalls(trapline, folder / "lock.dat"), "blocked", "plant-lock"),
          slept_or_ready(recording, recording.asleep, held), wrong)


def check_disk(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "disk.dat"))
    asleep = cut(recording.asleep[recording.vcpus[0]], recording.exits[recording.vcpus[0]])
    planted = sum(end - begin for begin, end in asleep if 2 * overlap(recording.disk, begin, end) > end - begin)
    share("pages from the slow disk", told(stalls(trapline, folder / "disk.dat"), "blocked", "disk"), planted, wrong)


def check_quota(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "quota/trace.dat"))
    idle = recording.runs[0]
    waits = [(begin, end) for begin, end in recording.ready[recording.vcpus[0]]
             if any(begin <= at < end for at, _ in idle)]
    first = recording.exits[recording.vcpus[0]][0][0]
    planted = sum(overlap(idle, begin, end) for begin, end in waits if begin >= first)
    share("the quota was used up", told(stalls(trapline, folder / "quota"), "preempted", "CPU quota"), planted, wrong,
          1 + planted_oracle.SHARE)


def check_quiet(trapline, folder, wrong):
    paths = sorted(folder.glob("quiet-*.dat"))
    for path in paths:
        wrong += [f"{path.name}: {row['finding']}" for row in stalls(trapline, path, QUIET)]
    print(f"{len(paths)} quiet recordings, {len(wrong)} stalls of {QUIET}")
    if len(paths) < 10:
        wrong.append(f"{len(paths)} recordings, not 10")


CHECKS = {"hog": check_hog, "lock": check_lock, "disk": check_disk, "quota": check_quota, "uffd": check_uffd, "stop": check_stop, "stop-vm": check_stop_vm, "migrate": check_migrate, "quiet": check_quiet}


def main():
    trapline, folder, name = sys.argv[1:]
    wrong = []
    CHECKS[name](trapline, pathlib.Path(folder), wrong)
    for line in wrong:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
