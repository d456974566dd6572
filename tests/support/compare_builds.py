#!/usr/bin/env python3
"""compare_builds.py OLD NEW [PATH...]: the output of two builds of trapline on every recording.

For each recording of tests/ (or each PATH) both run the same commands: reports as text, JSON and CSV,
the page's data, explanations, the timeline, every export, comparisons. What they print, their messages
and their exit statuses must be the same byte for byte. With KEPT=FOLDER in the environment the output
of OLD is kept there, for the next comparison with it. With WORDS=1 text may have other words and
another order, but each number with its unit as often as before. Exit status 1 where something differs,
and where every recording refuses the words of a command: nothing would be compared.
"""
import glob
import hashlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BY = ["reason", "detail", "device", "reason,device", "qemu-event", "function", "stack", "vcpu", "vm",
      "span", "preempted-by,blocked-on", "kernel-function", "cpu,nested"]
TABLES = [[], ["--irq", "--halt", "--guest", "--waits", "--steal", "--kernel", "--slower-than", "1ms"],
          ["--halt"], ["--phases"], ["--waits", "--top", "3"],
          ["--from", "+100ms", "--to", "+400ms", "--by", "reason"],
          ["--vcpu", "0", "--halt", "--by", "span"], ["--sort", "max", "--top", "3"]]
SPANS = ["sched_waking:pid..sched_switch:next_pid", "irq_handler_entry:irq..irq_handler_exit:irq",
         "marker:took", "function:main"]
FORMS = ["text", "json", "csv"]
FIGURE = re.compile(r"(?<![\w.])\d+(?:[,.]\d+)*(?: ?(?:%|[nµm]?s\b|h\b|[kMGT]i?B\b))?")
ROWS = ["exits", "requests", "vhost", "interrupts", "functions"]


def inputs():
    merge = ROOT + "/tests/merge/"
    sets = [[path] for path in sorted(glob.glob(ROOT + "/tests/data/*.dat") + glob.glob(ROOT + "/tests/data/*/*.dat"))]
    for folder in ("guest-clock", "guest-clock-arm64", "guest-clock-vmx", "cyclictest"):
        at = merge + folder + "/"
        if os.path.isdir(at + "uftrace.data"):
            sets.append([at + "host.dat", at + "uftrace.data"])
        sets.append([at + "host.dat", at + "guest.dat"])
    for pattern in ("source/uftrace-*", "kernel-calls/uftrace.data", "requests/*.dat", "planted/*.dat", "planted/*/trace.dat",
                    "preempted/*.dat", "*.trapline", "tcg/*.trapline"):
        sets += [[path] for path in sorted(glob.glob(merge + pattern))]
    sets.append([merge + "tcg/both.trapline/trace.dat", merge + "tcg/uftrace.trapline/uftrace.data"])
    return [paths for paths in sets if all(os.path.exists(path) for path in paths)]


def commands(paths):
    """The words of each command; OUT stands for a file or folder that it writes."""
    for words in [["--by", by] for by in BY] + TABLES:
        for form in FORMS:
            yield ["report", *paths, *words, "--format", form]
    page = ["report", *paths, "--format", "page-data"]
    yield from (page, [*page, "--phases", "--vcpu", "0"], [*page, "--from", "+100ms", "--by", "span", "--span", "a:b..c:b"])
    yield ["info", *paths]
    for form in FORMS[:2]:
        yield ["stalls", *paths, "--format", form]
        yield ["advise", *paths, "--format", form]
    for words in ([], ["--around", "+200ms"], ["--vcpu", "1"]):
        for form in FORMS[:2]:
            yield ["explain", *paths, *words, "--format", form]
    for words in (["--around", "max", "--context", "2ms"], ["--from", "+100ms", "--to", "+105ms"],
                  ["--around", "+1s"], ["--around", "max", "--vcpu", "0", "--reason", "io"], ["--from", "+1h"],
                  ["--from", "+100ms", "--to", "+105ms", "--format", "html"], ["--around", "max", "--format", "html"]):
        yield ["timeline", *paths, *words]
    for words in (["perfetto"], ["perfetto", "--events"], ["folded"], ["folded", "--weight", "user"],
                  ["perfetto", "--from", "+100ms", "--to", "+200ms", "--vcpu", "0"], ["uftrace"],
                  *(["csv", "--rows", rows] for rows in ROWS), ["jsonl"]):
        yield ["export", *paths, "--format", *words, "-o", "OUT"]
    if len(paths) > 1:
        for span in SPANS:
            yield ["explain", *paths, "--guest-span", span, "--format", "json"]
            yield ["explain", *paths, "--guest-span", span, "--worst", "3"]
            for form in FORMS:
                yield ["report", *paths, "--by", "guest-span", "--guest-span", span, "--format", form]
            yield [*page, "--guest-span", span]
            for words in (["perfetto"], ["csv", "--rows", "guest-spans"]):
                yield ["export", *paths, "--guest-span", span, "--format", *words, "-o", "OUT"]
    for other in (ROOT + "/tests/data/svm-linux-2vcpu.dat", ROOT + "/tests/data/box/demo-ioctl.dat"):
        for words in (["--by", "reason,device"], ["--by", "span"], ["--guest"], ["--irq"], ["--waits"], ["--by", "preempted-by"], ["--flame", "OUT"], ["--format", "json"]):
            yield ["diff", ",".join(paths), other, *words]


