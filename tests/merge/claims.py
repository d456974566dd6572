#!/usr/bin/env python3
"""Claims of a recording without a kind of event, or of a part of it, are claims of the whole, or not known.

  claims.py TRAPLINE TEXT...    texts as tracefs or trace-cmd print them; those of truth.py, and of recordings, where none
                                is named

A claim is a time of a vCPU's waiting that one culprit is charged with. Without events of one kind, or in a part, each
culprit's time is at most that of the whole, of the same name or of a finer one: an IPI is also a wake-up by its sender, a
page one by who brought it, a disk's one by an interrupt, and while a handler runs the thread that it hit is the CPU's. What
is not known may grow. Without events of one kind each vCPU's time in a state is at most that of the whole in this state, and
in those that only these events tell from it (JOINED); in a part it is at most that of the whole.

Parts that follow each other have, in sum, each vCPU's states of the whole, and who ran while it was ready. A stall that a
part's end cuts has no cause that the whole stall has not, and a page fault after a begin has the cause that it has in the whole.
"""
import collections
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tables
import truth

EVENT = re.compile(r"\d\.\d+: (\w+): ")
STAMP = re.compile(r" (\d+)\.(\d{9}): ")
ONE = {"sched_wakeup": "sched_waking"}  # they tell of the same wake-up, one after the other
HANDLERS = ("softirq", "interrupt", "unknown interrupt")
PARTS_OF_TIME = 12
HERE = Path(__file__).resolve().parent
RECORDINGS = ("../data/vmx/linux-2vcpu", "../data/vmx/demo-2cpus", "../data/svm-2vcpu-lost", "../data/arm64/kvm-arm64-mono", "planted/disk",
              "planted/lock", "planted/stop", "planted/hog")
TEXTS = ("vmx/linux-2vcpu", "svm-mono", "arm64/kvm-arm64-mono")
FAULTS = ("planted/pages-copied", "planted/pages-zapped")
CUTS = 6
STATES = ("guest", "kernel", "user", "preempted", "blocked", "halted", "paused", "offline")
OFF_CPU = {"preempted", "blocked", "halted", "paused", "offline", "not_seen"}
# Without the event, the states whose time the other ones may have. not_seen: until the first sched_switch; an exit that no
# kvm_entry ends is open; a vCPU has run in QEMU before its first entry.
JOINED = {
    "sched_switch": {"guest": OFF_CPU, "kernel": OFF_CPU, "user": OFF_CPU, "halted": {*OFF_CPU, "kernel"}},
    "sched_waking": {"blocked": {"preempted"}, "halted": {"preempted"}, "paused": {"preempted"}},
    "sched_process_exit": {"user": {"offline", "not_seen"}, "kernel": {"offline"}, "halted": {"offline", "not_seen"}},
    "kvm_userspace_exit": {"kernel": {"user"}, "offline": {"not_seen"}},
    "sys_enter_ioctl": {"user": {"kernel"}},
    "kvm_fpu": {"user": {"kernel"}},
    "kvm_get_timer_map": {"user": {"kernel"}},
    "kvm_vcpu_wakeup": {"kernel": {"halted"}, "blocked": {"halted"}, "offline": {"not_seen"}},
    "kvm_entry": {"kernel": {"guest", "user", "not_seen"}, "blocked": {"guest", "halted"}},
    "kvm_exit": {"user": {"guest", "kernel"}, "blocked": {"halted"}, "preempted": {"not_seen"}, "offline": {"not_seen"}},
}
# What is left of a culprit where what told more of it is gone.
COARSER = [(r"^IPI from (vCPU \d+)(, VM ~?\d+)?", r"\1\2"), (r"^page \(userfaultfd\) from ", ""), (r"^collapse of pages by ", ""),
           (r"^lock, held by ", "futex of "), (r"^futex of ", ""), (r"^disk$", "interrupt"), (r"^interrupt \d+$", "interrupt"),
           (r", which waited for .*$", ""), (r" \(in \w+\)", ""), (r"^not allowed to run: CPU quota$", "not allowed to run"),
           (r"^not allowed to run$", "idle"), (r"^idle \(why is not recorded\)$", "idle"), (r"^softirq \w+$", "interrupt")]


