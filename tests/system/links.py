"""Fails on a link of a document that leads nowhere: no such file, no such heading.

usage: links.py SOURCE-TREE

Checked are [text](FILE#HEADING) in documents, `docs/FILE.md, "Heading"` and `docs/FILE.md ("Heading")`
in every text file, and every docs/FILE.md that one names.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r'\b(docs/[\w/-]+\.md)(?:,? \(?"([^"\n]+)")?')
failures = []


def headings(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [title.strip() for title in re.findall(r"^#+ (.*)$", text, re.M)]


def anchor(title):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")


def check_links(document):
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    count = 0
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        count += 1
        file, _, name = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        if not path.exists():
            failures.append(f"{document.relative_to(ROOT)}: {target}: no such file")
        elif name and name not in map(anchor, headings(path)):
            failures.append(f"{document.relative_to(ROOT)}: {target}: no such heading")
    return count


def check_named(file):
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return 0
    # A reference may go on in the next line of a comment.
    text = re.sub(r"\n\s*(?://|#|\*)? ?", " ", text)
    found = NAMED.findall(text)
    for name, title in found:
        path = ROOT / name
        if not path.is_file() and path.stem != "NAME":
            failures.append(f"{file.relative_to(ROOT)}: {name}: no such file")
        elif path.is_file() and title and not any(known.startswith(title) for known in headings(path)):
            failures.append(f"{file.relative_to(ROOT)}: {name} has no heading \"{title}\"")
    return len(found)


def main():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True).stdout.split("\n")
    files = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    if len(files) < 100:  # an unpacked archive
        files = [path for path in ROOT.rglob("*") if path.is_file() and "build" not in path.parts]
    links = sum(check_links(file) for file in files if file.suffix == ".md")
    named = sum(check_named(file) for file in files if file.name != "links.py")
    print(f"{links} links, {named} documents named, {len(failures)} lead nowhere")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures) or links < 50 or named < 100)


main()
