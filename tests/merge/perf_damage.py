#!/usr/bin/env python3
"""perf_damage.py TRAPLINE RECORDING...: a perf.data with damage in its records is read on both sides of it.

From the begin of a seeded record on, bytes are zeroed, set or made random. Each exit that is then reported is one of
the sound recording, of the same length; what is missing is told: status 3 and a loss. (Damage within a record that
leaves its type and size cannot be seen, as in a page of a trace.dat.)
"""
import collections
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

trapline, recordings, CASES = sys.argv[1], sys.argv[2:], 30
failures, after_damage = [], 0


def run(*words):
    done = subprocess.run([trapline, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def exits(path):
    """The exits with their ends, as rows, and the counters."""
    status, out, _ = run("export", "--format", "jsonl", "-o", "-", path)
    rows = [json.loads(line) for line in out.splitlines()]
    found = collections.Counter((row["tid"], row["start_ns"], row["total_ns"]) for row in rows
                                if row.get("total_ns") is not None)
    report_status, out, told = run("report", "--format", "json", path)
    counters = json.loads(out)["tables"]["counters"] if out else None
    return max(status, report_status), found, counters, told


def records(data, begin, size):
    """The offsets of the records."""
    at = begin
    while at < begin + size:
        yield at
        at += struct.unpack_from("<H", data, at + 6)[0]


with tempfile.TemporaryDirectory() as folder:
    damaged = pathlib.Path(folder, "damaged.perf.data")
    for path in recordings:
        data = pathlib.Path(path).read_bytes()
        begin, size = struct.unpack_from("<QQ", data, 40)
        offsets = list(records(data, begin, size))
        status, sound, _, told = exits(path)
        assert status == 0 and sound, (path, told)
        for seed in range(CASES):
            rng = random.Random(seed)
            length = rng.choice((16, 64, 256, 1024))
            at = rng.choice([one for one in offsets if one + length <= begin + size])
            for kind in ("zeros", "ones", "random"):
                name = f"{path}, {length} {kind} at {at}"
                fill = {"zeros": bytes(length), "ones": b"\xff" * length, "random": rng.randbytes(length)}[kind]
                damaged.write_bytes(data[:at] + fill + data[at + length:])
                status, found, counters, told = exits(str(damaged))
                if status not in (0, 3) or (status == 0 and counters is None):
                    failures.append(f"{name}: status {status}, {told}")
                elif counters is None:
                    continue  # nothing could be read, and the reason is given
                elif found - sound:
                    failures.append(f"{name}: {list((found - sound).items())[:3]} is no exit of the sound recording")
                elif status == 0 or "are no records" not in told or counters["gaps"] == 0:
                    failures.append(f"{name}: status {status}, {counters['gaps']} losses, {told}")
                else:
                    after_damage += 1

print(f"{after_damage} recordings were read beyond their damage")
if after_damage < CASES * len(recordings):
    failures.append("too few recordings were read beyond their damage")
for failure in failures[:20]:
    print(f"FAILED: {failure}")
sys.exit(bool(failures))
