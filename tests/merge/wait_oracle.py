"""Who kept the vCPUs waiting, once more from the text of `trace-cmd report`: beside `trapline report FILE --waits --steal`.

The exits come from oracle.py. What ran on each CPU is a list of its switches here, looked up when
everything was read; docs/formats/report.md ("Waits") is what both follow. It checks as well that
`--by preempted-by` and `--by blocked-on` say the same for each exit, and that rows sum up.
"""
import bisect
import collections

import oracle
import tables

HARD, SOFT = 0x8, 0x10  # TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ
IRQ = HARD | SOFT
WAKES = ("sched_waking", "sched_wakeup")
START, MOVED = "unknown (before", "unknown (no sched:sched_migrate_task was seen)"
NO_WAKING, NO_CONTEXT = "unknown (record sched:sched_waking)", "unknown interrupt"

IDLE, IDLE_OTHER, NOT_ALLOWED = "idle", "idle (why is not recorded)", "not allowed to run"
LONGEST_WAKE_UP, NEVER = 5_000_000, 1 << 64
ALL = "all"

FUTEX = {0: "wait", 9: "wait", 1: "wake", 10: "wake", 6: "lock", 13: "lock", 7: "unlock"}
RUNNERS = ("sched_switch", "irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit")
SOFTIRQS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")

number = oracle.number


def level(flags):
    return flags & HARD or flags & SOFT


class Cpu:
    """Who ran on one CPU when, from its events in order."""

    def __init__(self):
        self.runs = []     # (since, who, when the CPU switched to it)
        self.later = []    # of those, the ones whose thread the next switch tells
        self.thread, self.irq, self.softirq, self.chosen = START, None, None, 0

    def add(self, at):
        who = self.irq or self.softirq or self.thread
        if who is START:
            self.later.append(len(self.runs))
        self.runs.append((at, who, self.chosen))

    def on(self, event):
        begins = event.name.endswith("_entry")
        if event.name == "sched_switch":
            for at in self.later:
                self.runs[at] = self.runs[at][0], number(event.fields, "prev_pid"), 0
            self.chosen = event.at
            self.thread, self.irq, self.softirq = number(event.fields, "next_pid"), None, None
            self.later = []
        elif event.name in ("irq_handler_entry", "irq_handler_exit"):
            if not begins and self.irq is None:
                return
            self.irq = f"interrupt {number(event.fields, 'irq')}" if begins else None
        else:
            if not begins and self.softirq is None:
                return
            self.softirq = f"softirq {SOFTIRQS[number(event.fields, 'vec')]}" if begins else None
        self.add(event.at)

    def lose(self, hole):
        self.runs.append((hole.start, "unknown (events were lost)", 0))
        self.thread, self.irq, self.softirq, self.later, self.chosen = START, None, None, [], 0
        self.add(hole.end)


class Cpus:
    """Who ran on each CPU when."""

    def __init__(self, events, holes):
        cpus = collections.defaultdict(Cpu)
        lost = collections.defaultdict(list)
        for hole in holes:
            lost[hole.cpu].append(hole)
        for event in events:
            while lost[event.cpu] and lost[event.cpu][0].start < event.at:
                cpus[event.cpu].lose(lost[event.cpu].pop(0))
            if event.name in RUNNERS:
                cpus[event.cpu].on(event)
        for cpu, rest in lost.items():
            for hole in rest:
                cpus[cpu].lose(hole)
        self.runs = {cpu: state.runs for cpu, state in cpus.items()}

    def pieces(self, cpu, begin, end):
        runs = self.runs.get(cpu, [])
        at = bisect.bisect_right(runs, begin, key=lambda run: run[0])
        who, chosen = runs[at - 1][1:] if at else (START, 0)
        while begin < end:
            until = min(runs[at][0], end) if at < len(runs) else end
            if until > begin:
                yield begin, until, who, chosen
            begin = max(begin, until)
            if at < len(runs):
                who, chosen = runs[at][1:]
            at += 1


def destination(text):
    """Of kvm_apic_ipi: the number of a vCPU, ALL, or None where it is logical or the sender itself."""
    apic, (_, mode, _, _, short) = text.split()[1], text.rstrip(")").partition("(")[2].split("|")
    if short.startswith("all"):
        return ALL
    return int(apic, 16) if (mode, short) == ("physical", "dst") else None


