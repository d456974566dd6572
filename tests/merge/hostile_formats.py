#!/usr/bin/env python3
"""trapline itself on recordings whose formats harm libtraceevent, and with a worker that is killed: exit
status 3, the file's name, no crash, no byte from behind the event, the rest as it was, and soon.

  hostile_formats.py TRAPLINE RECORDING
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import trace_dat  # noqa: E402

trapline, recording = sys.argv[1], pathlib.Path(sys.argv[2])
EVENT = b"kvm_pio"
SECONDS = 20  # each command takes a tenth of a second; a busy machine more
failures = []


def with_print_format(data, text):
    start = data.index(b"print fmt: ", data.index(b"name: " + EVENT + b"\n"))
    end = data.index(b"\n", start)
    line = b"print fmt: " + text
    assert len(line) <= end - start, "the print format is longer than the one that it replaces"
    return data[:start] + line.ljust(end - start) + data[end:]


def with_brackets(path, harmed, print_format='"%d", ' + "(" * 2 ** 20):
    """Exits, one with a port; the formats of `harmed` exhaust libtraceevent's stack."""
    def text(name, number):
        sound = format_text(name, number)
        return sound[:sound.index("print fmt: ")] + f"print fmt: {print_format}" if name in harmed else sound
    format_text, trace_dat.format_text = trace_dat.format_text, text
    dat = trace_dat.TraceDat(1)
    for i in range(20):
        at = 10 ** 9 + 10000 * i
        dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=0x7b, isa=2)
        dat.event(0, at + 100, "kvm:kvm_pio", 5, rw=1, port=0x3f8)
        dat.event(0, at + 1000, "kvm:kvm_entry", 5)
    dat.write(path)
    trace_dat.format_text = format_text


def run(words, env=None):
    begin = time.monotonic()
    done = subprocess.run([trapline, *words], capture_output=True, env=env, timeout=10 * SECONDS, check=False)
    return done, time.monotonic() - begin


def check(name, condition, done):
    if not condition:
        failures.append(f"{name}: status {done.returncode}, {done.stderr[-400:].decode(errors='replace')}")


with tempfile.TemporaryDirectory() as folder:
    file, page, out = (f"{folder}/{name}" for name in ("trace.dat", "page.html", "out"))
    data = recording.read_bytes()
    commands = {"timeline": ["timeline", file], "page": ["report", "--format", "html", "-o", page, "--force", file],
                "export": ["export", "--format", "perfetto", "--events", "-o", out, "--force", file]}
    hostile = (b'"%s", __print_hex(REC->val, 99999999)', b'"%s", __print_hex(REC->val, 64)')
    for text in hostile:
        pathlib.Path(file).write_bytes(with_print_format(data, text))
        for name, words in commands.items():
            done, seconds = run(words)
            name = f"{name}, {text.decode()}"
            check(name, done.returncode == 3 and file.encode() in done.stderr, done)
            check(f"{name}: {seconds:.1f} s", seconds < SECONDS, done)
    # The report needs no print format.
    done, _ = run(["report", file])
    check("report", done.returncode == 0, done)
    # A format that ends the worker costs the events of its type.
    with_brackets(file, ())
    done, _ = run(["report", file])
    check("no brackets", done.returncode == 0 and b"port 0x3f8" in done.stdout, done)
    exits = next(line for line in done.stdout.splitlines() if line.startswith(b"vCPU 0")).split()[4:7]
    with_brackets(file, ("kvm:kvm_pio",))
    done, seconds = run(["report", file])
    same = next(line for line in done.stdout.splitlines() if line.startswith(b"vCPU 0")).split()[4:7]
    check(f"the rest: {exits}, {same}", same == exits and b"0x3f8" not in done.stdout, done)
    not_counted = "20 events of kvm:kvm_pio, whose format could not be read, are not counted"
    told = " ".join(done.stdout.decode().split())
    check(f"the events: {told}", not_counted in told and "DAMAGED: 20 events, whose format" in told, done)
    done, _ = run(["report", "--format", "json", file])
    told = json.loads(done.stdout)
    check("the events in JSON", told["tables"]["counters"].get("unread_events") == 20 and
          any(not_counted in note for note in told["notes"]), done)
    done, _ = run(["info", file])
    told = " ".join(done.stdout.decode().split())
    check(f"the events in info: {told}", not_counted in told and "lost nothing" not in told, done)
    for harmed in ("kvm:kvm_pio", "kvm:kvm_exit", "kvm:kvm_entry"):
        with_brackets(file, (harmed,))
        for words in (["report", file], ["timeline", file], ["info", file], ["stalls", file]):
            done, seconds = run(words)
            check(f"{words[0]}, {harmed}", done.returncode == 3 and harmed.encode() in done.stderr and
                  file.encode() in done.stderr and seconds < SECONDS, done)
    # A print format that libtraceevent does not understand leaves numbers in place of the reasons, which is told.
    for text, is_told in (('"reason %s", name_of(REC->exit_reason)\n', True),
                          ('"reason %x", REC->exit_reason\n', False)):
        with_brackets(file, ("kvm:kvm_exit",), text)
        done, _ = run(["report", "--format", "json", file])
        told = json.loads(done.stdout)
        note = "the print format of kvm:kvm_exit could not be read: reasons without a name are numbers"
        tells = any(note in one for one in told["notes"])
        check(f"numbers: {told['notes']}", done.returncode == 0 and tells == is_told, done)
    # A worker that is killed as soon as it is started.
    pathlib.Path(file).write_bytes(data)
    killed = pathlib.Path(folder, "worker")
    program = b"#include <signal.h>\nint main(void) { return raise(SIGKILL); }\n"  # root may start no shell there
    subprocess.run(["cc", "-x", "c", "-", "-o", killed], input=program, check=True)
    done, _ = run(["timeline", file], {**os.environ, "TRAPLINE_WORKER": str(killed)})
    check("killed", done.returncode == 3 and b"was killed" in done.stderr, done)
    done, _ = run(["timeline", file], {**os.environ, "TRAPLINE_WORKER": "/nonexistent"})
    check("missing", done.returncode == 1 and b"/nonexistent" in done.stderr, done)
    sound, _ = run(["timeline", file])
    check("sound", sound.returncode == 0, sound)

for failure in failures:
    print(f"FAILED: {failure}")
sys.exit(bool(failures))
