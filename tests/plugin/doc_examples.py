"""Runs the examples of docs/plugin.md that need no Linux guest and compares what they print.

usage: doc_examples.py DOCUMENT BUILD-FOLDER QEMU-FOLDER

An example is a fenced block whose lines after `$ ` are commands (with backslash at a line's end they
go on) and whose other lines are output. Commands run in order in one folder that has the build
folder's plugin/ and tests/. Output agrees when its lines stand in what the command prints, one after
the other, with any time for a time, and any count in the plugin's own line; … stands for any lines.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


def examples(document: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```(?:console)?\n(\$ .*?)^```$", document, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def plain(text: str) -> str:
    """Without what differs from run to run, and without how wide it is printed."""
    text = re.sub(r"\d+\.\d+ +[umn]?s\b", "TIME", text)  # uftrace: "1.234  s"
    if text.startswith("trapline plugin:"):
        text = re.sub(r"\d+", "N", text)
    return re.sub(r" +", " ", text).strip()


def agrees(expected: list[str], actual: list[str]) -> bool:
    wanted = [plain(line) for line in expected if line.strip() not in ("", "…")]
    lines = [plain(line) for line in actual]
    at = 0
    for line in wanted:
        if line not in lines[at:]:
            print(f"lacks, after line {at}: {line}")
            return False
        at = lines.index(line, at) + 1
    return True


def run(command: str, folder: str, environment: dict[str, str]) -> str:
    """What the command prints; after 250 s it ends, with whatever it started."""
    process = subprocess.Popen(command, shell=True, cwd=folder, env=environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.communicate(timeout=250)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + "\nended after 250 s"


def main() -> None:
    document, build, qemu = sys.argv[1:]
    ran = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("plugin", "tests"):
            os.symlink(os.path.join(build, part), os.path.join(folder, part))
        environment = dict(os.environ, PATH=qemu + "/bin:" + os.environ["PATH"])
        for command, expected in examples(Path(document).read_text(encoding="utf-8")):
            if not re.match(r"(qemu-system-\S+ .*tests/guest/plugin|uftrace )", command):
                continue
            ran += 1
            command = re.sub(r"^(uftrace \w+)", r"\1 --no-pager", command)
            output = run(command, folder, environment)
            if not agrees(expected, output.splitlines()):
                failed += 1
                print(f"FAILED: {command}\n{output[:4000]}")
    print(f"{ran} examples, {failed} failed")
    sys.exit(failed != 0 or ran < 2)


main()