class Causes:
    """The handlers that are open on a CPU when it wakes a thread, the innermost last."""

    def __init__(self):
        self.open = collections.defaultdict(list)  # [kind, level, culprit]
        self.ipi = {}
        self.kernel_since = {}  # the exit of a thread that is in its kernel part
        self.vcpu = {}

    def clear(self, cpu):
        self.open.pop(cpu, None)
        self.ipi.pop(cpu, None)

    def on(self, event, flags):
        name, cpu = event.name, event.cpu
        begin = {"hrtimer_expire_entry": "timer", "timer_expire_entry": "timer",
                 "irq_handler_entry": "irq", "softirq_entry": "softirq"}.get(name)
        end = {"hrtimer_expire_exit": "timer", "timer_expire_exit": "timer",
               "irq_handler_exit": "irq", "softirq_exit": "softirq"}.get(name)
        if name == "sched_switch":
            self.clear(cpu)
        elif begin == "timer":
            self.open[cpu].append([begin, level(flags), "timer"])
        elif begin == "irq":
            self.open[cpu].append([begin, HARD, f"interrupt {number(event.fields, 'irq')}"])
        elif begin == "softirq":
            self.open[cpu].append([begin, SOFT, f"softirq {SOFTIRQS[number(event.fields, 'vec')]}"])
        elif end and end in [handler[0] for handler in self.open[cpu]]:
            while self.open[cpu].pop()[0] != end:
                pass
        elif name == "block_rq_complete":
            if self.open[cpu] and self.open[cpu][-1][1] == level(flags):
                self.open[cpu][-1][2] = "disk"
        elif name == "kvm_apic_ipi":
            self.ipi[cpu] = event.tid, event.at, destination(event.text)
        if name in ("kvm_entry", "kvm_exit") and "vcpu_id" in event.fields:
            self.vcpu[event.tid] = number(event.fields, "vcpu_id")
        if name == "kvm_exit":
            self.kernel_since[event.tid] = event.at
        elif name in ("kvm_entry", "kvm_userspace_exit"):
            self.kernel_since.pop(event.tid, None)

    def of(self, event, flags, user_ended):
        cpu, tid = event.cpu, event.tid
        if flags & IRQ:
            if self.open[cpu] and self.open[cpu][-1][1] == level(flags):
                return self.open[cpu][-1][2]
            return NO_WAKING if event.name == "sched_wakeup" else NO_CONTEXT
        if tid == 0:
            return NO_WAKING
        sender, at, to = self.ipi.get(cpu, (None, 0, None))
        since = user_ended if user_ended is not None else self.kernel_since.get(tid)
        meant = to == ALL or (to is not None and to == self.vcpu.get(number(event.fields, "pid")))
        if sender == tid and since is not None and at >= since and meant:
            return "IPI", tid
        return tid


class Futexes:
    """The wake-ups in calls of futex(): of a wait, who let go of that futex until then."""

    def __init__(self):
        self.calls, self.wakes = {}, []
        self.began, self.locked, self.unlocks = {}, {}, []  # PI locks that a thread asked for, and let go of

    def on(self, event):
        if event.name == "sys_enter_futex":
            kind, address = FUTEX.get(number(event.fields, "op") & 0x7F), event.fields["uaddr"]
            self.calls[event.tid] = kind, address, number(event.fields, "val")
            self.began[event.tid] = event.at
            if kind == "lock":
                self.locked[event.tid] = address
            elif kind == "unlock" and self.locked.pop(event.tid, None) == address:
                self.unlocks.append((event.at, event.tid, address))
        elif event.name == "sys_exit_futex":
            self.calls.pop(event.tid, None)

    def woke(self, event):
        """True where the waker is in a call for the futex that the other one waits for."""
        tid = number(event.fields, "pid")
        kind, address, _ = self.calls.get(tid, (None, None, 0))
        by, of, most = self.calls.get(event.tid, (None, 0, 0))
        if of != address or (kind, by) not in (("wait", "wake"), ("lock", "unlock")):
            return False
        if by == "wake":
            if most == 0:
                return False
            self.calls[event.tid] = by, of, most - 1
        elif (call := (self.began[event.tid], event.tid, of)) in self.unlocks:
            self.unlocks.remove(call)  # the wake-up says it
        self.wakes.append((event.at, event.tid, tid, address))
        return True

    def pieces(self, since):
        """(end, who) of the wait that the last wake-up ended."""
        until, last, waiting, address = self.wakes[-1]
        known, pieces = {last, waiting}, [(until, last)]
        for at, waker, woken, where in reversed(self.wakes[:-1]):
            if at <= since:
                break
            if where == address and known & {waker, woken}:
                known |= {waker, woken}
                pieces.insert(0, (at, waker))
        # The heir of a PI lock is awake already where the thief lets go of it.
        alone = [(at, who) for at, who, where in self.unlocks if at > since and where == address and who in known]
        return sorted(pieces + alone, key=lambda piece: piece[0])


