#!/usr/bin/env python3
"""An SEV-ES guest's exits: those that it asks for have one reason, vmgexit, and rip 0.

  vmgexit.py TRAPLINE FILE...

There is no such machine here. In the text of a real recording of an AMD host each exit that such a guest would ask for
(port, CPUID, MSR, HLT, MMIO) gets that reason, and kvm_vmgexit_enter after it, as Linux writes them. Its time, parts,
detail and device must be those that it had; the report says what it cannot tell.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import tables

# uapi/asm/svm.h
CODES = {"IOIO": 0x7B, "CPUID": 0x72, "MSR": 0x7C, "hlt": 0x78, "HLT": 0x78, "NPF": 0x80000001}
EXIT = re.compile(r"kvm_exit: +reason (?:EXIT_)?(\w+) rip 0x[0-9a-f]+ info (\w+) (\w+)")
SUMS = ("count", "total_ns", "user_ns", "preempted_ns", "blocked_ns")


def asked_for(lines):
    """Numbers of the lines of exits that the guest would have asked for."""
    last, found = {}, set()
    for i, line in enumerate(lines):
        thread = line.partition("[")[0]
        match = EXIT.search(line)
        if match:
            last[thread] = i
            if match[1] in CODES and match[1] != "NPF":
                found.add(i)
        elif "kvm_entry:" in line:
            last.pop(thread, None)
        elif "kvm_mmio:" in line and thread in last:
            found.add(last[thread])
    return found


def hidden(text):
    lines = text.split("\n")
    asks = asked_for(lines)
    for i, line in enumerate(lines):
        match = EXIT.search(line)
        if match and i in asks:
            yield line[:match.start()] + "kvm_exit:             reason vmgexit rip 0x0 info 0 0"
            yield line[:match.start()] + (f"kvm_vmgexit_enter:    vcpu 0, exit_reason {CODES.get(match[1], 0x80000001):x}, "
                                          f"exit_info1 {match[2]}, exit_info2 {match[3]}")
        else:
            yield re.sub(r"(kvm_(?:exit|entry):.* rip) 0x[0-9a-f]+", r"\1 0x0", line)


def report(trapline, path, by):
    return tables.document(trapline, "report", path, "--by", by)


def told_apart(of):
    """Returns these tables with rows of details and devices, whatever the reason, and none of what has neither."""
    rows = {}
    for row in of["groups"]["rows"]:
        key = row["key"].split(" / ", 1)[1]
        if key != "- / -":
            sums = rows.setdefault(key, collections.Counter(key=key))
            sums.update({column: row[column] or 0 for column in SUMS})
    return of | {"groups": {"rows": list(rows.values())}}


def check(trapline, path, folder):
    run = subprocess.run(["trace-cmd", "report", path], capture_output=True, text=True, check=True)
    plain, changed = folder / "plain.txt", folder / "hidden.txt"
    plain.write_text(run.stdout, encoding="utf-8")
    changed.write_text("\n".join(hidden(run.stdout)), encoding="utf-8")
    reports = [report(trapline, file, "reason,detail,device") for file in (plain, changed)]
    before, after = (one["tables"] for one in reports)
    was, now = map(told_apart, (before, after))
    wrong = list(tables.differences(was, now, SUMS, ("exits", "exits_stopped", "exit_without_entry", "entry_without_exit")))
    vmgexit = [row for row in report(trapline, changed, "reason")["tables"]["groups"]["rows"] if row["key"] == "vmgexit"]
    functions = {row["key"] for row in report(trapline, changed, "function")["tables"]["groups"]["rows"] if not row["halts"]}
    if len(vmgexit) != 1 or not vmgexit[0]["count"] or not was["groups"]["rows"]:
        wrong.append("no exit is a VMGEXIT, or none had a detail")
    if functions != {"hidden (confidential guest)"} or not any("confidential guest" in note for note in reports[1]["notes"]):
        wrong.append(f"functions: {functions}")
    print(f"{path}: {vmgexit[0]['count'] if vmgexit else 0} of {after['counters']['exits']} exits, {len(was['groups']['rows'])} details and devices")
    return wrong


def main():
    trapline, *paths = sys.argv[1:]
    failed = False
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            for line in check(trapline, path, pathlib.Path(folder)):
                print(f"FAILED: {path}: {line}", file=sys.stderr)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
