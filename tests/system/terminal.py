"""What commands do on a terminal: colours and the pager.

usage: terminal.py TRAPLINE DATA

Runs them in terminals of its own. As root also as nobody, whose pager is what he says; root's is not.
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable

TRAPLINE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
NOBODY = 65534
SHORT = ["report", str(DATA / "svm-mono.dat"), "--top", "1"]
LONG = ["timeline", str(DATA / "svm-linux-2vcpu.dat")]
MIDDLE = ["help", "agent"]
failures: list[str] = []


def check(condition: object, text: str) -> None:
    if not condition:
        failures.append(text)


def run(words: list[str], keys: list[bytes] = (), user: int = NOBODY, size: tuple[int, int] = (30, 100),
        watch: Callable[[int], None] = lambda pid: None, **variables: str | None) -> tuple[int, str]:
    """The status, and what stood on the terminal. Each key is sent when the terminal has shown something and is quiet."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "xterm-256color", "TRAPLINE_CONFIG": "",
                   "LC_ALL": "C.UTF-8"}
    environment |= {name: value for name, value in variables.items() if value is not None}
    for name in [name for name, value in variables.items() if value is None]:
        environment.pop(name, None)
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    pid = os.fork()
    if pid == 0:
        os.close(leader)
        try:
            take_terminal(follower)
            if os.getuid() == 0 and user != 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.execve(TRAPLINE, [TRAPLINE, *words], environment)
        finally:
            os._exit(127)
    os.close(follower)
    keys, shown, end = list(keys), b"", time.monotonic() + 120
    while time.monotonic() < end:
        if not select.select([leader], [], [], 0.7)[0]:
            watch(pid)
            if keys and shown:
                os.write(leader, keys.pop(0))
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


def check_pager(work: pathlib.Path) -> None:
    mark = work / "paged"

    def paged(words: list[str], **how: str | None) -> bool:
        mark.unlink(missing_ok=True)
        status, _ = run(words, **how)
        check(status == 0, f"{words} {how}: status {status}")
        return mark.exists()

    pager, other = f"touch {mark}; cat", "cat >/dev/null; true"
    check(paged(MIDDLE, TRAPLINE_PAGER=pager), "no pager for what is longer than the terminal")
    check(not paged(MIDDLE, TRAPLINE_PAGER=pager, size=(200, 100)), "a pager for what fits the terminal")
    check(not paged(SHORT, TRAPLINE_PAGER=pager), "a pager for a short report")
    check(paged(MIDDLE, PAGER=pager), "PAGER is not heeded")
    check(paged(MIDDLE, TRAPLINE_PAGER=pager, PAGER=other), "PAGER comes before TRAPLINE_PAGER")
    check(not paged(MIDDLE, TRAPLINE_PAGER=other, PAGER=pager), "PAGER comes before TRAPLINE_PAGER")
    for none in ("", "cat"):
        check(not paged(MIDDLE, TRAPLINE_PAGER=none, PAGER=pager), f"a pager for TRAPLINE_PAGER='{none}'")
    check(not paged([*MIDDLE, "--no-pager"], TRAPLINE_PAGER=pager), "a pager in spite of --no-pager")
    for terminal in ("dumb", None):
        check(not paged(MIDDLE, TRAPLINE_PAGER=pager, TERM=terminal), f"a pager with TERM={terminal}")
    # Lines that the terminal breaks count as what they take.
    rows = run(MIDDLE, size=(200, 200), TRAPLINE_PAGER="")[1].count("\n")
    check(paged(MIDDLE, TRAPLINE_PAGER=pager, size=(rows + 5, 45)), "broken lines count as one")
    check(not paged(MIDDLE, TRAPLINE_PAGER=pager, size=(rows + 1, 200)), "a pager for what just fits")
    check(paged(MIDDLE, TRAPLINE_PAGER=pager, size=(rows, 200)), "no pager where the prompt has no line")


