"""What the kernel's time in exits went to, once more from the text of `trace-cmd report`: beside `trapline report FILE
--kernel`, `explain` and folded stacks.

The exits come from oracle.py. Here the events of an exit are walked after it has ended; docs/formats/report.md ("Inside
the kernel") is what both follow. The rows sum to the exits' kernel time, reason by reason, to the nanosecond.
"""
import collections
import re
import subprocess

import oracle
import tables

VECTORS = ("local_timer", "reschedule", "call_function", "call_function_single", "irq_work", "x86_platform_ipi",
           "error_apic", "spurious_apic", "thermal_apic", "threshold_apic", "deferred_error_apic")
SPANS = {"hrtimer_expire": "timer", "timer_expire": "timer", "tasklet": "tasklet", "ipi": "IPI",
         "mm_vmscan_direct_reclaim": "direct reclaim", "mm_vmscan_memcg_reclaim": "reclaim of a cgroup",
         "mm_vmscan_memcg_softlimit_reclaim": "reclaim of a cgroup", "mm_compaction": "compaction",
         **{name: f"vector {name}" for name in VECTORS}}
GRAPH = ("funcgraph_entry", "funcgraph_exit")
SILENT = ("kvm_exit", "kvm_entry", "sched_switch", "print")
UNTRACED = "untraced"


def handler(event):
    """(its name, whether it begins) of an event that begins or ends one."""
    stem, _, end = event.name.rpartition("_")
    if end not in ("entry", "exit", "begin", "end"):
        return None
    if stem == "irq_handler":
        return f"interrupt {oracle.number(event.fields, 'irq')}", end == "entry"
    if stem == "softirq":
        return "softirq " + re.search(r"action=(\w+)", event.text)[1], end == "entry"
    return (SPANS[stem], end in ("entry", "begin")) if stem in SPANS else None


def exits_events(events, holes):
    """By thread and the time of its kvm_entry: the events of the exit that it ends.

    The first is kvm_exit, or the sched_switch away that some kernels write before it; after a loss kvm_exit.
    """
    found, since, named = {}, {}, {}
    losses = {(hole.cpu, hole.after) for hole in holes}
    for event in events:
        tid = event.tid
        if event.name in ("kvm_entry", "kvm_exit"):
            named.setdefault(tid, True)
        if event.name == "kvm_exit":
            if tid not in since or named[tid]:
                since[tid] = []
            named[tid] = True
        elif event.name == "sched_switch" and tid in named and tid not in since:
            since[tid], named[tid] = [], False
        if tid in since:
            since[tid].append(event)
        if event.name == "kvm_entry" and tid in since:
            found[tid, event.at] = since.pop(tid)
        if (event.cpu, event.at) in losses:
            named = dict.fromkeys(named, True)
    return found


def functions_of(events, holes):
    """By event: the functions that its thread is in from then on, (depth, name), the outermost first."""
    losses = {(hole.cpu, hole.after) for hole in holes}
    inside, found = collections.defaultdict(dict), {}
    for event in events:
        calls = inside[event.tid]
        if event.name in GRAPH:
            depth, name = oracle.number(event.fields, "depth"), event.fields["func"]
            if event.name == "funcgraph_entry" or calls.get(depth) == name:
                for deeper in [known for known in calls if known >= depth]:
                    del calls[deeper]
            if event.name == "funcgraph_entry":
                calls[depth] = name
        found[id(event)] = tuple(sorted(calls.items()))
        if (event.cpu, event.at) in losses:
            for calls in inside.values():
                calls.clear()
    return found


def labels(events, functions):
    """(from when, what, the event that it is after, the functions and handlers that it is in) in order."""
    inside = [(depth, name) for depth, name in functions[id(events[0])]] if events else []  # handlers have no depth
    last = None
    for event in events:
        known = functions[id(event)]
        if event.name in GRAPH:
            call = oracle.number(event.fields, "depth"), event.fields["func"]
            first = next((i for i, (depth, _) in enumerate(inside) if depth is not None and depth >= call[0]), len(inside))
            if event.name == "funcgraph_exit" and call not in inside[first:first + 1] and event is not events[0]:
                continue
            inside = inside[:first] + ([call] if event.name == "funcgraph_entry" else [])
        begins = handler(event)
        # A loss ends functions.
        inside = [one for one in inside if one[0] is None or one in known]
        if event is events[0] or event.name in GRAPH:
            pass
        elif begins and begins[1]:
            inside.append((None, begins[0]))
        elif begins:
            if (None, begins[0]) not in inside:
                continue
            while inside.pop() != (None, begins[0]):
                pass
        elif inside or (event.name in SILENT):
            continue
        else:
            last = None if event.name == "sys_enter_ioctl" else event
        if inside:
            depth, name = inside[-1]
            yield event.at, name if depth is None else f"{name}()", None, tuple(inside)
        else:
            yield event.at, f"after {last.name}" if last else UNTRACED, last, ()


