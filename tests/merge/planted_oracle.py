"""Planted causes are found: recordings of guests that wait for what was planted beside them.

tests/data/record/planted made the recordings; their lines "schedstat TID RUN DELAY TIMES" are
/proc/TID/schedstat of that moment. Who kept a vCPU waiting is computed here from trace-cmd's text, from
the scheduler's events alone, or from what the planted threads tell by their own clock readings: at least 95 %
of the planted time is charged to what was planted, at most 1 % to somebody else.
"""
import bisect
import collections
import json
import re

import oracle
import tables

STAT = re.compile(r"^schedstat (\d+) (\d+) (\d+) \d+$")
CHARGED, WRONG, TOLERANCE, SHARE = 0.95, 0.01, 0.01, 0.05
HALT_NS, LEAST_HALTS = 20_000_000, 90
HOLDS, HELD_NS = 20, 20_000_000        # tests/guest/planted/plant-lock.c
READING_NS = 500_000  # from a reading of tests/guest/planted/plant-futexes.c to the call
KIND = {"lock": ", held by", "futex": " of"}
DISK_NS, LEAST_READS = 20_000_000, 8  # of each request, scripts/record-planted

Stat = collections.namedtuple("Stat", "at run delay")
number = oracle.number


class Recording:
    """Who ran, who was ready to run and who slept on the one CPU of the box."""

    def __init__(self, path):
        self.events, holes = oracle.read(path)
        if holes:
            raise SystemExit(f"{path}: events were lost")
        self.stats = collections.defaultdict(list)
        self.comm, self.vcpus = {}, []
        self.exits, self.halts = collections.defaultdict(list), []  # [begin, end)
        self.irqs, self.disk = collections.defaultdict(list), []
        self.open = {}
        self.runs = collections.defaultdict(list)    # of a thread: [begin, end)
        self.ready = collections.defaultdict(list)
        self.asleep = collections.defaultdict(list)
        self.since = {}                              # thread: (state, when)
        for event in self.events:
            self.on(event)
        for tid in list(self.since):
            self.state(tid, None, self.events[-1].at)

    def on(self, event):
        stat = STAT.match(event.fields.get("buf", "").strip()) if event.name == "print" else None
        if stat:
            self.stats[int(stat[1])].append(Stat(event.at, int(stat[2]), int(stat[3])))
        elif event.name == "kvm_exit":
            if event.tid not in self.vcpus:
                self.vcpus.append(event.tid)
            self.open[event.tid] = event.at, "reason hlt" in event.text
        elif event.name == "kvm_entry" and event.tid in self.open:
            begin, halt = self.open.pop(event.tid)
            self.exits[event.tid].append((begin, event.at))
            if halt:
                self.halts.append((begin, event.at))
        elif event.name in ("irq_handler_entry", "block_rq_issue"):
            self.open[event.name] = event.at
        elif event.name == "irq_handler_exit" and "irq_handler_entry" in self.open:
            self.irqs[number(event.fields, "irq")].append((self.open.pop("irq_handler_entry"), event.at))
        elif event.name == "block_rq_complete" and "block_rq_issue" in self.open:
            self.disk.append((self.open.pop("block_rq_issue"), event.at))
        elif event.name == "sched_switch":
            left, came = (number(event.fields, key) for key in ("prev_pid", "next_pid"))
            sleeps = number(event.fields, "prev_state") & oracle.SLEEPING
            self.comm[came] = event.fields["next_comm"]
            if self.since.get(came, (None,))[0] not in (self.asleep, self.ready):
                self.open.pop(came, None)  # that it left its CPU was not recorded: nor may be an entry
            self.state(left, self.asleep if sleeps else self.ready, event.at)
            self.state(came, self.runs, event.at)
        elif event.name == "sched_waking" and self.since.get(number(event.fields, "pid"),
                                                             (None,))[0] is self.asleep:
            self.state(number(event.fields, "pid"), self.ready, event.at)

    def state(self, tid, now, at):
        before, begin = self.since.get(tid, (None, at))
        if before is not None and at > begin:
            before[tid].append((begin, at))
        self.since[tid] = now, at

    def planted(self, name):
        """The thread of that name."""
        return next(tid for tid, comm in self.comm.items() if comm == name)

    def sleeps(self):
        """[begin, end) of the first vCPU's sleeps in exits."""
        return cut(self.asleep[self.vcpus[0]], self.exits[self.vcpus[0]])

    def sleeps_of_disk(self):
        """Those of which the disk took half, or more."""
        return [(begin, end) for begin, end in self.sleeps() if 2 * overlap(self.disk, begin, end) > end - begin]

    def throttled(self):
        """Nanoseconds in which the CPU was idle while the first vCPU waited for it from some time on."""
        vcpu = self.vcpus[0]
        waits = [(begin, end) for begin, end in self.ready[vcpu] if begin >= self.exits[vcpu][0][0] and
                 any(begin <= at < end for at, _ in self.runs[0])]
        return sum(overlap(self.runs[0], begin, end) for begin, end in waits)


