#!/usr/bin/env python3
"""A program that reads JSON alone finds what was planted, by the calls of docs/topics/agent.md.

  agent_answers.py TRAPLINE TESTS    TESTS: the folder tests/

Twelve recordings have a planted cause, three cannot say what is asked. Each answer comes from at most three calls
within 16 kB each; every command of `next` works; what cannot be read is an error in JSON.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile


BUDGET = 16
PLANTED = {
    "merge/planted/hog.dat": ("preempted", r"plant-hog \("),
    "merge/planted/vm.dat": ("preempted", r"VM \d+ vCPU 0$"),
    "data/box/two-vms.dat": ("preempted", r"VM \d+ vCPU 0$"),
    "merge/planted/quota": ("preempted", r"not allowed to run: CPU quota$"),
    "merge/planted/quota-tasks": ("preempted", r"not allowed to run: CPU quota$"),
    "merge/planted/realtime": ("preempted", r"not allowed to run$"),
    "merge/planted/storm.dat": ("preempted", r"interrupt 4$"),
    "merge/planted/lock.dat": ("blocked", r"futex of QEMU thread plant-lock "),
    "merge/planted/convoy.dat": ("blocked", r"(futex of|lock, held by) (QEMU thread )?(holderA|secondB) "),
    "merge/planted/disk.dat": ("blocked", r"disk$"),
    "merge/planted/halt.dat": ("halted", r"timer$"),
    "data/svm-mono.dat": ("user", r"isa-debugcon$"),
}
# What is asked, and why the recording has no answer.
UNANSWERED = {
    "data/box/demo-userspace-open.dat": "durations",  # no event ends an exit
    "data/box/demo-userspace.dat": "overhead",        # no kvm_exit
    "data/nested/svm.dat": "user",                    # no kvm_userspace_exit
}


class Asker:
    def __init__(self, trapline):
        self.trapline = trapline
        self.calls = 0

    def run(self, *words):
        return subprocess.run([self.trapline, *words], capture_output=True, text=True, check=False,
                              env={**os.environ, "TRAPLINE_ERRORS": "json"})

    def ask(self, *words):
        self.calls += 1
        done = self.run(*words, "--format", "json", *(["--budget", f"{BUDGET}K"] if words[0] == "report" else []))
        if done.returncode not in (0, 3):
            raise SystemExit(f"{words}: status {done.returncode}: {done.stderr}")
        if words[0] == "report" and len(done.stdout.encode()) > BUDGET * 1024:
            raise SystemExit(f"{words}: {len(done.stdout)} bytes")
        return json.loads(done.stdout)


def answer(asker, recording):
    """(part, who) as the topic says to find them; None: the recording cannot say."""
    report = asker.ask("report", recording)
    total, overhead = report["tables"]["groups"]["total"], report["head"]["overhead"]
    parts = {part: total[f"{part}_ns"] for part in ("kernel", "user", "preempted", "blocked")}
    unknown = {part for part, ns in parts.items() if ns is None}
    if len(unknown) == len(parts):
        return None, "durations", report
    if overhead is None:
        return None, "overhead", report
    if unknown:
        return None, sorted(unknown)[0], report
    halted = sum(vcpu["halted_ns"] or 0 for vcpu in report["tables"]["vcpus"]["rows"])
    busy = sum(overhead[key] for key in ("guest_ns", "exit_ns", "not_run_ns"))
    part = "halted" if halted > busy else max(parts, key=parts.get)
    if part in ("preempted", "blocked", "halted"):
        return part, asker.ask("report", recording, "--waits")["tables"][part]["rows"][0]["culprit"], report
    by = "device" if part == "user" else "detail"
    return part, asker.ask("report", recording, "--by", by)["tables"]["groups"]["rows"][0]["key"], report


def main():
    trapline, tests = sys.argv[1:]
    wrong = []
    for name, (part, who) in PLANTED.items():
        asker, path = Asker(trapline), f"{tests}/{name}"
        got, culprit, report = answer(asker, path)
        finding = asker.ask("explain", path)["head"]["finding"]
        if got != part or not re.match(who, culprit or ""):
            wrong.append(f"{name}: {got} {culprit}, planted {part} {who}")
        if asker.calls > 3 or not finding:
            wrong.append(f"{name}: {asker.calls} calls, finding {finding}")
        for step in report["head"]["next"]:
            words = shlex.split(step["command"])[1:]
            with tempfile.TemporaryDirectory() as folder:
                # A recording of the host would not end by itself.
                ends = ["--duration", "100ms", "-o", f"{folder}/run"] if words[0] == "record" else []
                done = asker.run(*words, *ends)
            if done.returncode != 0:
                wrong.append(f"{name}: {step['command']}: {done.stderr}")
    for name, what in UNANSWERED.items():
        got, why, _ = answer(Asker(trapline), f"{tests}/{name}")
        if got is not None or why != what:
            wrong.append(f"{name}: {got} {why}, which it cannot say")
    for words, kind, status in ((["report", f"{tests}/data/box/no-kvm.dat"], "runtime", 1),
                                (["report", "--no-such-option"], "usage", 2)):
        done = Asker(trapline).run(*words)
        error = json.loads(done.stderr)["error"]
        if (error["kind"], error["status"], done.returncode) != (kind, status, status) or not error["message"]:
            wrong.append(f"{words}: {done.returncode} {done.stderr}")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(PLANTED)} planted causes, {len(UNANSWERED)} unanswered, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
