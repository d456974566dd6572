"""What CPU time each VM's threads took, once more from the text of `trace-cmd report`: beside `trapline report FILE --host-cpu`."""
import bisect
import collections
import itertools
import math
import re
import subprocess

import oracle
import recording
import tables
import wait_oracle

AFTER = 10_000_000  # ns after the last switch only kvm_exit and kvm_entry tell who runs
WINDOWS = [(0.1, 0.4), (0.45, 0.5), (0.6, 0.601)]  # parts of the recording

WORK = ("workqueue_queue_work", "workqueue_execute_start", "workqueue_execute_end")
MOST_WAKERS = 32  # of a thread, that the report keeps apart

TELL_WHO_RUNS = {"kvm_exit", "kvm_entry", "sched_switch"}

# An interrupt is of a kind; one that comes in a softirq counts with it. x86 has three kinds, others the first two.
VECTORS = ("local_timer", "reschedule", "call_function", "call_function_single", "irq_work")
KIND_OF = {"irq_handler": "line", "softirq": "softirq", **dict.fromkeys(VECTORS, "vector")}

Run = collections.namedtuple("Run", "begin end cpu")


def runs_of(events, holes):
    """({tid: its runs}, {tid: times it was switched in})."""
    runs, turns, on_cpu, last = collections.defaultdict(list), collections.Counter(), {}, {}
    holes = sorted(holes, key=lambda hole: hole.start)
    switches = [event.at for event in events if event.name == "sched_switch"]

    def end(cpu, at):
        tid, since = on_cpu.pop(cpu)
        runs[tid].append(Run(since, at, cpu))

    for event in events:
        while holes and holes[0].end <= event.at:
            hole = holes.pop(0)
            if hole.cpu in on_cpu:
                end(hole.cpu, hole.start)
        if event.at < switches[0]:
            continue
        cpu, name = event.cpu, event.name
        if name not in TELL_WHO_RUNS:
            continue
        running = recording.number(event.fields, "prev_pid") if name == "sched_switch" else event.tid
        if cpu in on_cpu and on_cpu[cpu][0] != running:
            end(cpu, last[cpu])
        on_cpu.setdefault(cpu, (running, event.at))
        last[cpu] = event.at
        if name == "sched_switch":
            to = recording.number(event.fields, "next_pid")
            end(cpu, event.at)
            on_cpu[cpu] = to, event.at
            turns[to] += 1
    for cpu in list(on_cpu):
        end(cpu, min(events[-1].at, max(last[cpu], switches[-1] + AFTER)))
    return runs, turns


def interrupts(events):
    """{CPU: [(begin, end) of an interrupt]}; None if not all kinds of interrupts were recorded. Those of a kind count
    from the first recorded end on."""
    told, open_at, found = set(), {}, collections.defaultdict(list)
    for event in events:
        if event.name == "sched_switch":  # it cannot lie in an interrupt, whose end was not recorded then
            open_at = {(cpu, kind): at for (cpu, kind), at in open_at.items() if cpu != event.cpu}
        what, _, edge = event.name.rpartition("_")
        kind = KIND_OF.get(what)
        if kind is None or edge not in ("entry", "exit"):
            continue
        if edge == "entry":
            open_at[event.cpu, kind] = event.at if kind in told else None
        else:
            told.add(kind)
            begin = open_at.pop((event.cpu, kind), None)
            within = kind != "softirq" and open_at.get((event.cpu, "softirq")) is not None
            if begin is not None and not within:
                found[event.cpu].append((begin, event.at))
    x86 = not any("esr_ec" in event.fields for event in events if event.name == "kvm_exit")
    return found if {"line", "softirq", *(["vector"] if x86 else [])} <= told else None


def interrupts_of(events, runs):
    """{tid: ns of the interrupts in its runs}; None if not all kinds of interrupts were recorded."""
    taken, found = collections.Counter(), interrupts(events)
    if found is None:
        return None
    for tid, of in runs.items():
        for run in of:
            taken[tid] += sum(end - begin for begin, end in found[run.cpu][bisect.bisect_left(found[run.cpu], (run.begin,)):
                                                                            bisect.bisect_left(found[run.cpu], (run.end,))]
                              if end <= run.end)
    return taken


