#!/usr/bin/env python3
"""Would the tests notice? Changes one place of a source at a time, builds, runs the tests, and counts who noticed.

usage: mutants.py [--count N] [--seed N] [--of GROUP]... [--at FILE:LINE]... [--quick] [--list]

A GROUP is one of exit, clock, call, wait (default: all): exit tracker, fit of clocks, call tracker of the plugin,
wait tracker. N places (default 300, shared among the groups by their lines) are drawn by the seed; with --at every
mutant of these places. A mutant is killed by the first of its group's tests that fails, crashes or takes ten times as
long: unit tests, then golden tests and states.py over tests/data, then the oracles in Python. One that does not compile
with -Werror is not counted. Prints each survivor as a line FILE:LINE: what was -> what it became; and at the end killed of all.
Builds preset edit, and links what tests a group once more beside it, NAME.mutated, with the group's files in a shared
library: a mutant is compiled into that alone, without optimisation. No source is touched. --quick asks the unit tests
alone. --list prints the mutants and ends.
"""
import argparse
import json
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/edit"
TRAPLINE = "merge/trapline"
ANALYZE = "tests/merge/analyze/analyze_test"
# What can see a mutant: a program of the build and the command that runs it, the cheapest first.
REPORTS = [(TRAPLINE, ["tests/golden/run.py", f"build/edit/{TRAPLINE}"]),
           (TRAPLINE, ["python3", "tests/merge/states.py", f"build/edit/{TRAPLINE}", "tests/data"])]


def unit(program, suites="*"):
    return program, [f"build/edit/{program}", "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={suites}"]


def oracles(names, *of):
    """Runs oracles by name; tests/merge/oracles.py keeps what it parsed for the next mutant."""
    return TRAPLINE, ["python3", "tests/merge/oracles.py", "--kept", "build/edit/tests/merge/readings", "--oracle", names,
                      f"build/edit/{TRAPLINE}", *of]


HALTS = ("svm-2vcpu-lost", "svm-linux-2vcpu", "arm64/kvm-arm64-mono")  # recordings of tests/data
GROUPS = {
    # files; their tests
    "exit": (["merge/analyze/exit_tracker.cc"],
             [unit(ANALYZE, "ExitTracker*:*VcpuStates*"), unit(ANALYZE), *REPORTS,
              oracles("halt", *(f"tests/data/{name}.dat" for name in HALTS)),
              oracles("report", *(f"tests/data/{name}.dat" for name in (*HALTS, "vmx/demo-2cpus", "box/two-vms")))]),
    "clock": (["merge/clock/relation.cc", "merge/clock/wander_envelope.cc"],
              [unit("tests/merge/clock/clock_test", "-RatePath.*"), unit("tests/merge/clock/clock_test", "RatePath.*")]),
    "call": (["plugin/call_tracker.cc", "plugin/call_tracker_stacks.cc"],
             [unit("tests/plugin/plugin_test", "CallTracker*:StackPool*:RandomGuest*")]),
    "wait": (["merge/analyze/wait_tracker.cc", "merge/analyze/wake_cause.cc"],
             [unit(ANALYZE, "WaitTracker*:Selected*:Quota*:LargestCulprit*"), unit(ANALYZE), *REPORTS,
              oracles("wait", "planted"),
              oracles("wait", *(f"tests/data/{name}.dat" for name in ("svm-2vcpu-lost", "vmx/demo-2cpus", "box/two-vms")))]),
}
# What a group's files use of the programs that is hidden there: their library has it too.
HIDDEN = {"call": ["plugin/libtrapline_tracker.a"]}
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
            yield file, number, code[:jump.start(2)] + "{}"  # a ; alone is warned of


def run(words, timeout=None):
    def limit():
        if timeout:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))

    try:
        return subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout,
                              check=False, preexec_fn=limit).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def output(words):
    return subprocess.run(words, cwd=BUILD, check=True, capture_output=True, text=True).stdout


def mutated(program, words):
    """The command with what is mutated in the program's place."""
    return [f"{word}.mutated" if word == f"build/edit/{program}" else word for word in words]


