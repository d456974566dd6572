#!/usr/bin/env python3
"""Cuts the power while trapline records and finishes, and reads what is on the disk.

usage: power_cut.py BUILD-FOLDER [--fs ext4|xfs|btrfs] [--seconds S] [--rate EVENTS-PER-SECOND] [--between N]
                    [--seed N] [--most N] [--cpus-apart]

The disk is QEMU's: qemu-storage-daemon's driver blklogwrites writes down each write and each flush, in
their order, and Linux mounts it through a loop device. Afterwards that log is replayed up to each flush
(with --most: up to N of them), and to N places between flushes, half of them without some of the
writes since the last flush (a disk may keep those in any order). Each time the file system is mounted
as after a power cut, and:
- every event that was older than 2 s at the cut is in the session, byte by byte as it was recorded. A busy machine gets
  as much longer as it kept the recorder waiting then and in the 2 s before: the time that its threads and the disk's
  were ready and had no CPU (/proc/PID/task/*/schedstat), and the time between stamps, which are written on the same
  disk every 20 ms, where it was more than 50 ms. On an idle machine that is some milliseconds; the longest is printed;
- trapline info reads it, trapline record --finish makes a trace.dat of it, trace-cmd can read that;
- session.json says "closed" only where trace.dat is the whole of it.
Needs root, loop devices, tracefs, mkfs of the file system and qemu-storage-daemon. Exit status 77: it cannot run.
"""
import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SECTOR = 512
DISK_MIB = 1024
STAMP_AT = (DISK_MIB << 20) - 4096  # beyond the file system
MAGIC = b"cut here"
FLUSH, FUA, DISCARD = 1, 2, 4
SPLIT = Path(__file__).with_name("split_trace_dat.py")
APART = "TRAPLINE_POWER_CUT_APART"
AGE_NS = 2_000_000_000
STAMPS_NS = 20_000_000
PROMPT_NS = 50_000_000  # from one stamp to the next on an idle machine, its write included


def call(*command: object, **more) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, **more)


def skip(why: str) -> None:
    print(f"skipped: {why}")
    sys.exit(77)


class Mounted:
    """A disk image, or what behaves like one, as a mounted folder."""

    def __init__(self, image: Path, folder: Path):
        self.image, self.folder = image, folder

    def __enter__(self) -> Path:
        self.loop = call("losetup", "-f", "--show", self.image).stdout.strip()
        try:
            call("mount", self.loop, self.folder)
        except BaseException:
            call("losetup", "-d", self.loop)
            raise
        return self.folder

    def __exit__(self, *_) -> None:
        call("umount", self.folder)
        call("losetup", "-d", self.loop)


class LoggedDisk:
    """A disk whose writes and flushes are written down."""

    def __init__(self, work: Path):
        self.path, self.log, self.data = work / "disk", work / "log", work / "data"
        for file, size in ((self.path, 0), (self.log, 0), (self.data, DISK_MIB << 20)):
            file.touch()
            os.truncate(file, size)
        self.daemon = subprocess.Popen([
            "qemu-storage-daemon", "--blockdev", f"file,node-name=data,filename={self.data}",
            "--blockdev", f"file,node-name=log,filename={self.log}",
            "--blockdev", f"blklogwrites,node-name=disk,file=data,log=log,log-sector-size={SECTOR}",
            "--export", f"fuse,id=export,node-name=disk,mountpoint={self.path},writable=on"])
        for _ in range(600):
            if self.path.stat().st_size != 0:
                return
            if self.daemon.poll() is not None:
                skip("qemu-storage-daemon cannot export a file through FUSE here")
            time.sleep(0.1)
        skip("qemu-storage-daemon does not export a file")

    def stamp(self, stop: threading.Event, recorder: subprocess.Popen) -> None:
        """The time, again and again, and how long the machine had kept the recorder waiting until then: each place in
        the log has an earliest time."""
        fd = os.open(self.path, os.O_WRONLY | os.O_SYNC)
        before, late, waited = time.monotonic_ns(), 0, {}
        while not stop.wait(STAMPS_NS / 1e9):
            for pid in recorder.pid, self.daemon.pid:
                for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                    try:
                        waited[task] = int(task.read_text().split()[1])
                    except OSError:
                        pass  # it has ended
            now = time.monotonic_ns()
            late += now - before if now - before > PROMPT_NS else 0
            before = now
            text = MAGIC + struct.pack("<QQ", now, late + sum(waited.values()))
            os.pwrite(fd, text.ljust(SECTOR, b"\0"), STAMP_AT)
        os.close(fd)

    def close(self) -> None:
        self.daemon.terminate()
        self.daemon.wait()


