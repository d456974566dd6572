#!/usr/bin/env python3
"""The package gives what the command writes: each row of every kind, reports, waits, events, and each error.

  rows.py TRAPLINE PATH...   recordings, and every recording below the folders that are named
"""
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "merge/python"))
import trapline  # noqa: E402  pylint: disable=wrong-import-position

KINDS = ("exits", "faults", "requests", "vhost", "interrupts", "functions")


def recordings(path):
    if path.is_file() or (path / "session.json").is_file() or path.name.endswith("uftrace.data"):
        yield path
    elif path.is_dir():
        for below in sorted(path.iterdir()):
            if below.is_dir() or below.name.endswith((".dat", "perf.data")) or below.parent.name == "text":
                yield from recordings(below)


def command(*words):
    done = subprocess.run(["trapline", *map(str, words)], capture_output=True, text=True, check=False)
    said = done.stderr.strip()
    return done.stdout, (done.returncode, said.removeprefix("trapline: ")) if done.returncode else None


def package(iterator):
    """(all items, the error's status and text)"""
    items = []
    try:
        items.extend(iterator)
    except trapline.Error as error:
        return items, (error.status, str(error))
    return items, None


def time_of(row):
    """The time as the timeline prints it: seconds with nine digits, or cycles."""
    return f"{row['time']}" if "time" in row else f"{row['time_ns'] // 10**9}.{row['time_ns'] % 10**9:09}"


def wrong_of(path):
    """Yields what differs; counts the rows."""
    for kind in KINDS:
        lines, refused = command("export", path, "--allow-empty", "--format", "jsonl", "--rows", kind, "-o", "-")
        want = [json.loads(line) for line in lines.splitlines()]
        named = {"exits": trapline.exits, "faults": trapline.faults, "functions": trapline.calls}.get(kind)
        got, error = package(named(path) if named else trapline.rows(path, kind))
        COUNTS[kind] += len(want)
        if (got, error) != (want, refused):
            yield f"{kind}: {len(got)} rows and {error}, the command has {len(want)} and {refused}"
    text, refused = command("report", path, "--format", "json", "--waits")
    want = json.loads(text) if text else None
    try:
        got, error = trapline.report(path, waits=True), None
    except trapline.Error as raised:
        got, error = raised.report, (raised.status, str(raised))
    if (got, error) != (want, refused):
        yield f"report: {error}, the command has {refused}, or another document"
    if refused is None:
        waits = list(trapline.waits(path))
        tables = want["tables"]
        if waits != [{"part": part, **row} for part in ("preempted", "blocked", "halted") for row in tables[part]["rows"]]:
            yield "waits: other rows than the report's"
        COUNTS["waits"] += len(waits)
    text, refused = command("timeline", path)
    lines = [line.split(None, 1) for line in text.split("\n")[:-1]]
    got, error = package(trapline.events(path))
    if ([[time_of(row), row["text"]] for row in got], error) != (lines, refused):
        yield f"events: {len(got)} and {error}, the command has {len(lines)} and {refused}"
    COUNTS["events"] += len(got)


COUNTS = dict.fromkeys([*KINDS, "waits", "events"], 0)


def main():
    binary, *paths = sys.argv[1:]
    os.environ["PATH"] = os.path.dirname(os.path.abspath(binary)) + ":" + os.environ["PATH"]
    wrong = files = 0
    for path in paths:
        for recording in recordings(pathlib.Path(path)):
            files += 1
            for text in wrong_of(recording):
                wrong += 1
                print(f"FAILED: {recording}: {text}")
    print(f"{files} recordings, {', '.join(f'{count} {kind}' for kind, count in COUNTS.items())}, {wrong} wrong")
    sys.exit(wrong != 0 or files == 0 or COUNTS["exits"] == 0)


main()
