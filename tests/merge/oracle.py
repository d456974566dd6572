#!/usr/bin/env python3
"""The exit model once more, from the text of `trace-cmd report`: an oracle for `trapline report`.

  oracle.py FILE [--by reason|detail|device]     prints the rows as JSON
  oracle.py --compare TRAPLINE FILE [--by ...]   compares them with TRAPLINE report FILE, row by row

It shares no code with trapline and reads no binary: every field comes from `trace-cmd report -R`,
names from `trace-cmd report`. It follows docs/formats/report.md ("Exit model"), slowly and plainly.
"""
import argparse
import collections
import json
import re
import subprocess
import sys

KVM_RUN = 0xAE80
SLEEPING = 0xFF  # of prev_state: states in which a thread waits; 0x100 is "preempted"
NESTED = ("kvm_nested_vmenter", "kvm_nested_vmrun", "kvm_nested_vmexit", "kvm_nested_vmexit_inject",
          "kvm_nested_intr_vmexit")
RISCV_EXIT_MMIO = 6
RISCV_EXCEPTIONS = {2: "INST_ILLEGAL", 8: "SYSCALL", 9: "HYPERVISOR_SYSCALL", 10: "SUPERVISOR_SYSCALL",
                    20: "INST_GUEST_PAGE_FAULT", 21: "LOAD_GUEST_PAGE_FAULT", 22: "VIRTUAL_INST_FAULT",
                    23: "STORE_GUEST_PAGE_FAULT"}
RISCV_INTERRUPTS = {1: "S_SOFT", 2: "VS_SOFT", 5: "S_TIMER", 6: "VS_TIMER", 9: "S_EXT", 10: "VS_EXT",
                    12: "S_GEXT", 13: "PMU_OVF"}
PARTS = ("kernel", "user", "preempted", "blocked")

LINE = re.compile(r"^ *(.+)-(\d+) +\[(\d+)\] +([0-9.]+): (\S+): *(.*)$")
LOSS = re.compile(r"^CPU:(\d+) \[(?:(\d+) )?EVENTS DROPPED\]$")
FIELD = re.compile(r"(\w+)=\s*(\S+)")
REGION = re.compile(r"^(?:memory_region_ops|vmm_device)_(?:read|write) .*\baddr (0x[0-9a-f]+) .*name '(.*)'$")
# Fields that the kernel's print format writes in hexadecimal without 0x.
BARE_HEX = {"ecx", "function", "fault_address"}

Event = collections.namedtuple("Event", "at cpu tid name fields text")
Hole = collections.namedtuple("Hole", "cpu start end count")


def report_lines(path, *options):
    command = ["trace-cmd", "report", "-t", "-N", *options, path]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return run.stdout.decode("utf-8", "surrogateescape").split("\n")


def number(fields, key, otherwise=None):
    if key not in fields:
        return otherwise
    text = fields[key]
    return int(text, 16) if key in BARE_HEX or text.startswith("0x") else int(text)


def read(path):
    """The events of a recording in order, and its holes."""
    events, holes, pending, last_on_cpu = [], [], {}, {}
    for raw, plain in zip(report_lines(path, "-R"), report_lines(path), strict=True):
        loss = LOSS.match(raw)
        if loss:
            pending[int(loss[1])] = int(loss[2] or 0)
            continue
        match = LINE.match(raw)
        if not match:
            continue
        name, rest = match[5], match[6]
        if name == "print":
            fields = {"buf": rest.partition(" buf=")[2]}
        else:
            fields = dict(FIELD.findall(rest))
        text = plain.partition(f": {name}:")[2].strip()
        at, cpu = int(match[4].replace(".", "")), int(match[3])
        if cpu in pending:
            holes.append(Hole(cpu, last_on_cpu.get(cpu, 0), at, pending.pop(cpu)))
        last_on_cpu[cpu] = at
        events.append(Event(at, cpu, int(match[2]), name, fields, text))
    return events, holes


# ---- names

