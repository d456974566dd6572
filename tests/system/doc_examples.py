"""Runs the examples of documents and compares their output.

usage: doc_examples.py TRAPLINE DOCUMENT...
       doc_examples.py --update TRAPLINE DOCUMENT...   writes what is printed into those without a …

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
    update = sys.argv[1] == "--update"
    trapline, *documents = sys.argv[1 + update:]
    ran = failed = 0
    for document in documents:
        text = Path(document).read_text(encoding="utf-8")
        for command, expected in BLOCK.findall(text):
            ran += 1
            words = shlex.split(command)
            done = subprocess.run([trapline, *words[1:]], capture_output=True, text=True,
                                  env={**os.environ, "COLUMNS": "100"})
            refused = expected.startswith("trapline: ")  # the example shows an error
            printed = done.stderr if refused else done.stdout
            if update and "\n…\n" not in "\n" + expected:
                text = text.replace(f"$ {command}\n{expected}```", f"$ {command}\n{printed}```")
            elif (done.returncode != 0) != refused or not agrees(expected, printed):
                failed += 1
                print(f"FAILED: {document}: {command}\nexpected:\n{expected}\ngot:\n{done.stdout}{done.stderr}")
        if update:
            Path(document).write_text(text, encoding="utf-8")
    print(f"{ran} examples, {failed} failed")
    sys.exit(failed != 0 or ran == 0)


if __name__ == "__main__":
    main()
