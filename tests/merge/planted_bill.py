#!/usr/bin/env python3
"""What is planted for two VMs is in their bill: planted_bill.py TRAPLINE FILE [PART...]: without these PARTs

tests/data/record/bill made the recording and says which parts it has, and what is known of each: schedstat of each thread
and cpu.stat of each VM's cgroup at both edges. Of each part, `report --host-cpu`

- has each thread's time and turns by sched_switch, to the nanosecond, and a VM's rows sum to it; the turns are schedstat's;
- agrees with the kernel's own counts: they are to the nanosecond what sched_stat_runtime tells, and the time by sched_switch
  with each switch moved to the kernel's last reading of its clock before it, give or take 1 %, 10 us a turn and 100 us;
- names what woke each thread, in at least 95 % of all wake-ups, and at most 1 % of them something else;
- has the planted thread in its role, with the planted wakers;

and of the whole recording, what host_cpu_oracle has, with the time of the interrupts, of which all kinds are recorded.
"""
import collections
import itertools
import re
import sys

import host_cpu_oracle
import oracle
import recording
import tables

RIGHT, WRONG, SHARE, A_TURN, A_READING = 0.95, 0.01, 0.01, 10_000, 100_000
SCHEDSTAT = re.compile(r"^schedstat (\d+) (\d+) \d+ (\d+)$")
CPUSTAT = re.compile(r"^cpustat (\w+) (\d+)$")
JOINS = re.compile(r"^joins (\w+)$")
PART = re.compile(r"^part (\w+) (begin|end)$")
Stat = collections.namedtuple("Stat", "at ns turns since", defaults=(0, 0))  # read between since and at
# Of each part: the role, or the name, of the thread that works in it; what wakes it; how often at most, of each.
ROLES = {"iothread": "iothread", "vhost": "vhost", "backup": "main loop", "helper": "other"}
PLANTED = {"iothread": ("IO io0", ("vCPU", "own thread"), 1000),
           "vhost": ("vhost", ("vCPU",), 400),  # packets for the address and the echo, new buffers
           "backup": ("main loop", ("own thread", "timer"), None),
           "helper": ("mig/src/main", None, None),
           "two": (None, None, None)}


class Part:
    def __init__(self, name, begin):
        self.name, self.begin, self.end = name, begin, None
        self.before, self.after = {}, {}  # of a tid or a cgroup

    def counted(self, of):
        """(from when, to when, ns) by the kernel; of what begins in the part from 0 on."""
        before, after = self.before.get(of, Stat(self.begin, 0)), self.after[of]
        return before.at, after.at, after.ns - before.ns

    def turns(self, tid, switched_in):
        """(by the kernel, by switches until each was written down, and until it was read at the earliest: least, most)"""
        before, after = self.before.get(tid, Stat(self.begin, 0, 0, self.begin)), self.after[tid]
        return (after.turns - before.turns, sum(before.at <= at < after.at for at in switched_in),
                sum(before.at < at < after.since for at in switched_in), sum(before.since < at < after.at for at in switched_in))


def parts_of(events):
    parts, before = [], 0
    for event in events:
        text = event.fields.get("buf", "").strip() if event.name == "print" else ""
        if part := PART.match(text):
            if part[2] == "begin":
                parts.append(Part(part[1], event.at))
            else:
                parts[-1].end = event.at
        elif stat := SCHEDSTAT.match(text):
            edge(parts[-1])[int(stat[1])] = Stat(event.at, int(stat[2]), int(stat[3]), before)
        elif stat := CPUSTAT.match(text):
            edge(parts[-1])[stat[1]] = Stat(event.at, int(stat[2]) * 1000)
        elif (joins := JOINS.match(text)) and parts:
            parts[-1].before[joins[1]] = parts[-1].before[joins[1]]._replace(at=event.at)
        before = event.at if text else before
    return parts


def edge(part):
    """The readings of a part's begin are complete with those of the second cgroup."""
    return part.after if "second" in part.before else part.before


