"""What trapline writes as JSON and as rows (docs/formats/report.md), for tests that compare it with something else."""
import json
import subprocess


def output(trapline, *words):
    return subprocess.run([trapline, *map(str, words)], stdout=subprocess.PIPE, check=True).stdout


def document(trapline, *words):
    """Returns what a command, `words`, writes with --format json."""
    return json.loads(output(trapline, *words, "--format", "json"))


def asked(trapline, *words):
    """Returns the exit status of a command that may refuse, what it writes with --format json (or None), and its complaint."""
    run = subprocess.run([trapline, *map(str, words), "--format", "json"], capture_output=True, text=True, check=False)
    return run.returncode, json.loads(run.stdout) if run.stdout else None, run.stderr


def window(begin=None, end=None):
    """Returns the options of that part of a recording, in nanoseconds."""
    return [f"--{name}={at // 10**9}.{at % 10**9:09}" for name, at in (("from", begin), ("to", end)) if at is not None]


def of(trapline, *words):
    return document(trapline, *words)["tables"]


def rows(trapline, path, kind="exits", *words):
    """Returns the rows of this kind, as `trapline export` writes them."""
    written = output(trapline, "export", path, "--format", "jsonl", "--rows", kind, "--allow-empty", "-o", "-", *words)
    return [json.loads(line) for line in written.splitlines()]


def ended(row):
    """Returns how many of a row's exits have an end: its times, and exported rows, are theirs alone."""
    return row["count"] - row["cut"] - row["open"]


def differences(expected, found, columns, counters=(), room=0):
    """Yields, as sentences, how the groups and counters of two reports' tables differ: a time by more than `room` ns an exit."""
    one, other = ({"counters": of["counters"], **{f"row {row['key']}": row for row in of["groups"]["rows"]}}
                  for of in (expected, found))
    for key in one | other:
        was, now = one.get(key, {}), other.get(key, {})
        for column in counters if key == "counters" else columns:
            a, b = was.get(column), now.get(column)
            if a != b and (None in (a, b) or abs(a - b) > (room * was["count"] if column.endswith("_ns") else 0)):
                yield f"{key}: {column} {b}, not {a}"


def by_key(tables):
    """Returns the rows of exits that have an end, by their keys; `count` is the number of these exits."""
    return {row["key"]: row | {"count": ended(row)} for row in tables["groups"]["rows"] if ended(row)}
