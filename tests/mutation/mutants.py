#!/usr/bin/env python3
"""Would the tests notice? Changes one place of a source at a time, builds, runs the tests, and counts who noticed.

usage: mutants.py [--count N] [--seed N] [--of GROUP]... [--list] [--keep FOLDER]

A GROUP is one of exit, clock, call, wait (default: all): exit tracker, fit of clocks, call tracker of the plugin,
wait tracker. N places (default 300, shared among the groups by their lines) are drawn by the seed. A mutant is killed
when it does not compile (not counted), when a unit test of its folder fails, crashes or takes ten times as long, or
when a golden test or states.py over tests/data does. Prints each survivor as a line
FILE:LINE: what was, what it became; and at the end killed of all. The checkout is copied to FOLDER (default: a temporary
one) and built there with preset check; the checkout itself is not touched. --list prints the mutants and ends.
"""
import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUPS = {
    # files, the target of their unit tests, whether reports show what they do
    "exit": (["merge/analyze/exit_tracker.cc", "merge/analyze/exit_tracker_device.cc", "merge/analyze/exit_tracker_state.cc",
              "merge/analyze/exit_tracker_time.cc"], "tests/merge/analyze/analyze_test", True),
    "clock": (["merge/clock/feasible_lines.cc", "merge/clock/relation.cc", "merge/clock/wander_envelope.cc"],
              "tests/merge/clock/clock_test", True),
    "call": (["plugin/call_tracker.cc", "plugin/call_tracker_stacks.cc"], "tests/plugin/plugin_test", False),
    "wait": (["merge/analyze/wait_tracker.cc", "merge/analyze/wake_cause.cc"], "tests/merge/analyze/analyze_test", True),
}
# With blanks around it an operator is no template's bracket, no sign and no pointer.
SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" + ", " - "), (" - ", " + "), (" += ", " -= "), (" -= ", " += "), (" && ", " || "), (" || ", " && "),
         ("if (!", "if ("), ("return true", "return false"), ("return false", "return true"), (" = true", " = false"),
         (" = false", " = true"), ("std::min", "std::max"), ("std::max", "std::min"), ("++", "--")]
# A statement of its own on one line, which can be left out: a call, an assignment, a jump.
STATEMENT = re.compile(r"^ +(?!return|const |auto |std::\w+<|using |case |default|}|else)[\w.\->\[\]:*+]+(\(.*\)| [|&+-]?= .*|\+\+|)?;$")
JUMP = re.compile(r"^ +(if \(.*\) )(return;|continue;|break;)$")


def code_of(line):
    """The line without its comment; nothing of a preprocessor line, of prose or of a string."""
    code = line.split("//")[0].rstrip()
    return "" if code.lstrip().startswith("#") or '"' in code else code


def mutants_of(file):
    lines = (ROOT / file).read_text().split("\n")
    for number, line in enumerate(lines):
        code = code_of(line)
        for was, now in SWAPS:
            for match in re.finditer(re.escape(was), code):
                yield file, number, code[:match.start()] + now + code[match.end():]
        if STATEMENT.match(code) and not lines[number - 1].rstrip().endswith((",", "(", "=", "&&", "||", "?", ":")):
            yield file, number, code[:len(code) - len(code.lstrip())] + ";"
        elif jump := JUMP.match(code):
            yield file, number, code[:jump.start(2)] + ";"


def run(folder, *words, timeout=None):
    try:
        return subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout,
                              check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class Bench:
    def __init__(self, folder, groups):
        self.folder = folder
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
        for name in filter(None, files):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        subprocess.run(["cmake", "--preset", "check", "-DCMAKE_UNITY_BUILD=OFF"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        self.targets = sorted({GROUPS[name][1] for name in groups})
        subprocess.run(["ninja", "-C", "build/check", *self.targets, "trapline", "trapline_worker"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for name in groups:
            if not self.passes(name):
                sys.exit(f"mutants.py: the tests of {name} fail without a mutant; mend them first")

    def builds(self, group):
        _, target, reports = GROUPS[group]
        return run(self.folder, "ninja", "-C", "build/check", target, *(["trapline"] if reports else []))

    def passes(self, group):
        _, target, reports = GROUPS[group]
        if not run(self.folder, f"build/check/{target}", "--gtest_fail_fast", timeout=300):
            return False
        trapline = "build/check/merge/trapline"
        return not reports or (
            run(self.folder, "tests/golden/run.py", trapline, timeout=600)
            and run(self.folder, "python3", "tests/merge/states.py", trapline, "tests/data", timeout=600))

    def kills(self, group, mutant):
        """Whether the tests notice; None: it does not compile."""
        file, number, line = mutant
        path = self.folder / file
        was = path.read_text()
        lines = was.split("\n")
        lines[number] = line
        path.write_text("\n".join(lines))
        try:
            return not self.passes(group) if self.builds(group) else None
        finally:
            path.write_text(was)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", action="append", choices=GROUPS)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    groups = options.of or list(GROUPS)
    every = [(group, mutant) for group in groups for file in GROUPS[group][0] for mutant in mutants_of(file)]
    drawn = random.Random(options.seed).sample(every, min(options.count, len(every)))
    if options.list:
        for group, (file, number, line) in drawn:
            print(f"{group} {file}:{number + 1}: {line.strip()}")
        print(f"{len(drawn)} of {len(every)}")
        return
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="trapline-mutants."))
    try:
        bench = Bench(folder, groups)
        counts = {group: [0, 0] for group in groups}
        for group, mutant in sorted(drawn, key=lambda one: (one[0], one[1][0], one[1][1])):
            killed = bench.kills(group, mutant)
            if killed is None:
                continue
            counts[group][0] += killed
            counts[group][1] += 1
            if not killed:
                file, number, line = mutant
                was = (ROOT / file).read_text().split("\n")[number].strip()
                print(f"{file}:{number + 1}: {was}  ->  {line.strip()}", flush=True)
        for group, (killed, count) in counts.items():
            print(f"{group}: {killed} of {count} killed")
        killed, count = map(sum, zip(*counts.values()))
        print(f"all: {killed} of {count} killed ({100 * killed / max(count, 1):.1f} %)")
    finally:
        if not options.keep:
            shutil.rmtree(folder)


main()
