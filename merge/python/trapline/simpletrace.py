"""Analyses the files of QEMU's simple trace backend as scripts written for QEMU's simpletrace.py do.

Such a script runs with `from trapline import simpletrace` in place of `import simpletrace`. Version 4 files give what
QEMU 10's module gives; versions 2 and 3 are read too, in either byte order (docs/formats/simpletrace.md).

    class States(simpletrace.Analyzer2):
        def runstate_set(self, current_state, _, new_state, *args, timestamp_ns, **kwargs):
            print(timestamp_ns, current_state, new_state)

    simpletrace.run(States())
"""

import inspect
import re
import struct
import sys

__all__ = ["Analyzer", "Analyzer2", "SimpleException", "process", "run"]

_HEADER_ID, _MAGIC, _DROPPED_ID = 2**64 - 1, 0xF2B177CB0AA429B4, 2**64 - 2
_MAPPING = 0  # a record's type; QEMU takes every other for an event
_DECLARATION = re.compile(r"((?:\w+\s+)*)(\w+)\(([^)]*)\)\s*(.*)")
_ARGUMENT = re.compile(r"\s*(.*\*|.*\S(?=\s))\s*(\w+)\s*")  # "void" is none
_STRING = re.compile(r"(?:const\s+)?char\s*\*")
_MOST = 1 << 20  # bytes of a record; QEMU's have ten arguments of at most 512


class SimpleException(Exception):
    """Says what is wrong with a file, where, and what to do."""


class _Cut(SimpleException):
    """A file that ends inside a record."""


class Arguments(list):
    """(type, name) of each argument."""

    def types(self):
        return [kind for kind, _ in self]

    def names(self):
        return [name for _, name in self]


class Event:
    """An event that trace-events-all declares."""

    def __init__(self, name, properties, args, fmt):
        self.name, self.properties, self.args, self.fmt = name, properties, args, fmt


def _declared(line, place):
    """Yields the events of a line: two for a `tcg` event of QEMU 7 and before, when code is translated and when it runs."""
    found = _DECLARATION.match(line)
    if not found:
        raise SimpleException(f"{place}: {line.strip()[:60]!r} declares no event; give the trace-events-all of the QEMU "
                              "that wrote the trace, before the trace")
    properties, name, arguments, fmt = found.groups()
    properties = properties.split()
    arguments = Arguments(argument.groups() for argument in map(_ARGUMENT.fullmatch, arguments.split(",")) if argument)
    if "vcpu" in properties:
        arguments.insert(0, ("void *", "__cpu"))
    if "tcg" in properties:
        known = Arguments(argument for argument in arguments if not argument[0].startswith("TCGv"))
        yield Event(name + "_trans", properties, known, fmt)
        name += "_exec"
    yield Event(name, properties, arguments, fmt)


def _declarations(events):
    """The events of a path, an open file, or a list of such events."""
    if isinstance(events, str):
        with open(events, encoding="utf-8", errors="replace") as file:
            return _declarations(file)
    if isinstance(events, list):
        return events
    return [event for number, line in enumerate(events, 1) if line.strip() and not line.lstrip().startswith("#")
            for event in _declared(line, f"{events.name}:{number}")]


def _name(log):
    return getattr(log, "name", "the trace")


def _read(log, size, at_end=False):
    """The next `size` bytes; nothing at the end of the file where a record may end there."""
    if not 0 <= size <= _MOST:
        raise SimpleException(f"{_name(log)}: a record has an impossible length; the file is damaged from there on")
    found = log.read(size)
    if len(found) != size and (found or not at_end):
        raise _Cut(f"{_name(log)}: the file ends inside a record; the analysis is of the events before it")
    return found


def _header(log):
    """(byte order, version) of a file."""
    header = log.read(24)
    for order in "<>":
        if header[:16] == struct.pack(order + "QQ", _HEADER_ID, _MAGIC) and len(header) == 24:
            version, = struct.unpack(order + "Q", header[16:])
            if version not in (2, 3, 4):
                raise SimpleException(f"{_name(log)}: version {version} of simpletrace is not known; 2, 3 and 4 are")
            return order, version
    raise SimpleException(f"{_name(log)}: QEMU's simple backend did not write this file; give trace-events-all first, "
                          "then the trace")


