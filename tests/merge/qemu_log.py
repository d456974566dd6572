#!/usr/bin/env python3
"""A QEMU's log with kvm_run_exit and kvm_vcpu_ioctl is reported by KVM_EXIT reason, and user time is exact: from each
kvm_run_exit to the thread's next KVM_RUN. The same log behind the prefixes of journals, of grep and of mails, and the
same lines in trace_marker, give the same rows.

  qemu_log.py TRAPLINE
"""
import pathlib
import random
import sys
import tempfile

import tables

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import trace_dat  # noqa: E402

trapline = sys.argv[1]
NAMES = {2: "KVM_EXIT_IO", 6: "KVM_EXIT_MMIO", 24: "KVM_EXIT_SYSTEM_EVENT", 10: "KVM_EXIT_INTR", 40: "KVM_EXIT 0x28"}
KVM_RUN, GET_REGS = 0xae80, 0x8090ae81
BEGIN = 1_700_000_000_000_000  # us
failures = []


def check(name, condition, what):
    if not condition:
        failures.append(f"{name}: {what}")


def made_events(seed):
    """[(us, thread, text)]: vCPUs that run, leave with a reason or with a signal, and other events of QEMU."""
    rng, events = random.Random(seed), []
    for vcpu in range(3):
        at, thread = BEGIN + rng.randrange(1000), 4000 + vcpu
        for _ in range(400):
            events.append((at, thread, f"kvm_vcpu_ioctl cpu_index {vcpu}, type 0x{KVM_RUN:x}, arg (nil)"))
            at += rng.randrange(1, 300)
            if rng.random() < 0.1:
                continue  # KVM_RUN was interrupted: QEMU traces no reason
            events.append((at, thread, f"kvm_run_exit cpu_index {vcpu}, reason {rng.choice(list(NAMES))}"))
            for _ in range(rng.randrange(3)):
                at += rng.randrange(20)
                events.append((at, thread, rng.choice((
                    f"kvm_vcpu_ioctl cpu_index {vcpu}, type 0x{GET_REGS:x}, arg 0x7f0012345678",
                    "memory_region_ops_write cpu 0 mr 0x55 addr 0x3f8 value 0x41 size 1 name 'serial'",
                    "serial_write write addr 0x00 val 0x41"))))
            at += rng.randrange(1, 50)
    events.append((BEGIN + 500, 3999, "kvm_vm_ioctl type 0xae03, arg (nil)"))
    return sorted(events, key=lambda event: event[0])


def rows_of(events):
    """{reason: [count, us]}, by a reader of its own. An exit without a KVM_RUN after it is only counted."""
    rows, since = {}, {}
    for at, thread, text in events:
        words = text.replace(",", "").split()
        if words[0] == "kvm_run_exit":
            since[thread] = at, rows.setdefault(NAMES[int(words[4])], [0, 0])
            since[thread][1][0] += 1
        elif words[0] == "kvm_vcpu_ioctl" and int(words[4], 16) == KVM_RUN and thread in since:
            begin, row = since.pop(thread)
            row[1] += at - begin
    return rows


def log_of(events):
    return [f"{thread}@{at // 10 ** 6}.{at % 10 ** 6:06}:{text}" for at, thread, text in events]


def report(path, *words):
    status, found, complaint = tables.asked(trapline, "report", path, *words)
    if status != 0:
        failures.append(f"{path}: status {status}, {complaint}")
        return None
    return found


def rows_told(told):
    rows = told["tables"]["groups"]["rows"] if told else []
    return {row["key"]: [row["count"], (row["total_ns"] or 0) // 1000] for row in rows}


SHAPES = {
    "as it is": "{}", "indented": "    {}", "quoted": "> {}", "quoted twice": ">> {}", "CRLF": "{}\r",
    "syslog": "Nov 29 12:00:01 host qemu-system-x86[123]: {}", "journal": "2026-11-29T12:00:01+0000 host qemu[12]: {}",
    "date": "2026-11-29T12:00:01.123456Z {}", "date, blank": "2026-11-29 12:00:01,123 {}", "grep -n": "{n}:{}",
    "grep -H": "qemu.log:{}", "grep -Hn": "/var/log/libvirt/qemu/vm.log:{n}:{}", "cat -n": "{n:6}\t{}",
    "monotonic": "[   12.345678] {}"}

with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/log"
    for seed in range(3):
        events = made_events(seed)
        expected = rows_of(events)
        for name, shape in SHAPES.items():
            lines = [shape.replace("{n}", str(n)).replace("{n:6}", f"{n:6}").replace("{}", line)
                     for n, line in enumerate(log_of(events), 1)]
            pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
            told = report(path)
            check(f"{name}, {seed}", rows_told(told) == expected, (rows_told(told), expected))
            if told:
                users = sum(row["user_ns"] for row in told["tables"]["groups"]["rows"])
                check(f"{name}, user time", users == 1000 * sum(us for _, us in expected.values()), users)
                vcpus = {(row["vcpu"], row["tid"]) for row in told["tables"]["vcpus"]["rows"]}
                check(name, vcpus == {(0, 4000), (1, 4001), (2, 4002)}, vcpus)
                check(name, told["head"]["user_end"] == "ioctl" and "in QEMU" in told["head"]["finding"], told["head"])
        # Other output of QEMU between the lines.
        mixed = [text for line in log_of(events) for text in ("qemu: warning: a device is slow", line)]
        pathlib.Path(path).write_text("\n".join(mixed) + "\n", encoding="utf-8")
        check("mixed", rows_told(report(path)) == expected, "")
        # In trace_marker, where no event of KVM is beside.
        dat = trace_dat.TraceDat(1)
        for at, thread, text in events:
            dat.event(0, at * 1000, "ftrace:print", thread, buf=text + "\n")
        dat.write(f"{folder}/trace.dat")
        check("markers", rows_told(report(f"{folder}/trace.dat")) == expected, rows_told(report(f"{folder}/trace.dat")))
        # Beside kvm_exit the same markers are only QEMU's events.
        dat.event(0, (events[-1][0] + 10) * 1000, "kvm:kvm_exit", 4000, exit_reason=0x7b, isa=2, guest_rip=1)
        dat.event(0, (events[-1][0] + 20) * 1000, "kvm:kvm_entry", 4000)
        dat.write(f"{folder}/trace.dat")
        check("beside kvm_exit", {key: row[0] for key, row in rows_told(report(f"{folder}/trace.dat")).items()} ==
              {"0x7b": 1}, "")
        # Without KVM_RUN exits are counted and have no times; what would tell them is named.
        counted = [line for line in log_of(events) if "kvm_vcpu_ioctl" not in line]
        pathlib.Path(path).write_text("\n".join(counted) + "\n", encoding="utf-8")
        told = report(path)
        check("counted", {key: count for key, (count, _) in rows_told(told).items()} ==
              {key: count for key, (count, _) in expected.items()}, rows_told(told))
        check("counted", told and any("kvm_vcpu_ioctl" in note for note in told["notes"]), told and told["notes"])
        check("counted", told and all(row["total_ns"] is None for row in told["tables"]["groups"]["rows"]), "")

for failure in failures[:20]:
    print(f"FAILED: {failure}")
sys.exit(bool(failures))
