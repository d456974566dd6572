#!/usr/bin/env python3
"""other_machines.py TRAPLINE RECORDING...: recordings as machines of another byte order or page size write them.

Each copy (tests/support/other_machine.py) is what its recording is: trace-cmd, which knows such machines, prints the
same text of both. So Trapline's report and timeline of both have to be the same as well.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from other_machine import as_other_machine  # noqa: E402

MACHINES = {"big-endian": (True, 4096), "64 KiB pages": (False, 65536), "big-endian, 64 KiB pages": (True, 65536)}
COMMANDS = (["report", "--by", "reason,detail,device", "--format", "csv"], ["timeline"],
            ["report", "--irq", "--waits", "--format", "csv"])


# Of a string's address, which libtraceevent prints in this machine's order.
NOT_COMPARED = b"kvm_arm_set_dreg32"


def compared(text):
    return [line for line in text.splitlines() if NOT_COMPARED not in line]


def of_trapline(trapline, path, window=()):
    runs = [subprocess.run([trapline, *command, str(path), *(window if command == ["timeline"] else ())],
                           capture_output=True, check=False) for command in COMMANDS]
    return [(run.returncode, compared(run.stdout)) for run in runs]


def of_trace_cmd(path):
    return compared(subprocess.run(["trace-cmd", "report", "-t", "-N", str(path)], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, check=True).stdout)[1:]


def main():
    trapline, *recordings = sys.argv[1:]
    wrong = copies = lines = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.dat"
        for recording in recordings:
            # Before its first exit a thread is called a vCPU if the look at some pages met it there: others
            # are met with pages of another size.
            window = ("--from", "+1500ms") if "2vcpu" in recording else ()
            text, expected = of_trace_cmd(recording), of_trapline(trapline, recording, window)
            assert len(text) > 1000 and all(status == 0 for status, _ in expected), recording
            for machine, how in MACHINES.items():
                copy.write_bytes(as_other_machine(recording, *how))
                copies, lines = copies + 1, lines + len(text)
                if of_trace_cmd(copy) != text:
                    wrong += 1
                    print(f"{recording}, {machine}: the copy is not what it should be: trace-cmd prints other events")
                for command, right, got in zip(COMMANDS, expected, of_trapline(trapline, copy, window)):
                    if got != right:
                        wrong += 1
                        print(f"{recording}, {machine}: {' '.join(command)} differs (status {got[0]})")
    print(f"{copies} copies of {len(recordings)} recordings, {lines} events: {wrong} differ")
    return 1 if wrong or not copies else 0


if __name__ == "__main__":
    sys.exit(main())
