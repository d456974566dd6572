"""What commands do on a terminal: colours.

usage: terminal.py TRAPLINE DATA

Runs them in terminals of its own.
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import sys
import termios
import time

TRAPLINE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
failures: list[str] = []


def check(condition: object, text: str) -> None:
    if not condition:
        failures.append(text)


def run(words: list[str], **variables: str | None) -> tuple[int, str]:
    """The status, and what stood on the terminal."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    environment |= {name: value for name, value in variables.items() if value is not None}
    for name in [name for name, value in variables.items() if value is None]:
        environment.pop(name, None)
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    pid = os.fork()
    if pid == 0:
        os.close(leader)
        try:
            take_terminal(follower)
            os.execve(TRAPLINE, [TRAPLINE, *words], environment)
        finally:
            os._exit(127)
    os.close(follower)
    shown, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if not select.select([leader], [], [], 0.7)[0]:
            continue
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the last process of the terminal has ended
            break
        shown += part
    os.close(leader)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode().replace("\r\n", "\n")


def take_terminal(follower: int) -> None:
    os.setsid()
    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(follower, number)


def luminance(color: int) -> float:
    steps = [0, 95, 135, 175, 215, 255]
    level = 8 + 10 * (color - 232)
    rgb = [level] * 3 if color >= 232 else [steps[(color - 16) // by % 6] for by in (36, 6, 1)]
    parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (part / 255 for part in rgb)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def check_colours() -> None:
    seen: set[str] = set()
    recordings = [str(DATA / name) for name in ("svm-linux-2vcpu.dat", "svm-mono.dat", "box/demo-userspace.dat")]
    calls = [[command, *more, path] for path in recordings
             for command, *more in (["report", "--slower-than", "100us"], ["explain"], ["timeline", "--around", "max"], ["info"])]
    calls += [["diff", recordings[0], recordings[0]], ["doctor"]]
    for words in calls:
        status, text = run(words)
        found = re.findall(r"\x1b\[([0-9;]*)m", text)
        seen |= set(found)
        check(found or words[0] in ("info", "doctor"), f"{words}: no colours on a terminal: {status}")
        bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
        for how in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": None}):
            check(words[0] == "doctor" or run(words, **how)[1] == bare, f"{words} {how}: other text")
        check("\x1b" not in run([*words, "--color", "never"])[1], f"{words}: colours with --color never")
        if words[0] != "doctor":
            check(run([*words, "--color", "always"], NO_COLOR="1")[1] == text, f"{words}: --color always")
    for look in seen:
        for number in re.findall(r"38;5;(\d+)", look):
            light = luminance(int(number))
            check(min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 3, f"colour {number} is not read on black and white")
        # Bold, dim, their end, and the colours that no theme changes.
        check(re.fullmatch(r"0|1|2|(1;)?38;5;\d+", look), f"a look of another kind: {look}")
    check(len(seen) >= 7, f"few looks: {seen}")


def main() -> None:
    check_colours()
    print(f"{len(failures)} failures")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures))


main()
