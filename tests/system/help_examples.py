"""Runs the examples below each command's --help, as they are printed, in a folder that has what they name.

usage: help_examples.py reading|recording|documents SOURCE_DIR TRAPLINE

reading: recordings of tests as run, before, a1, trace.dat...; a program that answers on vm.qmp and
program.sock. recording: `trapline record` as root, with the pid 4711 replaced by a living one, durations by
0.2s, and a script in QEMU's place, since CI's machines have no KVM. documents: in the same way the commands of
README.md, docs/tutorial.md and docs/cookbook.md that are no ```console blocks; … is the reader's to complete, so
it is left out, alice is nobody, and a process that `$(pidof …)` would find is a living one. Not run: those of
podman, and trace-cmd's.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
import simpletrace_file  # noqa: E402

RECORDINGS = ["trace.dat", *(f"{name}/trace.dat" for name in ("run", "before", "after"))]
RUNS = {"a1": "hog", "a2": "lock", "a3": "vm", "b1": "storm", "b2": "halt", "b3": "disk"}
# Exit statuses that the machine, not the command line, decides; and errors that say what a machine lacks.
ALSO_GOOD = {"doctor": {1}, "diff": {4}}
MAY_LACK = re.compile(r"built without the page|I/O port|/dev/port|iopl|ioperm")


def answer_qmp(connection: socket.socket) -> None:
    lines = connection.makefile("rw")
    print(json.dumps({"QMP": {}}), file=lines, flush=True)
    for line in lines:
        asked = json.loads(line)
        states = [{"name": "memory_region_ops_read", "state": "disabled"}]
        told = states if asked["execute"] == "trace-event-get-state" else {}
        print(json.dumps({"return": told, "id": asked["id"]}), file=lines, flush=True)


def answer_monitor(connection: socket.socket) -> None:
    lines = connection.makefile("rw")
    for _ in lines:
        print("ok", file=lines, flush=True)


def serve(path: Path, answer) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def loop() -> None:
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()


def prepare(folder: Path, data: Path) -> None:
    for name in RECORDINGS:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(data / "svm-mono.dat", folder / name)
    for name, recording in RUNS.items():
        shutil.copy(data / f"../merge/planted/{recording}.dat", folder / name)
    shutil.copy(data / "demo-guest.elf", folder / "vmlinux")
    (folder / "System.map").write_text("ffffffff81000000 T _text\nffffffff81000040 T start_kernel\n")
    (folder / "trace-4711").write_bytes(simpletrace_file.file(["hello_end"], simpletrace_file.record(0, 1_000_000)))
    (folder / "trace-events-all").write_text('hello_end(void) "done"\n')
    qemu = folder / "bin/qemu-system-x86_64"
    qemu.parent.mkdir()
    qemu.write_text("#!/bin/sh\ntrap 'exit 0' TERM\nsleep 0.2 &\nwait\n")  # SIGTERM ends QEMU in good order
    qemu.chmod(0o755)


def examples_of(trapline: str, command: list[str]) -> list[str]:
    text = subprocess.run([trapline, *command, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  (.*trapline .*)$", text.partition("\nExamples:\n")[2], re.M)


def commands_of(document: Path) -> list[str]:
    """Those of ```sh blocks, and the lines that begin with `# ` of blocks without a language."""
    commands = []
    text = document.read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text.replace("\\\n", " "), re.M | re.S):
        for line in block.splitlines():
            if language == "" and line.startswith("# "):
                line = line[2:]
            elif language != "sh":
                continue
            line = re.sub(r"  +# .*$", "", line).strip()
            if line.startswith(("trapline ", "echo ")):
                commands.append(line)
    return commands


def follow(source: Path, folder: Path, environment: dict[str, str], pid: int) -> tuple[int, int]:
    """Runs the commands of the documents; returns how many ran, and how many failed."""
    ran = failed = 0
    session = None
    for name in ("README.md", "docs/tutorial.md", "docs/cookbook.md"):
        for command in commands_of(source / name):
            first = command.split()[1]
            if first in ("top", "bench"):
                continue  # top_test runs them
            typed = command.replace("…", "").replace("--user alice", "--user nobody")
            typed = re.sub(r"\$\((pgrep|pidof) [^)]*\)", str(pid), re.sub(r"--duration \S+", "--duration 0.2s", typed))
            # The times of the answer are those of one recording.
            typed = re.sub(r" --(from|to) \+\S+", "", typed)
            if first == "record":
                shutil.rmtree(folder / "recorded", ignore_errors=True)
                typed = re.sub(r" -o \S+", " -o recorded", typed)
            elif command.startswith("echo"):
                shutil.copy(session, folder / "run/session.json")
            status, said = run(typed, folder, environment)
            ran += 1
            if status != 0 and status not in ALSO_GOOD.get(first, ()):
                failed += 1
                print(f"FAILED: {name}: {typed}: exit status {status}\n{said}")
            elif command.startswith("echo"):
                assert re.fullmatch(r"-?\d+\n", said), said  # seconds
                (folder / "run/session.json").unlink()
            elif first == "record" and session is None:
                session = shutil.copy(folder / "recorded/session.json", folder / "session.json")
    return ran, failed


def run(example: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    for _ in range(5):
        done = subprocess.run(["bash", "-c", example], cwd=folder, env=environment, capture_output=True, text=True,
                              timeout=200)
        if done.returncode != 128 + signal.SIGTERM:
            break  # else what is in QEMU's place was ended before its first line: a busy machine
    return done.returncode, done.stdout[-1000:] + done.stderr


def main() -> None:
    what, source, trapline = sys.argv[1:]
    names = re.findall(r"^  ([a-z]+) ", subprocess.run([trapline, "--help"], capture_output=True, text=True).stdout
                       .split("Record:")[1].split("trapline COMMAND")[0], re.M)
    ran, failed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, Path(source) / "tests/data")
        serve(folder / "vm.qmp", answer_qmp)
        serve(folder / "program.sock", answer_monitor)
        if what == "recording":
            shutil.rmtree(folder / "run")  # record makes it
        environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
        environment |= {"PATH": f"{folder}/bin:{Path(trapline).parent}:{os.environ['PATH']}"}
        with subprocess.Popen(["sleep", "1000"]) as alive, contextlib.ExitStack() as ending:
            ending.callback(alive.kill)
            if what == "documents":
                for name in ("slow", "home", "demo.trapline"):
                    shutil.copytree(folder / "before", folder / name)
                for name in ("demo", "quiet"):
                    shutil.copytree(folder / "before", folder / f"home/{name}.trapline")
                folder.chmod(0o755)
                ran, failed = follow(Path(source), folder, environment | {"HOME": str(folder / "home")}, alive.pid)
            for command in ["", *names] if what != "documents" else []:
                for example in examples_of(trapline, [command] if command else []):
                    first = re.search(r"trapline (\w+)", example)[1]
                    if first in ("top", "snapshot", "bench"):  # top_test, flight_test and bench_test run them
                        continue
                    if (first == "record") != (what == "recording"):
                        continue
                    typed = example
                    if what == "recording":
                        typed = re.sub(r"--duration \S+", "--duration 0.2s", example).replace("4711", str(alive.pid))
                    status, said = run(typed, folder, environment)
                    ran += 1
                    good = status == 0 or status in ALSO_GOOD.get(first, ()) or MAY_LACK.search(said)
                    if not good:
                        failed += 1
                        print(f"FAILED: {typed}: exit status {status}\n{said}")
    print(f"{ran} examples, {failed} failed")
    sys.exit(failed != 0 or ran < 3)


main()
