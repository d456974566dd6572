#!/usr/bin/env python3
"""strangers.py TRAPLINE: texts that other people sent, from the folder $TRAPLINE_STRANGERS.

Each text with a kvm_exit is reported with as many exits as a search for "kvm_exit:" finds, or refused by its
kind with what to give instead. Without the folder the test is skipped: the texts are not in the repository.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
REFUSED = {"npf-doc-columns": "without times", "perf-top-kvm-exit": "perf top",
           "arm32-kvm-course-nocomm": "no thread and no vCPU"}
TIMELESS = ("lkml-hyperv-eoi-notime", "lkml-nsvm-rsm-notime-wrapped", "korean-doc-noflags", "lkml-perf-cpu0-style")
KINDS = {"perf-kvm-stat-firecracker3043": "perf kvm stat", "perf-kvm-stat-report-arm64": "perf kvm stat",
         "kvm-stat-table": "kvm_stat", "binun-taiwan-trace": "perf"}
LOGGED = re.compile(r"^[> ]*\d+@\d+\.\d{6}:\w", re.MULTILINE)
EXIT = re.compile(r"(?:^|[\s:])kvm_exit:\s+\S", re.MULTILINE)


def main():
    trapline, folder = sys.argv[1], os.environ.get("TRAPLINE_STRANGERS", "")
    paths = sorted(Path(folder).iterdir()) if folder and Path(folder).is_dir() else []
    if not paths:
        print("TRAPLINE_STRANGERS names no folder with texts")
        return SKIPPED
    wrong = checked = 0
    for path in paths:
        text = path.read_text(errors="replace")
        run = subprocess.run([trapline, "report", str(path)], capture_output=True, check=False)
        error, name = run.stderr.decode(), path.stem
        bad = ""
        if name in REFUSED or name in KINDS:
            pattern = REFUSED.get(name) or KINDS[name]
            bad = "" if run.returncode == 3 and re.search(pattern, error) else f"not refused with '{pattern}': {error}"
        elif LOGGED.search(text):
            told = subprocess.run([trapline, "info", str(path)], capture_output=True, check=False).stdout.decode()
            found, expected = re.search(r"events +([\d,]+)", told), len(LOGGED.findall(text))
            if not found or int(found[1].replace(",", "")) != expected:
                bad = f"{expected} lines of QEMU: {told}{error}"
            exits = len(re.findall(r"\d:kvm_run_exit ", text))
            if exits and not re.search(rf"^{exits} exits? in ", run.stdout.decode(), re.MULTILINE):
                bad = f"{exits} exits to QEMU: {run.stdout.decode()}{error}"
            elif not exits and "--by qemu-event" not in error:
                bad = error
        elif EXIT.search(text):
            expected = len(EXIT.findall(text))
            if run.returncode not in (0, 3) or not run.stdout:
                bad = error
            else:
                found = re.search(r"^([\d,]+) exits? in ", run.stdout.decode(), re.MULTILINE)
                bad = "" if found and int(found[1].replace(",", "")) == expected else \
                    f"{found and found[1]} exits, a search finds {expected}"
                if not bad and name in TIMELESS and b"no line has a time" not in run.stdout + run.stderr:
                    bad = "does not say that no line has a time"
        else:
            continue
        checked += 1
        wrong += bool(bad)
        if bad:
            print(f"{path.name}: {bad}"[:300])
    print(f"{checked} texts of strangers: {wrong} wrong")
    return 1 if wrong or not checked else 0


sys.exit(main())
