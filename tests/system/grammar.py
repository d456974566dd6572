"""Holds every command to docs/grammar.md.

usage: grammar.py TRAPLINE DATA

Walks the options of --help-all of each command: what an option's argument is called says how it is written, so each
TIME and SIZE is tried with a value that is none and with a bare number; what is named alike is the same everywhere.
Then what no option tells: exit statuses of bad files, outputs that exist, readers that go away.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

TRAPLINE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
RECORDING = str(DATA / "svm-mono.dat")
PAIR = [str(DATA / "kernels/demo-5.10.dat"), str(DATA / "kernels/demo-7.3.dat")]
# Words that a command needs beside an option.
WORDS = {"report": [RECORDING], "timeline": [RECORDING], "explain": [RECORDING], "stalls": [RECORDING],
         "advise": [RECORDING], "info": [RECORDING], "top": ["--batch", "--count", "1", RECORDING], "diff": PAIR,
         "export": ["--format", "csv", "-o", "-", RECORDING], "record": [], "sync": [], "bench": []}
NEEDED = {("record", "--around"): ["--snapshot-on", "exit > 1ms"], ("record", "--spacing"): ["--flight", "60s"],
          ("record", "--disk-budget"): ["--flight", "60s"], ("timeline", "--context"): ["--around", "max"],
          ("record", "--duration"): ["--flight", "0s"]}  # which is refused: nothing is recorded
READERS = ["report", "timeline", "explain", "stalls", "advise", "export", "info", "top"]
SELECTION = {"--vm", "--vcpu", "--reason", "--device", "--detail", "--function", "--from", "--to"}
# Where a number without a unit can be nothing but seconds.
SECONDS = {"--from", "--to", "--duration", "--save-last", ("top", "--interval"), ("timeline", "--around"),
           ("explain", "--around")}
# Their unit is in their name.
UNITS = {"SOURCE=NS", "PPM"}
# What prints for people, with colours.
COLORS = {"report", "timeline", "explain", "stalls", "advise", "diff", "bench", "info", "doctor", "top"}
failures: list[str] = []


def check(condition: object, text: str) -> None:
    if not condition:
        failures.append(text)


def run(*words: object, extra: dict[str, str] = {}) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TRAPLINE, *map(str, words)], capture_output=True, text=True, check=False, timeout=120,
                          env=os.environ | extra, stdin=subprocess.DEVNULL)


def options_of(command: str) -> dict[str, str]:
    """The long name of each option, and its argument."""
    found = {}
    for names, argument in re.findall(r"^  ((?:-\w,)?--[\w-]+\S*)(?: (\S+))?", run(command, "--help-all").stdout, re.M):
        for name in re.findall(r"--[a-z][\w-]*", names):
            found[name] = argument
    return found


def refused(command: str, option: str, value: str) -> str:
    """What is said on stderr, where the value is refused for what it is."""
    done = run(command, *WORDS.get(command, []), *NEEDED.get((command, option), []), f"{option}={value}")
    is_it = done.returncode == 2 and re.search(rf"{option}: '?{re.escape(value)}'? (is not|has no unit)", done.stderr)
    return done.stderr if is_it else ""


def check_option(command: str, option: str, argument: str) -> None:
    if re.fullmatch(r"max\|TIME|TIME", argument):
        check(refused(command, option, "5x"), f"{command} {option}: takes 5x")
        bare = refused(command, option, "5")
        seconds = option in SECONDS or (command, option) in SECONDS
        check(bool(bare) != seconds, f"{command} {option}: 5 is {'refused' if bare else 'taken'}")
    elif argument == "SIZE":
        check("has no unit; use 5K" in refused(command, option, "5"), f"{command} {option}: takes 5")
        check(refused(command, option, "5x"), f"{command} {option}: takes 5x")
    else:
        check(argument in UNITS or not re.search(r"\b(NS|MS|US|SECONDS|[KM]I?B|PPM)\b", argument),
              f"{command} {option}: an argument named {argument}")
    check(option not in ("--json", "--text", "--csv", "--html", "--until"), f"{command}: has {option}")


def check_command(command: str) -> None:
    options = options_of(command)
    check("--help-all" in options, f"{command}: no --help-all")
    for option, argument in options.items():
        check_option(command, option, argument)
    check(("--from" in options) == ("--to" in options), f"{command}: one of --from and --to")
    check(options.get("--to", "TIME") == "TIME", f"{command}: --to takes {options.get('--to')}")
    check(options.get("--output") != "FILE" or "--force" in options, f"{command}: -o FILE without --force")
    if command in ("report", "timeline", "explain", "stalls", "diff", "top", "export"):
        check(SELECTION <= set(options), f"{command}: lacks {SELECTION - set(options)}")


def check_people(commands: list[str]) -> None:
    for command in commands:
        options = options_of(command)
        check(("--color" in options) == (command in COLORS), f"{command}: --color")
        check(options.get("--color", "auto|always|never") == "auto|always|never", f"{command} --color {options.get('--color')}")
        if command in ("record", "sync", "bench"):
            continue
        words = [command, *WORDS.get(command, [])]
        always = run(*words, extra={"TRAPLINE_COLOR": "always"}).stdout
        check("\x1b" not in always or command in COLORS, f"{command}: has colours and no --color")
        check("\x1b" not in run(*words).stdout, f"{command}: colours in a pipe")
    for command in ("report", "timeline", "explain"):
        for how in (["--format", "json"], ["--format", "csv"]):
            check("\x1b" not in run(command, RECORDING, *how, extra={"TRAPLINE_COLOR": "always"}).stdout, f"{command} {how}: colours")


def check_outputs(work: pathlib.Path, commands: list[str]) -> None:
    file = work / "out"
    for command in commands:
        if options_of(command).get("--output") != "FILE":
            continue
        words = [word for word in WORDS.get(command, []) if word not in ("-o", "-")]
        file.write_text("mine", encoding="utf-8")
        done = run(command, *words, "-o", file)
        check(done.returncode == 2 and "--force" in done.stderr, f"{command} -o FILE that exists: {done}")
        check(file.read_text(encoding="utf-8") == "mine", f"{command}: wrote {file}")
    copy = work / "copy.dat"
    copy.write_bytes(pathlib.Path(RECORDING).read_bytes())
    for command in ("report", "timeline", "explain", "stalls", "advise", "info"):
        done = run(command, copy, "-o", copy, "--force")
        check(done.returncode == 2 and copy.stat().st_size == pathlib.Path(RECORDING).stat().st_size,
              f"{command}: wrote over its recording")


def check_statuses(work: pathlib.Path) -> None:
    files = {"empty": b"", "text": b"this is a letter, and no trace\n" * 100, "binary": bytes(range(256)) * 64}
    for name, content in files.items():
        (work / name).write_bytes(content)
    for command in READERS:
        words = [word for word in WORDS[command] if word != RECORDING]
        for name in files:
            done = run(command, *words, work / name)
            check(done.returncode == 3 and name in done.stderr, f"{command} of a file that is {name}: {done}")
        done = run(command, *words, work / "none")
        check(done.returncode == 1 and "none" in done.stderr, f"{command} of no file: {done}")


def check_closed_pipes(commands: list[str]) -> None:
    """A reader that is gone before the first byte."""
    calls = [[command, *WORDS[command]] for command in READERS + ["diff"]]
    calls += [["doctor"], ["help"], ["help", "losses"], ["--help"], *[[one, "--help"] for one in commands]]
    for words in calls:
        reads, writes = os.pipe()
        os.close(reads)
        with subprocess.Popen([TRAPLINE, *words], stdout=writes, stderr=subprocess.PIPE,
                              restore_signals=False) as process:  # SIGPIPE is ignored there
            os.close(writes)
            said = process.stderr.read().decode()
        # top has to remove what it made.
        ended = process.returncode == (0 if words[:2] == ["top", "--batch"] else -signal.SIGPIPE)
        check(ended and said == "", f"{words} into a closed pipe: {process.returncode} {said}")


def main() -> None:
    text = run("--help").stdout
    check("--help-all" in text, "trapline: no --help-all")
    commands = re.findall(r"^  ([a-z]+) ", text.split("Record:")[1].split("trapline COMMAND")[0], re.M)
    for command in commands:
        check_command(command)
    check_people(commands)
    with tempfile.TemporaryDirectory() as work:
        check_outputs(pathlib.Path(work), commands)
        check_statuses(pathlib.Path(work))
    check_closed_pipes(commands)
    print(f"{len(commands)} commands, {len(failures)} failures")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures) or len(commands) < 15)


main()
