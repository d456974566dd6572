"""Follows a document as a reader does: runs its ```sh blocks, and its ```console blocks and compares what they print.

usage: follow.py DOCUMENT [FROM=TO...]

In the current folder, block by block, each in a shell of its own. FROM=TO replaces a word of the commands. Commands
with … are the reader's to complete: they are not run, but counted.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from doc_examples import agrees

BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.M | re.S)


def main() -> None:
    document, *words = sys.argv[1:]
    ran = failed = left = 0
    for kind, block in BLOCK.findall(Path(document).read_text(encoding="utf-8")):
        command, expected = block, None
        if kind == "console":
            command, _, expected = block.removeprefix("$ ").partition("\n")
        for word in words:
            command = command.replace(*word.split("=", 1))
        if "…" in command:
            left += 1
            continue
        started = time.monotonic()
        # Examples are printed as on a terminal of 100 columns (doc_examples.py).
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True,
                              env={**os.environ, "COLUMNS": "100"})
        print(f"{time.monotonic() - started:7.1f} s  {command.strip()}", flush=True)
        ran += 1
        if done.returncode != 0 or (expected is not None and not agrees(expected, done.stdout)):
            failed += 1
            print(f"FAILED: {document}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    print(f"{document}: {ran} blocks followed, {left} are the reader's to complete, {failed} failed")
    sys.exit(failed != 0 or ran == 0)


main()
