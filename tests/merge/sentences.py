#!/usr/bin/env python3
"""Every sentence that claims a cause, a proof or completeness rests on events that are named here.

  sentences.py SOURCE-FOLDER            each text of the sources that has one of WORDS has an entry in TEXTS
                                        below, and each entry is in the sources
  sentences.py SOURCE-FOLDER TRAPLINE   on real recordings: it is printed, and it is not where one of
                                        its events is missing (its format has another name)
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from recompress import converted  # noqa: E402

WORDS = re.compile(r"\b(because|held by|(?<!-)until|of that|proven|lost nothing)\b|alone: \{|\{\} ran instead")
WAKE = "sched_switch, sched_waking or sched_wakeup"
RUNS = "at least three runs a side, compared; docs/diff.md"
NONE = "none: "

# A piece of the text: what it rests on. NONE: it claims nothing of the recording.
TEXTS = {
    "The vCPU was halted until a timer": f"{WAKE} in hrtimer_expire_entry or timer_expire_entry",
    "The vCPU was halted until another vCPU's interrupt": f"{WAKE}, kvm_apic_ipi in the waker's exit",
    " alone: {}": "kvm_exit and kvm_entry of every exit that is counted",
    " (for {} {} ran instead)": "sched_switch of every CPU, sched_wakeup of every wait; none lost",
    "lock, held by ": "sys_enter_futex of the waiter, of the holder's own wait, and of its wake or unlock; or "
                      "qemu_mutex_locked",
    "until it was woken; by whom is ": "sched_switch; it says that the wake-up is unknown",
    "until it was woken by an ": "sched_switch; it says that the interrupt is unknown",
    "until woken by ": WAKE,
    ", until ": f"{WAKE}, else unknown",
    "Halted {}, until": f"kvm_exit of a halt; {WAKE}, else that it was awake in between, or unknown",
    "Slept in halts {}, until": f"kvm_exit of a halt; {WAKE}, else unknown",
    "no wake-ups were recorded: a sleeping vCPU counts as blocked until it runs": "that there are no wake-ups",
    '"~": nothing is proven': NONE + "a legend",
    "No change is proven": RUNS,
    " proven": RUNS,
    "not proven": RUNS,
    "lost nothing": "per_cpu/cpuN/stats of every CPU: overrun, dropped events, commit overrun, read events; "
                    "pages written; what others wrote into the instance's files (inotify)",
    "instance of that name": NONE + "an error",
    "writes nothing until asked": NONE + "the flight recorder's mode",
    "without it until it is ended": NONE + "an option",
    "no clock of that name": NONE + "a finding of doctor",
}

# Recording, command, what it prints, and the events without which it must not.
CASES = [
    ("planted/convoy.dat", ["report", "--waits"], "lock, held by", ["sys_enter_futex"]),
    ("planted/convoy.dat", ["report", "--waits"], "futex of", ["sys_enter_futex"]),
    ("planted/lock.dat", ["report", "--waits"], "lock, held by", ["sys_enter_futex"]),
    ("planted/lock.dat", ["report", "--waits"], "which waited for a timer", ["hrtimer_expire_entry"]),
    ("planted/disk.dat", ["report", "--waits"], "^disk ", ["block_rq_complete", "irq_handler_entry"]),
    ("planted/halt.dat", ["report", "--waits"], "^timer ", ["hrtimer_expire_entry"]),
    ("planted/hog.dat", ["explain"], "ran instead", ["sched_switch"]),
    ("planted/hog.dat", ["report", "--waits"], "\\(for [0-9.]+% plant-hog .* ran instead", ["sched_switch"]),
    ("planted/storm.dat", ["report", "--waits"], "^interrupt 4 ", ["irq_handler_entry"]),
    ("../data/svm-2vcpu-lost.dat", ["explain", "--around", "7.5979"], "IPI from", ["kvm_apic_ipi"]),
    ("../data/svm-2vcpu-lost.dat", ["explain", "--around", "7.65963"], "until another vCPU's interrupt",
     ["kvm_apic_ipi"]),
    ("planted/quota/trace.dat", ["report", "--waits"], "not allowed to run", ["sched_switch"]),
]
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`')
COMMENT = re.compile(r'^\s*(//|\*|/\*).*$|(?<=[;{},)])\s+//.*$', re.M)
BETWEEN = re.compile(r"^\s*$")


def texts_of(path):
    """The string literals of a source, adjacent ones joined."""
    text = COMMENT.sub("", path.read_text(encoding="utf-8"))
    joined, end = [], None
    for match in LITERAL.finditer(text):
        piece = match[1] if match[1] is not None else match[2]
        if end is not None and BETWEEN.match(text[end:match.start()]) and path.suffix != ".ts":
            joined[-1] += piece
        else:
            joined.append(piece)
        end = match.end()
    return joined


def check_texts(folder):
    used, wrong = set(), []
    files = [path for path in sorted((folder / "merge").rglob("*"))
             if path.suffix in (".cc", ".h", ".ts") and "node_modules" not in path.parts]
    for path in files:
        for text in texts_of(path):
            if not WORDS.search(text):
                continue
            entries = [entry for entry in TEXTS if entry in text.replace("\\n", "") or text.strip() == entry.strip()]
            used.update(entries)
            if not entries:
                wrong.append(f"{path.relative_to(folder)}: “{text}” claims something: name what it rests on in "
                             "tests/merge/sentences.py")
    unused = set(TEXTS) - used - {'"~": nothing is proven'}
    wrong += [f"tests/merge/sentences.py: “{entry}” is in no source" for entry in sorted(unused)]
    print(f"{len(files)} sources, {len(used)} claims")
    return wrong


def without(recording, event, folder):
    """The recording with that event under another name, as if it had not been recorded."""
    data, name = converted(recording), f"name: {event}\n".encode()
    if name not in data:
        raise SystemExit(f"{recording} has no {event}")
    lacking = folder / "lacking.dat"
    lacking.write_bytes(data.replace(name, name[:-2] + b"_\n"))
    return lacking


def printed(trapline, command, recording):
    run = subprocess.run([trapline, command[0], recording, *command[1:]], capture_output=True, text=True,
                         check=False, env={"PATH": "/usr/bin:/bin"})
    return run.stdout


def check_recordings(tests, trapline):
    wrong = []
    for name, command, claim, events in CASES:
        recording, pattern = tests / name, re.compile(claim, re.M)
        if not pattern.search(printed(trapline, command, recording)):
            wrong.append(f"{name}: trapline {' '.join(command)} does not say “{claim}”")
        for event in events:
            with tempfile.TemporaryDirectory() as folder:
                text = printed(trapline, command, without(recording, event, Path(folder)))
            if pattern.search(text):
                wrong.append(f"{name} without {event}: trapline {' '.join(command)} says “{claim}”")
    # A CPU quota is said of cpu.stat's counts alone.
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "quota"
        shutil.copytree(tests / "planted/quota", session)
        if "CPU quota" not in printed(trapline, ["report", "--waits"], session):
            wrong.append("planted/quota: the CPU quota is not named")
        facts = json.loads((session / "session.json").read_text(encoding="utf-8"))
        for cgroup in facts["cgroups"]:
            cgroup["nr_throttled"] = [cgroup["nr_throttled"][1]] * 2
        (session / "session.json").write_text(json.dumps(facts), encoding="utf-8")
        text = printed(trapline, ["report", "--waits"], session)
        if "CPU quota" in text or "not allowed to run" not in text:
            wrong.append("planted/quota without throttled counts: the CPU quota is named")
    print(f"{len(CASES) + 1} claims on recordings")
    return wrong


def main():
    folder = Path(sys.argv[1])
    wrong = check_recordings(folder / "tests/merge", sys.argv[2]) if len(sys.argv) > 2 else check_texts(folder)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