def shares(span, events, functions):
    """(what, begin, end, its functions) of the kernel's pieces of one exit, in order."""
    states = list(labels(events, functions))
    pieces, user_end = [], 0
    for begin, end, state in span.pieces:
        if state == "kernel" and pieces and pieces[-1][1] == begin:
            pieces[-1] = (pieces[-1][0], end, user_end)
        elif state == "kernel":
            pieces.append((begin, end, user_end))
        elif state == "user":
            user_end = end
    for begin, end, back in pieces:
        at = begin
        for i, (since, what, last, calls) in enumerate(states):
            until = min(states[i + 1][0] if i + 1 < len(states) else end, end)
            if since > at and since <= end and i == 0:
                yield UNTRACED, at, since, ()
                at = since
            if until <= at or since > at:
                continue
            stale = what.startswith("after ") and last.at < back
            yield UNTRACED if stale else what, at, until, calls
            at = until
        if at < end:
            yield UNTRACED, at, end, ()


def expected(path):
    model = oracle.model_of(path)
    events, holes = model.events, model.holes
    of_exits = exits_events(events, holes)
    functions = functions_of(events, holes)
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    stacks = collections.Counter()
    for span in model.spans:
        for what, begin, end, calls in shares(span, of_exits.get((span.tid, span.end), []), functions):
            ns = end - begin
            row = rows[span.reason, what]
            names = [name for depth, name in calls if depth is not None]
            is_function = bool(calls) and calls[-1][0] is not None
            stacks[span.reason, *((f"{name}()" for name in names) if is_function else [what])] += ns
            row[:3] = row[0] + ns, row[1] + 1, max(row[2], ns)
            for name in set(names):
                rows[span.reason, f"{name}()"][3] += ns
    return {key: (*row[:3], row[3] or None) for key, row in rows.items() if row[0] or row[3]}, +stacks, "kernel" in model.unknown


def folded(trapline, path):
    """By stack: the functions of one that ends in a function, else its last frame."""
    done = subprocess.run([trapline, "export", path, "--format", "folded", "--kernel", "-o", "-"],
                          capture_output=True, text=True, check=True)
    stacks = collections.Counter()
    for line in done.stdout.splitlines():
        text, _, ns = line.rpartition(" ")
        reason, *frames = text.split(";")
        calls = [frame for frame in frames if frame.endswith("()")]
        stacks[reason, *(calls if frames[-1:] == calls[-1:] else frames[-1:])] += int(ns)
    return stacks


def check(trapline, path):
    """Differences as sentences."""
    want, stacks, unknown = expected(path)
    got = tables.of(trapline, "report", path, "--kernel")
    if unknown:
        return [] if (got["kernel"]["total_ns"], got["kernel"]["rows"]) == (None, []) else ["a kernel part that is not known has rows"]
    table = got["kernel"]["rows"]
    have = {(row["reason"], row["part"]): (row["ns"], row["count"], row["max_ns"], row["total_ns"]) for row in table}
    wrong = [f"{' '.join(key)}: trapline {have.get(key)}, oracle {want.get(key)}"
             for key in sorted({*have, *want}) if have.get(key) != want.get(key)]
    for group in got["groups"]["rows"]:
        inside = sum(row["ns"] for row in table if row["reason"] == group["key"])
        if inside != (group["kernel_ns"] or 0):
            wrong.append(f"{group['key']}: its sub-parts sum to {inside}, the kernel's part is {group['kernel_ns']}")
    have = folded(trapline, path)
    wrong += [f"{';'.join(stack)}: folded {have.get(stack)}, oracle {stacks.get(stack)}"
              for stack in sorted({*have, *stacks}) if have.get(stack) != stacks.get(stack)]
    _, explained, _ = tables.asked(trapline, "explain", path)
    if explained and sum(part["ns"] for part in explained["tables"]["kernel"]["rows"]) != (
            explained["tables"]["exit"]["rows"][0]["kernel_ns"] or 0):
        wrong.append("explain: the sub-parts do not sum to the kernel's part")
    if not wrong:
        named = sum(row["ns"] for row in table if row["part"] != UNTRACED)
        print(f"{path}: {len(table)} rows agree; {named} of {got['kernel']['total_ns']} ns named")
    return wrong