def works_of(events, runs):
    """{worker: {thread: [ns that the worker ran in work items that the thread queued, items]}}"""
    queued, at, works = {}, {}, collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))

    def ran(tid, until):
        return sum(min(run.end, until) - run.begin for run in runs[tid] if run.begin < until)

    for event in events:
        if event.name not in WORK:
            continue
        item = event.fields["work"]
        if event.name == WORK[0]:
            queued.pop(item, None)
            if not event.flags & wait_oracle.IRQ:
                queued[item] = event.tid
        elif event.name == WORK[1]:
            at[event.tid] = item, queued.pop(item, None), event.at
        else:
            begun, by, since = at.pop(event.tid, (None, None, None))
            if begun == item and by is not None:
                of = works[event.tid][by]
                of[0] += ran(event.tid, event.at) - ran(event.tid, since)
                of[1] += 1
    if not any(event.name == WORK[2] for event in events):
        return works
    for tid, (_, by, since) in at.items():  # they do not end in the recording
        if by is not None:
            works[tid][by][0] += ran(tid, math.inf) - ran(tid, since)
            works[tid][by][1] += 1
    return works


def wakers_of(events):
    """(when, thread, who, CPU) of each end of a sleep, who as wait_oracle has it."""
    causes, asleep, woken = wait_oracle.Causes(), set(), []
    for event in events:
        causes.on(event, event.flags)
        if event.name == "sched_switch":
            asleep.discard(recording.number(event.fields, "next_pid"))
            if recording.number(event.fields, "prev_state") & oracle.SLEEPING:
                asleep.add(recording.number(event.fields, "prev_pid"))
        elif event.name in wait_oracle.WAKES and (tid := recording.number(event.fields, "pid")) in asleep:
            asleep.discard(tid)
            woken.append((event.at, tid, causes.of(event, event.flags, None), event.cpu))
    return woken


def kind_of(who):
    """Of a text of the report, or of the oracle."""
    kinds = {"timer": "timer", "disk": "disk", "interrupt": "interrupt", "softirq": "interrupt", "unknown": "not known", "not": "not known"}
    return kinds.get(who.partition(" ")[0], "thread") if isinstance(who, str) else "thread"


def reported(trapline, path, *options):
    return tables.of(trapline, "report", path, "--host-cpu", *options)["host_cpu"]["rows"]


def check(trapline, path):
    events, holes = recording.read(path)
    if not any(event.name == "sched_switch" for event in events):
        return
    runs, turns = runs_of(events, holes)
    vms = reported(trapline, path)
    threads = [row for vm in vms for row in vm["threads"]["rows"] if row["part"] is None and row["role"] != "work items"]
    if not holes:
        yield from works(events, runs, vms)
        yield from idle_interrupts(events, runs, vms)
        yield from branches(oracle.model_of(path), runs, vms)
        yield from longest_handler(trapline, path, events)
    if not threads and not path.endswith("killed/trace.dat"):  # one of some threads' switches alone
        yield "no thread of a VM is reported"
    if len({row["tid"] for row in threads}) != len(threads):
        yield "a thread is reported twice"
    for row in threads:
        ns = sum(run.end - run.begin for run in runs[row["tid"]])
        if (row["ns"], row["turns"]) != (ns, turns[row["tid"]]):
            yield f"tid {row['tid']}: {row['ns']} ns in {row['turns']} turns, and it is {ns} in {turns[row['tid']]}"
    taken = interrupts_of(events, runs)
    for row in threads:
        ns = None if taken is None else taken[row["tid"]]
        if not holes and row["interrupts_ns"] != ns:
            yield f"tid {row['tid']}: {row['interrupts_ns']} ns of interrupts, and it is {ns}"
    for vm in vms:
        rows = vm["threads"]["rows"]
        if vm["ns"] != sum(row["ns"] for row in rows if row["part"] is None):
            yield f"VM {vm['vm']}: its threads do not sum to it"
        for thread in (row for row in rows if row["part"] is None and row["role"] == "vcpu"):
            parts = [row for row in rows if row["part"] and row["tid"] == thread["tid"]]
            if parts and sum(row["ns"] for row in parts if row["reason"] is None) != thread["ns"]:
                yield f"tid {thread['tid']}: its parts do not sum to it"
            for whole in (row for row in parts if row["reason"] is None):
                reasons = [row["ns"] for row in parts if row["part"] == whole["part"] and row["reason"] is not None]
                if reasons and sum(reasons) != whole["ns"]:
                    yield f"tid {thread['tid']}: the reasons of its part {whole['part']} do not sum to it"
    if not holes:  # one may hide a sleep
        truth, wakers = collections.defaultdict(collections.Counter), collections.defaultdict(set)
        for _, tid, who, _ in wakers_of(events):
            truth[tid][kind_of(who)] += 1
            wakers[tid].add(who)
        for row in threads:
            if len(wakers[row["tid"]]) > MOST_WAKERS:
                continue
            told = collections.Counter()
            for name, count in zip(row["woken_by"], row["woken_by_counts"]):
                told[kind_of(name)] += count
            if told != truth[row["tid"]]:
                yield f"tid {row['tid']}: it is woken by {dict(told)}, and it is {dict(truth[row['tid']])}"
    if not holes:
        yield from windows(trapline, path, events, runs)
    yield from exported(trapline, path, vms)