def _values(strings, payload, order):
    """The arguments of a record: numbers as unsigned ones of 64 bits, strings as bytes; None where they do not fit."""
    values, at = [], 0
    for is_string in strings:
        size = 4 if is_string else 8
        if at + size > len(payload):
            return None
        value, = struct.unpack_from(order + ("L" if is_string else "Q"), payload, at)
        at += size
        if is_string:
            value, at = payload[at:at + value], at + value
        values.append(value)
    return values if at == len(payload) else None


def _records(events, log, read_header):
    """Yields (event, id, time in ns, process id, arguments) of each event; the id is the event's name."""
    order, version = _header(log) if read_header else ("=", 4)
    declared = {event.name: event for event in events}
    declared["dropped"], = _declared("Dropped_Event(uint64_t num_events_dropped)", __file__)
    strings = {name: [bool(_STRING.fullmatch(kind)) for kind, _ in event.args] for name, event in declared.items()}
    names = {_DROPPED_ID: "dropped"}
    if version < 4 or not read_header:
        names.update((number, event.name) for number, event in enumerate(events))
    while True:
        if version == 4:
            kind = _read(log, 8, at_end=True)
            if not kind:
                return
            if struct.unpack(order + "Q", kind)[0] == _MAPPING:
                number, length = struct.unpack(order + "QL", _read(log, 12))
                names[number] = _read(log, length).decode(errors="replace")
                continue
        head = _read(log, 24, at_end=version < 4)
        if not head:
            return
        number, time, length, pid = struct.unpack(order + "QQLL", head)
        payload = _read(log, length - 24)
        name = names.get(number, f"number {number}")
        values = _values(strings[name], payload, order) if name in declared else None
        if values is None:
            raise SimpleException(f"{_name(log)}: the event {name} is not in the trace events, or with other arguments; "
                                  "give the trace-events-all of the QEMU that wrote the trace")
        yield declared[name], name, time, pid, values


class Analyzer:
    """Gets the events of a trace, each by the method with its name, otherwise by catchall().

    A method takes the event's arguments, or before them the time in ns, or the time and the process id.
    """

    def begin(self):
        """Called before the first event."""

    def end(self):
        """Called after the last event."""

    def catchall(self, event, rec):
        """Called with an event that has no method; `rec` is (id, time, process id, arguments…)."""

    def __enter__(self):
        self.begin()
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.end()
        return False

    def _process_event(self, rec_args, *, event, event_id, timestamp_ns, pid):
        method = getattr(self, event.name, None)
        if method is None:
            self.catchall(event, (event_id, timestamp_ns, pid, *rec_args))
            return
        known = self.__dict__.setdefault("_more_arguments", {})  # subclasses need not call __init__()
        more = known.get(event.name)
        if more is None:
            more = known[event.name] = len(inspect.getfullargspec(method).args) - 1 - len(event.args)
        before = {1: (timestamp_ns,), 2: (timestamp_ns, pid)}.get(more, ())
        method(*before, *rec_args)


class Analyzer2(Analyzer):
    """Gets event, event_id, timestamp_ns and pid by name, after the event's arguments."""

    def catchall(self, *rec_args, event, timestamp_ns, pid, event_id, **kwargs):  # pylint: disable=arguments-differ
        """Called with an event that has no method."""

    def _process_event(self, rec_args, *, event, **kwargs):
        getattr(self, event.name, self.catchall)(*rec_args, event=event, **kwargs)


def process(events, log, analyzer, read_header=True):
    """Gives the events of a trace to an analyzer.

    `events` is the path of trace-events-all, the open file, or a list of events; `log` the trace's path, or the file
    opened in binary mode. Without `read_header` the file has no header, and ids count the declarations.
    """
    if isinstance(log, str):
        with open(log, "rb") as file:
            process(events, file, analyzer, read_header)
        return
    cut, events = None, _declarations(events)
    with analyzer:
        try:
            for event, event_id, time, pid, values in _records(events, log, read_header):
                analyzer._process_event(values, event=event, event_id=event_id, timestamp_ns=time, pid=pid)
        except _Cut as error:
            cut = error
    if cut:
        raise cut


def run(analyzer):
    """Analyses the trace that the command line names: [--no-header] TRACE-EVENTS TRACE."""
    if len(sys.argv) < 3 or sys.argv[1:-2] not in ([], ["--no-header"]):
        raise SimpleException(f"usage: {sys.argv[0]} [--no-header] <trace-events> <trace-file>")
    process(sys.argv[-2], sys.argv[-1], analyzer, read_header=len(sys.argv) == 3)