def exit_reason(event):
    """The name that the event's own print format gives."""
    if "esr_ec" in event.fields:  # arm64: "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: …" or "IRQ: PC: …"
        kind = event.text.split(":")[0]
        return re.search(r"HSR_EC: 0x\w+ \((.*?)\)", event.text)[1] if kind == "TRAP" else kind
    if "scause" in event.fields:
        cause = number(event.fields, "scause")
        if cause >> 63:
            return "IRQ_" + RISCV_INTERRUPTS[cause & 0xFF]
        wfi = cause == 22 and number(event.fields, "stval") == 0x10500073
        return "EXC_" + RISCV_EXCEPTIONS[cause] + (" (WFI)" if wfi else "")
    return re.search(r"\breason (.+?) rip", event.text)[1]  # SVM has "PF excp"


def userspace_reason(event, names):
    reason = number(event.fields, "reason")
    return names.get(reason, f"KVM_EXIT {reason:#x}")


def userspace_names(events):
    names = {}
    for event in events:
        match = re.match(r"reason (KVM_EXIT_\w+) \((\d+)\)", event.text)
        if event.name == "kvm_userspace_exit" and match:
            names[int(match[2])] = match[1]
    return {0: "KVM_EXIT_UNKNOWN", **names}


def detail_of(event):
    """(priority, what, address, access, whether it is a read that waits for an answer)"""
    f, name = event.fields, event.name
    if name == "kvm_pio":
        return 0, "port", number(f, "port"), ("read", "write")[number(f, "rw")], False
    if name == "kvm_mmio":
        kind = number(f, "type")  # 0 unsatisfied read, 1 read, 2 write
        return 1, "mmio", number(f, "gpa"), "write" if kind == 2 else "read", kind == 0
    if name == "kvm_fast_mmio":
        return 1, "mmio", number(f, "gpa"), "write", False
    if name == "kvm_msr":
        return 2, "msr", number(f, "ecx"), ("read", "write")[number(f, "write")], False
    if name == "kvm_sys_access":
        register = "S{}_{}_C{}_C{}_{}".format(*(f[k] for k in ("Op0", "Op1", "CRn", "CRm", "Op2")))
        return 3, "sysreg", register, ("read", "write")[number(f, "is_write")], False
    if name == "kvm_cr":
        return 3.5, "", f"cr{number(f, 'cr')}", ("read", "write")[number(f, "rw")], False
    if name == "kvm_cpuid":
        return 4, "cpuid", number(f, "function"), "", False
    if name == "kvm_hypercall":
        return 5, "hypercall", number(f, "nr"), "", False
    if name == "kvm_hvc_arm64":
        return 5, "hypercall", number(f, "r0"), "", False
    if name == "kvm_page_fault":
        return 6, "page-fault", number(f, "fault_address"), "", False
    if name == "kvm_guest_fault":
        return 6, "page-fault", number(f, "ipa"), "", False
    if name == "kvm_exit" and number(f, "scause") in (20, 21, 23) and number(f, "htval"):
        address = number(f, "htval") * 4 + number(f, "stval") % 4
        return 6, "page-fault", address, "", False
    return None


def detail_key(detail):
    if detail is None:
        return "-"
    _, what, value, access, _ = detail
    value = value if isinstance(value, str) else f"{value:#x}"
    return " ".join(part for part in (what, value, access) if part)


# ---- the model

