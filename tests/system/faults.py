#!/usr/bin/env python3
"""Fails every n-th system call of what writes recordings, and counts what is left and what is told.

usage: faults.py BUILD-FOLDER [PART...] [--step K] [--seconds S] [--seed N] [--errors NAME,...]

PART: record (a recording of a command), finish (of a killed recorder's session, its pages where they are, and
copied), flight (a flight recorder that is asked for a snapshot), library (a program that writes into a
trace_marker and a simpletrace file), plugin (QEMU's calls on the plugin's files). Without one: all.
First the calls that can fail with ENOSPC, EIO, EINTR, EAGAIN or that can do less than was asked are counted
(fault.c has the list), then each fails in turn; with --step every K-th, with --seconds a sample, as many as fit.
After each fault:
- exit status 0 only where every event is in the session;
- the events that are readable, after --finish where it is needed, are those that were made, or it is told that
  some are missing; numbers that are told are exact;
- no instance is left, nothing crashed, nothing took 10 s longer than without a fault.
Needs root, tracefs with the kernel's system call events, for the plugin QEMU 10. Exit status 77: it cannot run (1 with
TRAPLINE_REQUIRE_SYSTEM=1).
"""
import argparse
import contextlib
import json
import os
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

ERRORS = ["ENOSPC", "EIO", "EINTR", "EAGAIN", "short"]
PARTS = ["record", "finish", "flight", "library", "plugin"]
TRACEFS = Path("/sys/kernel/tracing")
EVENT = "syscalls:sys_enter_sched_rr_get_interval"
MADE = 20_000
LONGEST = 10  # seconds more than without a fault
PATIENCE = 30  # seconds, for what a machine that stalls does late


class Skipped(Exception):
    pass


class Run:
    """A program with a fault: its exit status, what it said, what the fault was."""

    def __init__(self, setting, error: str, number: int, command: list, below: Path | None = None):
        self.report, self.longest = setting.work / "report", setting.longest
        self.report.unlink(missing_ok=True)
        where = ["--below", below] if below else []
        words = [setting.fault, error, number, self.report, *where, "--", *command]
        self.output = open(setting.work / "output", "w+")
        self.process = subprocess.Popen([*map(str, words)], stdout=self.output, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, start_new_session=True)

    def pid(self) -> int:
        while not self.report.exists() or not self.report.read_text().endswith("\n"):
            assert self.process.poll() is None, self.text()
            time.sleep(0.005)
        return int(self.report.read_text().split()[0])

    def text(self) -> str:
        return Path(self.output.name).read_text(errors="replace")

    def wait(self) -> "Run":
        try:
            self.status = self.process.wait(self.longest)
        except subprocess.TimeoutExpired:
            self.process.kill()  # what it follows ends with it
            self.process.wait()
            raise AssertionError(f"it did not end within {self.longest:.0f} s: {self.text()}") from None
        finally:
            self.output.close()
        lines = self.report.read_text().splitlines()
        self.made, self.calls, self.found = int(lines[0]), int(lines[1]), lines[2]
        assert self.status < 125, f"it ended with {self.status}: {self.text()}"
        return self


class Setting:
    def __init__(self, build: Path, work: Path):
        self.build, self.work = build, work
        self.trapline, self.fault = build / "merge/trapline", build / "tests/system/fault"
        self.writer = build / "tests/system/fault_writer"
        self.session = work / "run"
        self.longest = 60  # seconds, of a run: without a fault, on a busy machine

    def clean(self) -> None:
        for name in ("run", "run.old", "flight", "data", "file", "result"):
            path = self.work / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def call(self, *words) -> subprocess.CompletedProcess:
        return subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)

    def events(self, session: Path) -> tuple[int, str]:
        """How many of ours are readable; -1 and why when it cannot be read."""
        info = self.call(self.trapline, "info", session)
        if info.returncode != 0:
            return -1, info.stderr
        found = re.search(rf"^ *{EVENT} +([0-9,]+)", info.stdout, re.MULTILINE)
        return int(found[1].replace(",", "")) if found else 0, info.stdout


def facts_of(session: Path) -> dict:
    try:
        return json.loads((session / "session.json").read_text())
    except FileNotFoundError:
        return {}


def lost_in(facts: dict) -> bool:
    return any(loss[key] for loss in facts.get("losses", []) for key in ("overwritten", "dropped", "unwritten_pages", "unread"))


