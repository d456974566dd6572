#!/usr/bin/env python3
"""programs_events.py TRAPLINE RECORDING...: QEMU's own files, without the kernel's events, have the same requests.

The markers of each recording become a log of QEMU (whole microseconds) and a simpletrace file (nanoseconds), and
`report --by span` of these the same rows as of the recording; `--by qemu-event` counts the same events.
"""
import re
import struct
import sys
import tempfile
from pathlib import Path

import recording
import tables

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
import simpletrace_file  # noqa: E402

DECLARED = {"virtio_blk_handle_read": "vdev req sector nsectors", "virtio_blk_handle_write": "vdev req sector nsectors",
            "virtio_blk_req_complete": "vdev req status", "virtio_queue_notify": "vdev n vq",
            "virtio_notify": "vdev vq", "virtio_notify_irqfd": "vdev vq", "virtio_notify_irqfd_deferred_fn": "vdev vq"}


def events_of(path):
    for event in recording.read(path)[0]:
        if event.name == "print":
            name, _, text = event.text.partition(": ")[2].partition(" ")
            if name in DECLARED:
                yield event.tid, event.at, name, text


def log_of(events):
    # On the wall clock, as QEMU writes it.
    return "".join(f"{thread}@{1_700_000_000 + at // 10**9}.{at % 10**9 // 1000:06}:{name} {text}\n"
                   for thread, at, name, text in events)


def simpletrace_of(events):
    names = sorted(DECLARED)
    records = b""
    for _, at, name, text in events:
        values = [int(value, 0) for value in re.findall(r" (0x[0-9a-f]+|\d+)(?= |$)", " " + text)]
        assert len(values) == len(DECLARED[name].split()), text
        records += simpletrace_file.record(names.index(name), at, struct.pack(f"<{len(values)}Q", *values))
    return simpletrace_file.file(names, records)


def declarations():
    lines = []
    for name, fields in DECLARED.items():
        types = ", ".join(f"uint64_t {field}" for field in fields.split())
        lines.append(f'{name}({types}) "' + " ".join(f'{field} 0x%"PRIx64"' for field in fields.split()) + '"\n')
    return "".join(lines)


def main():
    trapline, *recordings = sys.argv[1:]
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        log, simple, declared = (str(Path(work) / name) for name in ("qemu.log", "trace.bin", "trace-events-all"))
        Path(declared).write_text(declarations(), encoding="utf-8")
        for original in recordings:
            events = sorted(events_of(original), key=lambda event: event[1])
            if len(events) < 50:
                sys.exit(f"{original}: only {len(events)} events of QEMU")
            Path(log).write_text(log_of(events), encoding="utf-8")
            Path(simple).write_bytes(simpletrace_of(events))
            expected = tables.of(trapline, "report", original, "--by", "span", "--trace-events", declared)
            for path, unit in ((log, 1000), (simple, 0)):
                found = tables.of(trapline, "report", path, "--by", "span", "--trace-events", declared)
                faults = list(tables.differences(expected, found, ("count", "total_ns"), room=unit))
                counted = {row["name"]: row["count"] for row in tables.of(
                    trapline, "report", path, "--by", "qemu-event", "--trace-events", declared)["qemu_events"]["rows"]}
                for name in DECLARED:
                    wanted = sum(event[2] == name for event in events)
                    if counted.get(name, 0) != wanted:
                        faults.append(f"--by qemu-event: {name} {counted.get(name, 0)} times, not {wanted}")
                wrong += bool(faults)
                for fault in faults:
                    print(f"{original} as {Path(path).name}: {fault}")
            print(f"{original}: {len(events)} events, {len(expected['groups']['rows'])} kinds of requests")
    return 1 if wrong or not recordings else 0


sys.exit(main())