def waker_text(who, vm, model):
    """In the words of the report."""
    if isinstance(who, str):
        known = who.partition(" ")[0]
        return {"timer": "timer", "disk": "disk", "interrupt": "interrupt", "softirq": "interrupt"}.get(known, "not known")
    process = model.process.get(who, 0)
    if who in model.vcpus:
        return "vCPU" if process == vm else "another VM's vCPU"
    return "main loop" if who == vm else "own thread" if process == vm else "another thread"


class Model:
    def __init__(self, events):
        self.process, self.vcpus, self.parent = {}, set(), {}
        for event in events:
            if event.name == "task_newtask":
                child, thread = oracle.number(event.fields, "pid"), int(event.fields["clone_flags"], 16) & 0x10000
                self.process[child] = self.process.get(event.tid, event.tid) if thread else child
                self.process.setdefault(event.tid, event.tid)
                if not thread:
                    self.parent[child] = self.process[event.tid]
            elif event.name == "kvm_exit":
                self.vcpus.add(event.tid)


    def parents(self, tid):
        """The processes that its own one is of, through the one that made it."""
        tid = self.process.get(tid, tid)
        while (tid := self.parent.get(tid)) is not None:
            yield tid


def read_runs(events):
    """Of each thread its runs, from one reading of the kernel's clock to another, each as the earliest and the latest that it
    may be: the kernel reads the clock when it counts what the CPU's thread ran (sched_stat_runtime) and, where the CPU is idle,
    when it wakes a thread; it takes the last reading for the switch, whose event comes later. The reading is between the
    event that tells of it and the one before: there the emulated machine may stand still for a while."""
    runs, on_cpu, read, last = collections.defaultdict(list), {}, {}, {}
    for event in events:
        cpu, number = event.cpu, oracle.number
        now = last.get(cpu, event.at), event.at
        last[cpu] = event.at
        left, since = on_cpu.get(cpu, (None, (0, 0)))
        if event.name == "sched_stat_runtime" or left == 0 and event.name in ("sched_waking", "sched_wakeup"):
            read[cpu] = now
        elif event.name == "sched_switch":
            at = read[cpu] if read.get(cpu, (0, 0))[1] > since[1] else now
            if left == number(event.fields, "prev_pid"):
                runs[left].append((since, at))
            on_cpu[cpu] = number(event.fields, "next_pid"), at
    return runs


