"""The exit model once more, from the text of `trace-cmd report`: an oracle for `trapline report` (oracles.py --oracle report).

It shares no code with trapline: every field comes from `trace-cmd report -R`, and of the binary pages only the time of
those without events; names from `trace-cmd report`. It follows docs/formats/report.md ("Exit model"), slowly and plainly.
"""
import collections
import functools
import re
import subprocess

import tables
from recording import number, read

LEFT_OUT = False  # whether the recorder left events out on purpose, so that none counts as lost

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
PARTS = ("kernel", "user", "preempted", "blocked", "halted")
STATES = ("guest", *PARTS, "paused", "offline", "not_seen")
STOPPED, DEAD = 0x4 | 0x8, 0x10 | 0x20  # of prev_state
EXIT_HLT, TRY_AGAIN, PSCI_CPU_OFF = 5, -11, 0x84000002

REGION = re.compile(r"^(?:memory_region_ops|vmm_device)_(?:read|write) .*\baddr (0x[0-9a-f]+) .*name '(.*)'$")
VM_STATE = re.compile(r"^vm_state_notify running (\d+)")
CLONE_THREAD = 0x10000


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
        if event.name == "kvm_userspace_exit" and (match := re.match(r"reason (KVM_EXIT_\w+) \((\d+)\)", event.text)):
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
    if what == "page-fault":
        return "page fault"
    value = value if isinstance(value, str) else f"{value:#x}"
    return " ".join(part for part in (what, value, access) if part)


# ---- the model

def is_halt(event):
    """As far as the exit's reason tells."""
    fields = event.fields
    if event.name == "kvm_userspace_exit":
        return number(fields, "reason") == EXIT_HLT
    if "esr_ec" in fields:
        return (number(fields, "ret"), number(fields, "esr_ec")) == (2, 1)
    if "scause" in fields:
        return number(fields, "scause") == 22 and number(fields, "stval") == 0x10500073
    reason = number(fields, "exit_reason")
    return reason & 0xFFFF == 12 if number(fields, "isa") == 1 else reason in (0x78, 0xA6)


