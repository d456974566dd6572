"""Reads what the command `trapline` tells of a recording: its rows as dictionaries. docs/python.md has examples.

A recording is a path, or a list of paths that are read together. Keyword arguments are the command's options:
`vcpu=0` is --vcpu 0, `from_="+1s"` is --from +1s, `sched=True` a switch, a list repeats the option.

An iterator starts the command with its first row and ends the process when it is closed. `Error` is raised where the
command fails; of a damaged recording that is after the rows that could be read.
"""

import json
import os
import subprocess
import sys
import tempfile

__all__ = ["Error", "calls", "events", "exits", "faults", "report", "rows", "waits"]

_CHUNK = 1 << 16  # bytes; larger ones leave the processor's cache between reading and decoding


class Error(Exception):
    """Says what the command said.

    `status` is its exit status: 1 it failed, 2 the options are wrong, 3 the recording is damaged or incomplete; a signal
    that killed it is negative.
    `report` is what report() could read of a damaged recording, otherwise None.
    """

    def __init__(self, message, status=1):  # pickle, and so multiprocessing, passes the message alone
        super().__init__(message)
        self.status = status
        self.report = None


def _words(recording, options):
    single = isinstance(recording, (str, bytes, os.PathLike))
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [f"{option}={each}" for each in (value if isinstance(value, (list, tuple)) else [value])]
    return words + ["--"] + [os.fspath(path) for path in ([recording] if single else recording)]


def _output(command, recording, options):
    """Yields the command's standard output in pieces that end with a line."""
    with tempfile.TemporaryFile() as messages:
        try:
            process = subprocess.Popen(["trapline", command, *_words(recording, options)],
                                       stdout=subprocess.PIPE, stderr=messages)
        except FileNotFoundError:
            raise Error("the command trapline is not in PATH; install the package trapline", 1) from None
        with process:
            try:
                rest = b""
                while True:
                    piece = process.stdout.read1(_CHUNK)
                    end = piece.rfind(b"\n") + 1
                    if end:
                        yield rest + piece[:end]
                        rest = piece[end:]
                    elif piece:
                        rest += piece
                    else:
                        break
            except BaseException:
                process.terminate()
                raise
        messages.seek(0)
        message = messages.read().decode(errors="replace").strip()
        if process.returncode < 0:
            raise Error(f"trapline {command} was killed by signal {-process.returncode}", process.returncode)
        if process.returncode > 0:
            raise Error(message.removeprefix("trapline: "), process.returncode)
        if message:
            print(message, file=sys.stderr)


def rows(recording, kind, **options):
    """Yields the rows of `trapline export --rows KIND`, which docs/formats/rows.md describes."""
    names = None
    # Arrays, for the decoder takes most of its time for the keys of objects.
    for lines in _output("export", recording, {"format": "arrays", "rows": kind, "output": "-", "allow_empty": True, **options}):
        found = json.loads(b"[" + lines[:-1].replace(b"\n", b",") + b"]")
        names = names or found.pop(0)
        yield from [dict(zip(names, values)) for values in found]


def exits(recording, **options):
    """Yields the VM exits."""
    return rows(recording, "exits", **options)


def faults(recording, **options):
    """Yields the page faults of the guests' memory, with their causes."""
    return rows(recording, "faults", **options)


def calls(recording, **options):
    """Yields the calls of guest functions."""
    return rows(recording, "functions", **options)


def events(recording, **options):
    """Yields the lines of `trapline timeline`: `time_ns`, or in cycles `time`, and `text`, the line after its time."""
    for lines in _output("timeline", recording, options):
        for line in lines[:-1].decode().split("\n"):
            time, text = line.split(None, 1)
            seconds, point, fraction = time.partition(".")
            if point:
                yield {"time_ns": int(seconds + fraction), "text": text}
            else:
                yield {"time": int(time), "text": text}


def waits(recording, **options):
    """Yields who kept the vCPUs waiting inside exits: the rows of `report --waits`, with their part of the time."""
    tables = report(recording, waits=True, **options)["tables"]
    for part in ("preempted", "blocked", "halted"):
        for row in tables[part]["rows"]:
            yield {"part": part, **row}


def report(recording, **options):
    """Returns the JSON document of `trapline report`, which docs/formats/report.md describes."""
    pieces = []
    try:
        pieces.extend(_output("report", recording, {"format": "json", **options}))
    except Error as error:
        if pieces:
            error.report = json.loads(b"".join(pieces))
        raise
    return json.loads(b"".join(pieces))