class Span:
    def __init__(self, start, reason):
        self.start = self.mark = start
        self.end = None
        self.reason = reason
        self.parts = dict.fromkeys(PARTS, 0)
        self.details, self.regions = [], []
        self.in_user = False
        self.off = None  # "preempted" or "blocked" while it is off the CPU
        self.nested = []  # the events kvm_nested_* in it

    def account(self, now):
        self.parts[self.off or ("user" if self.in_user else "kernel")] += now - self.mark
        self.mark = now

    def detail(self):
        """The first one of the highest priority."""
        return min(self.details, key=lambda detail: detail[0], default=None)

    def whose(self):
        """Of the guest or of its own guest: by the first event of its kind, and by what follows."""
        if not self.nested:
            return "guest"
        if self.nested[0] in ("kvm_nested_vmenter", "kvm_nested_vmrun"):
            return "guest enters nested guest"
        passed_on = {"kvm_nested_vmexit_inject", "kvm_nested_intr_vmexit"} & set(self.nested)
        return "nested guest, passed on" if passed_on else "nested guest"

    def key(self, by):
        if by == "reason":
            return self.reason
        if by == "detail":
            return detail_key(self.detail())
        if by == "nested":
            return self.whose()
        detail = self.detail()
        address = detail[2] if detail and detail[1] in ("port", "mmio") else None
        if not self.regions:
            return "-"
        named = [name for where, name in self.regions if where == address]
        return named[0] if named else self.regions[-1][1]


