#!/usr/bin/env python3
"""damage_losses.py TRAPLINE DATA [--count N]: damaged recordings beside the same ones with losses in those places.

Pages of recordings of DATA are torn, zeroed, swapped, given other times and lengths; compressed blocks are torn.
The report has to be that of the recording without these pages, whose next page is marked: events were lost. The
pages are counted, `info` names them, and the status is 0, or 3 where more than 8 pages and 1 % are damaged. Then
sections, options and the parts of a session: whatever is missing is an error or told, never "nothing".
"""
import argparse
import copy
import json
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
sys.path.insert(0, str(Path(__file__).parent))
from cut_files import buffers_v7  # noqa: E402
from other_machine import PADDING, TIME_EXTEND, TIME_STAMP  # noqa: E402
from recompress import CHUNK_PAGES, Copy, recompressed  # noqa: E402
from trace_dat import TraceDat  # noqa: E402

PAGE, HEAD = 4096, 16
MISSED, STORED = 1 << 31, 1 << 30
NAMES = ("svm-mono.dat", "vmx/demo-2cpus.dat", "arm64/kvm-arm64-mono.dat", "svm-2vcpu-lost.dat")


def walk(page):
    """(first time, last time, events) of a page that can be walked to its end, else nothing."""
    time, commit = struct.unpack_from("<QQ", page)
    first, at, end, events = time, HEAD, HEAD + (commit & (1 << 27) - 1), 0
    if end > len(page) or end == HEAD or time == 0:
        return None
    while at + 4 <= end:
        head, = struct.unpack_from("<I", page, at)
        kind, delta = head & 31, head >> 5
        at += 4
        if 1 <= kind <= 28:
            size = 4 * kind
            events += 1
        elif at + 4 > end:
            return (first, time, events) if kind == PADDING and delta == 0 else None
        else:
            word, = struct.unpack_from("<I", page, at)
            size = 4
            if kind == PADDING and delta == 0:
                return first, time, events
            if kind == TIME_EXTEND:
                delta += word << 27
            elif kind == TIME_STAMP:
                time, delta = time >> 59 << 59 | (word << 27) + delta, 0
            elif word < 4 or word > end - at:
                return None
            else:
                size = min(word + 3 & ~3, end - at)
                events += kind == 0
        time, at = time + delta, at + size
    return (first, time, events) if at == end else None


