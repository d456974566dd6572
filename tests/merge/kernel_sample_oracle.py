#!/usr/bin/env python3
"""The kernel's time in exits by perf's samples, once more from the text of `perf script` and `trace-cmd report`.

  kernel_sample_oracle.py TRAPLINE TRACE.DAT PERF.DATA

- each sample's exit, part and functions: `report --kernel-samples` has the same samples in every row
- its times and intervals are computed here a second time: Wilson's, of a timer's samples by their period
- `export --format folded --kernel-samples` sums to the exits' kernel part
- samples of a timer and of cycles are not added: both are refused
- of the sub-parts and functions that the events of TRACE.DAT tell, nine in ten have the time in which interrupts were on
  in the samples' interval. Where that is not certain there is a least and a most of it:
  - a time between two events of the thread is with interrupts on for certain where they were on at both
  - the timer's interrupts in it may be counted with it: a sample stands for the time of taking it too
  - samples in function_graph's own work right inside a function may be its, or its caller's
  - a function that no sample has as a caller of another may have jumped to it, and be on no stack by then
"""
import bisect
import collections
import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import kernel_oracle
import oracle

KERNEL = 1 << 63
# What function_graph does when a function is entered, or left: its events lie somewhere in between.
TRACER = ("trace_graph_entry", "trace_graph_return", "function_graph_enter", "function_graph_enter_regs", "graph_entry",
          "ftrace_graph_func", "prepare_ftrace_return", "ftrace_caller", "ftrace_regs_caller", "return_to_handler",
          "ftrace_return_to_handler", "ftrace_trampoline")
# A timer's sample is taken in these.
OF_TIMER = ("vector local_timer", "timer")
LEAST = 20  # samples that something is held to
Z = 1.959963984540054
SAMPLE = re.compile(r"^\s*(\d+)\s+(?:\[\d+\]\s+)?(\d+)\.(\d{9}):\s+(\d+)")
# "qemu-198  3d.h1.  12.345678901: kvm_exit: …": d and D are with interrupts off
STATE = re.compile(r"^ *.+-\d+ +\d+(\S)\S* +[0-9.]+: \S+: ")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout


def symbols(path):
    """Of the recording's kallsyms: (addresses, names), of several names of one address the first."""
    found = {}
    for line in run("trace-cmd", "dump", "--kallsyms", "-i", path).splitlines():
        fields = re.match(r"\s*([0-9a-f]{8,16}) ([tTwW]) (\S+)", line)
        if fields:
            found.setdefault(int(fields[1], 16), fields[3])
    return sorted(found), found


def samples(path):
    """(thread, ns, period, kernel addresses, the innermost first)"""
    taken = None
    for line in run("perf", "script", "--ns", "-F", "tid,cpu,time,period,ip", "-i", path).splitlines() + [""]:
        head = SAMPLE.match(line)
        if head:
            taken = (int(head[1]), int(head[2] + head[3]), int(head[4]), [])
        elif line.strip() and taken:
            address = int(line.split()[0], 16)
            if address & KERNEL:
                taken[3].append(address)
        elif taken:
            yield taken
            taken = None


def wilson(n, of, ns):
    p = min(n / of, 1)
    middle, reach = p + Z * Z / (2 * of), Z * math.sqrt(p * (1 - p) / of + Z * Z / (4 * of * of))
    return [ns * min(max((middle + side * reach) / (1 + Z * Z / of), 0), 1) for side in (-1, 1)]


def overlaps(one, other):
    return one[0] <= other[1] and other[0] <= one[1]