def without_paths(arguments):
    return tuple(word for word in arguments if not word.startswith(ROOT))


def written(path):
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read()
    names = sorted(os.path.relpath(os.path.join(at, name), path)
                   for at, _, names in os.walk(path) for name in names)
    return [(name, written(os.path.join(path, name))) for name in names]


def figures(text):
    return sorted(FIGURE.findall(text.decode(errors="replace"))) if os.environ.get("WORDS") else text


def comparable(arguments, output):
    """What is compared of an output."""
    if {"json", "page-data", "csv"} & set(arguments):
        return output
    if "html" in arguments:  # the page's script may differ
        return output[output.find(b'id="data"'):].split(b"</script>")[0]
    return figures(output)


def run(binary, arguments):
    with tempfile.TemporaryDirectory() as folder:
        out = folder + "/out"
        words = [out if word == "OUT" else word for word in arguments]
        done = subprocess.run([binary, *words], capture_output=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
        strip = lambda text: text.replace(folder.encode(), b"FOLDER")
        return done.returncode, comparable(arguments, strip(done.stdout)), figures(strip(done.stderr)), written(out)


def run_old(binary, arguments):
    kept = os.environ.get("KEPT")
    if not kept:
        return run(binary, arguments)
    path = os.path.join(kept, hashlib.sha256(repr(arguments).encode()).hexdigest())
    if not os.path.exists(path):
        result = run(binary, arguments)
        with open(path, "wb") as file:
            pickle.dump([hashlib.sha256(pickle.dumps(part)).hexdigest() for part in result], file)
    with open(path, "rb") as file:
        return pickle.load(file)


def main():
    old, new = sys.argv[1:3]
    sets = [[path] for path in sys.argv[3:]] or inputs()
    all_of_them = [arguments for paths in sets for arguments in commands(paths)]
    taken = set()

    def compare(arguments):
        a, b = run_old(old, arguments), run(new, arguments)
        if b[0] != 2:
            taken.add(without_paths(arguments))
        if os.environ.get("KEPT"):
            b = [hashlib.sha256(pickle.dumps(part)).hexdigest() for part in b]
        names = ("exit status", "output", "messages", "file")
        return [name for name, x, y in zip(names, a, b) if x != y]

    differ = 0
    with ThreadPoolExecutor(2) as pool:
        for arguments, what in zip(all_of_them, pool.map(compare, all_of_them)):
            if what:
                differ += 1
                print("differ in", ", ".join(what) + ":", " ".join(arguments), flush=True)
    print(f"{len(all_of_them)} commands on {len(sets)} inputs: {differ} differ")
    refused = {without_paths(arguments) for arguments in all_of_them} - taken
    if not sys.argv[3:]:  # a single recording may refuse what others take
        for words in sorted(refused):
            print("every recording refuses:", *words)
        differ += len(refused)
    return 1 if differ else 0


sys.exit(main())