def spans_of(path):
    """[(begin, end)] by what was planted: a file's lines `WHAT BEGIN END`, by the clock readings of what did it."""
    spans = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            what, begin, end = line.split()
            spans[what].append((int(begin), int(end)))
    return spans


def overlap(pieces, begin, end):
    """Nanoseconds of [begin, end) in sorted pieces."""
    at, total = bisect.bisect_right(pieces, begin, key=lambda piece: piece[1]), 0
    while at < len(pieces) and pieces[at][0] < end:
        total += min(pieces[at][1], end) - max(pieces[at][0], begin)
        at += 1
    return total


def cut(pieces, windows):
    """What of the sorted pieces lies in the sorted windows."""
    return [(max(a, begin), min(b, end)) for begin, end in windows for a, b in pieces
            if a < end and b > begin]


class Check:
    def __init__(self, trapline, path):
        self.trapline, self.path = trapline, path
        self.wrong = []

    def report(self, *options):
        return tables.of(self.trapline, "report", self.path, *options)

    def close(self, what, got, want, tolerance=TOLERANCE):
        print(f"{what}: trapline {got}, planted {want} ({(got - want) / want:+.3%})")
        if abs(got - want) > tolerance * want:
            self.wrong.append(f"{what}: trapline {got}, planted {want}")

    def charged(self, what, got, planted, others):
        """`others`: of each other culprit the time by trapline and by its runs."""
        too_much = sum(max(0, theirs - mine) for theirs, mine in others)
        print(f"{what}: {got} of {planted} ns charged ({got / planted:.2%}), "
              f"{too_much} to others ({too_much / planted:.2%})")
        if not CHARGED * planted <= got <= (1 + WRONG) * planted or too_much > WRONG * planted:
            self.wrong.append(f"{what}: {got} of {planted} ns charged, {too_much} to others")


def window(recording, tids):
    """Between the first and last samples that all of them have, those of each thread."""
    begin = max(recording.stats[tid][0].at for tid in tids)
    end = min(recording.stats[tid][-1].at for tid in tids)
    return {tid: (next(s for s in recording.stats[tid] if s.at >= begin - 1_000_000),
                  [s for s in recording.stats[tid] if s.at <= end + 1_000_000][-1]) for tid in tids}


def came_to_run(recording, tid, before):
    """When the thread last got the CPU: its schedstat counts the waits until then."""
    return max(begin for begin, _ in recording.runs[tid] if begin < before)


def check_culprit(check, recording, vcpu, culprit):
    """`culprit` runs instead of `vcpu`; both have their counters from the kernel."""
    first, last = window(recording, [vcpu, culprit])[vcpu]
    begin, end = (came_to_run(recording, vcpu, stat.at) for stat in (first, last))
    steal = next(row for row in check.report("--steal", *tables.window(begin, end))["steal"]["rows"] if row["tid"] == vcpu)["by"]
    check.close(f"vCPU {vcpu} ready and not running, by its schedstat", steal["total_ns"],
                last.delay - first.delay)
    one, two = window(recording, [vcpu, culprit])[culprit]
    check.close(f"thread {culprit} running, by its schedstat",
                overlap(recording.runs[culprit], one.at, two.at), two.run - one.run)

    def instead(tid):
        return sum(overlap(recording.runs[tid], max(a, begin), min(b, end))
                   for a, b in recording.ready[vcpu] if b > begin and a < end)
    rows = collections.Counter()  # a thread has a row for each of its names
    for row in steal["rows"]:
        if row["tid"] is not None:
            rows[row["tid"]] += row["ns"]
    check.charged(f"vCPU {vcpu} waits for {recording.comm[culprit]} ({culprit})", rows.pop(culprit, 0),
                  instead(culprit), [(ns, instead(tid)) for tid, ns in rows.items()])


