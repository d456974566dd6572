#!/usr/bin/env python3
"""No figure is 0 where the recording cannot tell it: it is null, "-", or empty.

  false_zeros.py TRAPLINE PATH...    recordings, sessions, folders of them; those that are not there are left out

What can be told follows from the events that trace-cmd finds in the recording. Every number of the JSON of report,
explain, diff, top, the page's data and the exports' rows that is 0 needs the events of its rule; where a vCPU's time is
known, a part that the events tell is a number. Prometheus' series have the same rule.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from recording import readable


MOST_LINES = 2000  # of rows: what can be told is the same of each
SESSIONS = ("quota", "quota-io", "quota-tasks", "realtime", "own")
REPORT = ["report", "--format", "json", "--waits", "--steal", "--kernel", "--halt", "--irq", "--slower-than", "100us", "--phases",
          "--guest"]
COMMANDS = [REPORT, ["report", "--format", "json", "--by", "device"], ["explain", "--format", "json"],
            ["top", "--batch", "--interval", "1s"], ["report", "--format", "page-data"],
            ["export", "--format", "jsonl", "--allow-empty", "-o", "-"]]
IRQS = {"kvm_set_irq", "kvm_msi_set_irq", "kvm_apic_accept_irq", "kvm_pic_set_irq", "kvm_inj_virq", "kvm_eoi",
        "kvm_ack_irq", "vgic_update_irq_pending"}


class Recorded:
    """What the events of a recording can tell."""

    def __init__(self, path, session):
        with readable(path) as file:
            report = subprocess.run(["trace-cmd", "report", "-t", str(file)], capture_output=True, check=False).stdout
        names, markers, ioctl, text = collections.Counter(), 0, False, report.decode(errors="replace")
        for line in text.splitlines():
            found = re.match(r".*?\[\d+\]\s+(?:\S+\s+)?[\d.]+: (\w+):", line)
            if not found:
                continue
            names[found[1]] += 1
            ioctl |= found[1] == "sys_enter_ioctl" and "ae80" in line
            markers += found[1] == "print" and re.search(r": print: .*?: ?(?:\d+@[\d.]+:)?\w+ ", line) is not None
        self.is_read = bool(names)
        has = names.__contains__
        self.exit, self.switch = has("kvm_exit"), has("sched_switch")
        end = ioctl or re.search(r"kvm_fpu: +load|kvm_get_timer_map|kvm_timer_restore_state", text) is not None
        self.time = self.exit or end
        arm, riscv = "arm64" in str(path), "riscv" in str(path)
        self.needs = {
            "time": self.time,
            "kernel": self.exit, "guest": self.exit, "halted": self.exit,
            # Where the session asked for its event, and it never came, none of the time is QEMU's.
            "user": self.time and (has("kvm_userspace_exit") or "kvm:kvm_userspace_exit" in session.get("events", [])),
            "preempted": self.time and self.switch, "blocked": self.time and self.switch,
            "switch": self.switch,
            "halts": self.exit and self.switch,
            "paused": self.switch and "vm_state_notify" in text,
            "offline": self.exit and self.switch and has("kvm_userspace_exit") and not riscv and
            (not arm or has("kvm_hvc_arm64") or has("kvm_hypercall")),
            "wakeup": has("kvm_vcpu_wakeup"),
            "wakers": self.switch and (has("sched_waking") or has("sched_wakeup")),
            "irq": any(map(has, IRQS)), "injected": has("kvm_inj_virq"),
            "qemu": markers > 0, "qemu in exits": self.time,
            "access": has("kvm_pio") or has("kvm_mmio"),
        }


# Where in the JSON, and what a 0 needs there; the first that fits.
PARTS = "kernel|user|preempted|blocked|halted|guest|paused|offline"
RULES = [(re.compile(pattern), need) for pattern, need in (
    (r"\.tables\.(preempted|blocked)\.total_ns$", "preempted"),
    (r"\.tables\.halted\.total_ns$", "halts"),
    (r"\.steal\.rows\[\]\.(waits|by\.total_ns)$", "switch"),
    (r"\.halts\.rows\[\]\.wake_to_run\.", "wakers"),
    (r"\.halts\.rows\[\]\.(polls_won\.|slept\.|invalid)", "wakeup"),
    (r"\.halt_costs\.rows\[\]\.(exits|halt_exits)$", "halted"),
    (r"\.halt_costs\.rows\[\]\.polling_ns$", "wakeup"),
    (r"\.halt_costs\.rows\[\]\.replay\.rows\[\]", "wakeup"),
    (r"\.irqs\.coalesced$", "irq"),
    (r"\.irqs\.rows\[\]\.injected$", "injected"),
    (r"\.(exit|slow_exits|worst)\.rows\[\]\.qemu_events$", "qemu"),
    (r"\.accesses$", "access"),
    (r"(in_exits)$", "qemu in exits"),
    (r"\.rip$", "guest"),
    (rf"\.rows\[\]\.({PARTS})_ns$", None),
    (rf"\.(?:total|overhead)\.({PARTS})_ns$", None),
    (rf"^export[^.]*\.({PARTS})_ns$", None),
    (r"\.rows\[\]\.(total|min|mean|p50|p90|p99|p999|max)_ns$", "time"),
)]


def numbers(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, path + "[]")
    elif value is None or isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value
    elif value == "0x0":
        yield path, 0


def documents(trapline, command, path):
    name, *options = command
    done = subprocess.run([trapline, name, str(path), *options], capture_output=True, check=False)
    if done.returncode not in (0, 3):
        return
    text = done.stdout.decode()
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines()[:MOST_LINES]:
            yield json.loads(line)


def need_of(path):
    for pattern, need in RULES:
        if found := pattern.search(path):
            return need or found[1]
    return None


def check_prometheus(trapline, path, needs):
    with tempfile.NamedTemporaryFile(suffix=".prom") as file:
        subprocess.run([trapline, "top", str(path), "--batch", "--prometheus", file.name], capture_output=True, check=False)
        for line in file.read().decode().splitlines():
            found = re.search(rf'(?:state|part)="({PARTS})"\}} 0(\.0*)?$', line)
            if found and not needs[found[1]]:
                yield f"prometheus: {line}"


def check(trapline, path):
    """The figures looked at, and the complaints."""
    data, session = path, {}
    if path.is_dir():
        data, session = path / "trace.dat", json.loads((path / "session.json").read_text())
    recorded = Recorded(data, session)
    if not recorded.is_read:
        return 0, []
    needs = recorded.needs
    counted, wrong = collections.Counter(), collections.Counter()
    commands = [*COMMANDS, ["diff", str(path), "--format", "json"]]
    for command in commands:
        for document in documents(trapline, command, path):
            for where, value in numbers(document, command[0]):
                need = need_of(where)
                if need is None:
                    continue
                counted[need] += 1
                if value == 0 and not needs[need]:
                    wrong[f"{where} is 0, and nothing tells it ({need})"] += 1
                part = re.search(rf"\.vcpus\.rows\[\]\.({PARTS})_ns$", where)
                if value is None and part and needs[need]:
                    wrong[f"{where} is null, and the events tell it"] += 1
    for line in check_prometheus(trapline, path, needs):
        wrong[line] += 1
    return sum(counted.values()), [f"{path}: {what} ({times} times)" for what, times in wrong.items()]


def recordings(paths):
    for path in map(pathlib.Path, paths):
        if path.is_file() or (path / "session.json").is_file():
            yield path
            continue
        if not path.is_dir():
            continue
        for file in sorted(path.rglob("*.dat")):
            if file.name != "trace.dat" and not file.name.startswith(("cut-", "no-events", "guest")):
                yield file
        yield from (folder for folder in sorted(path.rglob("*")) if folder.name in SESSIONS and folder.is_dir())


def main():
    trapline, *paths = sys.argv[1:]
    figures = wrong = files = 0
    for path in recordings(paths):
        counted, complaints = check(trapline, path)
        if not counted:
            print(f"{path}: has no figures, or trace-cmd cannot read it")
            continue
        figures, files = figures + counted, files + 1
        for line in complaints:
            print(line)
        wrong += len(complaints)
    print(f"{files} recordings, {figures} figures, {wrong} that are 0 and not known, or known and not told")
    return 1 if wrong or not figures else 0


if __name__ == "__main__":
    sys.exit(main())