class Waits:
    """The waits of each thread, as pieces (begin, end, part, culprit)."""

    def __init__(self, model):
        events, holes = model.events, model.holes
        self.cpus = Cpus(events, holes)
        self.causes, self.futexes, self.asleep = Causes(), Futexes(), set()
        self.pieces = collections.defaultdict(list)
        self.steal = collections.Counter()
        self.longest = {}  # by vCPU: the ns in which it was runnable and did not run, and when they began
        self.off = {}
        self.vcpus = set()
        self.holes, self.model = holes, model
        self.exit_start, self.in_user = {}, set()
        holes_after = collections.defaultdict(list)
        for hole in holes:
            holes_after[hole.cpu, hole.start].append(hole)
        for event in events:
            self.on(event, event.flags)
            for hole in holes_after.pop((event.cpu, event.at), []):
                self.causes.clear(hole.cpu)
                self.off.clear()
        for tid, wait in self.off.items():  # waits for a CPU that last at the end
            if not wait["asleep"] and wait["since"] < events[-1].at:
                self.end(tid, wait, wait["cpu"], events[-1].at)

    def on(self, event, flags):
        shows = ("kvm_exit", "kvm_entry")
        if self.model.fallback:
            shows += ("kvm_userspace_exit", "kvm_pio", "kvm_mmio")
        if event.name in shows:
            self.vcpus.add(event.tid)
        if event.name == "kvm_exit":
            self.exit_start[event.tid] = event.at
            self.in_user.discard(event.tid)
        elif event.name == "kvm_entry":
            self.exit_start.pop(event.tid, None)
        elif event.name == "kvm_userspace_exit":
            self.in_user.add(event.tid)
        elif self.model.is_user_end(event, self.model.user_end):
            self.in_user.discard(event.tid)
        self.causes.on(event, flags)
        self.futexes.on(event)
        woke = event.name in WAKES and number(event.fields, "pid") in self.asleep and not flags & IRQ and \
            event.tid != 0 and self.futexes.woke(event)
        if event.name in WAKES:
            self.asleep.discard(number(event.fields, "pid"))
        if event.name == "sched_switch":
            if number(event.fields, "prev_state") & oracle.SLEEPING:
                self.asleep.add(number(event.fields, "prev_pid"))
            self.leave(event)
            self.run(event)
        elif event.name in WAKES:
            self.wake(event, flags, woke)
        elif event.name == "sched_migrate_task":
            self.move(event)

    def leave(self, event):
        tid = number(event.fields, "prev_pid")
        if tid not in self.vcpus:
            return
        if any(h.start <= event.at < h.end for h in self.holes):
            self.off.pop(tid, None)
            return
        asleep = bool(number(event.fields, "prev_state") & oracle.SLEEPING)
        self.off[tid] = {"asleep": asleep, "since": event.at, "slept": event.at, "cpu": event.cpu,
                         "queued": event.at, "woken": False, "pieces": []}

    def run(self, event):
        tid = number(event.fields, "next_pid")
        wait = self.off.pop(tid, None)
        if wait is not None:
            self.end(tid, wait, event.cpu, event.at)

    def end(self, tid, wait, cpu, at):
        if wait["asleep"]:
            wait["pieces"].append((wait["since"], at, "blocked", NO_WAKING))
        elif cpu is None or wait["cpu"] not in (None, cpu):
            wait["pieces"].append((wait["since"], at, "preempted", MOVED))
        else:
            self.divide(wait, cpu, at)
        wait["pieces"] = [piece for piece in wait["pieces"] if piece[1] > piece[0]]
        self.pieces[tid] += wait["pieces"]
        stolen = [(begin, end, who) for begin, end, part, who in wait["pieces"] if part == "preempted"]
        for begin, end, who in stolen:
            self.steal[tid, who] += end - begin
        ns = sum(end - begin for begin, end, _ in stolen)
        if stolen and ns > self.longest.get(tid, (0, 0))[0]:
            self.longest[tid] = ns, stolen[0][0]

    def divide(self, wait, cpu, until):
        pieces, quick = [], wait["woken"] and until - wait["since"] <= LONGEST_WAKE_UP
        for begin, end, who, chosen in self.cpus.pieces(cpu, wait["since"], until):
            if who == 0:
                who = NOT_ALLOWED if chosen >= wait["queued"] else IDLE if quick else IDLE_OTHER
            pieces.append([begin, end, "preempted", who])
        # Who ran between two times in which it might not run did not keep it waiting.
        kept = [i for i, piece in enumerate(pieces) if piece[3] == NOT_ALLOWED]
        between = pieces[kept[0]:kept[-1]] if kept else []
        if not any(str(piece[3]).startswith("unknown") for piece in between):
            for piece in between:
                piece[3] = NOT_ALLOWED
        wait["pieces"] += [tuple(piece) for piece in pieces]

    def wake(self, event, flags, futex):
        wait = self.off.get(number(event.fields, "pid"))
        if wait is None:
            return
        if wait["asleep"]:
            # A waker inside an exit, in its kernel part.
            kernel = None if event.tid in self.in_user else self.exit_start.get(event.tid)
            who = self.causes.of(event, flags, kernel)
            for end, by in self.futexes.pieces(wait["since"]) if futex and who == event.tid else [(event.at, who)]:
                wait["pieces"].append((wait["since"], end, "blocked", by))
                wait["since"] = end
            wait.update(asleep=False, since=event.at, cpu=None, woken=True, queued=NEVER)
        if event.name == "sched_wakeup" and wait["woken"]:
            if wait["cpu"] is None:
                wait["cpu"] = int(event.fields["target_cpu"], 10)
            wait["queued"] = min(wait["queued"], event.at)

    def move(self, event):
        wait = self.off.get(number(event.fields, "pid"))
        if wait is None or wait["asleep"]:
            return
        if wait["cpu"] is not None:
            self.divide(wait, wait["cpu"], event.at)
            wait.update(since=event.at, queued=event.at, woken=False)
        wait["cpu"] = number(event.fields, "dest_cpu")