def check_hog(check, recording):
    check_culprit(check, recording, recording.vcpus[0], recording.planted("plant-hog"))


def check_vm(check, recording):
    one, two = recording.vcpus
    check_culprit(check, recording, one, two)
    check_culprit(check, recording, two, one)


def check_halt(check, recording):
    """Each halt ends with a timer that the guest set 20 ms ahead, and lasts longer only where the
    emulated machine stood still."""
    report = check.report("--waits", "--by", "reason")
    halts = next(row for row in report["groups"]["rows"] if row["key"] == "hlt")
    count = tables.ended(halts)
    if not LEAST_HALTS <= count == len(recording.halts):
        check.wrong.append(f"{count} halts of {len(recording.halts)}")
    rows = {row["culprit"]: row["ns"] for row in report["halted"]["rows"]}
    timer, planted = rows.pop("timer", 0), sum(
        overlap(recording.asleep[recording.vcpus[0]], begin, end) for begin, end in recording.halts)
    if timer < CHARGED * HALT_NS * count:
        check.wrong.append(f"{timer} ns until a timer in {count} halts of {HALT_NS} ns")
    check.charged(f"{count} halts until a timer", timer, planted,
                  [(ns, 0) for ns in rows.values()])


def check_lock(check, recording):
    """A thread of QEMU held its lock 20 times for 20 ms, by its own clock readings (lock.txt)."""
    holds, = spans_of(check.path.replace(".dat", ".txt")).values()
    if len(holds) != HOLDS or min(end - begin for begin, end in holds) < HELD_NS:
        check.wrong.append(f"the lock was held {len(holds)} times")
    holder, asleep = recording.planted("plant-lock"), recording.sleeps()
    planted = sum(overlap(asleep, begin, end) for begin, end in holds)
    print(f"the vCPU slept for {planted / sum(end - begin for begin, end in holds):.1%} of the holds")
    rows = check.report("--waits")["blocked"]["rows"]
    mine = [row for row in rows if row["tid"] == holder]
    others = sum(row["ns"] for row in rows if row["tid"] != holder)
    check.charged("until the lock was let go", sum(row["ns"] for row in mine), planted,
                  [(others, sum(end - begin for begin, end in asleep) - planted)])
    # Its acquisition is proven where it had to wait for the lock itself.
    who = f"QEMU thread plant-lock (tid {holder}), which waited for a timer"
    texts = {row["culprit"] for row in mine}
    if texts != {f"futex of {who}", f"lock, held by {who}"}:
        check.wrong.append(f"the holder is told as {texts}")


def check_disk(check, recording):
    """The guest's memory lies on a disk that answers after 20 ms."""
    rows = {row["culprit"]: row for row in check.report("--waits")["blocked"]["rows"]}
    disk = rows.pop("disk")
    planted = sum(end - begin for begin, end in recording.sleeps_of_disk())
    if disk["count"] < LEAST_READS or disk["ns"] < CHARGED * DISK_NS * disk["count"]:
        check.wrong.append(f"{disk['count']} waits for the disk of {disk['ns']} ns")
    check.charged(f"{disk['count']} page faults until the disk answered", disk["ns"], planted,
                  [(sum(row["ns"] for row in rows.values()), 0)])