def branches(model, runs, vms):
    """What a vCPU's thread ran in KVM in halted time, and in exits by their reason."""
    for vm in vms:
        rows = [row for row in vm["threads"]["rows"] if row["part"] is not None]
        # Before the first switch, and long after the last one, its states are known and its runs are not.
        whole = {row["tid"] for row in vm["threads"]["rows"] if row["role"] == "vcpu" and row["part"] is None
                 and sum(model.vcpus[row["tid"]].totals[state] for state in ("guest", "kernel", "user")) <= row["ns"]} - {row["tid"] for row in rows}
        if whole and "guest" not in model.unknown:
            yield f"VM {vm['vm']}: of its vCPUs' threads {whole} there are no parts"
        for tid in {row["tid"] for row in rows}:
            told = collections.defaultdict(dict)
            for row in rows:
                if row["tid"] == tid:
                    told[row["part"]][row["reason"]] = row["ns"]
            spans = [span for span in model.spans + model.unended if span.tid == tid]
            halted = [piece for span in spans for piece in span.pieces] + [piece[:3] for piece in model.vcpus[tid].spanless]
            polled = sum(max(0, min(run.end, end) - max(run.begin, begin)) for begin, end, state in halted if state == "halted"
                         for run in between(runs[tid], begin, end)) - sum(span.user_in_halts for span in spans)
            if (got := told["polling"].get(None, 0)) != polled:
                yield f"tid {tid}: it ran {got} ns in halts, and it is {polled}"
            for part in ("kernel", "user"):
                truth = collections.Counter()
                for span in spans:
                    truth[span.reason] += span.parts[part]
                reasons = {reason: ns for reason, ns in told[part].items() if reason not in (None, "[other]")}
                least = min(reasons.values(), default=0)
                if any(ns != truth[reason] for reason, ns in reasons.items()) or any(
                        ns > least for reason, ns in truth.items() if reasons and reason not in reasons):
                    yield f"tid {tid}: the reasons of its part {part} are {reasons}, and they are {truth.most_common(4)}"


def between(runs, begin, end):
    """Those of the runs, which are in order, that have a part of this time."""
    return runs[max(0, bisect.bisect_right(runs, (begin,)) - 1):bisect.bisect_left(runs, (end,))]


def works(events, runs, vms):
    """A VM's work items are those that its threads queued."""
    truth = works_of(events, runs)
    for vm in vms:
        rows = vm["threads"]["rows"]
        own = {row["tid"] for row in rows if row["part"] is None and row["role"] not in ("work items", "kernel")}
        told = {row["tid"]: [row["ns"], row["turns"]] for row in rows if row["role"] == "work items"}
        of_own = {worker: [sum(figures) for figures in zip(*(one for tid, one in of.items() if tid in own))]
                  for worker, of in truth.items() if own & of.keys()}
        if told != of_own:
            yield f"VM {vm['vm']}: its work items are {told}, and they are {of_own}"