def check_text_and_status(work: pathlib.Path) -> None:
    plain = run([*LONG, "--color", "never", "--no-pager"])
    through = run([*LONG, "--color", "never"], TRAPLINE_PAGER="cat; true")
    check(plain[1].count("\n") > 1000 and plain == through, "the pager gets other text")
    seen = run(MIDDLE, TRAPLINE_PAGER="cat >/dev/null; env")[1]
    check("\nLESS=FRX\n" in f"\n{seen}", "the pager has no LESS=FRX")
    check("\nLESS=-i\n" in "\n" + run(MIDDLE, TRAPLINE_PAGER="cat >/dev/null; env", LESS="-i")[1], "LESS is not the user's")
    # As git: by SIGPIPE where the pager was left early, else with the command's own status.
    check(run(LONG, TRAPLINE_PAGER="head -n1")[0] == -signal.SIGPIPE, "a pager that was left early")
    check(run(LONG, TRAPLINE_PAGER="exec sh -c 'exec <&-; sleep 1'")[0] == -signal.SIGPIPE, "a pager that reads nothing")
    cut = work / "cut.dat"
    cut.write_bytes(pathlib.Path(LONG[1]).read_bytes()[:-70000])
    cut.chmod(0o644)
    status, text = run(["timeline", str(cut)], TRAPLINE_PAGER="cat >/dev/null; echo the end")
    check(status == 3 and text.index("the end") < text.index("trapline: "), f"of a damaged file: {status} {text}")
    status, text = run(MIDDLE, TRAPLINE_PAGER="no-such-pager")
    check(status == 0 and "'no-such-pager': cannot run this pager: " in text and "trapline report" in text,
          f"a pager that is not there: {status} {text}")
    begun, asked, ended = work / "begun", work / "asked", work / "ended"

    def end_it(pid: int) -> None:
        caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        if begun.exists() and not asked.exists() and caught and int(caught[1], 16) >> signal.SIGTERM - 1 & 1:
            os.kill(pid, signal.SIGTERM)
            asked.touch()
    # It reads, and so lets the command end, after the signal.
    pager = f"touch {begun}; until [ -e {asked} ]; do sleep 0.1; done; cat >/dev/null; touch {ended}"
    status, _ = run(LONG, TRAPLINE_PAGER=pager, watch=end_it)
    check(status == -signal.SIGTERM and ended.exists(), f"SIGTERM while the pager runs: {status}")
    status, _ = run(LONG, keys=[b"\x03", b"G", b"q"])
    check(status == -signal.SIGINT, f"Ctrl-C in less: {status}")


def check_root(work: pathlib.Path) -> None:
    mark = work / "shell"
    keys = [f"!touch {mark}\n".encode(), b"\n", b"q", b"q"]
    run(LONG, keys=keys)
    check(mark.exists(), "a user's less runs no shell: the test below tells nothing")
    mark.unlink(missing_ok=True)
    if os.getuid() != 0:
        return print("not root: root's pager was not tried")
    sources = f"touch {mark}"
    status, text = run(LONG, keys=keys, user=0, TRAPLINE_PAGER=sources, PAGER=sources, LESS="+!touch " + str(mark),
                       LESSOPEN=f"|touch {mark}; cat %s", LESSSECURE_ALLOW="shell", LESSSECURE="0", LESSKEYIN="/none")
    check(status in (0, -signal.SIGPIPE) and not mark.exists() and "ommand not available" in text,
          f"root's pager: {status} {mark.exists()} {text[-300:]}")
    check(run(MIDDLE, user=0, PAGER="cat")[1].count("\n") > 30, "root's PAGER=cat")


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
        status, text = run([*words, "--no-pager"])
        found = re.findall(r"\x1b\[([0-9;]*)m", text)
        seen |= set(found)
        check(found or words[0] in ("info", "doctor"), f"{words}: no colours on a terminal: {status}")
        bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
        for how in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": None}):
            check(words[0] == "doctor" or run([*words, "--no-pager"], **how)[1] == bare, f"{words} {how}: other text")
        check("\x1b" not in run([*words, "--no-pager", "--color", "never"])[1], f"{words}: colours with --color never")
        if words[0] != "doctor":
            check(run([*words, "--no-pager", "--color", "always"], NO_COLOR="1")[1] == text, f"{words}: --color always")
    for look in seen:
        for number in re.findall(r"38;5;(\d+)", look):
            light = luminance(int(number))
            check(min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 3, f"colour {number} is not read on black and white")
        # Bold, dim, their end, and the colours that no theme changes.
        check(re.fullmatch(r"0|1|2|(1;)?38;5;\d+", look), f"a look of another kind: {look}")
    check(len(seen) >= 7, f"few looks: {seen}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        work.chmod(0o777)
        check_colours()
        check_pager(work)
        check_text_and_status(work)
        check_root(work)
    print(f"{len(failures)} failures")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures))


main()
