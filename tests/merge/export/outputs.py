#!/usr/bin/env python3
"""outputs.py TRAPLINE - RECORDING: where an export goes. What fails names the file and leaves nothing behind."""
import json
import os
import pathlib
import pty
import resource
import signal
import subprocess
import sys
import tempfile
import time

trapline, _, recording, long_recording = sys.argv[1:]
formats = [line.split()[0] for line in subprocess.run([trapline, "export", "--list"], capture_output=True, text=True,
                                                      check=True).stdout.splitlines()]
files = [name for name in formats if name != "uftrace"]


def export(*options, **how):
    return subprocess.run([trapline, "export", recording, *options],
                          **{"capture_output": True, "text": True, "check": False, **how})


def fails(done, status, *words):
    missing = [word for word in words if word not in done.stderr]
    if done.returncode != status or missing:
        sys.exit(f"{done.args}: status {done.returncode}, not {status}; without {missing}: {done.stderr}")


def with_little_room():
    """A file may have 64 KiB, and what is beyond fails as on a full disk, not by SIGXFSZ."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))


def read_all(descriptor):
    text = b""
    try:
        while piece := os.read(descriptor, 4096):
            text += piece
    except OSError:  # EIO: the other side of the terminal is closed
        pass
    return text.decode()


def shows_progress(on_terminal):
    """What it prints on stderr while its reader makes it wait for longer than the second before the first line."""
    ours, terminal = pty.openpty() if on_terminal else os.pipe()
    command = [trapline, "export", long_recording, "--format", "jsonl", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        rows = process.stdout.read(1)  # it has begun
        time.sleep(1.5)
        rows += process.stdout.read()
        text = read_all(ours)
    os.close(ours)
    assert process.returncode == 0 and len(rows) > 100_000, (process.returncode, len(rows))
    return text


assert {"perfetto", "folded", "jsonl", "csv"} <= set(files), files
fails(export("--format", "jsonl"), 2, "-o")
fails(export("--format", "perfeto", "-o", "-"), 2, "perfeto", "did you mean 'perfetto'")
with open("/dev/full", "wb") as full:  # nobody reads what went wrong, but the exit status tells
    fails(export("--format", "perfeto", "-o", "-", capture_output=False, stdout=subprocess.PIPE, stderr=full), 2)
    told = subprocess.run([trapline, "report", str(pathlib.Path(recording).with_name("svm-lost.dat"))], check=False,
                          stdout=subprocess.PIPE, stderr=full)
    assert told.returncode == 0 and told.stdout, told  # what was lost is told there
for name in files:
    fails(export("--format", name, "-o", "/dev/full"), 1, "/dev/full", "No space left")
    with open("/dev/full", "wb") as full:
        fails(export("--format", name, "-o", "-", capture_output=False, stdout=full, stderr=subprocess.PIPE), 1,
              "standard output", "No space left")
    if name != "folded":  # that one fits into a pipe
        command = [trapline, "export", recording, "--format", name, "-o", "-"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            message = process.stderr.read().decode()
        assert process.returncode == -signal.SIGPIPE and message == "", message
with tempfile.TemporaryDirectory() as work:
    for name in formats:
        if name == "folded":
            continue  # it is smaller
        output = str(pathlib.Path(work) / f"x.{name}")
        fails(export("--format", name, "-o", output, preexec_fn=with_little_room), 1, output, "File too large")
        assert not os.listdir(work), (name, os.listdir(work))
progress = shows_progress(on_terminal=True)
assert "% read" in progress and progress.endswith("\r\x1b[K"), repr(progress)
assert shows_progress(on_terminal=False) == ""
with tempfile.TemporaryDirectory() as work:
    folder = pathlib.Path(work)
    for name in formats:
        output = folder / f"x.{name}"
        if name in files:  # uftrace's folder is made with those above it
            fails(export("--format", name, "-o", str(folder / "none" / "x")), 1, str(folder / "none" / "x"))
        assert export("--format", name, "-o", str(output)).returncode == 0
        fails(export("--format", name, "-o", str(output)), 2, str(output), "--force")
        assert export("--format", name, "-o", str(output), "--force").returncode == 0
        if name in files:
            whole = subprocess.run([trapline, "export", recording, "--format", name, "-o", "-"], capture_output=True,
                                   check=True).stdout
            assert whole == output.read_bytes(), name
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"x.{name}" for name in formats)
    fails(export("--format", "csv", "-o", work), 2, work, "folder")
    for place in ("/dev/null", str(folder / "x.csv")):
        for force in ([], ["--force"]):
            told = export("--format", "uftrace", "-o", place, *force)
            fails(told, 2, f"{place} is not a folder, and uftrace's format is one; choose another name with -o")
            assert "add --force" not in told.stderr, told.stderr
    row = json.loads((folder / "x.jsonl").read_text(encoding="utf-8").splitlines()[0])
    header = (folder / "x.csv").read_text(encoding="utf-8").splitlines()[0]
    assert list(row) == header.split(","), "the columns of jsonl and csv differ"
print(f"{len(formats)} formats")