def check_storm(check, recording):
    """Interrupts of a serial line, on the CPU that the vCPU waits for."""
    vcpu = recording.vcpus[0]
    line, storm = max(recording.irqs.items(), key=lambda item: len(item[1]))
    planted = sum(overlap(storm, begin, end) for begin, end in recording.ready[vcpu])
    rows = {row["culprit"]: row["ns"] for row in check.report("--steal")["steal"]["rows"][0]["by"]["rows"]}
    print(f"interrupt {line}: {len(storm)} times")
    check.charged(f"vCPU {vcpu} waits for interrupt {line}", rows.get(f"interrupt {line}", 0), planted,
                  [(ns, sum(overlap(recording.irqs[int(name.split()[1])], begin, end)
                            for begin, end in recording.ready[vcpu]))
                   for name, ns in rows.items() if name.startswith("interrupt") and name != f"interrupt {line}"])


def check_convoy(check, recording):
    """Two threads that held a lock one after the other, and a third that signalled a futex, by their own clock
    readings (convoy.txt)."""
    spans = spans_of(check.path.replace(".dat", ".txt"))
    vcpu = recording.vcpus[0]
    asleep = recording.asleep[vcpu]
    holders = {name: recording.planted(name) for name in ("holderA", "secondB", "notifier")}
    waits = check.report("--waits")["blocked"]["rows"]
    charged, held = collections.Counter(), collections.Counter()
    for row in waits:
        charged[row["tid"]] += row["ns"]
        held[row["tid"]] += row["ns"] if row["culprit"].startswith("lock, held by") else 0
    waited = {what: cut(asleep, spans[what]) for what in ("lock", "event")}
    # Until the second one holds the lock, it is the first one's.
    planted = {"secondB": sum(overlap(waited["lock"], begin, end) for begin, end in spans["B"]),
               "notifier": sum(end - begin for begin, end in waited["event"])}
    planted["holderA"] = sum(end - begin for begin, end in waited["lock"]) - planted["secondB"]
    for name, ns in planted.items():
        check.close(f"the vCPU waits for {name}", charged[holders[name]], ns, SHARE)
    check.close("of that, secondB held the lock", held[holders["secondB"]], planted["secondB"], SHARE)
    for name in ("holderA", "notifier"):  # whose acquisition no event shows, or who has no lock
        if held[holders[name]]:
            check.wrong.append(f"{name} is told to hold a lock")


def check_futexes(check, recording):
    """A PI lock that is stolen from its heir, and waits that are, or are not, for a futex, by the threads' own clock
    readings (futexes.txt). Each thread of a round is one of its own."""
    spans = spans_of(check.path.replace(".dat", ".txt"))
    asleep = recording.asleep[recording.vcpus[0]]
    planted = {what: sum(overlap(asleep, begin, end) for begin, end in all_of) for what, all_of in spans.items()}
    charged, told = collections.Counter(), collections.defaultdict(set)
    for row in check.report("--waits")["blocked"]["rows"]:
        kind = next((kind for kind in ("lock", "futex") if row["culprit"].startswith(f"{kind}{KIND[kind]} ")), "")
        comm = recording.comm.get(row["tid"], "")
        charged[comm, kind] += row["ns"]
        told[comm].add(kind)
    # An owner's readings are after it got the lock and before it lets go of it.
    held, most = charged["heir", "lock"], planted["heir"] + len(spans["heir"]) * READING_NS
    print(f"the heir held the lock: trapline {held}, planted {planted['heir']} to {most}")
    if not planted["heir"] <= held <= most:
        check.wrong.append(f"the heir held the lock: trapline {held}, planted {planted['heir']} to {most}")
    # It lets go for a moment, after the first of its two holds, and is not blamed for that.
    stolen = cut(asleep, spans["stolen"])
    check.close("the thief held the lock", charged["thief", "lock"],
                sum(overlap(stolen, begin, end) for begin, end in spans["thief"]), SHARE)
    check.close("until the futex", charged["signaler", "futex"], planted["futex"], SHARE)
    check.close("until the eventfd", charged["signaler", ""], planted["eventfd"], SHARE)
    for comm, what in (("requeuer", "requeued"), ("owner", "robust"), ("ringer", "ring")):
        if told[comm] != {""} or charged[comm, ""] < CHARGED * planted[what]:
            check.wrong.append(f"{comm}: {charged[comm, '']} of {planted[what]} ns, told as {told[comm]}")


