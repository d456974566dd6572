"""A recording as `trace-cmd report` prints it: its events in order, and its holes. Every oracle reads recordings here.

A recording is parsed once for all oracles of a process. With a folder in KEPT, what was parsed is kept there too, under the
hashes of the recording and of its parser (this file, Python and trace-cmd), so that a second run of the tests does not parse.
"""
import collections
import contextlib
import functools
import hashlib
import marshal
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from recompress import recompressed  # noqa: E402

PAGE, COMMIT_SIZE, MISSED = 4096, 0x7FFFFFF, 1 << 31  # of a page of the ring buffer, 64 bits
# Fields that the kernel's print format writes in hexadecimal without 0x.
BARE_HEX = {"ecx", "function", "fault_address"}
LINE = re.compile(r"^ *.+-(\d+) +(\d+)-0x([0-9a-f]+) +([0-9.]+): (\S+): *(.*)$")
LOSS = re.compile(r"^CPU:(\d+) \[(?:(\d+) )?EVENTS DROPPED\]$")
FIELD = re.compile(r"(\w+)=\s*(\S+)")

KEPT = None  # a folder

Event = collections.namedtuple("Event", "at cpu tid name fields text flags")
Hole = collections.namedtuple("Hole", "cpu start end count after")  # after: the time of the event before it


def report_lines(path, *options):
    command = ["trace-cmd", "report", "-t", "-N", *options, path]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return run.stdout.decode("utf-8", "surrogateescape").split("\n")


def number(fields, key, otherwise=None):
    if key not in fields:
        return otherwise
    text = fields[key]
    return int(text, 16) if key in BARE_HEX or text.startswith("0x") else int(text)


@contextlib.contextmanager
def readable(path):
    """Debian's trace-cmd reads no zlib: it gets a copy without."""
    with open(path, "rb") as file:
        is_readable = b"zlib\0" not in file.read(64)
    if is_readable:
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".dat") as copy:
        copy.write(recompressed(path, "none"))
        copy.flush()
        yield copy.name


def parse(path):
    """(events, holes) as tuples."""
    events, holes, pending, last_on_cpu = [], [], {}, {}
    fields_of, intern = FIELD.findall, sys.intern  # interned strings are kept once
    for raw, plain in zip(report_lines(path, "-R", "-l"), report_lines(path), strict=True):
        match = LINE.match(raw)
        if not match:
            if loss := LOSS.match(raw):
                pending[int(loss[1])] = int(loss[2] or 0)
            continue
        tid, cpu, flags, at, name, rest = match.groups()
        if name == "print":
            fields = {"buf": rest.partition(" buf=")[2]}
        else:
            fields = {intern(key): intern(value) for key, value in fields_of(rest)}
        text = plain.partition(f": {name}:")[2].strip()
        at, cpu = int(at.replace(".", "")), int(cpu)
        if cpu in pending:
            before = last_on_cpu.get(cpu, 0)
            holes.append((cpu, before, at, pending.pop(cpu), before))
        last_on_cpu[cpu] = at
        events.append((at, cpu, int(tid), intern(name), fields, text, int(flags, 16)))
    return events, within_boundaries(holes, boundary_pages(path))


# ---- pages without events: up to their time, or from it on where they are marked, the events are complete

def boundary_pages(path):
    """(cpu, time, marked) of each; trace-cmd's text does not tell of them."""
    run = subprocess.run(["trace-cmd", "dump", "--flyrecord", path], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    extents = re.findall(r"^\s+(\d+)\s+(\d+)\s+\[offset, size of cpu (\d+)\]", run.stdout.decode(), re.M)
    found = []
    with open(path, "rb") as file:
        for offset, size, cpu in (map(int, extent) for extent in extents):
            for at in range(offset, offset + size, PAGE):
                file.seek(at)
                time, commit = struct.unpack("<QQ", file.read(16))
                if commit & COMMIT_SIZE == 0 and time:
                    found.append((cpu, time, bool(commit & MISSED)))
    return found


def within_boundaries(holes, boundaries):
    narrowed = []
    for hole in holes:
        cpu, start, end, count, after = hole
        own = [(time, marked) for of, time, marked in boundaries if of == cpu and start <= time <= end]
        start = max((time for time, marked in own if not marked), default=start)
        end = max((time for time, marked in own if marked), default=end)
        narrowed.append((cpu, start, end, count, after))
    return narrowed


# ---- parsed once

@functools.cache
def kept_folder():
    """Returns the folder of this parser, and removes what other parsers kept."""
    reader = os.stat(shutil.which("trace-cmd"))
    parser = f"{sys.version} {reader.st_size} {reader.st_mtime_ns} ".encode() + pathlib.Path(__file__).read_bytes()
    folder = pathlib.Path(KEPT) / hashlib.sha256(parser).hexdigest()
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def parsed(path):
    if KEPT is None:
        with readable(path) as file:
            return parse(file)
    kept = kept_folder() / hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    with contextlib.suppress(OSError, EOFError, ValueError, TypeError, zlib.error):
        return marshal.loads(zlib.decompress(kept.read_bytes()))
    with readable(path) as file:
        found = parse(file)
    # Whole or not at all: another test may read it.
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as new:
        new.write(zlib.compress(marshal.dumps(found), 1))
    os.replace(new.name, kept)
    return found


@functools.lru_cache(maxsize=2)
def events_of(path):
    events, holes = parsed(path)
    return list(map(Event._make, events)), list(map(Hole._make, holes))


def read(path):
    """The events of a recording in order, and its holes, shared by all oracles: they must not change them."""
    return events_of(str(path))