class Bench:
    """The programs of the tests, linked with a library of what is mutated."""

    def __init__(self, folder, groups, quick):
        self.folder = folder
        asked = {name: [one for one in GROUPS[name][1] if not quick or "--gtest_brief=1" in one[1]] for name in groups}
        subprocess.run(["cmake", "--preset", "edit"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        programs = {program: [] for name in groups for program, _ in asked[name]}
        for name in groups:
            for program in {program for program, _ in asked[name]}:
                programs[program].append(name)
        names = [program.rpartition("/")[2] for program in programs]
        worker = [] if quick else ["trapline_worker"]  # which reads what foreign files hold
        subprocess.run(["ninja", *names, *worker], cwd=BUILD, check=True, stdout=subprocess.DEVNULL)
        compile_commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.compile, self.objects = {}, {}
        for name in groups:
            self.objects[name] = {}
            for file in GROUPS[name][0]:
                words = next(shlex.split(one["command"]) for one in compile_commands if one["file"] == str(ROOT / file))
                self.prepare(file, words[:words.index("-o")])
                self.objects[name][file] = self.compiled(file, ROOT / file)
            self.link(name)
        for program, tested in programs.items():
            self.relink(program, [self.library(name) for name in tested])
        self.tests, self.limits = {}, {}
        for name in groups:
            self.tests[name] = [mutated(program, words) for program, words in asked[name]]

    def prepare(self, file, words):
        """How it is compiled: its headers once for all mutants, without optimisation."""
        words = [word for word in words if not re.match(r"-O|-g|.*ccache$", word)]
        words += ["-O0", "-Werror", "-fvisibility=default"]  # the plugin's own are hidden
        headers = self.folder / (file.replace("/", "_") + ".h")
        headers.write_text("".join(re.findall(r"^#include .*\n", (ROOT / file).read_text(), re.M)))
        subprocess.run([*words, "-x", "c++-header", headers, "-o", f"{headers}.gch"], cwd=BUILD, check=True)
        self.compile[file] = [*words, "-include", headers]

    def compiled(self, file, source):
        """The object made of what stands in `source` for the file, or None."""
        made = self.folder / (source.stem + ".o")
        words = [*self.compile[file], "-x", "c++", "-c", source, "-o", made]
        return made if subprocess.run(words, cwd=BUILD, stderr=subprocess.DEVNULL, check=False).returncode == 0 else None

    def library(self, name):
        return self.folder / f"lib{name}.so"

    def link(self, name, instead=None):
        objects = {**self.objects[name], **(instead or {})}
        subprocess.run(["c++", "-shared", "-fuse-ld=lld", "-o", self.library(name), *objects.values(), *HIDDEN.get(name, [])],
                       cwd=BUILD, check=True)

    def relink(self, program, libraries):
        """The program with the libraries: what they have is not taken from its archives."""
        words = shlex.split(output(["ninja", "-t", "commands", program]).strip().split("\n")[-1])
        words = words[words.index("&&") + 1:]
        words = words[:words.index("&&")]
        at = words.index("-o")
        words[at + 1:at + 2] = [program + ".mutated", *libraries, "-fuse-ld=lld", f"-Wl,-rpath,{self.folder}"]
        subprocess.run(words, cwd=BUILD, check=True)

    def limit(self, group, words):
        """Ten times what it takes without a mutant."""
        if " ".join(words) not in self.limits:
            self.link(group)
            began = time.monotonic()
            if not run(words):
                sys.exit(f"mutants.py: without a mutant this fails, mend it first: {' '.join(words)}")
            self.limits[" ".join(words)] = 10 + 10 * (time.monotonic() - began)
        return self.limits[" ".join(words)]

    def kills(self, group, mutant):
        """The test that notices, "" for none, None where the mutant does not compile."""
        file, number, line = mutant
        lines = (ROOT / file).read_text().split("\n")
        lines[number] = line
        source = self.folder / "mutant.cc"
        source.write_text("\n".join(lines))
        made = self.compiled(file, source)
        if made is None:
            return None
        for words in self.tests[group]:
            limit = self.limit(group, words)
            self.link(group, {file: made})
            if not run(words, timeout=limit):
                return " ".join(words)
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", action="append", choices=GROUPS)
    parser.add_argument("--at", action="append")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
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
    with tempfile.TemporaryDirectory(prefix="trapline-mutants.") as folder:
        try_all(Bench(pathlib.Path(folder), groups, options.quick), drawn, groups)


def try_all(bench, drawn, groups):
    counts = {group: [0, 0] for group in groups}
    for group, mutant in sorted(drawn, key=lambda one: (groups.index(one[0]), one[1][0], one[1][1])):
        file, number, line = mutant
        killed = bench.kills(group, mutant)
        print(f"{group} {file}:{number + 1}: {killed}", file=sys.stderr, flush=True)
        if killed is None:
            continue
        counts[group][0] += killed != ""
        counts[group][1] += 1
        if killed == "":
            was = (ROOT / file).read_text().split("\n")[number].strip()
            print(f"{file}:{number + 1}: {was}  ->  {line.strip()}", flush=True)
    for group, (killed, count) in counts.items():
        print(f"{group}: {killed} of {count} killed")
    killed, count = map(sum, zip(*counts.values()))
    print(f"all: {killed} of {count} killed ({100 * killed / max(count, 1):.1f} %)")


main()