class Expected:
    def __init__(self, trace, perf):
        self.starts, self.names = symbols(trace)
        self.events, self.holes = oracle.read(trace)
        model = oracle.Model(self.events, self.holes).run()
        self.spans = collections.defaultdict(list)
        self.kernel_ns = collections.Counter()
        for span in model.spans:
            self.spans[span.tid].append(span)
            self.kernel_ns[span.reason] += span.parts["kernel"]
        for spans in self.spans.values():
            spans.sort(key=lambda span: span.start)
        self.own, self.total, self.all = collections.Counter(), collections.Counter(), collections.Counter()
        self.sure = collections.Counter()  # as total, but for samples in function_graph's own work right inside
        self.calls = set()  # (of a function, of another below it)
        self.where = collections.Counter()
        self.taken = collections.defaultdict(list)  # when, by span
        self.periods = set()
        times = {}  # of each thread's first and last sample
        for tid, at, period, stack in samples(perf):
            times[tid] = (times.get(tid, (at,))[0], at)
            self.periods.add(period)
            self.add(tid, at, stack)
        # Before a thread's first sample, and after its last one, nothing tells that it was sampled.
        self.covered_ns = collections.Counter()
        for tid, (first, last) in times.items():
            for span in self.spans.get(tid, ()):
                if first <= span.start and (span in self.taken or last >= span.end):
                    self.covered_ns[span.reason] += span.parts["kernel"]

    def function(self, address):
        place = bisect.bisect(self.starts, address) - 1
        if place < 0 or address - self.starts[place] > 1 << 20:
            return "[unknown]"
        return self.names[self.starts[place]]

    def add(self, tid, at, stack):
        spans = self.spans.get(tid)
        if not spans:
            self.where["other_threads"] += 1
            return
        place = bisect.bisect(spans, at, key=lambda span: span.start) - 1
        if place < 0 or at >= spans[place].end:
            self.where["outside_exits"] += 1
            return
        span = spans[place]
        if not any(begin <= at < end and state == "kernel" for begin, end, state in span.pieces):
            self.where["other_parts"] += 1
            return
        self.where["kernel"] += 1
        self.all[span.reason] += 1
        self.taken[span].append(at)
        called = [self.function(address - (1 if i else 0)) for i, address in enumerate(stack)]
        self.own[span.reason, called[0]] += 1
        for name in set(called):
            self.total[span.reason, name] += 1
        self.calls.update((outer, inner) for i, inner in enumerate(called) for outer in called[i + 1:])
        own_work = max((i for i, name in enumerate(called) if name in TRACER), default=-1)
        for name in set(called[own_work + 2 if own_work >= 0 else 0:]):
            self.sure[span.reason, name] += 1

    def unseen_ns(self, reason):
        """Of what is covered, the time that a timer's samples do not stand for."""
        return max(0, self.covered_ns[reason] - self.all[reason] * max(self.periods))

    def interval(self, fewest, most, reason):
        """Of samples of a reason: where those without a sample are other code's, where they are all code's alike."""
        covered, seen = self.covered_ns[reason], self.all[reason]
        of = seen * covered / (covered - self.unseen_ns(reason))
        return wilson(fewest, of, covered)[0], wilson(most, seen, covered)[1]


def check_rows(want, report):
    got = report["kernel_samples"]
    have = {"kernel": got["in_exits"]["kernel"], "other_parts": got["in_exits"]["other_parts"],
            "outside_exits": got["outside_exits"], "other_threads": got["other_threads"]}
    for name, number in have.items():
        if number != want.where[name]:
            yield f"samples of {name}: trapline {number}, oracle {want.where[name]}"
    rows = {(row["reason"], row["function"]): row for row in got["rows"] if row["function"] != "not sampled"}
    for key in sorted({*rows, *want.total}):
        row = rows.get(key, {"samples": 0, "total_samples": 0})
        if (row["samples"], row["total_samples"]) != (want.own[key], want.total[key]):
            yield f"{key}: trapline {row['samples']}, {row['total_samples']}, oracle {want.own[key]}, {want.total[key]}"
            continue
        for prefix, number in (("", want.own[key]), ("total_", want.total[key])):
            low, high = want.interval(number, number, key[0])
            ns = (want.covered_ns[key[0]] - want.unseen_ns(key[0])) * number / want.all[key[0]]
            if any(abs(row[prefix + name] - figure) > 2 for name, figure in (("low_ns", low), ("ns", ns), ("high_ns", high))):
                yield (f"{key}: {prefix}time {row[prefix + 'low_ns']}, {row[prefix + 'ns']}, {row[prefix + 'high_ns']}, "
                       f"oracle {low}, {ns}, {high}")
    unsampled = {row["reason"]: row["ns"] for row in got["rows"] if row["function"] == "not sampled"}
    want_unsampled = {reason: ns - (want.covered_ns[reason] - want.unseen_ns(reason) if want.all[reason] else 0)
                      for reason, ns in want.kernel_ns.items()}
    want_unsampled = {reason: ns for reason, ns in want_unsampled.items() if ns}
    if unsampled != want_unsampled:
        yield f"not sampled: trapline {unsampled}, oracle {want_unsampled}"
    if got["total_ns"] != sum(want.kernel_ns.values()):
        yield f"the kernel's time: trapline {got['total_ns']}, oracle {sum(want.kernel_ns.values())}"


def check_folded(text, want):
    sums = collections.Counter()
    for line in text.splitlines():
        stack, _, ns = line.rpartition(" ")
        sums[stack.split(";")[0]] += int(ns)
    if +sums != +want.kernel_ns:
        yield f"folded stacks sum to {dict(sums)}, the kernel's parts are {dict(want.kernel_ns)}"