class Span:
    """An exit: what its time went to is a list of pieces, (begin, end, state), in their order."""

    def __init__(self, start, reason="", halt=False):
        self.start, self.end, self.tid = start, None, None
        self.cut = self.open = False  # it did not end
        self.known = None             # then: its parts
        self.pieces = []
        self.user_in_halts = 0  # of its halted time, ran in the VMM
        self.details, self.regions = [], []
        self.in_user = False
        self.nested = []      # the events kvm_nested_* in it
        self.halts = []       # of each kvm_vcpu_wakeup: when, ns, waited
        self.wfe = self.goes_offline = False
        self.slept_from = None  # the first sleep in the kernel since user space
        self.sleeps = []      # when each sleep began: the last has no length where it is the last event before a loss
        self.off_since = self.enters_since = None  # first times
        self.named(start, reason, halt)

    def named(self, at, reason, halt):
        self.reason, self.by_reason, self.named_at = reason, halt, at

    @property
    def parts(self):
        if self.known is not None:
            return self.known
        sums = dict.fromkeys(PARTS, 0)
        for begin, end, state in self.pieces:
            if state in sums:
                sums[state] += end - begin
        return sums

    @property
    def awake_pieces(self):
        """As `pieces`, but a halt that nothing tells the sleep of is idle as a whole."""
        halts = self.by_reason and self.is_halt and not any(state == "halted" for _, _, state in self.pieces)
        return [(begin, end, "halted" if halts and state in PARTS[:4] else state) for begin, end, state in self.pieces]

    @property
    def stopped(self):
        return any(state in ("paused", "offline") for _, _, state in self.pieces)

    @property
    def is_halt(self):
        passed_on = self.whose() == "nested guest, passed on"
        return bool(self.by_reason and not passed_on and not self.wfe or self.halts_from() and self.halts)

    def recut(self, begin, end, to):
        pieces = []
        for first, last, state in self.pieces:
            a, b = max(first, begin), min(last, end)
            keeps = a >= b or state in ("paused", "offline")
            cuts = [(first, last, state)] if keeps else [(first, a, state), (a, b, to), (b, last, state)]
            pieces += [cut for cut in cuts if cut[1] > cut[0]]
            if not keeps and to == "halted" and state == "user":
                self.user_in_halts += b - a
        self.pieces = pieces

    def halts_from(self):
        """From when on a kvm_vcpu_wakeup tells of a halt in this exit."""
        if self.by_reason:
            return self.named_at
        since = [at for at in (self.enters_since, self.off_since) if at is not None]
        return min(since, default=None)

    def settle(self, model):
        """The halted time: from the first poll or sleep to the last wake-up; all at once, at the end."""
        if not self.is_halt:
            return
        since, begins, ends = self.halts_from(), [], []
        sleeps = [(a, b) for a, b, state in self.pieces if state == "blocked"]
        known = since if self.by_reason else self.halts[0][0]
        for begin, end in sleeps:
            if begin >= known:
                begins.append(begin)
                ends.append(end)
        begins += [at for at in self.sleeps if at >= known]
        ends += [at for at in self.sleeps if at >= known]
        for at, ns, waited in self.halts:
            begin = max(since, at - ns)
            woken = max((end for _, end in sleeps if end <= at), default=0)
            begins.append(begin)
            # The recorded wake-up ends it, wherever KVM's reading of another clock puts its beginning.
            ends.append(woken if waited and woken > since and model.sched else at)
        if begins:
            self.recut(min(begins), max(ends), "halted")
        elif not model.sched:
            self.recut(self.start, self.pieces[-1][1] if self.pieces else self.start, "halted")

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
        if self.is_halt:
            return "[halted]"
        if by == "detail":
            return detail_key(self.detail())
        if by == "nested":
            return self.whose()
        detail = self.detail()
        address = detail[2] if detail and detail[1] in ("port", "mmio") else None
        if not self.regions:
            return "-"
        # A device is named by its own region, never by the last one.
        return next((name for where, name in self.regions if where == address), "-")


class Vcpu:
    """A thread: every nanosecond from its begin is in one state."""

    def __init__(self, tid, begin):
        self.tid, self.begin, self.end, self.mark = tid, begin, None, begin
        self.phase = "offline"   # then unknown, guest, left, exit, ended, gone
        self.runs = False        # it entered or left the guest
        self.entered = False
        self.vmm_stopped = False
        self.off_at = None       # since when
        self.off = None          # preempted, blocked or paused, while it is off the CPU
        self.back = False        # it was switched in since the last loss
        self.span = None
        self.last, self.cpu = begin, None
        self.totals = collections.Counter()
        self.stopped_at = []     # by signals
        self.spanless = []       # (begin, end, state, None) of the time in the guest, and in exits that became no span

    def state(self):
        if self.phase in ("exit", "left"):
            if self.off == "blocked" and self.span.goes_offline:
                return "offline"
            return self.off or ("user" if self.span.in_user else "kernel")
        if self.phase == "offline" and self.off == "paused":
            return "paused"
        return {"guest": "guest", "offline": "offline"}.get(self.phase, "not_seen")

    def account(self, now):
        if now <= self.mark or self.phase in ("ended", "gone"):
            return
        if self.phase in ("exit", "left"):
            self.span.pieces.append((self.mark, now, self.state()))
        else:
            self.totals[self.state()] += now - self.mark
        if self.phase == "guest":
            self.spanless.append((self.mark, now, "guest", None))
        self.mark = now

    def fold(self, model):
        """The exit is no span; its time is known."""
        self.span.settle(model)
        self.spanless += [(*piece, None) for piece in self.span.awake_pieces]
        self.span.known = self.span.parts
        for begin, end, state in self.span.pieces:
            self.totals[state] += end - begin
        self.span.pieces = []

    def forget(self, now):
        """When the guest was left, or entered, is not known."""
        if self.phase in ("exit", "left"):
            for begin, end, state in self.span.pieces:
                self.totals[state if state in ("paused", "offline") else "not_seen"] += end - begin
            self.span.pieces, self.span.known = [], dict.fromkeys(PARTS, 0)
        self.totals["not_seen"] += now - self.mark
        self.mark = now

    def end_thread(self, now, model):
        """Its last exit is the way out of a machine that was switched off; what it was halted in it, it was."""
        if self.phase in ("exit", "left"):
            self.account(now)
            self.span.settle(model)
            self.span.known = dict.fromkeys(PARTS, 0)
            self.span.pieces = [(begin, end, state if state in ("halted", "paused") else "offline")
                                for begin, end, state in self.span.pieces]
            for begin, end, state in self.span.pieces:
                self.totals[state] += end - begin
                # A signal had stopped the thread when it was killed.
                if state == "paused" and any(begin <= at < end for at in self.stopped_at):
                    self.spanless.append((begin, end, state, None))
            self.end = now
        else:
            self.carry(now, model)

    def carry(self, now, model):
        """The recording ends."""
        if self.phase == "ended":
            self.totals["not_seen"] += now - max(self.mark, self.end or 0)
        else:
            self.account(now)
        if self.phase in ("exit", "left"):
            self.fold(model)
        self.end = now