def charge(spans, waits):
    """ns by state and culprit; what no piece covers of a wait or a sleep is unknown."""
    kinds = {"preempted": "preempted", "blocked": "blocked", "halted": "blocked"}
    sums = {state: collections.Counter() for state in kinds}
    for span in spans:
        pieces = waits.pieces.get(span.tid, [])
        for begin, end, state in span.pieces:
            if state not in kinds:
                continue
            at = bisect.bisect_right(pieces, begin, key=lambda piece: piece[1])
            rest = end - begin
            while at < len(pieces) and pieces[at][0] < end:
                first, last, kind, who = pieces[at]
                if kind == kinds[state]:
                    sums[state][who] += min(last, end) - max(first, begin)
                    rest -= min(last, end) - max(first, begin)
                at += 1
            if rest and state != "halted":
                sums[state][START] += rest
    return sums


def row_key(row):
    if row["tid"] is not None:
        return ("IPI", row["tid"]) if row["culprit"].startswith("IPI") else row["tid"]
    for text in (START, NO_CONTEXT):
        if row["culprit"].startswith(text):
            return text
    return row["culprit"]


def rows_of(table):
    sums = collections.Counter()
    for row in table["rows"]:
        sums[row_key(row)] += row["ns"]
    return sums


def differences(what, theirs, ours):
    return [f"{what}: {key}: trapline {theirs.get(key, 0)}, oracle {ours.get(key, 0)}"
            for key in sorted({*theirs, *ours}, key=str) if theirs.get(key, 0) != ours.get(key, 0)]


