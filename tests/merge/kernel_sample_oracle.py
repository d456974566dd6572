#!/usr/bin/env python3
"""The kernel's time in exits by perf's samples, once more from the text of `perf script` and `trace-cmd report`.

  kernel_sample_oracle.py TRAPLINE TRACE.DAT PERF.DATA

- each sample's exit, part and functions: `report --kernel-samples` has the same samples in every row
- its intervals are Wilson's, computed here a second time
- `export --format folded --kernel-samples` sums to the exits' kernel part
- with functions in TRACE.DAT: for nine in ten of those that both know, the time that function_graph has lies in the
  samples' interval; samples in function_graph's own work right inside a function may be its, or its caller's
"""
import bisect
import collections
import json
import math
import re
import shutil
import subprocess
import sys

import oracle

KERNEL = 1 << 63
# What function_graph does when a function is entered, or left: its events lie somewhere in between.
TRACER = ("trace_graph_entry", "trace_graph_return", "function_graph_enter", "function_graph_enter_regs", "graph_entry",
          "ftrace_graph_func", "prepare_ftrace_return", "ftrace_caller", "ftrace_regs_caller", "return_to_handler",
          "ftrace_return_to_handler", "ftrace_trampoline")
Z = 1.959963984540054
SAMPLE = re.compile(r"^\s*(\d+)\s+(?:\[\d+\]\s+)?(\d+)\.(\d{9}):")


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
    """(thread, ns, kernel addresses, the innermost first)"""
    taken = None
    for line in run("perf", "script", "--ns", "-F", "tid,cpu,time,ip", "-i", path).splitlines() + [""]:
        head = SAMPLE.match(line)
        if head:
            taken = (int(head[1]), int(head[2] + head[3]), [])
        elif line.strip() and taken:
            address = int(line.split()[0], 16)
            if address & KERNEL:
                taken[2].append(address)
        elif taken:
            yield taken
            taken = None


def wilson(n, of, ns):
    p = n / of
    middle, reach = p + Z * Z / (2 * of), Z * math.sqrt(p * (1 - p) / of + Z * Z / (4 * of * of))
    return [ns * min(max((middle + side * reach) / (1 + Z * Z / of), 0), 1) for side in (-1, 1)]


class Expected:
    def __init__(self, trace, perf):
        self.starts, self.names = symbols(trace)
        model = oracle.Model(*oracle.read(trace)).run()
        self.spans = collections.defaultdict(list)
        self.kernel_ns = collections.Counter()
        for span in model.spans:
            self.spans[span.tid].append(span)
            self.kernel_ns[span.reason] += span.parts["kernel"]
        for spans in self.spans.values():
            spans.sort(key=lambda span: span.start)
        self.own, self.total, self.all = collections.Counter(), collections.Counter(), collections.Counter()
        self.sure = collections.Counter()  # as total, but for samples in function_graph's own work right inside
        self.where = collections.Counter()
        self.sampled = set()  # spans with samples in their kernel part
        times = {}  # of each thread's first and last sample
        for tid, at, stack in samples(perf):
            times[tid] = (times.get(tid, (at,))[0], at)
            self.add(tid, at, stack)
        # Before a thread's first sample, and after its last one, nothing tells that it was sampled.
        self.covered_ns = collections.Counter()
        for tid, (first, last) in times.items():
            for span in self.spans.get(tid, ()):
                if first <= span.start and (span in self.sampled or last >= span.end):
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
        self.sampled.add(span)
        called = [self.function(address - (1 if i else 0)) for i, address in enumerate(stack)]
        self.own[span.reason, called[0]] += 1
        for name in set(called):
            self.total[span.reason, name] += 1
        own_work = max((i for i, name in enumerate(called) if name in TRACER), default=-1)
        for name in set(called[own_work + 2 if own_work >= 0 else 0:]):
            self.sure[span.reason, name] += 1


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
            low, high = wilson(number, want.all[key[0]], want.covered_ns[key[0]])
            if abs(row[prefix + "low_ns"] - low) > 2 or abs(row[prefix + "high_ns"] - high) > 2:
                yield f"{key}: {prefix}interval {row[prefix + 'low_ns']}..{row[prefix + 'high_ns']}, oracle {low}..{high}"
    unsampled = {row["reason"]: row["ns"] for row in got["rows"] if row["function"] == "not sampled"}
    want_unsampled = {reason: ns - (want.covered_ns[reason] if want.all[reason] else 0)
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


def check_functions(report, want):
    """Of functions that function_graph and samples both have: how many lie in the samples' interval."""
    compared, outside = 0, []
    for row in report["kernel"]["rows"]:
        key = row["reason"], row["part"].removesuffix("()")
        if not row["part"].endswith("()") or row["total_ns"] is None or want.total[key] < 5:
            continue
        compared += 1
        low, _ = wilson(want.sure[key], want.all[key[0]], want.kernel_ns[key[0]])
        _, high = wilson(want.total[key], want.all[key[0]], want.kernel_ns[key[0]])
        if not low <= row["total_ns"] <= high:
            outside.append(f"{row['reason']}: {row['part']}: function_graph {row['total_ns']} ns, samples {low:.0f}..{high:.0f}")
    return compared, outside


def main():
    trapline, trace, perf = sys.argv[1:]
    if not shutil.which("perf"):
        print("skipped: needs perf (package linux-perf)")
        return 77
    report = json.loads(run(trapline, "report", trace, perf, "--kernel", "--kernel-samples", "--format", "json"))
    want = Expected(trace, perf)
    wrong = [*check_rows(want, report),
             *check_folded(run(trapline, "export", trace, perf, "--format", "folded", "--kernel-samples", "-o", "-"), want)]
    compared, outside = check_functions(report, want)
    print(f"{perf}: {dict(want.where)}; {len(report['kernel_samples']['rows'])} rows; of {compared} functions "
          f"{compared - len(outside)} have function_graph's time in their interval")
    for line in outside:
        print(f"  {line}")
    if compared < 5 or len(outside) > compared / 10:
        wrong.append(f"samples and function_graph disagree: {len(outside)} of {compared} functions")
    if want.where["kernel"] < 100:
        wrong.append(f"only {want.where['kernel']} samples in exits: too few to hold anything to")
    for line in wrong:
        print(f"{perf}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
