#!/usr/bin/env python3
"""openings.py TRAPLINE: how often a command opens a recording, and how much of it it reads.

By strace. A recording is opened once, alone or with its guest, and read at most twice: once for what the clocks, the
filter or the longest exit need, once for the result; a recording that is alone and unfiltered is read once. What is
read beyond that is the header and a sample of each CPU's events: at most SAMPLE bytes. An opening counts where
something is read through it: root opens what was named beforehand, to give up its rights, and reads nothing.
Exit status 77 without strace.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA, MERGE = ROOT + "/tests/data/", ROOT + "/tests/merge/"
SAMPLE = 96 << 10
CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+)(?:<(.*)>)?")
PAIRS = [[MERGE + folder + "/" + name for name in ("host.dat", "guest.dat")]
         for folder in ("guest-clock", "guest-clock-vmx", "guest-clock-arm64")]
TWICE = [(words, pair) for pair in PAIRS
         for words in (["report"], ["report", "--vcpu", "0"], ["explain"], ["timeline", "--around", "max"])]
TWICE += [(words, [DATA + "svm-linux-2vcpu.dat"]) for words in (["report", "--vcpu", "0"], ["timeline", "--around", "max"])]
# trace-cmd shifted the guest's times to the host's clock.
TWICE += [(words, [MERGE + "trace-cmd-pair/" + name for name in ("host.dat", "guest.dat")])
          for words in (["report"], ["report", "--vcpu", "0"])]
TWICE += [(["report"], [MERGE + "guest-clock/" + name for name in ("host.dat", "uftrace.data", "sync.txt")])]
# A perf.data has no index, so the sample of a small one is all of it.
TWICE += [(["report"], [DATA + "perf/kvm-stat.perf.data"])]
ONCE = [(["report"], [DATA + path]) for path in ("svm-linux-2vcpu.dat", "svm-lost.dat")]


def measure(command, paths):
    """For each file: the openings that something is read through, and the bytes read."""
    calls = "openat,openat2,close,dup,dup2,fcntl,pread64,preadv,read,readv,mmap,copy_file_range,sendfile,splice"
    with tempfile.NamedTemporaryFile() as log:
        done = subprocess.run(["strace", "-f", "-y", "-s", "0", "-e", "trace=" + calls, "-o", log.name, *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(command)}: {done.stderr.decode()}")
        lines = log.read().decode(errors="replace").splitlines()
    opens, read = collections.Counter(), collections.Counter()
    unread = set()  # descriptors through which nothing was read yet
    begun = {}  # by thread: a call that another thread's call interrupts in the log
    for line in lines:
        thread, text = line.split(None, 1)
        if text.endswith("<unfinished ...>"):
            begun[thread] = text[:-len("<unfinished ...>")]
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>", text)
        found = CALL.match(begun.pop(thread, "") + text[resumed.end():] if resumed else text)
        if not found:
            continue
        call, words, result, name = found.groups()
        if call in ("openat", "openat2") and name in paths:
            unread.add(result)
            continue
        of = re.match(r"(\d+)<(.*?)>", words)
        if call == "mmap":
            of = re.search(r"(\d+)<(.*?)>", words)
        if not of or of[2] not in paths:
            continue
        if call in ("fcntl", "dup", "dup2") and "DUP" in words + call.upper() and of[1] in unread:
            unread.add(result)
        elif call == "close":
            unread.discard(of[1])
        elif call not in ("fcntl", "dup", "dup2"):
            if of[1] in unread:
                unread.discard(of[1])
                opens[of[2]] += 1
            read[of[2]] += int(result or 0)
            if call not in ("pread64", "read"):
                sys.exit(f"FAILED: {' '.join(command)}: {of[2]} is read by {call}, which this test does not count")
    return opens, read


def main():
    if shutil.which("strace") is None:
        print("skipped: strace is not installed")
        return 77
    trapline, wrong = sys.argv[1], []
    for most, commands in ((2, TWICE), (1, ONCE)):
        for words, paths in commands:
            files = [path for path in paths if not path.endswith(("/uftrace.data", ".txt"))]
            for folder in filter(os.path.isdir, paths):
                files += [file.path for file in os.scandir(folder) if file.name.split(".")[0].isdigit()]
            opens, read = measure([trapline, words[0], *paths, *words[1:]], files)
            for path in files:
                size = os.path.getsize(path)
                told = (f"{' '.join(words)}: {os.path.relpath(path, ROOT)} ({size} bytes): opened {opens[path]} times, "
                        f"{read[path]} bytes read ({read[path] / size:.2f} times)")
                print(told)
                if opens[path] != 1 or not size // 4 < read[path] <= size * most + SAMPLE:
                    wrong.append(told)
    for told in wrong:
        print("FAILED:", told)
    return 1 if wrong else 0


sys.exit(main())
