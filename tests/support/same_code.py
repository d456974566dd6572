#!/usr/bin/env python3
"""same_code.py COMMIT...: whether each commit changes comments and documents alone.

Of each C and C++ file that a commit touches, the text without comments and line ends must be the same as in
the commit before it; other files must be documents (.md). Exit status 1 where it is not so.
"""
import subprocess
import sys


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def code(commit, path):
    text = subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, check=False).stdout
    done = subprocess.run(["g++", "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", "-"], input=text, capture_output=True, check=True)
    return done.stdout.split()


wrong = 0
for commit in sys.argv[1:]:
    for path in git("show", "--format=", "--name-only", commit).split():
        if path.endswith((".cc", ".h", ".c")) and code(commit + "~", path) == code(commit, path) or path.endswith(".md"):
            continue
        wrong += 1
        print(f"{commit}: {path} differs")
sys.exit(1 if wrong else 0)
