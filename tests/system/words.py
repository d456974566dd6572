"""Fails on words that were replaced by plainer ones, in code, help, messages and documents.

usage: words.py SOURCE-TREE

Reads what git tracks, without tests/ (names of its sentences follow the code's) and without the quoted
output of other tools: lines with "quoted:" in a comment, and ```-blocks of documents.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])

HOLE = r"\b[Hh]oles?\b"
# A sparse file has holes: the file system's own term (lseek(2), fallocate(2)).
SPARSE_FILES = re.compile(r"merge/(source/trace_dat/(regions|unfinished|finish_plan|file|tail)|record/page_files|session/finish)\.|"
                          r"docs/recording\.md|docs/formats/|docs/testing\.md|docs/security\.md|docs/internals/")

# pattern: what to write in its place
REPLACED = {
    HOLE: "lost events, loss",
    r"\b[Bb]ehind\b": "after",
    r"' is no [a-z]": "is not a ..., and what to write",
    r"\bno TSC ticks so\b": "not a plausible TSC frequency",
    r"\bthere is something that is no\b": "... exists but is not a ...",
    r"\b[Ss]omebody (has|switched|removes|changes)": "the program or file that did it",
    r"\bnobody knows\b": "count unknown",
    r"\bBracket\b": "ClockBound",
    r"\bBand\b|\bfit_line\b": "FeasibleLines",
    r"\bGuestRelation\b|\bRelated\b": "Alignment",
    r"\b(struct|class) (Ways|Tried|Known)\b": "Evidence, FitAttempt, CollectedEvidence",
    r"\bGuestGaps\b": "GuestRunIntervals",
    r"\bTraits\b": "Capabilities",
    r"\bKvmReload\b": "KvmStateLoad",
    r"\bGuestSideSource\b|\bGuestCallsSource\b": "GuestKernelSource, GuestFunctionSource",
    r"\bHitWatch\b": "TriggerMatcher",
    r"\bgaps? (in the record|may hide)|\bnext to a gap\b": "loss",
    r"\bnothing relates\b": "nothing aligns",
    r"^This document is for whoever": "the first sentence says of what the page is",
    r"\bno such moment\b|\bmoment page\b": "boundary page",
}
SUFFIXES = {".h", ".hpp", ".cc", ".c", ".py", ".sh", ".md", ".1", ".3", ".txt", ".cmake", ""}


def lines(path):
    """(number, text) of the lines that are ours."""
    quoted = False
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        if path.endswith(".md") and line.startswith("```"):
            quoted = not quoted
        if not quoted and "quoted:" not in line:
            yield number, line


def main():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True).stdout.split("\n")
    if len(names) < 100:  # an unpacked archive
        names = [str(p.relative_to(ROOT)) for folder in ("backend_ftrace", "plugin", "merge", "docs", "scripts")
                 for p in (ROOT / folder).rglob("*") if p.is_file()] + ["README.md", "CHANGELOG.md"]
    failed = checked = 0
    for name in names:
        if not name or name.startswith(("tests/", "LICENSE", ".")) or Path(name).suffix not in SUFFIXES:
            continue
        if not (ROOT / name).is_file():
            continue
        checked += 1
        for number, line in lines(name):
            for pattern, instead in REPLACED.items():
                found = re.search(pattern, line)
                if found and not (pattern == HOLE and SPARSE_FILES.match(name)):
                    failed += 1
                    print(f"FAILED: {name}:{number}: '{found.group(0)}': write {instead}")
    print(f"{checked} files, {failed} failed")
    sys.exit(failed != 0 or checked < 300)


main()