def names(culprit):
    """The culprit's, and those that it may have with less known."""
    found = [culprit]
    for name in found:
        for pattern, to in COARSER:
            if (shorter := re.sub(pattern, to, name)) not in found:
                found.append(shorter)
    return found


def claims(trapline, text, folder, *window):
    """ns by (table, culprit), and by thread and state; nothing where the text is refused."""
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    status, report, _ = tables.asked(trapline, "report", path, "--waits", "--steal", "--top", "0", *window)
    if status:
        return None
    found = report["tables"]
    sums = collections.Counter()
    for part in ("preempted", "blocked", "halted"):
        # Without what tells a halt from another sleep it is one.
        for row in found[part]["rows"]:
            sums["slept" if part != "preempted" else part, row["culprit"]] += row["ns"]
    for vcpu in found["steal"]["rows"]:
        for row in vcpu["by"]["rows"]:
            sums["ready", row["culprit"]] += row["ns"]
    states = {}  # of the threads that had an id, one after the other, together: without task_newtask they are one
    for vcpu in found["vcpus"]["rows"]:
        of = states.setdefault(vcpu["tid"], dict.fromkeys((*STATES, "not_seen"), 0))
        for state in of:
            of[state] += vcpu[f"{state}_ns"] or 0
    for vcpu in found["vcpus"]["rows"]:
        states[vcpu["tid"]]["not_seen"] += report["head"]["interval"]["end_ns"] - vcpu["end_ns"]  # after the thread's end
    return sums, states


def more_in_states(whole, less, joined):
    """Times in states of `less` that `whole` does not have."""
    for tid, times_of in less.items():
        for state in STATES:
            most = sum(whole.get(tid, {}).get(one, 0) for one in {state, *joined.get(state, ())})
            if times_of[state] > most:
                yield f"thread {tid}: {state}: {times_of[state]} ns, of the whole {most}"


def more_than(whole, less):
    """Claims of `less` that `whole` does not have."""
    room = collections.Counter()
    for (table, culprit), ns in whole.items():
        for name in names(culprit):
            room[table, name] += ns
    in_handlers = sum(ns for (table, culprit), ns in whole.items() if table == "ready" and culprit.startswith(HANDLERS))
    for (table, culprit), ns in less.items():
        if culprit.startswith("unknown"):
            continue
        # Of exits that did not end only the time of the thread is told.
        most = room[table, culprit] if table != "preempted" else max(room[table, culprit], room["ready", culprit])
        if table != "slept" and not culprit.startswith(HANDLERS):
            most += in_handlers
        if ns > most:
            yield f"{table}: {culprit}: {ns} ns, of the whole {most}"


def in_json(trapline, command, path, *options):
    _, found, _ = tables.asked(trapline, command, path, "--top", "0", *options)
    return found and found["tables"]


def times(found, vcpus):
    """ns by vCPU and state, and by vCPU and culprit of its time ready to run; another vCPU may be known as a thread alone."""
    sums = collections.Counter()
    for vcpu in found["vcpus"]["rows"]:
        for key, value in vcpu.items():
            if key.endswith("_ns") and key not in ("start_ns", "end_ns", "time_ns") and value:
                sums[vcpu["tid"], key] += value
    for vcpu in found["steal"]["rows"]:
        for row in vcpu["by"]["rows"]:
            sums[vcpu["tid"], row["tid"] if row["tid"] in vcpus else row["culprit"]] += row["ns"]
    return sums


def causes(stall):
    return {(cause["cause"], cause["culprit"]) for cause in stall["causes"]["rows"]}


def tid_of(culprit):
    return int(found[1]) if culprit and (found := re.search(r"\(tid (\d+)\)", culprit)) else None