class Model:
    def __init__(self, events, holes):
        self.events, self.holes = events, holes
        self.fallback = not any(e.name == "kvm_exit" for e in events)
        self.user_end = self.choose_user_end()
        self.names = userspace_names(events)
        self.open, self.spans = {}, []
        self.guest_since, self.guest_ns = {}, collections.Counter()
        self.last_seen, self.waiting, self.undecided = {}, {}, {}
        self.counters = collections.Counter()
        # A hole is known when the event before it is consumed.
        self.holes_after = collections.defaultdict(list)
        for hole in holes:
            self.holes_after[hole.cpu, hole.start].append(hole)

    def choose_user_end(self):
        if any(self.is_user_end(e, "ioctl") for e in self.events):
            return "ioctl"
        if any(self.is_user_end(e, "reload") for e in self.events):
            return "reload"
        return "none" if self.fallback else "entry"

    @staticmethod
    def is_user_end(event, which):
        if which == "ioctl":
            return event.name == "sys_enter_ioctl" and number(event.fields, "cmd") == KVM_RUN
        if which == "reload":
            return (event.name in ("kvm_get_timer_map", "kvm_timer_restore_state") or
                    event.name == "kvm_fpu" and number(event.fields, "load") == 1)
        return event.name == "kvm_entry"

    def run(self):
        for event in self.events:
            for tid in self.threads_of(event):
                self.see(tid, event)
            self.on_sched(event)
            (self.on_fallback if self.fallback else self.on_event)(event)
            for hole in self.holes_after.pop((event.cpu, event.at), []):
                self.on_hole(hole)
        self.counters["exit_without_entry"] += len(self.open)
        return self

    # -- losses

    @staticmethod
    def threads_of(event):
        """The threads that the event shows on its CPU."""
        if event.name == "sched_switch":
            return {number(event.fields, "prev_pid"), number(event.fields, "next_pid")}
        return {event.tid}

    def see(self, tid, event):
        """A hole of this CPU since the thread was last seen could hide how it came here."""
        before = self.last_seen.get(tid)
        if before and any(h.cpu == event.cpu and h.start <= event.at and h.end > before.at and
                          h.end <= event.at for h in self.holes):
            self.close_for_loss(tid)
        self.last_seen[tid] = event

    def on_hole(self, hole):
        for tid in list(self.open.keys() | self.guest_since.keys()):
            span = self.open.get(tid)
            seen = self.last_seen.get(tid)
            if (seen and seen.cpu == hole.cpu) or (span and span.off):
                self.close_for_loss(tid)

    def close_for_loss(self, tid):
        self.guest_since.pop(tid, None)
        if self.open.pop(tid, None):
            self.counters["closed_by_loss"] += 1

    # -- scheduling

    def on_sched(self, event):
        if event.name == "sched_switch":
            leaving = self.open.get(number(event.fields, "prev_pid"))
            coming = self.open.get(number(event.fields, "next_pid"))
            if leaving:
                leaving.account(event.at)
                state = number(event.fields, "prev_state")
                leaving.off = "blocked" if state & SLEEPING else "preempted"
                # Off the CPU while another CPU's hole lasts: it may have run in there.
                if any(h.start <= event.at < h.end and h.cpu != event.cpu for h in self.holes):
                    self.close_for_loss(number(event.fields, "prev_pid"))
            if coming:
                coming.account(event.at)
                coming.off = None
        elif event.name in ("sched_waking", "sched_wakeup"):
            woken = self.open.get(number(event.fields, "pid"))
            if woken and woken.off == "blocked":
                woken.account(event.at)
                woken.off = "preempted"

    # -- exits

    def emit(self, tid, span, at):
        span.account(at)
        span.end = at
        assert sum(span.parts.values()) == span.end - span.start
        span.tid = tid
        self.spans.append(span)

    def on_event(self, event):
        tid, span = event.tid, self.open.get(event.tid)
        if event.name == "kvm_exit":
            if span:
                self.counters["exit_without_entry"] += 1
            self.open[tid] = Span(event.at, exit_reason(event))
            if detail_of(event):
                self.open[tid].details.append(detail_of(event))
            if tid in self.guest_since:
                self.guest_ns[tid] += event.at - self.guest_since.pop(tid)
        elif event.name == "kvm_entry":
            if span:
                self.emit(tid, self.open.pop(tid), event.at)
            else:
                self.counters["entry_without_exit"] += 1
            self.guest_since[tid] = event.at
        elif span:
            self.inside(event, span)

    def inside(self, event, span):
        if event.name == "kvm_userspace_exit":
            span.account(event.at)
            span.in_user = True
            # RISC-V has no kvm_mmio.
            if span.reason.endswith("_GUEST_PAGE_FAULT") and number(event.fields, "reason") == RISCV_EXIT_MMIO:
                access = "write" if "STORE" in span.reason else "read"
                span.details.append((1, "mmio", span.details[0][2], access, False))
        elif span.in_user and self.is_user_end(event, self.user_end):
            span.account(event.at)
            span.in_user = False
        if event.name in NESTED:
            span.nested.append(event.name)
        detail = detail_of(event)
        if detail:
            span.details.append(detail)
        region = REGION.match(event.fields.get("buf", "").strip()) if span.in_user else None
        if region:
            span.regions.append((int(region[1], 16), region[2]))

    # -- no kvm_exit: the time in user space alone

    def on_fallback(self, event):
        tid, span = event.tid, self.open.get(event.tid)
        detail = detail_of(event)
        if event.name == "kvm_userspace_exit":
            self.undecided.pop(tid, None)
            started = Span(event.at, userspace_reason(event, self.names))
            started.in_user = True
            if tid in self.waiting:
                started.details.append(self.waiting.pop(tid))
            if self.user_end == "none":
                started.tid, started.end = tid, event.at
                self.spans.append(started)
                self.undecided[tid] = started
                return
            if span:
                self.counters["exit_without_entry"] += 1
            self.open[tid] = started
        elif span and self.is_user_end(event, self.user_end):
            self.emit(tid, self.open.pop(tid), event.at)
            self.undecided[tid] = span
        elif detail and detail[1] in ("port", "mmio"):
            is_answer = detail[3] == "read" and not detail[4]
            about = span or self.undecided.get(tid)
            if not is_answer:
                self.waiting[tid] = detail
            elif about and not about.details:
                about.details.append(detail)
        elif span:
            self.inside(event, span)

    def rows(self, by):
        groups = collections.defaultdict(list)
        for span in self.spans:
            groups[span.key(by)].append(span)
        rows = {}
        for key, spans in groups.items():
            totals = sorted(span.end - span.start for span in spans)
            row = {"count": len(spans), "total_ns": sum(totals), "min_ns": totals[0],
                   "max_ns": totals[-1]}
            for part in PARTS:
                row[f"{part}_ns"] = sum(span.parts[part] for span in spans)
            row["totals"] = totals
            rows[key] = row
        return rows