def entries(log: Path):
    """(offset, bytes, flags) of each entry; None for the bytes of a discard."""
    with log.open("rb") as file:
        magic, version, count, sector = struct.unpack("<QQQI", file.read(28))
        assert magic == 0x6A736677736872 and version == 1, (magic, version)
        at = sector
        for _ in range(count):
            file.seek(at)
            first, sectors, flags, _ = struct.unpack("<QQQQ", file.read(32))
            at += sector
            size = sectors * sector
            if flags & DISCARD:
                yield first * sector, None, flags, size
                continue
            file.seek(at)
            yield first * sector, file.read(size), flags, size
            at += size


def apply(fd: int, offset: int, data: bytes | None, size: int) -> None:
    os.pwrite(fd, bytes(size) if data is None else data, offset)


def pages_of(trace: Path, work: Path) -> dict[str, bytes]:
    prefix = work / "pages"
    for old in work.glob("pages.cpu*"):
        old.unlink()
    call(sys.executable, SPLIT, trace, prefix)
    return {file.name: file.read_bytes() for file in work.glob("pages.cpu*")}


class Checker:
    def __init__(self, trapline: Path, work: Path, whole: Path):
        self.trapline, self.work = trapline, work
        self.bytes = whole.read_bytes()
        self.pages = pages_of(whole, work)
        assert any(self.pages.values())
        self.first = min(self.time(pages, 0) for pages in self.pages.values() if pages)
        self.counts = {"closed": 0, "finished": 0, "nothing yet": 0, "of them with events older than granted": 0}

    @staticmethod
    def time(pages: bytes, at: int) -> int:
        return struct.unpack_from("<Q", pages, at)[0]

    def check(self, folder: Path, at: int, age: int, name: str) -> None:
        must_have = self.first < at - age
        name += f", {(at - self.first) / 1e9:.2f} s after the first event ({age / 1e9:.2f} s are granted)"
        session = folder / "run"
        facts = {}
        try:
            facts = json.loads((session / "session.json").read_text())
        except FileNotFoundError:
            assert not must_have, f"{name}: there is no session"
        if facts.get("closed"):
            assert (session / "trace.dat").read_bytes() == self.bytes, f"{name}: closed and not whole"
            self.counts["closed"] += 1
            return
        info = subprocess.run([self.trapline, "info", session], capture_output=True, text=True)
        if info.returncode != 0:
            assert not must_have, f"{name}: info: {info.stderr}"
            self.counts["nothing yet"] += 1
            return
        finish = subprocess.run([self.trapline, "record", "--finish", session], capture_output=True, text=True)
        assert finish.returncode == 0, f"{name}: {finish.stderr}"
        after = subprocess.run([self.trapline, "info", session], capture_output=True, text=True)
        events = [[line for line in text.splitlines() if "events  " in line] for text in (info.stdout, after.stdout)]
        assert events[0] == events[1], f"{name}: {events} before and after --finish"
        call("trace-cmd", "report", "-N", "--cpu", "0", session / "trace.dat")
        for cpu, found in pages_of(session / "trace.dat", self.work).items():
            whole = self.pages[cpu]
            assert whole.startswith(found), f"{name}: {cpu} is not what was recorded"
            if len(found) < len(whole):
                missing = self.time(whole, len(found))
                assert missing >= at - age, f"{name}: {cpu} lacks events of {(at - missing) / 1e9:.2f} s before"
        self.counts["finished"] += 1
        self.counts["of them with events older than granted"] += must_have


def record(options: argparse.Namespace, disk: LoggedDisk, folder: Path, whole: Path) -> None:
    load = subprocess.Popen([options.build / "tests/bench/record/bench_record_load", str(options.rate / 2),
                             str(options.seconds)], stdout=subprocess.DEVNULL)
    stop = threading.Event()
    recorder = subprocess.Popen([options.build / "merge/trapline", "record", "-o", folder / "run", "--no-kvm", "--events",
                                 "raw_syscalls", "--pid", str(load.pid)], stderr=subprocess.PIPE, text=True)
    stamps = threading.Thread(target=disk.stamp, args=(stop, recorder))
    stamps.start()
    try:
        # Other programs make system calls as well, and a full disk is another test's: half of it has to stay free.
        while recorder.poll() is None:
            free = os.statvfs(folder)
            if free.f_bavail * 2 < free.f_blocks:
                print("half of the disk is full: the recording ends early")
                recorder.terminate()
                break
            time.sleep(0.05)
        told = recorder.communicate()[1]
        assert recorder.returncode == 0, told
        os.sync()
    finally:
        stop.set()
        stamps.join()
        recorder.kill()
        load.wait()
    assert json.loads((folder / "run/session.json").read_text())["closed"]
    shutil.copy(folder / "run/trace.dat", whole)


