"""Prints a session.json for a recording made in the box (docs/formats describes the file).

usage: session_json.py FACTS-FILE QEMU-COMMAND-FILE TRAPLINE-VERSION
"""
import json
import sys
from pathlib import Path


def main() -> None:
    facts, qemu_command, trapline_version = sys.argv[1:]
    record, kernel, cpus, trace_cmd, qemu = Path(facts).read_text().splitlines()
    json.dump(
        {
            "version": 1,
            "command": record.split() + Path(qemu_command).read_text().split(),
            "host": {"kernel": kernel, "cpus": int(cpus), "machine": "kvm-box"},
            "versions": {"trapline": trapline_version, "trace-cmd": trace_cmd, "qemu": qemu},
            "clocks": {"trace.dat": "mono"},
            "closed": True,
        },
        sys.stdout,
        indent=2,
    )
    print()


main()