def percentile(sorted_values, thousandths):
    rank = -(-thousandths * len(sorted_values) // 1000)
    return sorted_values[max(rank, 1) - 1]


# ---- comparison

EXACT = ("count", "total_ns", "min_ns", "max_ns", *(f"{part}_ns" for part in PARTS))
PERCENTILES = {"p50_ns": 500, "p90_ns": 900, "p99_ns": 990, "p999_ns": 999}


def compare(trapline, path, by, model, lost):
    """Differences as sentences."""
    run = subprocess.run([trapline, "report", path, "--by", by, "--format", "json"],
                         stdout=subprocess.PIPE, check=True)
    report = json.loads(run.stdout)
    wanted = model.rows(by)
    got = {row["key"]: row for row in report["groups"]["rows"]}
    wrong = []

    def expect(what, theirs, ours):
        if theirs != ours:
            wrong.append(f"{what}: trapline {theirs}, oracle {ours}")

    expect("user_end", report["user_end"], model.user_end)
    expect("keys", sorted(got.keys() - wanted.keys()), sorted(wanted.keys() - got.keys()))
    for key in sorted(got.keys() & wanted.keys()):
        for column in EXACT:
            expect(f"{key}: {column}", got[key][column], wanted[key][column])
        for column, thousandths in PERCENTILES.items():
            exact = percentile(wanted[key]["totals"], thousandths)
            if abs(got[key][column] - exact) > exact / 100:
                wrong.append(f"{key}: {column}: trapline {got[key][column]}, nearest rank {exact}")
        parts = sum(got[key][f"{part}_ns"] for part in PARTS)
        expect(f"{key}: sum of the parts", parts, got[key]["total_ns"])
    counters = report["counters"]
    expect("exits", counters["exits"], len(model.spans))
    expect("lost_events", counters["lost_events"], sum(hole.count for hole in lost))
    expect("gaps", counters["gaps"], len(lost))
    expect("gaps_uncounted", counters["gaps_uncounted"], sum(hole.count == 0 for hole in lost))
    for name in ("exit_without_entry", "entry_without_exit", "closed_by_loss"):
        expect(name, counters[name], model.counters[name])
    for vcpu in report["vcpus"]:
        mine = [span for span in model.spans if span.tid == vcpu["tid"]]
        expect(f"thread {vcpu['tid']}: exits", vcpu["exits"], len(mine))
        expect(f"thread {vcpu['tid']}: guest_ns", vcpu["guest_ns"], model.guest_ns[vcpu["tid"]])
        for part in PARTS:
            expect(f"thread {vcpu['tid']}: {part}_ns", vcpu[f"{part}_ns"],
                   sum(span.parts[part] for span in mine))
    return wrong


def check_status(trapline, path, holes):
    """Losses are told with and without --strict, and only --strict makes them the exit status."""
    lost = f"{sum(hole.count for hole in holes)} events were lost in {len(holes)} loss"
    wrong = []
    for options, wanted in (([], 0), (["--strict"], 3 if holes else 0)):
        run = subprocess.run([trapline, "report", path, *options], capture_output=True, check=False)
        if run.returncode != wanted:
            wrong.append(f"{options}: exit status {run.returncode}, not {wanted}")
        said = (run.stdout + run.stderr).decode().replace(",", "")
        if (lost in said) != bool(holes):
            wrong.append(f"{options}: {'does not say' if holes else 'says'} '{lost}'")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--by", default="reason", help="reason, detail, device, nested; several with commas")
    parser.add_argument("--compare", metavar="TRAPLINE")
    parser.add_argument("--left-out", action="store_true",
                        help="the recorder left events out on purpose: none counts as lost")
    options = parser.parse_args()
    model = Model(*read(options.file)).run()
    lost = [] if options.left_out else model.holes
    wrong = []
    for by in options.by.split(","):
        if not options.compare:
            rows = model.rows(by)
            for row in rows.values():
                del row["totals"]
            json.dump(rows, sys.stdout, indent=1)
            print()
            continue
        wrong += [f"--by {by}: {line}" for line in
                  compare(options.compare, options.file, by, model, lost)]
    if options.compare:
        wrong += check_status(options.compare, options.file, lost)
    for line in wrong:
        print(line)
    if options.compare and not wrong:
        print(f"{options.file}: {len(model.spans)} exits, the same figures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
