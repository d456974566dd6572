#!/usr/bin/env python3
"""Would the tests notice? Changes one place of a source at a time, builds, runs the tests, and counts who noticed.

usage: mutants.py [--count N] [--seed N] [--of GROUP]... [--at FILE:LINE]... [--list] [--keep FOLDER]

A GROUP is one of exit, clock, call, wait (default: all): exit tracker, fit of clocks, call tracker of the plugin,
wait tracker. N places (default 300, shared among the groups by their lines) are drawn by the seed; with --at every
mutant of these places. A mutant is killed by the first of its group's tests that fails, crashes or takes ten times as
long: unit tests, then golden tests and states.py over tests/data, then the oracles in Python. One that does not compile
with -Werror is not counted. Prints each survivor as a line FILE:LINE: what was -> what it became; and at the end killed of all.
The checkout is copied to FOLDER (default: a temporary one) and built there with preset
edit; the checkout itself is not touched. --list prints the mutants and ends.
"""
import argparse
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAPLINE = "build/edit/merge/trapline"
ANALYZE = "tests/merge/analyze/analyze_test"
# What can see a mutant: a target and the command to run once it is built, the cheapest first.
REPORTS = [("trapline", ["tests/golden/run.py", TRAPLINE]),
           ("trapline", ["python3", "tests/merge/states.py", TRAPLINE, "tests/data"])]


def unit(target, suites="*"):
    return target.rpartition("/")[2], ["build/edit/" + target, "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={suites}"]


def oracles(pattern):
    return "trapline", ["ctest", "--preset", "edit", "--stop-on-failure", "--no-tests=error", "-R", pattern]


GROUPS = {
    # files; their tests
    "exit": (["merge/analyze/exit_tracker.cc", "merge/analyze/exit_tracker_device.cc", "merge/analyze/exit_tracker_state.cc",
              "merge/analyze/exit_tracker_time.cc"],
             [unit(ANALYZE), *REPORTS, oracles("^(report|halt)_oracle/(svm-2vcpu-lost|svm-linux-2vcpu|vmx/demo-2cpus|box/two-vms|arm64/kvm-arm64-mono).dat")]),
    "clock": (["merge/clock/feasible_lines.cc", "merge/clock/relation.cc", "merge/clock/wander_envelope.cc"],
              [unit("tests/merge/clock/clock_test", "-RatePath.*"), unit("tests/merge/clock/clock_test", "RatePath.*")]),
    "call": (["plugin/call_tracker.cc", "plugin/call_tracker_stacks.cc"],
             [unit("tests/plugin/plugin_test", "CallTracker*:StackPool*")]),
    "wait": (["merge/analyze/wait_tracker.cc", "merge/analyze/wake_cause.cc"],
             [unit(ANALYZE), *REPORTS, oracles("^wait_oracle/(planted/|svm-2vcpu-lost|vmx/demo-2cpus|box/two-vms)")]),
}
MOST_MEMORY = 4 << 30  # a mutant may loop and allocate
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


def run(folder, words, timeout=None):
    def limit():
        if timeout:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))

    try:
        return subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout,
                              check=False, preexec_fn=limit).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class Bench:
    def __init__(self, folder, groups):
        self.folder = folder
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
        for name in filter(None, files):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if not (folder / name).is_file() or (folder / name).read_bytes() != (ROOT / name).read_bytes():
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
                os.utime(folder / name)
        subprocess.run(["cmake", "--preset", "edit", "-DTRAPLINE_WERROR=ON"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        tests = [test for name in groups for test in GROUPS[name][1]]
        targets = sorted({target for target, _ in tests})
        subprocess.run(["ninja", "-C", "build/edit", *targets, "trapline_worker"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        os.environ["CCACHE_DISABLE"] = "1"  # no mutant is built twice
        self.limits = {}
        for _, words in tests:
            began = time.monotonic()
            if not run(folder, words):
                sys.exit(f"mutants.py: without a mutant this fails, mend it first: {' '.join(words)}")
            self.limits[" ".join(words)] = 10 + 10 * (time.monotonic() - began)

    def notices(self, group):
        """The test that notices, "" for none, None where the mutant does not compile."""
        for target, words in GROUPS[group][1]:
            if not run(self.folder, ["ninja", "-C", "build/edit", target]):
                return None
            if not run(self.folder, words, timeout=self.limits[" ".join(words)]):
                return " ".join(words)
        return ""

    def kills(self, group, mutant):
        file, number, line = mutant
        path = self.folder / file
        was = path.read_text()
        lines = was.split("\n")
        lines[number] = line
        path.write_text("\n".join(lines))
        try:
            return self.notices(group)
        finally:
            path.write_text(was)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", action="append", choices=GROUPS)
    parser.add_argument("--at", action="append")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    groups = options.of or list(GROUPS)
    every = [(group, mutant) for group in groups for file in GROUPS[group][0] for mutant in mutants_of(file)]
    if options.at:
        drawn = [one for one in every if f"{one[1][0]}:{one[1][1] + 1}" in options.at]
    else:
        drawn = random.Random(options.seed).sample(every, min(options.count, len(every)))
    if options.list:
        for group, (file, number, line) in drawn:
            print(f"{group} {file}:{number + 1}: {line.strip()}")
        print(f"{len(drawn)} of {len(every)}")
        return
    folder = (options.keep or pathlib.Path(tempfile.mkdtemp(prefix="trapline-mutants."))).absolute()
    try:
        bench = Bench(folder, groups)
        counts = {group: [0, 0] for group in groups}
        for group, mutant in sorted(drawn, key=lambda one: (one[0], one[1][0], one[1][1])):
            killed = bench.kills(group, mutant)
            print(f"{group} {mutant[0]}:{mutant[1] + 1}: {killed}", file=sys.stderr, flush=True)
            if killed is None:
                continue
            counts[group][0] += killed != ""
            counts[group][1] += 1
            if killed == "":
                file, number, line = mutant
                was = (folder / file).read_text().split("\n")[number].strip()
                print(f"{file}:{number + 1}: {was}  ->  {line.strip()}", flush=True)
        for group, (killed, count) in counts.items():
            print(f"{group}: {killed} of {count} killed")
        killed, count = map(sum, zip(*counts.values()))
        print(f"all: {killed} of {count} killed ({100 * killed / max(count, 1):.1f} %)")
    finally:
        if not options.keep:
            shutil.rmtree(folder)


main()
