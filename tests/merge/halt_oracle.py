"""What polling cost, and halts under other values of halt_poll_ns, once more from trace-cmd's text: beside
`trapline report FILE --halt`.

docs/formats/report.md ("Halts") is what both follow. Every halt is a row of a list here, made first;
each setting is then played over the whole list.
"""
import collections

import oracle
import tables

SETTINGS = [0, 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000]
GROW_START = 10_000
number = oracle.number

Halt = collections.namedtuple("Halt", "ns slept wake awake interval free")
ALWAYS = 1 << 62


class Thread:
    """One vCPU's halts."""

    def __init__(self):
        self.halts, self.interval, self.before = [], None, None
        self.changes = []
        self.asleep, self.woken, self.last_woken, self.first_slept = False, None, None, None
        self.taken = None  # when another thread first ran on the CPU on which it sleeps

    def forget(self):
        self.woken = self.last_woken = self.first_slept = self.taken = None

    def on_change(self, before, now):
        if self.interval is None and before == 0:
            self.halts = [h._replace(interval=0) if h.interval is None else h for h in self.halts]
        self.changes.append((before, now))
        self.before, self.interval = before, now

    def on_end(self, at, ns, slept):
        begin = at - ns
        since = [t - begin if t is not None and t >= begin else None
                 for t in (self.last_woken, self.first_slept)]
        interval = self.interval if self.before is None else self.before
        free = ALWAYS if not slept or self.taken is None or self.taken < begin else self.taken - begin
        self.halts.append(Halt(ns, slept, *since, interval, free))
        self.last_woken = self.first_slept = self.before = self.taken = None


def halts_of(events, holes):
    threads, sleepers = collections.defaultdict(Thread), {}
    ends = collections.defaultdict(list)
    for hole in holes:
        ends[hole.cpu, hole.start].append(hole)
    for event in events:
        on(threads, sleepers, event)
        if ends.pop((event.cpu, event.at), None):
            sleepers.clear()
            for thread in threads.values():
                thread.forget()
                thread.asleep, thread.interval, thread.before = False, None, None
    return threads


def on(threads, sleepers, event):
    """`sleepers`: by CPU the vCPU that sleeps there while nothing else runs."""
    fields = event.fields
    if event.name == "kvm_exit":
        threads[event.tid].forget()
    elif event.name == "kvm_halt_poll_ns":
        threads[event.tid].on_change(number(fields, "old"), number(fields, "new"))
    elif event.name == "kvm_vcpu_wakeup":
        threads[event.tid].on_end(event.at, number(fields, "ns"), number(fields, "waited") != 0)
    elif event.name in ("sched_waking", "sched_wakeup"):
        thread = threads.get(number(fields, "pid"))
        if thread and thread.asleep and thread.woken is None:
            thread.woken = thread.last_woken = event.at
    elif event.name == "sched_switch":
        thread = threads.get(number(fields, "prev_pid"))
        if thread:
            thread.asleep = bool(number(fields, "prev_state") & oracle.SLEEPING)
            thread.woken = None
            if thread.asleep and thread.first_slept is None:
                thread.first_slept = event.at
            if thread.asleep:
                sleepers[event.cpu], thread.cpu = thread, event.cpu
        thread = threads.get(number(fields, "next_pid"))
        sleeper = sleepers.pop(event.cpu, None) if number(fields, "next_pid") else None
        if sleeper and sleeper is not thread and sleeper.cpu == event.cpu and sleeper.asleep and sleeper.woken is None and sleeper.taken is None:
            sleeper.taken = event.at
        if thread:
            thread.asleep, thread.woken = False, None


def polling(halts):
    spent = bounded = unknown = 0
    for halt in halts:
        most = halt.ns if not halt.slept else None if halt.awake is None else min(halt.awake, halt.ns)
        if halt.interval is not None:
            spent += min(halt.interval, halt.ns if most is None else most)
        elif most is not None:
            spent, bounded = spent + most, bounded + 1
        else:
            unknown += 1
    return spent, bounded, unknown


