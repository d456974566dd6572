"""Types into real shells and presses Tab.

usage: completion.py bash|zsh|fish FOLDER TRAPLINE RECORDING RECORDING_OF_TWO_VMS

bash and zsh are interactive, at a terminal; fish is asked for what it would offer.
"""
import atexit
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path


PROMPT = re.compile("READY (\x1b\\[\\?2004h)?$")  # zsh asks for bracketed paste at its first one


class Shell:
    """An interactive shell at a terminal, after the lines of `setup`."""

    def __init__(self, trapline: str, command: list[str], setup: list[str]) -> None:
        pid, self.fd = pty.fork()
        if pid == 0:
            # Before the shell asks: a line that is wider than the terminal would be shown in part.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 1000, 0, 0))
            os.environ.update(PS1="READY ", TERM="dumb", PATH=f"{Path(trapline).parent}:{os.environ['PATH']}",
                              HISTFILE="/dev/null", INPUTRC="/dev/null", LC_ALL="C", ZDOTDIR="/nonexistent")
            os.execvp(command[0], command)
        # Where a hangup is ignored, as below nohup, a shell without its terminal would spin for ever.
        atexit.register(os.kill, pid, signal.SIGKILL)
        self.read_until(PROMPT)
        for line in setup:
            self.type(line + "\n")
            self.read_until(PROMPT)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def read_until(self, wanted: re.Pattern) -> str:
        seen, until = "", time.monotonic() + 60
        while not wanted.search(seen) and time.monotonic() < until:
            if select.select([self.fd], [], [], 0.2)[0]:
                seen += os.read(self.fd, 65536).decode(errors="replace")
        return seen

    def line_after_tab(self, typed: str, wanted: str) -> str:
        """What stands on the line when Tab is pressed behind `typed`; then the line is killed."""
        self.type(typed + "\t")
        seen = self.read_until(re.compile(re.escape(wanted)))
        self.type("\x15\n")
        self.read_until(PROMPT)
        return seen


def fish_candidates(file: str, trapline: str, typed: str) -> str:
    """What fish would offer: the whole words, one a line, before the text of each."""
    script = f"source {shlex.quote(file)}; complete -C {shlex.quote(typed)}"
    with tempfile.TemporaryDirectory() as home:  # fish writes its configuration there
        environment = {**os.environ, "PATH": f"{Path(trapline).parent}:{os.environ['PATH']}", "HOME": home}
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, env=environment)
    return "\n".join(line.split("\t")[0] for line in done.stdout.splitlines()) + "\n"


def main() -> None:
    shell_name, folder, trapline, recording, two_vms = sys.argv[1:]
    # What is typed, the word that Tab makes of its last one, and whether something may follow at once.
    cases = [
        ("trapline rep", "report"),
        ("trapline tim", "timeline"),
        ("trapline help exit-", "exit-model"),
        ("trapline report --sl", "--slower-than"),
        ("trapline record --no-q", "--no-qemu-events"),
        ("trapline report --by dev", "device"),
        ("trapline report --by reason,dev", "reason,device"),
        ("trapline report --by sp", "span"),
        ("trapline diff --by reas", "reason"),
        ("trapline report --sort me", "mean"),
        ("trapline report --format js", "json"),
        ("trapline export --format perf", "perfetto"),
        ("trapline timeline --around m", "max"),
        ("trapline events --trace-file st", "status"),
        (f"trapline timeline {recording} --reason cpu", "cpuid"),
        (f"trapline report {two_vms} --vm 22", "229"),
        (f"trapline report {two_vms} --vcpu ", "0"),
        (f"trapline report {two_vms} --by span --span memory_region_ops_r", "memory_region_ops_read:"),
    ]
    if shell_name == "bash":
        cases += [("trapline report --format=js", "--format=json"), (f"trapline info {recording[:-2]}", recording)]
        shell = Shell(trapline, ["bash", "--norc", "--noprofile", "-i"],
                      ["bind 'set bell-style none'; bind 'set enable-bracketed-paste off'", f"source {folder}/trapline.bash"])
    elif shell_name == "zsh":
        shell = Shell(trapline, ["zsh", "-f", "-i", "-o", "nopromptsp"], [
            f"unset zle_bracketed_paste; fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; "
            "setopt no_beep no_always_last_prompt no_auto_menu; bindkey -e"])
    failed = 0
    for typed, wanted in cases:
        if shell_name == "fish":
            seen = fish_candidates(f"{folder}/trapline.fish", trapline, typed)
            good = f"\n{wanted}\n" in f"\n{seen}"
        else:
            line = typed[:typed.rindex(" ") + 1] + wanted
            seen = shell.line_after_tab(typed, line)
            good = line in seen
        if not good:
            failed += 1
            print(f"FAILED in {shell_name}: '{typed}' and Tab: wanted '{wanted}', got {seen!r}")
    print(f"{shell_name}: {len(cases)} lines, {failed} failed")
    sys.exit(failed != 0)


main()