class Model:
    def __init__(self, events, holes):
        self.events, self.holes = events, holes
        self.fallback = not any(e.name == "kvm_exit" for e in events)
        self.sched = any(e.name == "sched_switch" for e in events)
        self.unknown = set()
        if self.fallback:
            self.unknown |= {"guest", "kernel", "halted"}
        if not self.sched:
            self.unknown |= {"preempted", "blocked"}
        if not any(e.name == "kvm_userspace_exit" for e in events):
            self.unknown.add("user")
        if not self.sched or not any(VM_STATE.match(e.fields.get("buf", "").strip()) for e in events if e.name == "print"):
            self.unknown.add("paused")
        arm, riscv = (any(key in e.fields for e in events if e.name == "kvm_exit") for key in ("esr_ec", "scause"))
        if self.fallback or not self.sched or "user" in self.unknown or riscv or (
                arm and not any(e.name == "kvm_hvc_arm64" for e in events)):
            self.unknown.add("offline")
        self.user_end = self.choose_user_end()
        if self.user_end == "none":
            self.unknown |= {"guest", *PARTS}
        self.names = userspace_names(events)
        self.vcpus, self.born, self.spans = {}, {}, []
        self.unended = []  # exits that began, and of which no end is known
        self.in_a_row = set()  # reasons of exits that another one followed
        self.lossy, self.came = False, {}  # once events were lost: who was switched in last, by CPU
        self.waiting, self.undecided = {}, {}
        self.process = {}  # by thread, as far as task_newtask tells
        self.counters = collections.Counter()
        # A hole is known when the event before it is consumed.
        self.holes_after = collections.defaultdict(list)
        for hole in holes:
            self.holes_after[hole.cpu, hole.after].append(hole)

    @property
    def has_times(self):
        return self.user_end != "none"

    @property
    def guest_ns(self):
        return {tid: vcpu.totals["guest"] for tid, vcpu in self.vcpus.items()}

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
                if tid in self.vcpus:
                    self.see(self.vcpus[tid], event)
            self.on_sched(event)
            (self.on_fallback if self.fallback else self.on_event)(event)
            for hole in self.holes_after.pop((event.cpu, event.at), []):
                self.on_hole(hole)
        end = max((event.at for event in self.events), default=0)
        for vcpu in self.vcpus.values():
            # It may have entered the guest again without a kvm_entry.
            ends = self.fallback or vcpu.entered and vcpu.span and vcpu.span.reason not in self.in_a_row
            if vcpu.phase in ("exit", "left") and not ends and not vcpu.off and not vcpu.span.in_user:
                vcpu.forget(end)
                ends = False
            else:
                ends = True
            if vcpu.phase != "gone":
                vcpu.carry(end, self)
            self.leave_unended(vcpu, "exit_without_entry", ends)
            if vcpu.phase == "ended":
                self.emit(vcpu)
        return self

    def leave_unended(self, vcpu, why, is_open=False):
        """An exit counts when it begins; its time is known as far as it was recorded."""
        if vcpu.phase != "exit":
            return
        span = vcpu.span
        span.tid, span.open, span.cut = vcpu.tid, is_open, not is_open
        self.counters[why] += 1
        self.unended.append(span)

    # -- losses

    @staticmethod
    def threads_of(event):
        """The threads that the event shows on its CPU."""
        if event.name == "sched_switch":
            return {number(event.fields, "prev_pid"), number(event.fields, "next_pid")}
        return {event.tid}

    def see(self, vcpu, event):
        """A hole of this CPU since the thread was last seen could hide how it came here."""
        if self.holes and any(h.cpu == event.cpu and h.start <= event.at and vcpu.last < h.end <= event.at for h in self.holes):
            vcpu.account(vcpu.last)
            self.close_for_loss(vcpu)
        vcpu.last, vcpu.cpu = max(vcpu.last, event.at), event.cpu

    def on_hole(self, hole):
        self.lossy = True
        for vcpu in self.vcpus.values():
            vcpu.vmm_stopped = False
            if vcpu.cpu == hole.cpu or vcpu.off or not self.sched:
                vcpu.account(hole.start)
                self.close_for_loss(vcpu)

    def close_for_loss(self, vcpu):
        if vcpu.phase in ("exit", "left"):
            vcpu.fold(self)
        self.leave_unended(vcpu, "closed_by_loss")
        vcpu.back = vcpu.phase == "left" or vcpu.phase == "unknown" and vcpu.back
        if vcpu.phase not in ("ended", "gone"):
            vcpu.phase = "unknown"
        vcpu.off = None
        self.waiting.pop(vcpu.tid, None)

    # -- threads

    def thread(self, event, runs=True):
        """Made when it is the thread's first event of KVM."""
        if event.tid not in self.vcpus:
            self.vcpus[event.tid] = Vcpu(event.tid, self.born.get(event.tid, event.at))
            self.vcpus[event.tid].back = self.came.get(event.cpu) == event.tid
            self.see(self.vcpus[event.tid], event)
        vcpu = self.vcpus[event.tid]
        self.is_back(vcpu, event.at)
        vcpu.runs |= runs
        if runs and self.fallback and vcpu.phase == "offline":
            vcpu.account(event.at)
            vcpu.phase = "unknown"
        return vcpu

    @staticmethod
    def is_back(vcpu, at):
        if vcpu.off:
            vcpu.account(at)
            vcpu.off = None

    # -- scheduling

    def process_of(self, tid):
        return self.process.get(tid, tid)

    def on_vm_state(self, event, running):
        """QEMU says that it has stopped its vCPUs: who sleeps in user space does so for that."""
        for vcpu in self.vcpus.values():
            if self.process_of(vcpu.tid) != self.process_of(event.tid):
                continue
            vcpu.vmm_stopped = not running
            if vcpu.vmm_stopped and vcpu.phase in ("exit", "left") and vcpu.span.in_user and vcpu.off == "blocked":
                vcpu.account(event.at)
                vcpu.span.recut(vcpu.off_at, event.at, "paused")
                vcpu.off = "paused"

    def on_sched(self, event):
        if event.name == "print":
            state = VM_STATE.match(event.fields["buf"].strip())
            if state:
                self.on_vm_state(event, int(state[1]))
        elif event.name == "task_newtask":
            is_thread = int(event.fields["clone_flags"], 16) & CLONE_THREAD
            child = number(event.fields, "pid")
            self.process[child] = self.process_of(event.tid) if is_thread else child
            if number(event.fields, "pid") not in self.vcpus:
                self.born[number(event.fields, "pid")] = event.at
        elif event.name == "sched_switch":
            leaving = self.vcpus.get(number(event.fields, "prev_pid"))
            coming = self.vcpus.get(number(event.fields, "next_pid"))
            if leaving:
                # Off the CPU while another CPU's hole lasts: it may have run in there.
                if any(h.start <= event.at < h.end and h.cpu != event.cpu for h in self.holes):
                    leaving.account(event.at)
                    self.close_for_loss(leaving)
                self.leave(leaving, event)
            if coming:
                # It comes without having left: nothing tells since when it was off the CPU.
                if coming.off is None and coming.phase in ("exit", "left", "guest"):
                    coming.forget(event.at)
                    self.leave_unended(coming, "exit_without_entry")
                    coming.phase = "unknown"
                self.is_back(coming, event.at)
                coming.back = True
            if self.lossy:
                self.came[event.cpu] = number(event.fields, "next_pid")
        elif event.name in ("sched_waking", "sched_wakeup"):
            woken = self.vcpus.get(number(event.fields, "pid"))
            if woken and woken.off in ("blocked", "paused"):
                woken.account(event.at)
                woken.off = "preempted"

    def leave(self, vcpu, event):
        state = number(event.fields, "prev_state")
        vcpu.account(event.at)
        if vcpu.phase == "guest" and state & SLEEPING:
            vcpu.phase = "unknown"  # a kvm_exit is missing
        elif vcpu.phase == "guest":
            vcpu.span, vcpu.phase = Span(event.at), "left"
        stopped = vcpu.vmm_stopped and state & SLEEPING and vcpu.phase in ("exit", "left") and vcpu.span.in_user
        vcpu.off = "paused" if state & STOPPED or stopped else "blocked" if state & SLEEPING else "preempted"
        vcpu.off_at = event.at
        if state & STOPPED:
            vcpu.stopped_at.append(event.at)
        if state & DEAD:
            vcpu.end_thread(event.at, self)
            self.leave_unended(vcpu, "exits_stopped")
            if vcpu.phase != "ended":
                vcpu.phase = "gone"
        elif vcpu.phase in ("exit", "left"):
            span = vcpu.span
            span.off_since = event.at if span.off_since is None else span.off_since
            if vcpu.off == "blocked" and not span.goes_offline:
                span.sleeps.append(event.at)
            if state & SLEEPING and not span.in_user and span.slept_from is None:
                span.slept_from = event.at

    # -- exits

    def emit(self, vcpu):
        span = vcpu.span
        if span.stopped:
            vcpu.fold(self)
            vcpu.phase = "exit"
            self.leave_unended(vcpu, "exits_stopped")
            vcpu.phase = "unknown"
            return
        vcpu.phase = "unknown"
        span.settle(self)
        for part, ns in span.parts.items():
            vcpu.totals[part] += ns
        span.end = vcpu.mark
        assert sum(span.parts.values()) == span.end - span.start
        span.tid = vcpu.tid
        self.spans.append(span)

    def on_event(self, event):
        if event.name == "kvm_exit":
            self.on_exit(event, self.thread(event))
        elif event.name == "kvm_entry":
            vcpu = self.thread(event)
            vcpu.entered = True
            if vcpu.phase == "exit":
                vcpu.account(event.at)
                self.emit(vcpu)
            else:
                self.counters["entry_without_exit"] += 1
                vcpu.forget(event.at) if vcpu.phase in ("guest", "left") else vcpu.account(event.at)
            vcpu.phase, vcpu.mark = "guest", event.at
        elif event.tid in self.vcpus or self.has_started(event) and event.tid in self.born:
            vcpu = self.vcpus.get(event.tid) or self.thread(event, runs=False)
            if vcpu.phase == "offline" and self.has_started(event):
                vcpu.account(event.at)
                vcpu.phase = "unknown"
            if event.name in ("kvm_userspace_exit", "print", "kvm_vcpu_wakeup"):
                self.is_back(vcpu, event.at)
            if vcpu.phase == "exit":
                self.inside(event, vcpu)
        elif self.is_user_end(event, "ioctl") or self.is_user_end(event, "reload"):
            self.thread(event, runs=False)

    @staticmethod
    def has_started(event):
        """Only a vCPU that runs has such an event."""
        if event.name == "kvm_userspace_exit":
            return number(event.fields, "errno") >= 0
        return detail_of(event) is not None

    def on_exit(self, event, vcpu):
        if vcpu.back and (vcpu.phase == "unknown" or vcpu.phase == "offline" and self.lossy):
            # Not entered since it was switched in: the exit began before, where events were lost.
            vcpu.account(event.at)
            before, vcpu.phase = vcpu.phase, "exit"
            vcpu.span = Span(event.at, exit_reason(event), is_halt(event))
            vcpu.span.known = dict.fromkeys(PARTS, 0)
            self.leave_unended(vcpu, "closed_by_loss")
            vcpu.phase = before
            return
        if vcpu.phase == "exit":
            self.in_a_row.add(vcpu.span.reason)
            vcpu.forget(event.at)
            self.leave_unended(vcpu, "exit_without_entry")
        vcpu.account(event.at)
        if vcpu.phase == "left":
            vcpu.span.named(event.at, exit_reason(event), is_halt(event))
        else:
            vcpu.span = Span(event.at, exit_reason(event), is_halt(event))
        vcpu.phase = "exit"
        if detail_of(event):
            vcpu.span.details.append(detail_of(event))

    def inside(self, event, vcpu):
        span = vcpu.span
        if event.name == "kvm_userspace_exit":
            vcpu.account(event.at)
            if number(event.fields, "errno") == TRY_AGAIN and span.slept_from is not None:
                woken = max(end for _, end, state in span.pieces if state in ("blocked", "paused"))
                span.recut(span.slept_from, woken, "offline")
            span.in_user = True
            # RISC-V has no kvm_mmio.
            if span.reason.endswith("_GUEST_PAGE_FAULT") and number(event.fields, "reason") == RISCV_EXIT_MMIO:
                access = "write" if "STORE" in span.reason else "read"
                span.details.append((1, "mmio", span.details[0][2], access, False))
        elif span.in_user and self.is_user_end(event, self.user_end):
            vcpu.account(event.at)
            span.in_user, span.slept_from = False, None
        elif event.name == "kvm_vcpu_wakeup":
            vcpu.account(event.at)
            if span.halts_from() is not None:
                span.halts.append((event.at, number(event.fields, "ns"), number(event.fields, "waited")))
        elif event.name == "kvm_wfx_arm64":
            span.wfe = bool(number(event.fields, "is_wfe"))
        if event.name in NESTED:
            span.nested.append(event.name)
            if span.whose() == "guest enters nested guest" and span.enters_since is None:
                span.enters_since = event.at
        detail = detail_of(event)
        if detail:
            span.details.append(detail)
            span.goes_offline |= event.name == "kvm_hvc_arm64" and detail[2] == PSCI_CPU_OFF
        region = REGION.match(event.fields["buf"].strip()) if span.in_user and event.name == "print" else None
        if region:
            span.regions.append((int(region[1], 16), region[2]))

    # -- no kvm_exit: the time in user space alone

    def on_fallback(self, event):
        tid, detail = event.tid, detail_of(event)
        is_access = detail and detail[1] in ("port", "mmio")
        if event.name in ("kvm_userspace_exit", "kvm_entry") or is_access:
            self.thread(event)
        vcpu = self.vcpus.get(tid)
        if vcpu is None:
            return
        span = vcpu.span if vcpu.phase == "exit" else None
        if event.name == "kvm_userspace_exit":
            self.undecided.pop(tid, None)
            if vcpu.phase == "ended":
                self.emit(vcpu)
            if span:
                vcpu.forget(event.at)
                self.leave_unended(vcpu, "exit_without_entry")
            vcpu.account(event.at)
            vcpu.span = Span(event.at, userspace_reason(event, self.names), is_halt(event))
            vcpu.span.in_user = True
            if tid in self.waiting:
                vcpu.span.details.append(self.waiting.pop(tid))
            vcpu.phase = "exit"
            if self.user_end == "none":
                vcpu.phase = "ended"
                self.undecided[tid] = vcpu.span
        elif span and self.is_user_end(event, self.user_end):
            vcpu.account(event.at)
            vcpu.phase = "ended"
            self.undecided[tid] = span
        elif is_access:
            is_answer = detail[3] == "read" and not detail[4]
            about = span or self.undecided.get(tid)
            if not is_answer:
                self.waiting[tid] = detail
            elif about and not about.details:
                about.details.append(detail)
            if vcpu.phase == "ended":
                self.emit(vcpu)
        elif span:
            self.inside(event, vcpu)

    def told(self, state, ns):
        """What no event could tell is null, not 0."""
        return None if ns == 0 and state in self.unknown else ns

    def rows(self, by):
        groups = collections.defaultdict(list)
        for span in self.spans + self.unended:
            groups[span.key(by)].append(span)
        rows = {}
        for key, spans in groups.items():
            ended = [span for span in spans if not span.cut and not span.open]
            totals = sorted(span.end - span.start for span in ended)
            row = {"count": len(spans), "cut": sum(span.cut for span in spans), "open": sum(span.open for span in spans),
                   "unended_cost_ns": sum(span.parts[part] for span in spans if span.cut or span.open
                                          for part in ("kernel", "user", "blocked"))}
            row |= {"total_ns": sum(totals), "min_ns": totals[0], "max_ns": totals[-1]} if totals else {}
            for part in PARTS:
                row[f"{part}_ns"] = sum(span.parts[part] for span in ended)
            row["totals"] = totals
            rows[key] = row
        return rows


