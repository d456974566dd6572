#!/usr/bin/env python3
"""compare_builds.py OLD NEW [PATH...]: the output of two builds of trapline on every recording.

For each recording of tests/ (or each PATH) both run the same reports as JSON, CSV and text, and the
timeline. JSON (but for its sentences: notes, methods) and CSV must be the same byte for byte; of the
texts the lines that differ are counted. Exit status 1 when a figure, a key or an exit status differs.
"""
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BY = ["reason", "detail", "device", "reason,device", "qemu-event", "function", "stack", "vcpu", "vm",
      "span", "reason,detail,device,vcpu"]
REPORTS = [["--by", by] for by in BY] + [
    ["--irq"], ["--halt"], ["--slower-than", "1ms"], ["--guest"], ["--guest", "--by", "function,device"],
    ["--from", "+100ms", "--to", "+400ms"], ["--vcpu", "0"], ["--sort", "max", "--top", "3"]]
TIMELINES = [["--around", "max", "--context", "2ms"], ["--from", "+100ms", "--to", "+105ms"],
             ["--around", "max", "--vcpu", "0", "--reason", "io"]]


def inputs():
    found = sorted(glob.glob(ROOT + "/tests/data/*.dat") + glob.glob(ROOT + "/tests/data/*/*.dat"))
    sets = [[path] for path in found]
    for folder in ("guest-clock", "guest-clock-arm64", "guest-clock-vmx"):
        at = f"{ROOT}/tests/merge/{folder}/"
        if os.path.isdir(at + "uftrace.data"):
            sets.append([at + "host.dat", at + "uftrace.data"])
        sets.append([at + "host.dat", at + "guest.dat"])
    sets += [[path] for path in sorted(glob.glob(ROOT + "/tests/merge/source/uftrace-*"))]
    sets.append([ROOT + "/tests/merge/kernel-calls/uftrace.data"])
    return sets


def run(binary, arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def without_sentences(text):
    try:
        report = json.loads(text)
    except ValueError:
        return text
    report.pop("notes", None)
    for source in report.get("sources", []):
        source.pop("method", None)
    return json.dumps(report)


def main():
    old, new = sys.argv[1:3]
    sets = [[path] for path in sys.argv[3:]] or inputs()
    compared = differ = reworded = 0
    for paths in sets:
        for arguments in REPORTS:
            for form in ("json", "csv", "text"):
                command = ["report", *paths, *arguments, "--format", form]
                a, b = run(old, command), run(new, command)
                compared += 1
                if form == "text":
                    lines = set(a[1].splitlines()) ^ set(b[1].splitlines())
                    reworded += bool(lines)
                    same = a[0] == b[0]
                else:
                    same = a[0] == b[0] and without_sentences(a[1]) == without_sentences(b[1])
                if not same:
                    differ += 1
                    print("differ:", " ".join(command), f"(exit {a[0]} and {b[0]})")
        for arguments in TIMELINES:
            command = ["timeline", *paths, *arguments]
            a, b = run(old, command), run(new, command)
            compared += 1
            reworded += a[1] != b[1]
            if a[0] != b[0]:
                differ += 1
                print("differ:", " ".join(command), f"(exit {a[0]} and {b[0]})")
            elif a[1] != b[1]:
                print("reworded:", " ".join(command))
    print(f"{compared} outputs of {len(sets)} inputs: {differ} differ, {reworded} texts reworded")
    return 1 if differ else 0


sys.exit(main())
