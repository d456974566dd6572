#!/usr/bin/env python3
"""Claims of a recording without a kind of event, or of a part of it, are claims of the whole, or not known.

  claims.py TRAPLINE TEXT...    texts as tracefs or trace-cmd print them; those of truth.py where none is named

A claim is a time of a vCPU's waiting that one culprit is charged with. Without events of one kind, or in a part, each
culprit's time is at most that of the whole, of the same name or of a finer one: an IPI is also a wake-up by its sender, a
page one by who brought it, a disk's one by an interrupt, and while a handler runs the thread that it hit is the CPU's. What
is not known may grow.
"""
import collections
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import truth

EVENT = re.compile(r"\d\.\d+: (\w+): ")
STAMP = re.compile(r" (\d+)\.(\d{9}): ")
ONE = {"sched_wakeup": "sched_waking"}  # they tell of the same wake-up, one after the other
HANDLERS = ("softirq", "interrupt", "unknown interrupt")
PARTS_OF_TIME = 12
# What is left of a culprit where what told more of it is gone.
COARSER = [(r"^IPI from (vCPU \d+)(, VM ~?\d+)?$", r"\1\2"), (r"^page \(userfaultfd\) from ", ""), (r"^collapse of pages by ", ""),
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
    """ns by (table, culprit); nothing where the text is refused."""
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    run = subprocess.run([trapline, "report", path, "--waits", "--steal", "--top", "0", "--format", "json", *window],
                         capture_output=True, check=False)
    if run.returncode:
        return None
    tables = json.loads(run.stdout)["tables"]
    sums = collections.Counter()
    for part in ("preempted", "blocked", "halted"):
        # Without what tells a halt from another sleep it is one.
        for row in tables[part]["rows"]:
            sums["slept" if part != "preempted" else part, row["culprit"]] += row["ns"]
    for vcpu in tables["steal"]["rows"]:
        for row in vcpu["by"]["rows"]:
            sums["ready", row["culprit"]] += row["ns"]
    return sums


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
            wrong += [f"{name} without {kind}: {line}" for line in more_than(whole, less)]
    chance = random.Random(name)
    for _ in range(PARTS_OF_TIME):
        begin, end = sorted(chance.sample(range(min(stamps), max(stamps)), 2))
        window = [f"--{key}={at // 10**9}.{at % 10**9:09d}" for key, at in (("from", begin), ("to", end))]
        less = claims(trapline, text, folder, *window)
        if less is not None:
            tried += 1
            wrong += [f"{name} {' '.join(window)}: {line}" for line in more_than(whole, less)]
    return tried, wrong


def main():
    trapline, *files = sys.argv[1:]
    texts = {Path(file).name: Path(file).read_text(encoding="utf-8") for file in files} or truth.texts()
    tried, wrong = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            some, found = check(trapline, name, text, Path(folder))
            tried, wrong = tried + some, wrong + found
    print("\n".join([*wrong, f"{len(texts)} texts, {tried} times without a kind of event or in a part: {len(wrong)} claims that the whole does not have"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