def check_units(trapline, trace, perf):
    """As if the same had been sampled by cycles too."""
    with open(perf, "rb") as file:
        data = bytearray(file.read())
    size, attrs = struct.unpack_from("<Q8xQ", data, 8)  # of the file's header: where its attrs begin
    attr = 24 if size == 16 else attrs  # of a pipe: in its first record
    struct.pack_into("<I", data, attr, 0)  # PERF_TYPE_HARDWARE, of which 0 is cycles
    with tempfile.NamedTemporaryFile(suffix=".perf.data") as other:
        other.write(data)
        other.flush()
        for asked, refused in (["--kernel-samples"], "do not stand for the same time"), ([], "hold the same run"):
            done = subprocess.run([trapline, "report", trace, perf, other.name, *asked],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 2 or refused not in done.stderr:
                yield f"samples by two units {asked}: status {done.returncode}: {done.stderr}"


class Traced:
    """By events: of each sub-part and function the samples, and the least and most time with interrupts on."""

    def __init__(self, trace, want):
        states = [found[1] in "dD" for line in oracle.report_lines(trace, "-l") if (found := STATE.match(line))]
        assert len(states) == len(want.events), f"{len(states)} lines with flags, {len(want.events)} events"
        self.changes = collections.defaultdict(lambda: ([], []))  # by thread: when, and whether off
        for event, off in zip(want.events, states, strict=True):
            times, offs = self.changes[event.tid]
            times.append(event.at)
            offs.append(off)
        self.parts = collections.defaultdict(lambda: [0, 0, 0])  # by reason and sub-part
        self.functions = collections.defaultdict(lambda: [0, 0])  # with callees
        of_exits = kernel_oracle.exits_events(want.events, want.holes)
        functions = kernel_oracle.functions_of(want.events, want.holes)
        for spans in want.spans.values():
            for span in spans:
                self.add(span, kernel_oracle.shares(span, of_exits.get((span.tid, span.end), []), functions), want)

    def on_ns(self, tid, begin, end):
        """The least that interrupts were on in that time."""
        times, offs = self.changes[tid]
        least, at = 0, begin
        place = bisect.bisect(times, begin) - 1
        while at < end:
            until = min(times[place + 1] if place + 1 < len(times) else end, end)
            if place >= 0 and place + 1 < len(times) and not offs[place] and not offs[place + 1]:
                least += until - at
            place, at = place + 1, until
        return least

    def add(self, span, pieces, want):
        taken, part = sorted(want.taken.get(span, [])), kernel_oracle.UNTRACED
        for what, begin, end, calls in pieces:
            least, most = 0, end - begin
            if not any(depth is None and name in OF_TIMER for depth, name in calls):
                part = what
                least = self.on_ns(span.tid, begin, end)
            row = self.parts[span.reason, part]
            row[1], row[2] = row[1] + least, row[2] + most
            names = [name for depth, name in calls if depth is not None]
            for i, name in enumerate(dict.fromkeys(names)):
                is_caller = i + 1 == len(names) or (name, names[i + 1]) in want.calls
                total = self.functions[span.reason, name]
                total[0], total[1] = total[0] + (least if is_caller else 0), total[1] + most
            # What a timer interrupted is before its handler.
            self.parts[span.reason, part][0] += bisect.bisect_left(taken, end) - bisect.bisect_left(taken, begin)


def check_traced(traced, want):
    """How many sub-parts and functions there are to compare, and those that disagree."""
    compared, outside = 0, []
    rows = [(key, number, number, on) for key, (number, *on) in traced.parts.items()]
    rows += [((reason, f"{name}() with callees"), want.sure[reason, name], want.total[reason, name], on)
             for (reason, name), on in traced.functions.items()]
    for (reason, what), fewest, most, on in sorted(rows):
        if most < LEAST:
            continue
        compared += 1
        low, high = want.interval(fewest, most, reason)
        if not overlaps((low, high), on):
            outside.append(f"{reason}: {what}: {on[0]}..{on[1]} ns by events, {low:.0f}..{high:.0f} by samples")
    return compared, outside


def main():
    trapline, trace, perf = sys.argv[1:]
    if not shutil.which("perf"):
        print("skipped: needs perf (package linux-perf)")
        return 77
    report = json.loads(run(trapline, "report", trace, perf, "--kernel-samples", "--format", "json"))
    want = Expected(trace, perf)
    wrong = [*check_rows(want, report),
             *check_units(trapline, trace, perf),
             *check_folded(run(trapline, "export", trace, perf, "--format", "folded", "--kernel-samples", "-o", "-"), want)]
    if len(want.periods) != 1:
        wrong.append(f"this is for one period of all samples, not {want.periods}")
    compared, outside = check_traced(Traced(trace, want), want)
    print(f"{perf}: {dict(want.where)}; {len(report['kernel_samples']['rows'])} rows; of {compared} sub-parts and functions "
          f"{compared - len(outside)} have their time with interrupts on in the samples' interval")
    for line in outside:
        print(f"  {line}")
    if compared < 5 or len(outside) > compared / 10:
        wrong.append(f"samples and events disagree: {len(outside)} of {compared}")
    if want.where["kernel"] < 100:
        wrong.append(f"only {want.where['kernel']} samples in exits: too few to hold anything to")
    for line in wrong:
        print(f"{perf}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
