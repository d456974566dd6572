"""Runs the examples of documents and compares their output.

usage: doc_examples.py TRAPLINE DOCUMENT...

An example is a ```console block whose first line is `$ trapline …` with a recording of tests/data or
tests/merge. It is printed as on a terminal of 100 columns.
A line that is … alone stands for any lines. An error, which begins with `trapline: `, is compared too.
"""
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```console\n\$ (trapline [^\n]*tests/(?:data|merge)/[^\n]*)\n(.*?)^```$", re.M | re.S)


def agrees(expected: str, actual: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"^…\n", expected, flags=re.M)]
    return re.fullmatch(r"(?:.*\n)*".join(parts), actual) is not None


def main() -> None:
    trapline, *documents = sys.argv[1:]
    ran = failed = 0
    for document in documents:
        for command, expected in BLOCK.findall(Path(document).read_text(encoding="utf-8")):
            ran += 1
            words = shlex.split(command)
            done = subprocess.run([trapline, *words[1:]], capture_output=True, text=True,
                                  env={**os.environ, "COLUMNS": "100"})
            refused = expected.startswith("trapline: ")  # the example shows an error
            printed = done.stderr if refused else done.stdout
            if (done.returncode != 0) != refused or not agrees(expected, printed):
                failed += 1
                print(f"FAILED: {document}: {command}\nexpected:\n{expected}\ngot:\n{done.stdout}{done.stderr}")
    print(f"{ran} examples, {failed} failed")
    sys.exit(failed != 0 or ran == 0)


if __name__ == "__main__":
    main()
