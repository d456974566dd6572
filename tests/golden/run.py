#!/usr/bin/env python3
"""Golden cases: a command, and what it prints.

  run.py TRAPLINE [--update] [CASE…]

A case is a folder with `cmd` (one line: trapline … [< FILE], run from the top of the sources) and
`expected.txt`: stdout, then, where it is not 0, the line "exit status N" and stderr; with --verbose
stderr always. What limits a report's figures is named in its first HEAD lines. --update writes what is printed now: look at the difference before you commit it.
"""
import concurrent.futures
import difflib
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MOST_LINES = 60
MOST_LINES_OF_JSON = 100  # it has a line for each member
HEAD = 8


def not_in_head(trapline, case, text):
    """What a report's JSON has of losses, damage and assumptions, and its first lines do not name."""
    words = shlex.split((case / "cmd").read_text(encoding="utf-8"))
    if "report" not in words[1:2] or {"--format", "<", "guest-span"} & set(words):
        return []
    run = subprocess.run([trapline, *words[1:], "--format", "json"], cwd=HERE.parent.parent, capture_output=True,
                         timeout=200, check=False)
    if not run.stdout:
        return []
    report = json.loads(run.stdout)
    counters, sources = report["tables"]["counters"], report["tables"]["sources"]["rows"]
    wanted = {"LOST:": report["head"]["losses"]["gaps"], "DAMAGED:": counters.get("damaged_pages"),
              "LEFT OUT:": counters["left_out_events"], "aligned": any(one["method"] != "same clock" for one in sources),
              "(assumed": any(one["assumes"]["rate_change_ppm"] for one in sources)}
    head = "\n".join(text.split("\n")[:HEAD])
    return [word for word, is_so in wanted.items() if is_so and word not in head]


def printed(trapline, case):
    words = shlex.split((case / "cmd").read_text(encoding="utf-8"))
    assert words[0] == "trapline", f"{case.name}/cmd: starts with {words[0]}"
    top, given = HERE.parent.parent, b""
    if "<" in words:
        given = (top / words.pop()).read_bytes()
        words.pop()
    run = subprocess.run([trapline, *words[1:]], cwd=top, capture_output=True, input=given, timeout=200,
                         check=False)
    text = run.stdout.decode()
    if run.returncode:
        text += f"exit status {run.returncode}\n"
    if run.returncode or "--verbose" in words:
        text += run.stderr.decode()
    return text


def run(trapline, case):
    text = printed(trapline, case)
    return case, text, not_in_head(trapline, case, text)


def main():
    arguments = [word for word in sys.argv[1:] if word != "--update"]
    update = "--update" in sys.argv
    if not arguments:
        sys.exit(__doc__)
    trapline, *names = arguments
    trapline = str(pathlib.Path(trapline).resolve())
    cases = sorted(path.parent for path in HERE.glob("*/cmd"))
    cases = [case for case in cases if not names or case.name in names]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(lambda case: run(trapline, case), cases))
    failed = 0
    for case, text, missing in runs:
        expected = case / "expected.txt"
        most = MOST_LINES_OF_JSON if text.startswith("{") else MOST_LINES
        if text.count("\n") > most:
            print(f"{case.name}: prints {text.count(chr(10))} lines; a case has at most {most}")
            failed += 1
        elif update:
            expected.write_text(text, encoding="utf-8")
        elif missing:
            print(f"{case.name}: {', '.join(missing)} is not in the first {HEAD} lines")
            failed += 1
        elif text != expected.read_text(encoding="utf-8"):
            failed += 1
            print(f"{case.name}:")
            sys.stdout.writelines(difflib.unified_diff(
                expected.read_text(encoding="utf-8").splitlines(True), text.splitlines(True),
                "expected", "printed"))
    print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