def check_quota(check, recording):
    """A guest whose cgroup may use 20 ms of 100: nothing else to run, and the vCPU ready."""
    vcpu = recording.vcpus[0]
    rows = {row["culprit"]: row["ns"] for row in steal_rows(check, check.path.replace("/trace.dat", ""), vcpu)}
    planted = recording.throttled()
    check.close("not allowed to run: CPU quota", rows.get("not allowed to run: CPU quota", 0), planted, SHARE)
    others = sum(ns for name, ns in rows.items() if "idle" in name or name == "not allowed to run")
    if others > WRONG * planted:
        check.wrong.append(f"{others} ns of idle CPUs are told as something else")
    with open(check.path.replace("trace.dat", "session.json"), encoding="utf-8") as file:
        groups = json.load(file)["cgroups"]
    throttled = sum(after - before for before, after in (group["throttled_ns"] for group in groups))
    if throttled < rows.get("not allowed to run: CPU quota", 0):
        check.wrong.append(f"more is charged to the quota than cpu.stat counts: {throttled}")


def steal_rows(check, path, vcpu):
    steal = tables.of(check.trapline, "report", path, "--steal")["steal"]["rows"]
    return next(row for row in steal if row["tid"] == vcpu)["by"]["rows"]


def check_relay(check, recording):
    """A state is passed on from thread to thread; no program of the recording has a lock."""
    rows = check.report("--waits")["blocked"]["rows"]
    relay = recording.planted("relay")
    if not sum(row["ns"] for row in rows if row["tid"] == relay and row["culprit"].startswith("futex of")):
        check.wrong.append("no wait for the relay's futex")
    check.wrong += [f"there is no lock: {row['culprit']}" for row in rows if "lock" in row["culprit"]]


def check_realtime(check, recording):
    """A real-time vCPU that used up its time, in a cgroup whose quota throttles another thread."""
    vcpu = recording.vcpus[0]
    folder = check.path.replace("/trace.dat", "")
    rows = {row["culprit"]: row["ns"] for row in steal_rows(check, folder, vcpu)}
    first = recording.exits[vcpu][0][0]
    planted = 0  # from where the CPU is idle first to where it is last: who ran between did not keep it waiting
    for begin, end in recording.ready[vcpu]:
        idle = cut(recording.runs[0], [(begin, end)]) if first <= begin else []
        planted += idle[-1][1] - idle[0][0] if idle else 0
    with open(f"{folder}/session.json", encoding="utf-8") as file:
        groups = json.load(file)["cgroups"]
    if sum(after - before for before, after in (group["throttled_ns"] for group in groups)) < planted / 2:
        check.wrong.append("the quota throttled nothing: this proves nothing")
    check.close("not allowed to run", rows.get("not allowed to run", 0), planted, SHARE)
    check.wrong += [f"no quota applies: {name}" for name in rows if "quota" in name]


def check_own(check, recording):
    """What a recording of one process's switches charges to other threads is not more than they ran, by a recording
    of all switches; with the session, and without it, where only the events tell."""
    everything = Recording(check.path.replace("/trace.dat", "-all.dat"))
    for path in (check.path.replace("/trace.dat", ""), check.path):
        for vcpu in recording.vcpus:
            ready = everything.ready[vcpu]
            for row in steal_rows(check, path, vcpu):
                ran = sum(overlap(everything.runs[row["tid"]], *wait) for wait in ready) if row["tid"] else 0
                print(f"{path}: {row['culprit']}: {row['ns']} ns, it ran for {ran} ns")
                if row["tid"] and row["ns"] > (1 + WRONG) * ran:
                    check.wrong.append(f"{row['culprit']} is charged with {row['ns']} ns, and ran for {ran}")


CHECKS = {"relay": check_relay, "futexes": check_futexes, "realtime/trace": check_realtime, "own/trace": check_own,
          "convoy": check_convoy, "quota/trace": check_quota, "quota-tasks/trace": check_quota, "halt": check_halt, "hog": check_hog, "vm": check_vm, "lock": check_lock, "disk": check_disk,
          "storm": check_storm}


def check(trapline, path, name):
    """Differences as sentences; `name` is one of CHECKS."""
    planted = Check(trapline, path)
    CHECKS[name](planted, Recording(path))
    return planted.wrong