def replay(halts, most, shrink):
    interval = won = lost = spent = late = anew = 0
    for halt in halts:
        wake = min(halt.wake, halt.ns) if halt.slept else halt.ns
        at_once = not halt.slept and halt.interval == 0
        polled = min(interval, halt.free)
        wins = at_once or (interval > 0 and wake <= polled)
        spent += min(wake, polled)
        behind = 0 if wins else halt.ns - wake
        if wins:
            won += 1
        else:
            lost, late, anew = lost + 1, late + behind, anew + (not halt.slept)
        halted = wake + behind
        if most == 0 or halted <= interval:
            continue
        if interval and halted > most:
            interval = interval // shrink if shrink else 0
            interval = 0 if interval < GROW_START else interval
        elif interval < most and halted < most:
            interval = min(max(interval * 2, GROW_START), most)
    return won, lost, spent, late, anew


def expected(thread):
    halved = any(0 < now < before for before, now in thread.changes)
    known = [h for h in thread.halts if not h.slept or h.wake is not None]
    spent, bounded, unknown = polling(thread.halts)
    rows = [replay(known, setting, 2 if halved else 0) for setting in SETTINGS] if known else []
    return {"polling_ns": spent, "polling_bounded": bounded, "polling_unknown": unknown,
            "halts": len(known), "shrink": 2 if halved else 0,
            "wakes_unknown": len(thread.halts) - len(known),
            "late_ns": sum(h.ns - min(h.wake, h.ns) for h in known if h.slept), "rows": rows}


def differences(row, want):
    replayed = row["replay"]
    got = {**{key: row[key] or 0 for key in ("polling_ns", "polling_bounded", "polling_unknown")},
           **{key: replayed[key] for key in ("halts", "wakes_unknown", "late_ns", "shrink")}}
    wrong = [f"vCPU {row['vcpu']}: {key}: trapline {got[key]}, oracle {want[key]}"
             for key in got if got[key] != want[key]]
    for setting, (won, lost, spent, late, anew) in zip(replayed["rows"], want["rows"], strict=True):
        # A poll that the setting loses, and the recording won, costs a typical wake-up.
        same = (setting["won"], setting["lost"], setting["polling_ns"]) == (won, lost, spent)
        if not same or (setting["late_ns"] != late if anew == 0 else setting["late_ns"] < late):
            wrong.append(f"vCPU {row['vcpu']}: {setting}, oracle {(won, lost, spent, late, anew)}")
    return wrong


def check(trapline, path):
    """Differences as sentences."""
    threads = halts_of(*oracle.read(path))
    # By anything but the reason all halts are one row.
    got = tables.of(trapline, "report", path, "--halt", "--by", "detail")
    vcpus, costs = got["vcpus"]["rows"], got["halt_costs"]["rows"]
    tids = {vcpu["tid"]: thread for vcpu in vcpus
            if (thread := threads.get(vcpu["tid"])) is not None}
    wanted = {vcpu["vcpu"]: expected(tids[vcpu["tid"]]) for vcpu in vcpus
              if vcpu["tid"] in tids}
    wrong = [line for row in costs for line in differences(row, wanted[row["vcpu"]])]
    # The exits are one count in all tables.
    wrong += [f"vCPU {row['vcpu']}: {row['exits']} exits, {vcpu['exits']} among the vCPUs"
              for row in costs for vcpu in vcpus
              if (row["vm"], row["vcpu"]) == (vcpu["vm"], vcpu["vcpu"]) and row["exits"] != vcpu["exits"]]
    counted = sum(row["halt_exits"] for row in costs)
    rows = sum(tables.ended(row) for row in got["groups"]["rows"] if row["halts"])
    if counted != rows:
        wrong.append(f"{counted} exits that halt, {rows} in the rows of halts")
    halts = sum(len(thread.halts) for thread in tids.values())
    if not halts:
        wrong.append("no halts: nothing was compared")
    if not wrong:
        print(f"{path}: {halts} halts agree under {len(SETTINGS)} settings")
    return wrong
