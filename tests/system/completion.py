"""Types into a real, interactive bash and presses Tab.

usage: completion.py COMPLETION_FILE TRAPLINE RECORDING
"""
import os
import pty
import re
import select
import sys
import time
from pathlib import Path


class Shell:
    def __init__(self, completion: str, trapline: str) -> None:
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update(PS1="READY ", TERM="dumb", PATH=f"{Path(trapline).parent}:{os.environ['PATH']}",
                              HISTFILE="/dev/null", INPUTRC="/dev/null", LC_ALL="C")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.read_until(re.compile("READY $"))
        self.type("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; stty cols 200\n")
        self.read_until(re.compile("READY $"))
        self.type(f"source {completion}\n")
        self.read_until(re.compile("READY $"))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def read_until(self, wanted: re.Pattern) -> str:
        seen, until = "", time.monotonic() + 20
        while not wanted.search(seen) and time.monotonic() < until:
            if select.select([self.fd], [], [], 0.2)[0]:
                seen += os.read(self.fd, 65536).decode(errors="replace")
        return seen

    def line_after_tab(self, typed: str, wanted: str) -> str:
        """What stands on the line when Tab is pressed behind `typed`; # ends the line unrun."""
        self.type(typed + "\t")
        seen = self.read_until(re.compile(re.escape(wanted)))
        self.type(" #end\x01#\n")  # a comment from its beginning: nothing runs
        self.read_until(re.compile("READY $"))
        return seen


def main() -> None:
    completion, trapline, recording = sys.argv[1:]
    cases = [
        ("trapline rep", "trapline report "),
        ("trapline tim", "trapline timeline "),
        ("trapline report --sl", "trapline report --slower-than "),
        ("trapline record --no-q", "trapline record --no-qemu-events "),
        ("trapline report --by reason,dev", "trapline report --by reason,device "),
        ("trapline report --by sp", "trapline report --by span "),
        ("trapline report --sort me", "trapline report --sort mean "),
        ("trapline report --format js", "trapline report --format json "),
        ("trapline report --format=js", "trapline report --format=json "),
        ("trapline timeline --around m", "trapline timeline --around max "),
        ("trapline events --trace-file st", "trapline events --trace-file status "),
        (f"trapline info {recording[:-2]}", f"trapline info {recording} "),
        (f"trapline timeline {recording} --reason cpu", "--reason cpuid "),
    ]
    shell, failed = Shell(completion, trapline), 0
    for typed, wanted in cases:
        seen = shell.line_after_tab(typed, wanted)
        if wanted not in seen:
            failed += 1
            print(f"FAILED: '{typed}' and Tab: wanted '{wanted}', the terminal showed {seen!r}")
    print(f"{len(cases)} lines, {failed} failed")
    sys.exit(failed != 0)


main()