def idle_interrupts(events, runs, vms):
    """The interrupts that woke a VM's threads first, while their CPU was idle."""
    found, idle, ends, woke = interrupts(events), collections.defaultdict(list), collections.defaultdict(list), {}
    for run in runs[0]:
        idle[run.cpu].append((run.begin, run.end))
    for at, tid, _, cpu in wakers_of(events):
        ends[cpu].append((at, tid))
    for cpu, (begin, end) in ((cpu, one) for cpu, of in (found or {}).items() for one in of):
        run = bisect.bisect_right(idle[cpu], (begin, end)) - 1
        first = bisect.bisect_left(ends[cpu], (begin,))
        if run >= 0 and end <= idle[cpu][run][1] and first < len(ends[cpu]) and ends[cpu][first][0] <= end:
            of = woke.setdefault(ends[cpu][first][1], [0, 0])
            of[0], of[1] = of[0] + 1, of[1] + end - begin
    for vm in vms:
        own = {row["tid"] for row in vm["threads"]["rows"] if row["part"] is None and row["role"] != "work items"}
        told, truth = [vm["idle_wakes"], vm["idle_ns"]], [sum(woke.get(tid, (0, 0))[i] for tid in own) for i in (0, 1)]
        if told != (truth if found is not None else [None, None]):
            yield f"VM {vm['vm']}: {told} interrupts of idle CPUs, and they are {truth}"


def longest_handler(trapline, path, events):
    """The report's last lines have the longest interrupt handler."""
    open_at, longest = {}, (0, 0)
    for event in events:
        if event.name == "irq_handler_entry":
            open_at[event.cpu] = event.at
        elif event.name == "irq_handler_exit" and event.cpu in open_at:
            longest = max(longest, (event.at - open_at[event.cpu], -open_at.pop(event.cpu)))
    text = subprocess.run([trapline, "report", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    told = re.search(r"--around (\S+) +# the host's longest interrupt handler", text)
    if (told and told[1]) != (f"{-longest[1] // 10**9}.{-longest[1] % 10**9:09}" if longest[0] else None):
        yield f"the longest interrupt handler is {told and told[1]}, and it took {longest[0]} ns from {-longest[1]}"


def windows(trapline, path, events, runs):
    """A thread's time in a part of the recording is that of its runs there."""
    first, last = events[0].at, events[-1].at
    for fractions in WINDOWS:
        begin, end = (first + int((last - first) * fraction) // 1000 * 1000 for fraction in fractions)
        status, found, _ = tables.asked(trapline, "report", path, "--host-cpu", *tables.window(begin, end))
        if status:
            continue  # nothing lies there
        for row in (row for vm in found["tables"]["host_cpu"]["rows"] for row in vm["threads"]["rows"]):
            ns = sum(max(0, min(run.end, end) - max(run.begin, begin)) for run in runs[row["tid"]])
            if row["part"] is None and row["role"] != "work items" and row["ns"] != ns:
                yield f"tid {row['tid']} ran {row['ns']} ns of {begin} to {end}, and it is {ns}"


def exported(trapline, path, vms):
    """The rows of the export are those of the report, with the parts of a thread in its row."""
    rows = tables.rows(trapline, path, "host-cpu")
    threads = [row for vm in vms for row in vm["threads"]["rows"]]
    for row, thread in itertools.zip_longest(rows, [row for row in threads if row["part"] is None]):
        if row is None or thread is None:
            yield f"{len(rows)} threads are exported, not {len(threads)}"
            return
        parts = {part["part"]: part["ns"] for part in threads if part["tid"] == thread["tid"] and part["part"] and part["reason"] is None}
        got = {part: row[f"{part}_ns"] for part in ("guest", "kernel", "user", "polling", "not_known") if row[f"{part}_ns"] is not None}
        texts = {key: ", ".join(map("{} {}".format, thread[key], thread[f"{key}_counts"])) or None for key in ("woken_by", "did")}
        if got != parts or any(row[key] != texts[key] for key in texts) or row["ran_ns"] != thread["ns"] or any(
                row[key] != thread[key] for key in ("role", "name", "tid", "turns", "interrupts_ns", "counted_ns")):
            yield f"the exported row of tid {row['tid']} is not the report's"