class Recording:
    def __init__(self, path):
        self.name = Path(path).name
        self.plain = recompressed(path, "none")
        self.cpus = [(at, size // PAGE) for _, cpus in buffers_v7(self.plain) for _, at, size in cpus if size]

    def page(self, cpu, index, data=None):
        at = self.cpus[cpu][0] + index * PAGE
        return (data or self.plain)[at:at + PAGE]


class WithLosses(Copy):
    """The recording without the pages `lost`, {(offset of a CPU's data, index)}, and with marks at `marked`."""

    def __init__(self, data, lost, marked):
        super().__init__(data, "none")
        self.lost, self.marked = lost, marked

    def pages(self, at, size, compressed):
        kept = b""
        for index in range(size // PAGE):
            page = self.data[at + index * PAGE:at + (index + 1) * PAGE]
            if (at, index) in self.marked:
                commit, = struct.unpack_from("<Q", page, 8)
                page = page[:8] + struct.pack("<Q", commit & ~STORED | MISSED) + page[HEAD:]
            if (at, index) not in self.lost:
                kept += page
        return kept


class Case:
    """A damaged recording: its bytes, the lost and the marked pages of a CPU, and whether its end is lost."""

    def __init__(self, recording, cpu, lost, marked=()):
        self.recording, self.cpu, self.data = recording, cpu, bytearray(recording.plain)
        self.lost = set(lost)
        self.least = len(self.lost)
        last = recording.cpus[cpu][1]
        self.marked = set(marked) | {max(self.lost) + 1}
        self.at_end = last in self.marked
        self.marked.discard(last)

    def put(self, index, page):
        at = self.recording.cpus[self.cpu][0] + index * PAGE
        self.data[at:at + PAGE] = page

    def reference(self):
        at = self.recording.cpus[self.cpu][0]
        return WithLosses(self.recording.plain, {(at, index) for index in self.lost},
                          {(at, index) for index in self.marked}).write()


def fits(recording, cpu, index, page):
    """Whether a page could be what was recorded there."""
    here = walk(page)
    if not here:
        return False
    before = walk(recording.page(cpu, index - 1)) if index else (0, 0, 0)
    count = recording.cpus[cpu][1]
    after = walk(recording.page(cpu, index + 1))[0] if index + 1 < count else 1 << 64
    return before[1] <= here[0] and here[1] <= after


def one_page(recording, rng, kind):
    cpu = rng.randrange(len(recording.cpus))
    index = rng.randrange(recording.cpus[cpu][1])
    page = bytearray(recording.page(cpu, index))
    used = HEAD + (struct.unpack_from("<Q", page, 8)[0] & (1 << 27) - 1)
    if kind == "zeroed":
        page = bytes(PAGE)
    elif kind == "torn":  # sectors that were not written, or hold something else
        begin = rng.randrange(0, used, 512)
        size = rng.choice((512, 1024, 2048))
        other = rng.choice((bytes(size), rng.randbytes(size), recording.plain[-PAGE:][:size]))
        page[begin:begin + size] = other
        page = page[:PAGE]
    elif kind == "cut":
        page[rng.randrange(used):] = b""
        page = page.ljust(PAGE, b"\0")
    elif kind == "time":
        time = rng.choice((0, 1, struct.unpack_from("<Q", page)[0] // 2))
        struct.pack_into("<Q", page, 0, time)
    else:
        struct.pack_into("<Q", page, 8, rng.choice((0, PAGE, used - HEAD - 2, used - HEAD + 4, (1 << 27) - 1)))
    # Nothing is before the first two that tells which of them is in its place.
    case = Case(recording, cpu, [0, 1] if kind == "time" and index == 1 and time else [index])
    case.put(index, page)
    return None if fits(recording, cpu, index, bytes(page)) else case


def swapped(recording, rng):
    cpu = rng.randrange(len(recording.cpus))
    count = recording.cpus[cpu][1]
    one = rng.randrange(count - 1)
    other = min(one + rng.choice((1, 2, 3, 7, 50)), count - 1)
    distance = other - one
    if distance == 0:
        return None
    # Of two neighbours the first in the file is left out, as is what stands between two that are two apart:
    # which of them is in its place cannot be seen.
    lost = [other] if distance == 1 else [one + 1, other] if distance == 2 else [one, other]
    if one == 0:  # nothing is before them that tells which is in its place
        lost = {1: [0, 1], 2: [1, 2], 3: [0, 1, 2, 3]}.get(distance, [0, 1, other])
    marks = {1: [one], 2: [one]}.get(distance, [one + 1])
    marks = [mark if mark not in lost else mark + 1 for mark in marks]
    case = Case(recording, cpu, lost, marks)
    case.put(one, recording.page(cpu, other))
    case.put(other, recording.page(cpu, one))
    return case


def block(recording, rng):
    """A block of a copy that zlib compressed: torn, or of a length that cannot be."""
    packed = Copy(recording.plain, "zlib").write()
    cpus = [(at, size) for _, cpus in buffers_v7(packed) for _, at, size in cpus if size]
    cpu = rng.randrange(len(cpus))
    at, count = cpus[cpu][0] + 4, recording.cpus[cpu][1]
    blocks = -(-count // CHUNK_PAGES)
    chosen = rng.randrange(blocks)
    for _ in range(chosen):
        at += 8 + struct.unpack_from("<I", packed, at)[0]
    size, = struct.unpack_from("<I", packed, at)
    first, end = chosen * CHUNK_PAGES, min((chosen + 1) * CHUNK_PAGES, count)
    kind = rng.randrange(3)
    data = bytearray(packed)
    if kind == 0:
        place = at + 8 + rng.randrange(2, size)
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        place, length = at + 8 + rng.randrange(size), rng.randrange(16, 1024)
        data[place:min(place + length, at + 8 + size)] = bytes(min(length, at + 8 + size - place))
        if data == packed:
            return None
    else:
        struct.pack_into("<I", data, at, rng.choice((0xffffffff, 0x7fffffff, 1 << 28)))
        end = count
    case = Case(recording, cpu, range(first, end))
    case.data = data
    if kind == 2:
        case.least = blocks - chosen  # nobody knows how many pages they had
    return case


class Check:
    def __init__(self, trapline, folder):
        self.trapline, self.folder = trapline, Path(folder)
        self.cases = self.compared = self.unseen = self.wrong = 0

    def fail(self, what, text):
        self.wrong += 1
        print(f"{what}: {text}")

    def run(self, *command):
        return subprocess.run([self.trapline, *command], capture_output=True, text=True, check=False)

    def report(self, data, name):
        path = self.folder / name / "recording.dat"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        return self.run("report", "--halt", "--format", "json", str(path)), path

    def told(self, run, path):
        """What a report says but for the damage itself."""
        report = json.loads(run.stdout.replace(str(path), "RECORDING"))
        pages = report["tables"]["counters"].pop("damaged_pages", 0)
        # Of pages that are not there the kernel's count tells.
        report["notes"] = [note for note in report["notes"] if "damaged" not in note and "fewer events" not in note]
        return report, pages

    def check(self, what, case):
        self.cases += 1
        got, path = self.report(case.data, "damaged")
        expected, reference = self.report(case.reference(), "reference")
        if not got.stdout or not expected.stdout:
            if got.returncode != 3 or expected.stdout:
                self.fail(what, f"no report: {got.returncode}, {got.stderr.strip()}")
            return
        report, pages = self.told(got, path)
        wanted, _ = self.told(expected, reference)
        total = sum(count for _, count in case.recording.cpus)
        status = 3 if pages > 8 and pages * 100 > total else 0
        if got.returncode != status:
            self.fail(what, f"status {got.returncode}, not {status}: {got.stderr.strip()}")
        if pages < case.least:
            self.fail(what, f"{pages} damaged pages, not {case.least}")
        if case.at_end:  # no mark of a page says it
            gaps, wanted_gaps = (one["tables"]["counters"]["gaps"] for one in (report, wanted))
            if gaps != wanted_gaps + 1:
                self.fail(what, f"{gaps} losses; without the end {wanted_gaps}")
            return
        self.compared += 1
        if report != wanted:
            different = [(key, name) for key in ("head", "tables") for name in report[key]
                         if report[key][name] != wanted[key].get(name)]
            self.fail(what, f"not the report of the losses: {different}, {report['head']['losses']}, "
                            f"{wanted['head']['losses']}")

    def check_info(self, what, case):
        run = self.run("info", str(self.folder / "damaged" / "recording.dat"))
        lines = run.stdout.splitlines()
        damaged = [line for line in lines if line.startswith("  damaged")]
        if not damaged or any(line.split() == ["lost", "nothing"] for line in lines):
            self.fail(what, f"info does not tell: {run.stdout}")

    def elsewhere(self, recording, rng, what):
        """Damage outside of the pages: an error, or a report; nothing is lost silently."""
        self.cases += 1
        pages = [(at, at + count * PAGE) for at, count in recording.cpus]
        data = bytearray(recording.plain)
        at = rng.randrange(len(data) - 600)
        while any(begin - 600 < at < end for begin, end in pages):
            at = rng.randrange(len(data) - 600)
        size = rng.choice((1, 8, 64, 512))
        data[at:at + size] = rng.choice((bytes(size), rng.randbytes(size)))
        run, _ = self.report(data, "damaged")
        if run.returncode not in (0, 1, 3):
            self.fail(what, f"status {run.returncode}: {run.stderr.strip()}")


def session_cases(check, data, work):
    """A session that lists its parts, each of them missing, cut, not readable."""
    session = Path(work) / "session"
    session.mkdir()
    shutil.copy(data / "svm-mono.dat", session / "trace.dat")
    log = "".join(f"{n}@1700000000.{n:06}:memory_region_ops_read cpu 0 mr 0x1 addr 0x{n:x} value 0x0 size 1 name 'x'\n"
                  for n in range(100))
    (session / "qemu.log").write_text(log, encoding="utf-8")
    facts = {"version": 1, "closed": True, "losses": [],
             "parts": [{"name": name, "size": (session / name).stat().st_size} for name in ("trace.dat", "qemu.log")]}
    whole = json.dumps(facts)
    (session / "session.json").write_text(whole, encoding="utf-8")

    def expect(what, command, status, *texts):
        check.cases += 1
        run = check.run(*command, str(session))
        said = run.stdout + run.stderr
        missing = [text for text in texts if text not in said]
        if run.returncode != status or missing:
            check.fail(what, f"status {run.returncode}, not {status}; without {missing}: {run.stderr.strip()}")

    for name in ("trace.dat", "qemu.log"):
        kept = (session / name).read_bytes()
        (session / name).unlink()
        expect(f"{name} missing", ["report"], 3, name, "missing", f"--without {name}")
        (session / name).write_bytes(kept[:len(kept) // 2])
        expect(f"{name} cut", ["report"], 3, name, f"{len(kept) // 2} bytes of {len(kept)}")
        (session / name).write_bytes(kept)
    (session / "qemu.log").unlink()
    expect("without", ["report", "--without", "qemu.log"], 0, "qemu.log is left out")
    expect("without, strict", ["report", "--strict", "--without", "qemu.log"], 3)
    expect("unknown part", ["report", "--without", "other"], 2, "trace.dat, qemu.log")
    facts["parts"].pop()
    (session / "session.json").write_text(json.dumps(facts), encoding="utf-8")
    expect("whole", ["info"], 0, "lost         nothing\n")
    for text in ("", whole[:40], "[]", "\0" * len(whole), "{" * 5000):
        (session / "session.json").write_text(text, encoding="utf-8")
        expect(f"session.json {text[:10]!r}", ["info"], 0, "missing", "is not known", "session.json")
        expect(f"session.json {text[:10]!r}", ["report", "--strict"], 3, "is not known", "session.json")
    with (session / "session.json").open("wb") as file:
        file.truncate((16 << 20) + 1)
    expect("session.json too large", ["info"], 0, "missing", "is not known")


def option_cases(check, data, work):
    """What a trace.dat itself says was not written, and how many events were read from the kernel."""
    def option(number, body):
        return struct.pack("<HI", number, len(body)) + body

    def loss(cpu, place, events, why):
        return option(0x8001, b"TRAPLINE_LOSS\0" + struct.pack("<IQQ", cpu, place, events) + why + b"\0")

    def stats(read):
        return option(2, b"CPU: 0\nentries: 0\noverrun: 0\ndropped events: 0\nread events: %d\n\0" % read)

    path = Path(work) / "options.dat"
    at_end = (1 << 64) - 1
    cases = {
        "no counters": (b"", {"nothing that the file tells"}),
        "counters": (stats(20), {"nothing"}),
        "fewer": (stats(100), {"it holds 80 fewer events than were read from the kernel's buffer",
                               "nothing that the file tells"}),
        "at the end": (stats(20) + loss(1, at_end, 5, b"5 events were left in the kernel"),
                       {"5 events in 1 loss", "events of CPU 1 are missing: 5 events were left in the kernel"}),
        "twice": (stats(20) + loss(1, at_end, 5, b"x") + loss(1, at_end, 0, b"3 pages could not be written"),
                  {"an unknown number of events in 1 loss", "3 pages could not be written"}),
        "anywhere": (stats(20) + loss(0, 0, 7, b"7 events at least were read by another process"),
                     {"7 lost events", "read by another process"}),
        "no data": (stats(20) + loss(3, at_end, 0, b"9 pages could not be written"), {"1 lost event"}),
        "cut": (stats(20) + option(0x8001, b"TRAPLINE_LOSS\0\1\0"), {"nothing"}),
        "another's": (stats(20) + option(0x8001, b"OTHER"), {"nothing"}),
    }
    for what, (options, texts) in cases.items():
        check.cases += 1
        dat = TraceDat(cpus=2, options=options)
        for index in range(10):
            for cpu in (0, 1):
                dat.event(cpu, 1000000 + 1000 * index, "kvm:kvm_entry" if index % 2 else "kvm:kvm_exit", 100 + cpu,
                          vcpu_id=cpu)
        dat.write(path)
        run = check.run("info", str(path))
        said = " ".join(run.stdout.split())
        lost = re.findall(r"^  lost +(.*)$", run.stdout, re.M)
        missing = [text for text in texts if text not in said and text not in lost]
        if run.returncode or missing or (texts == {"nothing"}) != (lost == ["nothing"]):
            check.fail(what, f"status {run.returncode}, without {missing}: {run.stdout}{run.stderr}")


    # trace-cmd reads the file as before. The option takes the place of zeros before the pages.
    six = (data / "box/demo-v6.dat").read_bytes()
    added = loss(0, at_end, 5, b"5 events were left in the kernel")
    at = six.index(b"options  \0") + 10
    first, = struct.unpack_from("<Q", six, six.index(b"flyrecord\0") + 10)
    assert not any(six[first - len(added):first])
    path.write_bytes(six[:at] + added + six[at:first - len(added)] + six[first:])
    check.cases += 1
    lines = [len(subprocess.run(["trace-cmd", "report", "-i", str(one)], capture_output=True, text=True, check=True)
                 .stdout.splitlines()) for one in (data / "box/demo-v6.dat", path)]
    if lines[0] != lines[1] or "5 events in 1 loss" not in check.run("info", str(path)).stdout:
        check.fail("trace-cmd", f"it reads {lines} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trapline")
    parser.add_argument("data", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    recordings = [Recording(str(options.data / name)) for name in NAMES]
    kinds = ("zeroed", "torn", "torn", "cut", "time", "length", "swapped", "block", "elsewhere")
    with tempfile.TemporaryDirectory(prefix="trapline-damage-") as work:
        check = Check(options.trapline, work)
        session_cases(check, options.data, work)
        option_cases(check, options.data, work)
        for seed in range(options.first, options.first + options.count):
            rng = random.Random(seed)
            recording, kind = rng.choice(recordings), kinds[seed % len(kinds)]
            what = f"seed {seed}, {recording.name}, {kind}"
            if kind == "elsewhere":
                check.elsewhere(recording, rng, what)
                continue
            case = swapped(recording, rng) if kind == "swapped" else block(recording, rng) if kind == "block" else \
                one_page(recording, rng, kind)
            if case is None:
                check.unseen += 1
                continue
            check.check(what, copy.copy(case))
            if seed % 16 == 0:
                check.check_info(what, case)
    print(f"{check.cases} cases, {check.compared} of them compared, {check.unseen} that nothing shows: "
          f"{check.wrong} wrong")
    enough = check.compared > options.count / 2 and check.unseen < options.count / 8
    return 0 if enough and check.wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
