#!/usr/bin/env python3
"""Kills recorders at random moments: each session they leave must be readable up to the last second.

usage: kills.py BUILD-FOLDER [--kills N] [--seed N] [--folder DIR]

Each recorder records a load, and is killed (SIGKILL) at a moment between its start and a while after the end
of its recording; then trapline info reads the session, trapline record --finish makes a trace.dat of it, and
info tells the same events. An earlier session of the name, which every second recorder finds, is still there.
Of what was recorded two seconds before the kill nothing is missing, and a second after it no instance of the
recorder records. A machine that stalls makes a recorder late: such a kill is a miss, is counted and done again; a
third miss of one kill, or more misses than a quarter of all kills, is a failure. Needs root and tracefs.
"""
import argparse
import json
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SPLIT = Path(__file__).with_name("split_trace_dat.py")
INSTANCES = Path("/sys/kernel/tracing/instances")
OLD_NS = 2_000_000_000


class Late(AssertionError):
    """Something was not done within its second: the recorder's fault, or a stall of the machine."""


def events_of(trapline: Path, session: Path) -> tuple[int, int, str]:
    done = subprocess.run([trapline, "info", session], capture_output=True, text=True)
    found = re.search(r"^  events +([0-9,]+)", done.stdout, re.MULTILINE)
    return done.returncode, int(found[1].replace(",", "")) if found else 0, done.stderr


def newest_page(trace: Path, work: Path) -> int:
    subprocess.run([sys.executable, SPLIT, trace, work / "pages"], check=True)
    newest = 0
    for file in work.glob("pages.cpu*"):
        pages = file.read_bytes()
        if pages:
            newest = max(newest, struct.unpack_from("<Q", pages, len(pages) - 4096)[0])
        file.unlink()
    return newest


def instances_of(pid: int) -> list[Path]:
    return list(INSTANCES.glob(f"trapline-{pid}-*"))


def recording_of(pid: int) -> list[Path]:
    found = []
    for instance in instances_of(pid):
        try:
            if (instance / "tracing_on").read_text().strip() != "0":
                found.append(instance)
        except OSError:
            pass  # it was removed
    return found


def one(options: argparse.Namespace, work: Path, chance: random.Random, counts: Counter) -> None:
    trapline, session = options.build / "merge/trapline", work / "run"
    for old in (session, work / "run.old", work / "run.new"):
        shutil.rmtree(old, ignore_errors=True)
    replaces = chance.random() < 0.5
    if replaces:
        shutil.copytree(work / "earlier", session)
    seconds = chance.choice([1, 1, 5])  # most kills at the start and the end
    load = subprocess.Popen([options.build / "tests/bench/record/bench_record_load", "10000", str(seconds)],
                            stdout=subprocess.DEVNULL)
    recorder = subprocess.Popen([trapline, "record", "-o", session, "--no-kvm", "--events", "raw_syscalls",
                                 "--pid", str(load.pid)], stderr=subprocess.DEVNULL)
    begun = time.monotonic_ns()
    time.sleep(chance.uniform(0, seconds + 0.7))
    killed = time.monotonic_ns()
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    deadline = time.monotonic() + 1
    while (left := recording_of(recorder.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        load.wait()
        raise Late(f"{left} records a second after its recorder's death")
    counts["with an instance left"] += bool(instances_of(recorder.pid))
    load.wait()
    if replaces:
        [earlier] = [name for name in ("run", "run.old") if (work / name / "which").exists()]
        assert events_of(trapline, work / earlier)[0] == 0, f"the earlier session, {earlier}, is damaged"
        if earlier == "run" or not session.exists():
            session = work / "run.new"
        counts["beside an earlier session" if earlier == "run" else "in place of an earlier one"] += 1
    closed = False
    if (session / "session.json").exists():
        closed = json.loads((session / "session.json").read_text())["closed"]
    status, events, problem = events_of(trapline, session)
    if closed:
        assert status == 0 and events > 0, problem
        counts["closed"] += 1
    elif not (session / "raw/trace.dat").exists() and not (session / "trace.dat").exists():
        counts["before anything was recorded"] += 1
    else:
        assert status == 0 or re.search("holds no events|nothing is recorded yet", problem), problem
        finish = subprocess.run([trapline, "record", "--finish", session], capture_output=True, text=True)
        if status == 0:
            assert finish.returncode == 0, finish.stderr
            status, after, problem = events_of(trapline, session)
            assert status == 0 and after == events, (events, after, problem)
            # The load goes on until the kill; a busy machine may start a recorder late.
            if killed - begun > OLD_NS + 500_000_000 and seconds > 1 and killed < begun + seconds * 1e9:
                newest = newest_page(session / "trace.dat", work)
                if newest <= killed - OLD_NS:
                    raise Late(f"the last page is {(killed - newest) / 1e9:.2f} s old")
                counts["of them with the time checked"] += 1
        counts["finished" if status == 0 else "nothing yet"] += 1


def one_of_three(options: argparse.Namespace, work: Path, chance: random.Random, counts: Counter) -> None:
    """The same kill again where something was late: a recorder that is at fault is late each time."""
    state = chance.getstate()
    for left in (2, 1, 0):
        try:
            return one(options, work, chance, counts)
        except Late as problem:
            if left == 0:
                raise
            print(f"again: {problem}", file=sys.stderr)
            counts["misses"] += 1
            chance.setstate(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where sessions are made (default: a temporary folder)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    chance, counts = random.Random(options.seed), Counter()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        earlier = Path(name) / "earlier"
        subprocess.run([options.build / "merge/trapline", "record", "-o", earlier, "--no-kvm", "--events", "raw_syscalls",
                        "--", "true"], check=True, capture_output=True)
        (earlier / "which").touch()
        for number in range(options.kills):
            try:
                one_of_three(options, Path(name), chance, counts)
            except AssertionError:
                print(f"kill {number} of seed {options.seed}:", file=sys.stderr)
                raise
        subprocess.run([options.build / "merge/trapline", "record", "-o", Path(name) / "last", "--no-kvm",
                        "--events", "raw_syscalls", "--", "true"], check=True, capture_output=True)
    most = -(-options.kills // 4)
    print(f"{options.kills} kills: {dict(counts)}; misses: {counts['misses']} of at most {most}")
    if counts["misses"] > most:
        sys.exit("too many of them were late")


main()
