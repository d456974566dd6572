#!/usr/bin/env python3
"""Runs ctest, or the test programs that changed, for scripts/test.

usage: run_tests.py PRESET BUILD PARTS {--changed | --all | -- CTEST-ARGUMENT...}

PARTS, the times of what ran before, stands before the summary. --changed runs each unit test program that differs from
the one that last passed, whole, and the golden tests if `trapline`, tests/golden or tests/data differ. --all runs all of them, and the unit tests
that are no program of ours. The summary stands last, in the form of ctest's.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

# A case with the label machine may fail for the machine's sake, and runs once more.
REPEATED = "machine"
TESTS = Path(__file__).resolve().parents[2] / "tests"


def tests_of(build):
    """Each test's number, name, labels, command and folder."""
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True,
                             text=True).stdout
    for number, test in enumerate(json.loads(listing)["tests"], 1):
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        yield {"number": number, "name": test["name"], "labels": properties.get("LABELS", []),
               "command": test.get("command", []), "folder": properties.get("WORKING_DIRECTORY", build)}


class Result:
    """What ran, with a summary in the form of ctest's, which CI reads."""

    def __init__(self):
        self.failed, self.not_run, self.passed, self.total, self.status = [], [], 0, 0, 0
        self.began = time.monotonic()

    def print_summary(self, parts):
        seconds = time.monotonic() - self.began
        print(f"\n{parts}, tests {seconds:.0f} s\n")
        if self.status:
            print(f"ctest ended with status {self.status}, and no test failed")
            return
        share = 100 if not self.failed else min(99, 100 * self.passed // max(self.total, 1))
        print(f"{share}% tests passed, {len(self.failed)} tests failed out of {self.total}\n")
        print(f"Total Test time (real) = {seconds:.2f} sec")
        for title, cases in (("did not run", self.not_run), ("FAILED", self.failed)):
            if cases:
                print(f"\nThe following tests {title}:")
            for number, name, why in cases:
                print(f"\t{number:3} - {name} ({why})")

    def run_ctest(self, preset, arguments, jobs=os.cpu_count()):
        """Prints what ctest prints but for its summary, and adds what ran."""
        command = ["ctest", "--preset", preset, "--no-tests=error", "-j", str(jobs), *arguments]
        brief = not sys.stdout.isatty()
        summary, cases = False, None
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace") as run:
            for line in run.stdout:
                if match := re.match(r"\d+% tests passed, (\d+) tests? failed out of (\d+)$", line):
                    summary = True
                    self.total += int(match[2])
                    self.passed += int(match[2]) - int(match[1])
                elif not summary:
                    # A log is read for what failed: the tests that passed are in the summary's count.
                    if not brief or not re.match(r" +Start +\d+: |.*\.\.\. +Passed +[\d.]+ sec$", line):
                        print(line, end="", flush=True)
                elif match := re.match(r"The following tests (FAILED|did not run):$", line):
                    cases = self.failed if match[1] == "FAILED" else self.not_run
                # Later versions of ctest print the labels behind it.
                elif cases is not None and (match := re.match(r"\t *(\d+) - (.*?) \(([^()]*)\)(?: .*)?$", line)):
                    cases.append((int(match[1]), match[2], match[3]))
        if run.returncode != 0 and not self.failed:
            self.status = run.returncode  # no test, or no build folder

    def repeat(self, preset, build):
        """Runs what failed and has the label machine once more."""
        labels = {test["number"]: test["labels"] for test in tests_of(build)} if self.failed else {}
        told = []
        for case in [case for case in self.failed if REPEATED in labels.get(case[0], [])]:
            print(f"\n{case[1]} has the label {REPEATED} and runs once more:", flush=True)
            again = Result()
            again.run_ctest(preset, ["-I", f"0,0,0,{case[0]}"])
            passes = not again.failed and not again.not_run and again.status == 0
            if passes:
                self.failed.remove(case)
                self.passed += 1
            told.append(f"Repeated: {case[1]} ({case[2]}), which {'passed then' if passes else 'failed again'}")
        for line in told:
            print(line)


def libraries_of(program, build):
    """The shared libraries in the build folder that a program loads."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return [path for path in re.findall(r"=> (\S+) \(", listing) if Path(path).is_relative_to(build)]


class Stamps:
    """Which bytes of a program, of its libraries, of the worker that it starts and of its cases passed last."""

    def __init__(self, build):
        self.build, self.hashes = build, {}
        self.path = build / "tests" / "passed.json"
        try:
            self.passed = json.loads(self.path.read_text())
        except (OSError, ValueError):
            self.passed = {}

    def hash_of(self, path):
        if path not in self.hashes:
            self.hashes[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return self.hashes[path]

    def now(self, program):
        files = [program, *libraries_of(program, self.build), str(self.build / "merge/trapline-worker")]
        if program == str(self.build / "merge/trapline"):  # the golden tests'
            files += sorted(str(path) for folder in ("golden", "data") for path in (TESTS / folder).rglob("*") if path.is_file())
        return [self.hash_of(path) for path in files]

    def changed(self, program):
        return self.passed.get(program) != self.now(program)

    def set(self, program, passed):
        self.passed.pop(program, None)
        if passed:
            self.passed[program] = self.now(program)
        self.path.write_text(json.dumps(self.passed))


def run_program(program, folder):
    """Returns the number of its cases, and what it printed if one failed."""
    try:
        run = subprocess.run([program, "--gtest_brief=1", "--gtest_color=no"], cwd=folder, capture_output=True,
                             text=True, errors="replace", timeout=600)
    except subprocess.TimeoutExpired:
        return 0, f"{program} took more than 10 minutes\n"
    count = re.search(r"(\d+) tests? from .* ran", run.stdout)
    if run.returncode != 0 or not count:
        return 0, run.stdout + run.stderr
    return int(count[1]), None


def run_quick(preset, build, result, everything):
    tests = list(tests_of(build))
    stamps = Stamps(build)
    units = {test["command"][0]: test["folder"] for test in tests if "unit" in test["labels"] and test["command"]
             and Path(test["command"][0]).is_relative_to(build / "tests")}
    if not units:
        sys.exit(f"there is no unit test program in {build}")
    programs = [program for program in units if everything or stamps.changed(program)]
    print(f"{len(programs)} of {len(units)} test programs" + ("" if everything else " differ from what passed"),
          flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {pool.submit(run_program, program, units[program]): program for program in programs}
        for run in concurrent.futures.as_completed(runs):
            program, (cases, output) = runs[run], run.result()
            stamps.set(program, output is None)
            result.total += 1
            if output is None:
                result.passed += 1
                print(f"{Path(program).name}: {cases} cases passed", flush=True)
            else:
                result.failed.append((result.total, Path(program).name, "Failed"))
                print(f"{output}{Path(program).name} FAILED", flush=True)
    command = str(build / "merge/trapline")
    with_golden = everything or stamps.changed(command)
    failures = len(result.failed)
    chosen = [test["number"] for test in tests if with_golden and "golden" in test["labels"]
              or everything and "unit" in test["labels"] and test["command"] and test["command"][0] not in units]
    if chosen:
        # Golden tests wait for processes a fifth of their time.
        result.run_ctest(preset, ["-I", ",".join(["0,0,0", *map(str, chosen)])], os.cpu_count() + 1)
        stamps.set(command, len(result.failed) == failures and result.status == 0)


def main():
    preset, build, parts, mode = sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4]
    result = Result()
    if mode == "--":
        result.run_ctest(preset, sys.argv[5:])
        result.repeat(preset, build)
    else:
        run_quick(preset, build, result, mode == "--all")
    result.print_summary(parts)
    return 1 if result.failed or result.status else 0


sys.exit(main())