def percentile(sorted_values, thousandths):
    """Nothing of the tail where no value lies above the rank: it would be the maximum."""
    if not sorted_values:
        return None
    rank = -(-thousandths * len(sorted_values) // 1000)
    return None if thousandths > 500 and rank == len(sorted_values) else sorted_values[max(rank, 1) - 1]


# ---- comparison

COUNTS = ("count", "cut", "open")
EXACT = (*COUNTS, "total_ns", "unended_cost_ns", "min_ns", "max_ns")
PERCENTILES = {"p50_ns": 500, "p90_ns": 900, "p99_ns": 990, "p999_ns": 999}


def compare(trapline, path, by, model, lost):
    """Differences as sentences."""
    document = tables.document(trapline, "report", path, "--by", by)
    head, report = document["head"], document["tables"]
    wanted = model.rows(by)
    got = {row["key"]: row for row in report["groups"]["rows"]}
    wrong = []

    def expect(what, theirs, ours):
        if theirs != ours:
            wrong.append(f"{what}: trapline {theirs}, oracle {ours}")

    expect("user_end", head["user_end"], model.user_end)
    expect("keys", sorted(got.keys() - wanted.keys()), sorted(wanted.keys() - got.keys()))
    for key in sorted(got.keys() & wanted.keys()):
        for column in EXACT:
            timeless = not model.has_times and column not in COUNTS
            expect(f"{key}: {column}", got[key][column], None if timeless else wanted[key].get(column))
        for column, thousandths in PERCENTILES.items():
            exact = None if not model.has_times else percentile(wanted[key]["totals"], thousandths)
            if exact is None or got[key][column] is None:
                expect(f"{key}: {column}", got[key][column], exact)
            elif abs(got[key][column] - exact) > exact / 100:
                wrong.append(f"{key}: {column}: trapline {got[key][column]}, nearest rank {exact}")
        # Halts that count as a whole: the way in and out is in the halted time.
        only_halted = (got[key].get("halts") and "preempted" in model.unknown and
                       wanted[key]["halted_ns"] == wanted[key].get("total_ns", 0) and
                       model.user_end != "none")
        for part in PARTS:
            ours = None if only_halted and part != "halted" else model.told(part, wanted[key][f"{part}_ns"])
            expect(f"{key}: {part}", got[key][f"{part}_ns"], ours)
        parts = sum(got[key][f"{part}_ns"] or 0 for part in PARTS)
        expect(f"{key}: sum of the parts", parts, got[key]["total_ns"] or 0)
    counters = report["counters"]
    expect("exits", counters["exits"], len(model.spans) + len(model.unended))
    expect("lost_events", counters["lost_events"], sum(hole.count for hole in lost))
    expect("gaps", counters["gaps"], len(lost))
    expect("gaps_uncounted", counters["gaps_uncounted"], sum(hole.count == 0 for hole in lost))
    for name in ("exit_without_entry", "entry_without_exit", "closed_by_loss"):
        expect(name, counters[name], model.counters[name])
    for vcpu in report["vcpus"]["rows"]:
        mine = [span for span in model.spans + model.unended if span.tid == vcpu["tid"]]
        expect(f"thread {vcpu['tid']}: exits", vcpu["exits"], len(mine))
        thread = model.vcpus[vcpu["tid"]]
        for state in STATES:
            expect(f"thread {vcpu['tid']}: {state}_ns", vcpu[f"{state}_ns"],
                   model.told(state, thread.totals[state]))
        expect(f"thread {vcpu['tid']}: time", vcpu["time_ns"], thread.end - thread.begin)
        expect(f"thread {vcpu['tid']}: sum of the states", sum(vcpu[f"{state}_ns"] or 0 for state in STATES),
               vcpu["time_ns"])
    expect("vCPUs", sorted(vcpu["tid"] for vcpu in report["vcpus"]["rows"]),
           sorted(tid for tid, thread in model.vcpus.items() if thread.runs))
    if not model.fallback:
        wrong += overheads(head["overhead"], report["vcpus"]["rows"], model)
    return wrong


def overheads(overhead, vcpus, model):
    """What exits cost, those that did not end as well."""
    wrong, every = [], collections.Counter()
    for vcpu in vcpus:
        thread = model.vcpus[vcpu["tid"]]
        mine = collections.Counter(guest_ns=thread.totals["guest"], not_run_ns=thread.totals["preempted"],
                                   exit_ns=sum(thread.totals[state] for state in ("kernel", "user", "blocked")))
        every += mine
        told = {key: ns for key, ns in vcpu["overhead"].items() if key.endswith("_ns") and ns}
        if told != dict(+mine):
            wrong.append(f"overhead of {vcpu['tid']}: trapline {told}, oracle {dict(+mine)}")
    share = every["exit_ns"] / max(1, sum(every.values()))
    if abs((overhead["share"] or 0) - share) > 1e-12:
        wrong.append(f"overhead: trapline {overhead}, oracle {share}")
    return wrong


def check_status(trapline, path, holes):
    """Losses are told with and without --strict, and only --strict makes them the exit status."""
    count = sum(hole.count for hole in holes)
    events = "1 event was" if count == 1 else f"{count or 'an unknown number of'} events were"
    lost = f"{events} lost in {len(holes)} loss"
    wrong = []
    for options, wanted in (([], 0), (["--strict"], 3 if holes else 0)):
        run = subprocess.run([trapline, "report", path, *options], capture_output=True, check=False)
        if run.returncode != wanted:
            wrong.append(f"{options}: exit status {run.returncode}, not {wanted}")
        said = (run.stdout + run.stderr).decode().replace(",", "")
        if (lost in said) != bool(holes):
            wrong.append(f"{options}: {'does not say' if holes else 'says'} '{lost}'")
    return wrong


@functools.lru_cache(maxsize=2)
def model_of(path):
    """Returns the model of a recording, shared by all oracles: they must not change it."""
    return Model(*read(path)).run()


def check(trapline, path, kinds):
    """Differences as sentences; `kinds` are arguments of --by."""
    model = model_of(path)
    lost = [] if LEFT_OUT else model.holes
    wrong = check_status(trapline, path, lost)
    for by in kinds:
        wrong += [f"--by {by}: {line}" for line in compare(trapline, path, by, model, lost)]
    print(f"{path}: {len(model.spans)} exits")
    return wrong
