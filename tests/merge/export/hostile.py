#!/usr/bin/env python3
"""hostile.py TRAPLINE TRACE_PROCESSOR_FOLDER RECORDING: names with markup, control characters, marks that turn the
direction of text, quotes and invalid UTF-8 arrive escaped or replaced in every format."""
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

SUPPORT = pathlib.Path(__file__).resolve().parents[2] / "support"
sys.path.insert(0, str(SUPPORT))
from recompress import converted  # noqa: E402

READER = SUPPORT / "trace_processor.js"
DEVICE, HOSTILE = b"isa-debugcon", b"<b>\x1b\"\\\xe2\x80\xae\xff;,"  # of one length: it is patched in place
COMM, HOSTILE_COMM = b"qemu-system-x86", b"</script>\x07!\xc0\"\xe2\x80"
LABEL = b"a\x1b<\xff\"\xe2\x80\xae,;=" * 5958  # 64 KiB
assert len(DEVICE) == len(HOSTILE) and len(COMM) == len(HOSTILE_COMM) and len(LABEL) >= 65536

trapline, folder, recording = sys.argv[1:]
work = tempfile.TemporaryDirectory()
path = pathlib.Path(work.name) / "hostile.dat"
# Its texts are compressed: version 6 of the format has them as they are.
data = converted(recording)
assert data.count(DEVICE) > 10 and data.count(COMM) > 10, f"{recording} lacks {DEVICE} or {COMM}"
path.write_bytes(data.replace(DEVICE, HOSTILE).replace(COMM, HOSTILE_COMM))


def export(*options):
    done = subprocess.run([b"timeout", b"100", trapline.encode(), b"export", bytes(path), b"-o", b"-", b"--host",
                           LABEL[:11], *options], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_clean(text, quotes_markup):
    bad = {char for char in text if char != "\n" and (ord(char) < 32 or 0x7f <= ord(char) < 0xa0 or
                                                      0x202a <= ord(char) <= 0x202e or ord(char) == 0xfffd)}
    assert not bad, bad
    assert not quotes_markup or "<" not in text


rows = export(b"--format", b"jsonl").decode("utf-8")
is_clean(rows, True)
parsed = [json.loads(line) for line in rows.splitlines()]
devices = {row["device"] for row in parsed}
shown = next(device for device in devices if device and device.startswith("<b>"))
assert "\\x1b\"" in shown and "\\xff;," in shown and "202e" in shown, shown
until = b"%.9f" % ((parsed[0]["start_ns"] + 10**6) / 1e9)
first = export(b"--format", b"jsonl", b"--session", LABEL, b"--to", until).decode("utf-8").splitlines()[0]
is_clean(first, True)
assert len(json.loads(first)["session"]) > 65536

cells = export(b"--format", b"csv").decode("utf-8")
is_clean(cells, False)
table = list(csv.DictReader(io.StringIO(cells)))
assert {row["device"] or None for row in table} == devices and len(table) == len(parsed)
assert all(None not in row and row["total_ns"].isdigit() for row in table)

stacks = export(b"--format", b"folded").decode("utf-8")
is_clean(stacks, False)
assert all(line.rsplit(" ", 1)[1].isdigit() for line in stacks.splitlines())
assert shown.replace(";", ",") in {line.rsplit(" ", 1)[0].split(";")[-1] for line in stacks.splitlines()}

trace = pathlib.Path(work.name) / "x.pftrace"
trace.write_bytes(export(b"--format", b"perfetto", b"--events"))
done = subprocess.run(["node", str(READER), folder, str(trace),
                       "select name, value from stats where value > 0 and severity != 'info'",
                       "select distinct name from slice where category = 'qemu'",
                       "select distinct name from thread",
                       "select count(*) from ftrace_event where name not in ('sched_switch', 'sched_waking')"], capture_output=True, check=False)
assert done.returncode == 0, done.stderr
text = done.stdout.decode("utf-8")
is_clean(text, False)
errors, names, threads, events = text.split("> select")[1:]
assert int(events.strip().splitlines()[-1]) > len(parsed), events
assert len(errors.strip().splitlines()) == 2, errors
assert shown in names.splitlines(), names
assert COMM not in path.read_bytes() or "</script>" in threads, threads

# uftrace's folder: its texts are clean, and uftrace itself reads the device's name as it is in the rows.
target = pathlib.Path(work.name) / "uftrace"
subprocess.run([trapline, "export", str(path), "--format", "uftrace", "-o", str(target)], check=True)
for file in target.iterdir():
    if file.suffix not in (".dat", "") and file.name != "info":
        is_clean(file.read_text(encoding="utf-8"), False)
read = subprocess.run(["uftrace", "report", "--no-pager", "-f", "call", "-d", str(target)], capture_output=True,
                      check=True).stdout.decode("utf-8")
is_clean(read, False)
assert "qemu:" + shown.replace(";", "_") in read, read
labelled = export(b"--format", b"csv", b"--session", LABEL, b"--to", until).decode("utf-8")
is_clean(labelled, False)
assert len(next(csv.DictReader(io.StringIO(labelled)))["session"]) > 65536
print(f"{len(parsed)} rows; the device reads {shown}")