def no_instance(pid: int) -> None:
    until = time.monotonic() + PATIENCE
    while left := list((TRACEFS / "instances").glob(f"trapline-{pid}-*")):
        assert time.monotonic() < until, f"{left} is left"
        time.sleep(0.02)


def children_of(pid: int) -> list[tuple[int, str]]:
    """Each with its program's name."""
    found = [child for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
    return [(int(child), Path(f"/proc/{child}/comm").read_text().strip()) for child in found]


class Record:
    """trapline record with a command that makes MADE events."""

    variants = [""]

    def __init__(self, setting: Setting):
        self.set = setting

    def run(self, error: str, number: int, _: str) -> Run:
        self.set.clean()
        return Run(self.set, error, number, [
            self.set.trapline, "record", "-o", self.set.session, "--no-kvm", "--events", EVENT, "--",
            self.set.fault, "--calls", MADE]).wait()

    def check(self, run: Run, _: str) -> None:
        no_instance(run.made)
        facts, text = facts_of(self.set.session), run.text()
        if run.status != 0:
            assert text.strip(), f"exit status {run.status}, and nothing is said"
            if not self.set.session.exists():
                return  # nothing was recorded, and that is said
            if not facts.get("closed"):
                self.set.call(self.set.trapline, "record", "--finish", self.set.session)
        events, problem = self.set.events(self.set.session)
        told = lost_in(facts) or facts.get("ended_by") != "command" or not facts.get("closed")
        if run.status == 0:
            assert facts.get("closed") and not told, f"exit status 0, and {facts}"
        if events < 0:
            assert run.status != 0 and told, f"it cannot be read: {problem}"
        elif events != MADE:
            assert run.status != 0 and events < MADE and told, f"{events} of {MADE} events, and {text} {facts}"


class Finish:
    """trapline record --finish of a session whose recorder was killed."""

    variants = ["closed", "copied"]

    def __init__(self, setting: Setting):
        self.set = setting
        self.before = {}
        for variant in self.variants:
            setting.clean()
            # Too small for regions, so that the pages are copied.
            limit = ["prlimit", "--fsize=33554432"] if variant == "copied" else []
            recorder = subprocess.Popen([*map(str, [
                *limit, setting.trapline, "record", "-o", setting.session, "--no-kvm", "--events", EVENT, "--", "sh",
                "-c", f"{setting.fault} --calls {MADE}; exec sleep 100"])], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            until = time.monotonic() + PATIENCE
            while setting.events(setting.session)[0] != MADE and time.monotonic() < until:
                time.sleep(0.1)
            commands = [child for child in children_of(recorder.pid) if child[1] in ("sh", "sleep")]
            recorder.kill()
            recorder.wait()
            for pid, _ in commands:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            kept = setting.work / f"killed-{variant}"
            shutil.rmtree(kept, ignore_errors=True)
            setting.session.rename(kept)
            self.before[variant] = setting.events(kept)[0]
            assert self.before[variant] == MADE, self.before

    def run(self, error: str, number: int, variant: str) -> Run:
        self.set.clean()
        self.set.call("cp", "-r", "--sparse=always", self.set.work / f"killed-{variant}", self.set.session)
        return Run(self.set, error, number, [self.set.trapline, "record", "--finish", self.set.session]).wait()

    def check(self, run: Run, _: str) -> None:
        trace = self.set.session / "trace.dat"
        events, problem = self.set.events(self.set.session)
        assert events == MADE, f"{events} of {MADE} events: {problem} {run.text()}"
        if run.status == 0:
            assert trace.exists(), run.text()
        else:
            assert run.text().strip(), f"exit status {run.status}, and nothing is said"
        again = self.set.call(self.set.trapline, "record", "--finish", self.set.session)
        assert again.returncode == 0 and trace.exists(), again.stderr
        events, problem = self.set.events(self.set.session)
        assert events == MADE, f"finished: {events} of {MADE} events: {problem}"
        assert not (self.set.session / "raw").exists()


class Flight:
    """A flight recorder, a snapshot of it, its end."""

    variants = [""]

    def __init__(self, setting: Setting):
        self.set = setting
        self.folder = setting.work / "flight"

    def run(self, error: str, number: int, _: str) -> Run:
        self.set.clean()
        run = Run(self.set, error, number, [
            self.set.trapline, "record", "--flight", "60s", "-o", self.folder, "--no-kvm", "--events", EVENT])
        self.asked = None
        until = time.monotonic() + self.set.longest
        begun = ("writes nothing until asked", "snapshots: at most")  # the fault may be that of either line
        while not any(line in run.text() for line in begun) and run.process.poll() is None:
            assert time.monotonic() < until, f"it did not begin: {run.text()}"
            time.sleep(0.01)
        if run.process.poll() is None:
            self.set.call(self.set.fault, "--calls", MADE)
            self.asked = self.set.call(self.set.trapline, "snapshot", self.folder)
            try:
                os.kill(run.pid(), signal.SIGTERM)
            except ProcessLookupError:
                pass  # the fault ended it
        return run.wait()

    def check(self, run: Run, _: str) -> None:
        no_instance(run.made)
        text = run.text()
        made = [] if not self.folder.exists() else [path for path in self.folder.iterdir() if path.is_dir()]
        if run.status != 0:
            assert text.strip(), f"exit status {run.status}, and nothing is said"
        if self.asked is None or self.asked.returncode != 0:
            assert self.asked is None or self.asked.stderr.strip(), "no snapshot, and nothing is said"
            # Where the removal failed as well, what is there does not say that it is whole.
            assert not any(facts_of(path).get("closed") for path in made), f"{made}: {text}"
            return
        session = Path(self.asked.stdout.strip())
        facts = facts_of(session)
        events, problem = self.set.events(session)
        assert facts.get("closed"), f"{facts}: {text}"
        assert events == MADE or lost_in(facts), f"{events} of {MADE} events: {problem} {text}"


class Library:
    """A program with the library: a marker and a simpletrace file."""

    variants, made = [""], 3000  # in the file: more than its buffer takes at once

    def __init__(self, setting: Setting):
        self.set = setting
        self.instance = TRACEFS / f"instances/faults-{os.getpid()}"
        self.instance.mkdir()
        (self.instance / "buffer_size_kb").write_text("4096")

    def close(self) -> None:
        self.instance.rmdir()

    def run(self, error: str, number: int, _: str) -> Run:
        self.set.clean()
        (self.instance / "trace").write_text("")
        return Run(self.set, error, number, [
            self.set.writer, self.made, self.instance.name, self.set.work / "file", self.set.work / "result"]).wait()

    def check(self, run: Run, _: str) -> None:
        # What the program itself does with its result is not the library's.
        if "/result" in run.found or "(pipe:" in run.found:
            return
        assert run.status == 0, f"it stopped the program: {run.status} {run.text()}"
        told = json.loads((self.set.work / "result").read_text())
        assert told["told"], told
        marked = sum("fault_event" in line for line in (self.instance / "trace").open())
        if told["marker"]:
            assert told["taken"] == marked, f"{marked} events in the trace: {told}"
            assert told["taken"] + told["refused"] == self.made, told
        if told["file"]:
            events = simple_events(self.set.work / "file")
            assert events + told["dropped"] == self.made, f"{events} events in the file: {told}"


def simple_events(path: Path) -> int:
    """Whole event records of a simpletrace file, version 4."""
    data = path.read_bytes()
    at, events = 24, 0
    while at + 8 <= len(data):
        kind, = struct.unpack_from("<Q", data, at)
        if kind == 0:  # a name
            if at + 20 > len(data):
                break
            size = 20 + struct.unpack_from("<I", data, at + 16)[0]
        else:
            if at + 32 > len(data):
                break
            size = 8 + struct.unpack_from("<I", data, at + 24)[0]
            number, = struct.unpack_from("<Q", data, at + 8)
            events += number < 1 << 63 and at + size <= len(data)  # above: how many were dropped
        at += size
    return events


class Plugin:
    """The plugin's files in a QEMU whose guest makes the same calls in each run."""

    variants = [""]

    def __init__(self, setting: Setting):
        self.set = setting
        fetch = Path(__file__).resolve().parents[2] / "scripts/fetch"
        found = subprocess.run([fetch, "qemu10"], capture_output=True, text=True)
        if found.returncode != 0:
            raise Skipped("scripts/fetch qemu10 failed")
        self.qemu = Path(found.stdout.strip()) / "bin/qemu-system-x86_64"
        self.usual = None  # records; the guest's timer makes a few more or less

    def run(self, error: str, number: int, _: str) -> Run:
        self.set.clean()
        self.asked = (error, number)
        out = self.set.work / "data"
        return Run(self.set, error, number, [
            self.qemu, "-accel", "tcg", "-m", "64", "-display", "none", "-nodefaults", "-no-reboot", "-device",
            "isa-debug-exit,iobase=0x501", "-kernel", self.set.build / "tests/guest/plugin/x86_64-calls-O2.elf",
            "-plugin", f"{self.set.build}/plugin/libtrapline_plugin.so,out={out},max-depth=12,buffer=64K"],
            below=out).wait()

    def check(self, run: Run, variant: str) -> None:
        for left in (2, 1, 0):
            text, made = run.text(), self.made(run)
            if made is None:
                return  # it refused to begin
            if self.usual is None:
                assert run.found == "-" and ", 0 lost" in text, text
                self.usual = made
            if abs(made - self.usual) < 100 or left == 0:
                break
            # Where the machine stalls, the firmware waits in more turns: not three times.
            run = self.run(*self.asked, variant)
        assert abs(made - self.usual) < 100, f"{made} made, {self.usual} without a fault: {text}"
        read = self.set.call(self.set.trapline, "info", self.set.work / "data")
        assert self.records == 0 or read.returncode == 0 or "cannot" in text, f"{read.stderr} {text}"

    def made(self, run: Run) -> int | None:
        """The records in the files and those that are told to be lost; None where it refused to begin."""
        text = run.text()
        told = re.search(r"trapline plugin: (\d+) records, (\d+) lost", text)
        if told is None:
            assert "trapline plugin: " in text, f"nothing is said: {text}"
            return None
        assert run.status == 1, f"the guest's exit status is {run.status}: {text}"
        records, lost, kinds = 0, 0, Counter()
        for file in (self.set.work / "data").glob("[0-9]*.dat"):
            data = file.read_bytes()
            assert len(data) % 16 == 0, f"{file} ends within a record: {text}"
            for _, word in struct.iter_unpack("<QQ", data):
                kinds[word & 3] += 1
                lost += (word & 3 == 2) * (word >> 16)
            records += len(data) // 16
        assert records == int(told[1]), f"{records} records in the files: {text}"
        # What could not be written at the end has no record that tells it; the message does.
        assert lost <= int(told[2]), f"{lost} lost by the files: {text}"
        self.records = records
        return records - kinds[2] + int(told[2])


def numbers_of(part, options, chance: random.Random) -> list[tuple[str, str, int]]:
    cases, longest = [], 0.0
    for variant in part.variants:
        for error in options.errors:
            begun = time.monotonic()
            run = part.run(error, 0, variant)
            longest = max(longest, time.monotonic() - begun)
            part.check(run, variant)
            assert run.status in (0, 1), run.text()
            first = chance.randrange(options.step) + 1
            cases += [(variant, error, number) for number in range(first, run.calls + 1, options.step)]
    part.set.longest = LONGEST + longest
    if options.seconds:
        chance.shuffle(cases)
    return cases


def try_all(name: str, setting: Setting, options: argparse.Namespace) -> int:
    chance = random.Random(options.seed)
    part = {"record": Record, "finish": Finish, "flight": Flight, "library": Library, "plugin": Plugin}[name](setting)
    until = time.monotonic() + options.seconds if options.seconds else None
    counts, broken = Counter(), 0
    try:
        cases = numbers_of(part, options, chance)
        for done, (variant, error, number) in enumerate(cases):
            if until and time.monotonic() > until and done > 0:
                break
            try:
                run = part.run(error, number, variant)
                counts[f"{error}, exit status {run.status}"] += run.found != "-"
                counts["not reached"] += run.found == "-"
                what = run.found
                part.check(run, variant)
            except AssertionError as problem:
                broken += 1
                print(f"BROKEN {name} {variant} {error} {number}: {locals().get('what', '')}: {problem}", flush=True)
            what = ""
    finally:
        if hasattr(part, "close"):
            part.close()
    tried = sum(counts.values())
    print(f"{name}: {tried} of {len(cases)} faults (seed {options.seed}), {broken} broken; {dict(sorted(counts.items()))}",
          flush=True)
    return broken


def skip(why: object) -> None:
    print(f"skipped: {why}")
    sys.exit(1 if os.environ.get("TRAPLINE_REQUIRE_SYSTEM") == "1" else 77)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--errors", type=lambda text: text.split(","), default=ERRORS)
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    options = parser.parse_args()
    if not set(options.parts) <= set(PARTS):
        parser.error(f"PART: one of {', '.join(PARTS)}")
    if os.geteuid() != 0 or not (TRACEFS / "events" / EVENT.replace(":", "/")).exists():
        skip("needs root, and tracefs with the events of system calls")
    broken = 0
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        setting = Setting(options.build.resolve(), Path(name))
        try:
            for part in options.parts or PARTS:
                broken += try_all(part, setting, options)
        except Skipped as why:
            skip(why)
    sys.exit(broken > 0)


main()