class Check:
    def __init__(self, trapline, path, *without):
        self.trapline, self.path, self.without, self.wrong = trapline, path, set(without), []
        self.events, holes = recording.read(path)
        self.model = Model(self.events)
        assert not holes, "events were lost"
        self.wakers = host_cpu_oracle.wakers_of(self.events)
        self.runs, _ = host_cpu_oracle.runs_of(self.events, holes)
        self.read, self.edges = read_runs(self.events), []
        self.stamps, self.switched_in = collections.defaultdict(list), collections.defaultdict(list)
        for event in self.events:
            if event.name == "sched_switch":
                self.switched_in[oracle.number(event.fields, "next_pid")].append(event.at)
            if event.name == "sched_stat_runtime":
                self.stamps[oracle.number(event.fields, "pid")].append((event.at, oracle.number(event.fields, "runtime")))

    def all(self):
        parts = parts_of(self.events)
        if missing := PLANTED.keys() - {part.name for part in parts} - self.without:
            self.wrong.append(f"there is no part {missing}")
        for part in parts:
            self.part(part)
        self.cpus()
        self.wrong += host_cpu_oracle.check(self.trapline, self.path)
        told = [row["interrupts_ns"] for vm in host_cpu_oracle.reported(self.trapline, self.path) for row in vm["threads"]["rows"]]
        if not any(told):
            self.wrong.append("no interrupt took time of a thread")
        if len(self.edges) > 1:  # a thread may be switched in between the reading and the writing
            self.wrong += self.edges
        return self.wrong

    def cpus(self):
        """All threads of a CPU, its idle thread included, run from its first event that tells who runs to the last."""
        told, ran = {}, collections.Counter()
        last = max(event.at for event in self.events if event.name == "sched_switch") + host_cpu_oracle.AFTER
        first = next(event.at for event in self.events if event.name == "sched_switch")
        for event in self.events:
            if event.at >= first and event.name in host_cpu_oracle.TELL_WHO_RUNS:
                told[event.cpu] = told.get(event.cpu, (event.at,))[0], event.at
        for run in itertools.chain.from_iterable(self.runs.values()):
            ran[run.cpu] += run.end - run.begin
        for cpu, (begin, end) in told.items():
            if ran[cpu] != (time := min(self.events[-1].at, max(last, end)) - begin):
                self.wrong.append(f"CPU {cpu}: its threads ran {ran[cpu]} ns of {time} ns")

    def part(self, part):
        vms = host_cpu_oracle.reported(self.trapline, self.path, *tables.window(part.begin, part.end))
        print(f"== {part.name}: {(part.end - part.begin) / 1e9:.2f} s, {len(vms)} VMs")
        if len(vms) != (2 if part.name == "two" else 1):
            self.wrong.append(f"{part.name}: {len(vms)} VMs")
        right = known = others = 0
        for number, vm in enumerate(sorted(vms, key=lambda vm: int(vm["vm"]))):
            rows = [row for row in vm["threads"]["rows"] if row["part"] is None and row["role"] != "work items"]
            if vm["ns"] != sum(row["ns"] for row in rows):
                self.wrong.append(f"{part.name}: the rows of VM {vm['vm']} do not sum to it")
            for row in rows:
                self.time(part, row)
                parts = [one["ns"] for one in vm["threads"]["rows"] if one["part"] and one["reason"] is None and one["tid"] == row["tid"]]
                if parts and sum(parts) != row["ns"]:
                    self.wrong.append(f"{part.name}: the parts of tid {row['tid']} do not sum to it")
                for of, figure in zip(("right", "known", "others"), self.woken(part, row, int(vm["vm"]))):
                    right, known, others = (right + figure * (of == "right"), known + figure * (of == "known"),
                                            others + figure * (of == "others"))
            self.group(part, ("first", "second")[number], rows)
        print(f"   woken {known} times: {right} right, {others} wrong")
        if right < RIGHT * known or others > WRONG * known:
            self.wrong.append(f"{part.name}: of {known} wake-ups {right} have their waker, {others} another one")
        self.planted(part, [row for vm in vms for row in vm["threads"]["rows"] if row["part"] is None])

    def ran(self, tid, begin, end):
        """(ns by switches, the least and the most by the kernel's readings, turns) in that time."""
        inside = [run for run in self.runs[tid] if run.end > begin and run.begin < end]
        read = [run for run in self.read[tid] if run[1][1] > begin and run[0][0] < end]
        return (sum(min(run.end, end) - max(run.begin, begin) for run in inside),
                sum(max(min(to[0], end) - max(since[1], begin), 0) for since, to in read),
                sum(min(to[1], end) - max(since[0], begin) for since, to in read), sum(run.begin > begin for run in inside))

    def time(self, part, row):
        tid = row["tid"]
        ns, *_, turns = self.ran(tid, part.begin, part.end)
        if (row["ns"], row["turns"]) != (ns, turns):
            self.wrong.append(f"{part.name}: {row['name']}: {row['ns']} ns in {row['turns']} turns, and it is {ns} in {turns}")
        what = f"   {row['role']}: {row['name']} (tid {tid}): {ns} ns in {turns} turns"
        wakers = ", ".join(map("{} {}".format, row["woken_by"], row["woken_by_counts"]))
        if tid in part.after:
            begin, end, counted = part.counted(tid)
            turns, by_switches, fewest, most = part.turns(tid, self.switched_in[tid])
            if turns != by_switches:
                self.edges.append(f"{part.name}: {row['name']}: {turns} turns by schedstat, {by_switches} by switches")
            if not fewest <= turns <= most:
                self.wrong.append(self.edges[-1])
        else:  # it ended
            begin, end = part.begin, part.end
            counted = sum(ns for at, ns in self.stamps[tid] if begin <= at <= end)
        by_switch, *by_reading, turns = self.ran(tid, begin, end)
        print(f"{what}; {by_switch} beside {counted} by schedstat: {by_switch / max(counted, 1):.4f}, "
              f"by readings {by_reading[0] / max(counted, 1):.4f} to {by_reading[1] / max(counted, 1):.4f}; {wakers}")
        if not self.is_stamped(tid, begin, end, counted):
            self.wrong.append(f"{part.name}: {row['name']}: sched_stat_runtime does not tell the {counted} ns of schedstat")
        self.agrees(f"{part.name}: {row['name']}", counted, by_switch, by_reading, turns)

    def is_stamped(self, tid, begin, end, counted):
        """A count is read a little before it is written down: some stamps may lie between."""
        ns = self.stamps[tid]
        first, last = (sum(at < edge for at, _ in ns) for edge in (begin, end))
        return counted in {sum(one for _, one in ns[max(first - more, 0):max(last - less, 0)])
                           for more in range(4) for less in range(4)}

    def agrees(self, what, counted, by_switch, by_reading, turns):
        slack = SHARE * counted + A_TURN * turns + A_READING
        if not by_reading[0] - slack <= counted <= by_reading[1] + slack:
            self.wrong.append(f"{what}: the kernel counts {counted} ns, {by_switch} by switches, {by_reading} by its readings")

    def woken(self, part, row, vm):
        """How many of its wake-ups have their waker, all that have one, how many another one."""
        truth = collections.Counter(waker_text(who, vm, self.model) for at, tid, who, _ in self.wakers
                                    if tid == row["tid"] and part.begin <= at <= part.end)
        told = collections.Counter()
        for name, count in zip(row["woken_by"], row["woken_by_counts"]):
            own = {"timer", "disk", "interrupt", "not known", "vCPU", "main loop", "own thread"}
            told[name if name in own else "another VM's vCPU" if "vCPU" in name else "another thread"] += count
        all_of = sum(truth.values())
        return (sum(min(truth[name], told[name]) for name in truth), all_of,
                sum(max(told[name] - truth[name], 0) for name in told if name != "not known"))

    def group(self, part, name, rows):
        """The kernel's kvm-pit is in no VM's cgroup; the program that a migration pipes into is in its QEMU's."""
        begin, end, counted = part.counted(name)
        tids = [row["tid"] for row in rows if not row["name"].startswith("kvm-pit")]
        vm = next(row["tid"] for row in rows if row["role"] == "main loop")
        children = [tid for tid in self.runs if vm in self.model.parents(tid)]
        by_switch, *by_reading, turns = map(sum, zip(*(self.ran(tid, begin, end) for tid in tids + children)))
        print(f"   cgroup {name}: {by_switch} ns by switches, {counted} by cpu.stat: {by_switch / max(counted, 1):.4f}, "
              f"by readings {by_reading[0] / max(counted, 1):.4f} to {by_reading[1] / max(counted, 1):.4f}")
        self.agrees(f"{part.name}: cpu.stat of {name}", counted, by_switch, by_reading, turns)

    def planted(self, part, rows):
        who, wakers, times = PLANTED[part.name]
        threads = [row for row in rows if who in (row["role"], row["name"])]
        if who is None:
            return
        if len(threads) != 1:
            self.wrong.append(f"{part.name}: {len(threads)} threads are its {who}")
            return
        if threads[0]["role"] != ROLES[part.name]:
            self.wrong.append(f"{part.name}: {who} is told as {threads[0]['role']}")
        told = dict(zip(threads[0]["woken_by"], threads[0]["woken_by_counts"]))
        if wakers is not None and sum(told.get(name, 0) for name in wakers) < RIGHT * sum(told.values()):
            self.wrong.append(f"{part.name}: its {who} is woken by {told}")
        for name in wakers or ():
            if times is not None and not times * SHARE < told.get(name, 0) <= times * (2 - RIGHT) + 5:
                self.wrong.append(f"{part.name}: its {who} is woken {told.get(name, 0)} times by {name}, planted are {times}")


def main():
    wrong = Check(*sys.argv[1:]).all()
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