def faults_of_part(trapline, path):
    """Page faults after a begin in the middle that have another cause than in the whole."""
    causes_of = []
    begin = None
    for _ in ("whole", "part"):
        rows = tables.rows(trapline, path, "faults", *tables.window(begin))
        causes_of.append({(row["start_ns"], row["tid"]): row["cause"] for row in rows})
        begin = rows[len(rows) // 2]["start_ns"] - 1
    whole, part = causes_of
    return [f"{path.name}: a fault: {fault}: {cause}, of the whole {whole[fault]}" for fault, cause in part.items() if whole[fault] != cause]


def in_parts(trapline, name, path, begin, end):
    """What the parts between random cuts have more or less than the whole, and stalls that their ends cut."""
    wrong, chance, sums = [], random.Random(name), collections.Counter()
    whole = in_json(trapline, "report", path, "--steal")
    cuts = sorted(chance.sample(range(begin, end), CUTS)) if whole else []
    vcpus = {vcpu["tid"] for vcpu in whole["vcpus"]["rows"]} if whole else set()
    for since, until in zip([None, *cuts], [*cuts, None] if cuts else []):
        part = in_json(trapline, "report", path, "--steal", *tables.window(since, until))
        sums.update(times(part, vcpus) if part else {})
    whole = times(whole, vcpus) if cuts else {}
    for key in sorted(sums | whole, key=str):
        # Before a thread's first event of KVM, a part does not know that it will run a vCPU.
        if sums[key] > whole[key] or (sums[key] < whole[key] and key[1] not in ("offline_ns", "not_seen_ns")):
            wrong.append(f"{name} in {CUTS + 1} parts: {key}: {sums[key]} ns, of the whole {whole[key]}")
    stalls = in_json(trapline, "stalls", path, "--min", "4ms")
    stalls = [stall for stall in stalls["stalls"]["rows"] if stall["tid"] in vcpus] if stalls else []
    for stall in chance.sample(stalls, min(CUTS, len(stalls))):
        cut = stall["begin_ns"] + stall["ns"] * 2 // 3
        part = in_json(trapline, "stalls", path, "--min", "1ms", *tables.window(None, cut))
        same = [one for one in part["stalls"]["rows"] if (one["tid"], one["begin_ns"]) == (stall["tid"], stall["begin_ns"])]
        new = {cause for one in same for cause in causes(one)} - causes(stall)
        wrong += [f"{name} --to {cut}: a stall: {cause}" for cause in sorted(new, key=str) if tid_of(cause[1]) not in vcpus]
    return wrong


def check(trapline, name, text, folder):
    lines = text.split("\n")
    kind_of = {line: ONE.get(match[1], match[1]) for line in lines if (match := EVENT.search(line))}
    stamps = [int(second + ns) for second, ns in STAMP.findall(text)]
    whole = claims(trapline, text, folder)
    if whole is None:
        return 0, [f"{name}: is refused"]
    wrong, tried = [], 0
    for kind in sorted(set(kind_of.values())):
        less = claims(trapline, "\n".join(line for line in lines if kind_of.get(line) != kind), folder)
        if less is not None:
            tried += 1
            found = [*more_than(whole[0], less[0]), *more_in_states(whole[1], less[1], JOINED.get(kind, {}))]
            wrong += [f"{name} without {kind}: {line}" for line in found]
    chance = random.Random(name)
    for _ in range(PARTS_OF_TIME):
        begin, end = sorted(chance.sample(range(min(stamps), max(stamps)), 2))
        window = tables.window(begin, end)
        less = claims(trapline, text, folder, *window)
        if less is not None:
            tried += 1
            found = [*more_than(whole[0], less[0]), *more_in_states(whole[1], less[1], {})]
            wrong += [f"{name} {' '.join(window)}: {line}" for line in found]
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return tried, wrong + in_parts(trapline, name, folder / "text.txt", min(stamps), max(stamps))


def main():
    trapline, *files = sys.argv[1:]
    texts = {Path(file).name: Path(file).read_text(encoding="utf-8") for file in files}
    if not files:
        printed = ((name, subprocess.run(["trace-cmd", "report", "-t", HERE / f"../data/{name}.dat"], capture_output=True, check=True, text=True)) for name in TEXTS)
        texts = truth.texts() | {name: run.stdout for name, run in printed}
    tried, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            some, found = check(trapline, name, text, Path(folder))
            tried, wrong = tried + some, wrong + found
    for name in () if files else RECORDINGS:
        path = (HERE / name).with_suffix(".dat")
        interval = tables.document(trapline, "report", path)["head"]["interval"]
        wrong += in_parts(trapline, name, path, interval["start_ns"], interval["end_ns"])
    for name in () if files else FAULTS:
        wrong += faults_of_part(trapline, HERE / name)
    print("\n".join([*wrong, f"{len(texts)} texts, {tried} times without a kind of event or in a part: {len(wrong)} claims that the whole does not have"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