def places(log: Path, options: argparse.Namespace) -> dict[int, str]:
    """The entries after which the power is cut, once the recording has begun: its number, how."""
    flushes, others, begun = [], [], False
    for number, (offset, data, flags, _) in enumerate(entries(log)):
        begun |= offset == STAMP_AT and data is not None and data.startswith(MAGIC)
        if begun:
            (flushes if flags & FLUSH else others).append(number)
    chance = random.Random(options.seed)
    print(f"{len(flushes)} flushes and {len(others)} other entries; seed {options.seed}")
    if options.most and len(flushes) > options.most:
        flushes = chance.sample(flushes, options.most)
    cuts = {number: "at a flush" for number in flushes}
    for number in chance.sample(others, min(options.between, len(others))):
        cuts[number] = chance.choice(["between flushes", "between flushes, some writes missing"])
    return cuts


def granted_age(stamps: list[tuple[int, int]]) -> int:
    """AGE_NS, and as long as the machine kept the recorder waiting from AGE_NS before the oldest event that may be
    missing then."""
    at, kept_now = stamps[-1]
    age, known = AGE_NS, 0
    while age != known:
        known = age
        age = AGE_NS + kept_now - next(kept for when, kept in stamps if when >= at - known - AGE_NS)
    return age


def replay(options: argparse.Namespace, work: Path, log: Path, checker: Checker) -> None:
    chance = random.Random(options.seed + 1)
    cuts = places(log, options)
    durable, cut = work / "durable", work / "cut"  # up to the last flush; what the cut leaves
    durable.touch()
    os.truncate(durable, DISK_MIB << 20)
    folder = work / "after"
    folder.mkdir()
    fd = os.open(durable, os.O_RDWR)
    since, at, longest = [], 0, 0  # writes since the last flush; the time; the most that was granted
    stamps = []  # (time, how long the machine had kept the recorder waiting)
    for number, (offset, data, flags, size) in enumerate(entries(log)):
        if offset == STAMP_AT and data is not None and data.startswith(MAGIC):
            stamps.append(struct.unpack_from("<QQ", data, len(MAGIC)))
            at = stamps[-1][0]
        elif size:
            since.append((offset, data, size))
        if flags & FLUSH:
            for write in since:
                apply(fd, *write)
            since = []
        how = cuts.get(number)
        if how is None:
            continue
        call("cp", "--sparse=always", durable, cut)
        image = os.open(cut, os.O_RDWR)
        for write in since:
            if "missing" not in how or chance.random() < 0.5:
                apply(image, *write)
        os.close(image)
        with Mounted(cut, folder) as mounted:
            age = granted_age(stamps)
            longest = max(longest, age - AGE_NS)
            checker.check(mounted, at, age, f"cut after entry {number}, {how}")
    os.close(fd)
    print(f"a busy machine was granted up to {longest / 1e9:.3f} s beside the {AGE_NS // 10**9} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--fs", default="ext4", choices=["ext4", "xfs", "btrfs"])
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rate", type=float, default=50_000)
    parser.add_argument("--between", type=int, default=10)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.build = options.build.resolve()
    # In a mount namespace of its own: a process that copies this one's would keep the disks mounted, and its kernel would
    # write to a disk while it is made anew.
    if os.geteuid() == 0 and os.environ.get(APART) is None:
        os.environ[APART] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists() or not Path("/dev/fuse").exists():
        skip("needs root, loop devices and FUSE")
    for program in ("qemu-storage-daemon", f"mkfs.{options.fs}", "trace-cmd"):
        if shutil.which(program) is None:
            skip(f"needs {program}")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        disk, whole = LoggedDisk(work), work / "whole.dat"
        try:
            size = (STAMP_AT - (1 << 20)) // 4096 * 4096
            loop = call("losetup", "-f", "--show", "--sizelimit", size, disk.path).stdout.strip()
            call(f"mkfs.{options.fs}", loop)
            call("losetup", "-d", loop)
            folder = work / "mounted"
            folder.mkdir()
            with Mounted(disk.path, folder):
                record(options, disk, folder, whole)
        finally:
            disk.close()
        checker = Checker(options.build / "merge/trapline", work, whole)
        replay(options, work, disk.log, checker)
        print(f"{len(checker.bytes) / 2**20:.1f} MiB recorded on {options.fs}; cuts: {checker.counts}")
        assert checker.counts["of them with events older than granted"] > 0, "the machine was too busy to show anything"


main()
