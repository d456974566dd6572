#!/usr/bin/env python3
"""A name that is not known is "not known" in a report, null in JSON and nothing in a cell of CSV; `key` is a row's label.

  unknown_names.py TRAPLINE RECORDING...
"""
import csv
import io
import json
import subprocess
import sys

TABLES = ["--waits", "--steal", "--kernel", "--irq", "--halt", "--phases", "--guest", "--slower-than", "1us"]
BY = ["device", "function,stack", "detail,qemu-event", "vm,vcpu,cpu", "preempted-by", "blocked-on,woken-by", "span"]
LABELS = {"key", "path", "by", "command"}
NO_NAMES = {"-", "", "[unknown]", "unknown", "?", "(null)", "None"}
failed: list[str] = []
seen = {"null": 0, "not known": 0}


def output(trapline: str, *words: str) -> str:
    done = subprocess.run([trapline, *words], capture_output=True, text=True, check=False, errors="replace")
    return done.stdout if done.returncode in (0, 3) else ""


def walk(value: object, path: str, what: str) -> None:
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in LABELS:
                walk(one, f"{path}.{key}", what)
    elif isinstance(value, list):
        for one in value:
            walk(one, path + "[]", what)
    elif value is None:
        seen["null"] += 1
    elif isinstance(value, str) and value in NO_NAMES:
        failed.append(f"{what}: {path} is {value!r}")


def check_json(trapline: str, *words: str) -> None:
    for line in output(trapline, *words, "--format", "json").split("\n}\n"):
        if line.strip():
            walk(json.loads(line + "}"), "", " ".join(words))


def check_rows(trapline: str, *words: str) -> None:
    for line in output(trapline, *words, "--format", "jsonl", "-o", "-").splitlines():
        walk(json.loads(line), "", " ".join(words))
    check_csv(trapline, *words, "-o", "-")


def check_csv(trapline: str, *words: str) -> None:
    header: list[str] = []
    for row in csv.reader(io.StringIO(output(trapline, *words, "--format", "csv"))):
        if len(row) != len(header):
            header = row
            continue
        for name, cell in zip(header, row):
            if name not in LABELS and cell in NO_NAMES - {""}:
                failed.append(f"{' '.join(words)}: {name} is {cell!r}")


def check(trapline: str, recording: str) -> None:
    for by in BY:
        check_json(trapline, "report", recording, "--by", by, *([] if by == "span" else TABLES))
        check_csv(trapline, "report", recording, "--by", by, "--waits", "--phases")
    text = output(trapline, "report", recording, "--by", "device,function,stack", "--phases")
    seen["not known"] += text.count("not known / ") + text.count(" / not known")
    if "- / " in text or " / - " in text:
        failed.append(f"{recording}: the report has - for a name")
    if "[unknown]" in text:
        failed.append(f"{recording}: the report says [unknown]")
    check_json(trapline, "explain", recording)
    check_json(trapline, "diff", recording, recording, "--by", "device")
    for rows in ("exits", "requests", "calls"):
        check_rows(trapline, "export", recording, "--allow-empty", "--rows", rows)
    for line in output(trapline, "top", "--batch", "--by", "device,function", recording).splitlines():
        walk(json.loads(line), "", f"top {recording}")


def main() -> None:
    trapline, *recordings = sys.argv[1:]
    for recording in recordings:
        check(trapline, recording)
    for line in sorted(set(failed))[:40]:
        print(line)
    print(f"{len(recordings)} recordings, {len(set(failed))} failures, {seen}")
    sys.exit(bool(failed) or not all(seen.values()))


main()