def check_explained(trapline, path, user_end, longest):
    """The tree of the longest exit adds up, and is that exit."""
    status, document, _ = tables.asked(trapline, "explain", path)
    if user_end == "none":
        return [] if status == 2 else [f"explain: exit status {status}"]
    explained = document["tables"]
    (span,), culprits = explained["exit"]["rows"], explained["culprits"]["rows"]
    parts = {part: span[f"{part}_ns"] or 0 for part in ("kernel", "user", "preempted", "blocked", "halted")}
    wrong = [] if sum(parts.values()) == span["total_ns"] else ["explain: the parts do not add up"]
    for part in sorted({culprit["part"] for culprit in culprits}):
        if sum(culprit["ns"] for culprit in culprits if culprit["part"] == part) != parts[part]:
            wrong.append(f"explain: the culprits of {part} do not add up")
    if span["total_ns"] not in longest:
        wrong.append(f"explain: {span['total_ns']} ns is no reason's longest exit")
    for waker in explained["waker"]["rows"]:
        blocked = [culprit["ns"] for culprit in culprits if culprit["part"] == "blocked"][0]
        did = sum(value for key, value in waker.items() if key.endswith("_ns"))
        if did != blocked:
            wrong.append(f"explain: the waker's times sum to {did}, the vCPU slept {blocked}")
    return wrong


def check(trapline, path):
    """Differences as sentences."""
    model = oracle.model_of(path)
    waits = Waits(model)
    wanted = charge(model.spans, waits)
    document = tables.document(trapline, "report", path, "--waits", "--steal")
    got = document["tables"]
    wrong = []
    for part in ("preempted", "blocked"):
        table = got[part]
        in_exits = sum(row[f"{part}_ns"] or 0 for row in got["groups"]["rows"])
        if not sum(row["ns"] for row in table["rows"]) == (table["total_ns"] or 0) == in_exits:
            wrong.append(f"{part}: rows do not sum to {in_exits}: {table['total_ns']}")
        wrong += differences(part, rows_of(table), wanted[part])
    for vcpu in got["steal"]["rows"]:
        mine = {who: ns for (tid, who), ns in waits.steal.items() if tid == vcpu["tid"]}
        theirs = rows_of(vcpu["by"])
        if any("only some threads'" in str(who) for who in theirs):  # which ones is not computed here: the sum alone is compared
            theirs, mine = {"all": sum(theirs.values())}, {"all": sum(mine.values())}
        wrong += differences(f"steal of {vcpu['tid']}", theirs, mine)
        if (longest := (vcpu["max_ns"], vcpu["max_at_ns"])) != waits.longest.get(vcpu["tid"], (None, None)):
            wrong.append(f"steal of {vcpu['tid']}: its longest wait is {longest}, and it is {waits.longest.get(vcpu['tid'])}")
    for by, part in (("preempted-by", "preempted"), ("blocked-on", "blocked")):
        rows = tables.of(trapline, "report", path, "--by", by)["groups"]["rows"]
        halts = sum(row[f"{part}_ns"] or 0 for row in rows if row["key"] == "[halted]")
        nobody = sum(row[f"{part}_ns"] or 0 for row in rows if row["key"] == "-")
        in_halts = sum(span.parts[part] for span in model.spans if span.is_halt)
        if nobody or halts != in_halts or sum(row[f"{part}_ns"] or 0 for row in rows) != (got[part]["total_ns"] or 0):
            wrong.append(f"--by {by}: the groups do not hold the {part} time")
    wrong += check_explained(trapline, path, document["head"]["user_end"], [row["max_ns"] for row in got["groups"]["rows"]])
    wrong += differences("halted", rows_of(got["halted"]), wanted["halted"])
    if not wrong:
        shown = {part: dict(sums.most_common(4)) for part, sums in wanted.items()}
        print(f"{path}: agree: {shown}")
    return wrong
