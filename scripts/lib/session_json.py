"""Prints a session.json for a recording made in the box (docs/formats describes the file).

usage: session_json.py FACTS-FILE QEMU-COMMAND-FILE TRAPLINE-VERSION [functions]
"""
import json
import sys
from pathlib import Path


def main() -> None:
    facts, qemu_command, trapline_version, *functions = sys.argv[1:]
    record, kernel, cpus, trace_cmd, qemu = Path(facts).read_text().splitlines()
    json.dump(
        {
            "version": 1,
            "command": record.split() + Path(qemu_command).read_text().split(),
            "host": {"kernel": kernel, "cpus": int(cpus), "machine": "kvm-box"},
            "versions": {"trapline": trapline_version, "trace-cmd": trace_cmd, "qemu": qemu},
            # Each machine has a clock of its own; the sync records in sync.txt relate the two.
            "clocks": {"trace.dat": "mono", **({"uftrace.data": "mono"} if functions else {})},
            "closed": True,
        },
        sys.stdout,
        indent=2,
    )
    print()


main()
