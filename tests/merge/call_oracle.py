#!/usr/bin/env python3
"""Own times of guest functions, computed a second time from the text of trace-cmd.

  call_oracle.py TRAPLINE SESSION

SESSION has its guest calls in trace_marker. docs/formats/report.md, "Calls", has the rules.
"""
import collections
import re
import sys

import recording
import tables

CALL = re.compile(r"^(?:\S+: )?trapline: ([EX]) cpu\d+ d=(\d+) 0x[0-9a-f]+ (.*)$")
QEMU = re.compile(r"^(?:\S+: )?([a-z]\w*) .*?(?:name '([^']*)')?$")
PARTS = ("guest", "user", "preempted", "blocked")


class Thread:
    def __init__(self):
        self.frames, self.where, self.mark = [], None, 0
        self.pieces = []  # since the last record: (event before, event after, ns on the CPU)
        self.before, self.on_cpu = "record", 0

    def account(self, now, functions):
        ns = now - self.mark
        self.mark = now
        if self.where == "cpu":
            self.on_cpu += ns
        elif self.where and self.frames:
            functions[self.frames[-1]][self.where] += ns

    def piece(self, kind):
        self.pieces.append((self.before, kind, self.on_cpu))
        self.before, self.on_cpu = kind, 0

    def record(self, now, functions):
        """A call or a return: what lies before it is the innermost function's."""
        self.account(now, functions)
        self.piece("record")
        # An access: from W to the last D after it, or from the first D to R; not where D lies between.
        kinds = "".join({"write": "W", "read": "R", "device": "D", "record": "."}[after]
                        for _, after, _ in self.pieces)
        device = 0
        for match in re.finditer(r"WD+(?=[W.])|(?:^|(?<=R))D+R", kinds):
            device += sum(ns for _, _, ns in self.pieces[match.start() + 1:match.end()])
        most = sum(ns for before, after, ns in self.pieces
                   if before in ("write", "device") or after in ("read", "device"))
        if self.frames:
            times = functions[self.frames[-1]]
            times["guest"] += sum(ns for _, _, ns in self.pieces) - device
            times["user"] += device
            times["most"] += most
            times["events"] += len(self.pieces) - 1
        self.pieces, self.before, self.where = [], "record", "cpu"


def truth(path):
    functions = collections.defaultdict(collections.Counter)
    threads = {}
    now = 0
    for event in recording.read(path)[0]:
        tid, now, name, rest = event.tid, event.at, event.name, event.text
        if name == "sched_switch":
            words = re.search(r"prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+)", rest)
            prev, state, following = int(words[1]), words[2], int(words[3])
            if prev in threads:
                threads[prev].account(now, functions)
                threads[prev].where = "preempted" if state.startswith("R") else "blocked"
            if following in threads:
                threads[following].account(now, functions)
                threads[following].where = "cpu"
        elif name in ("sched_waking", "sched_wakeup"):
            woken = threads.get(int(re.search(r"\bpid=(\d+)", rest)[1]))
            if woken and woken.where == "blocked":
                woken.account(now, functions)
                woken.where = "preempted"
        elif name == "print":
            call = CALL.match(rest)
            if call:
                thread = threads.setdefault(tid, Thread())
                thread.record(now, functions)
                del thread.frames[int(call[2]):]
                if call[1] == "E":
                    thread.frames.append(call[3])
                    functions[call[3]]["calls"] += 1
                continue
            event = QEMU.match(rest)
            thread = threads.get(tid)
            if not event or not thread or "trapline:" in rest:
                continue
            thread.account(now, functions)
            thread.where = "cpu"
            thread.piece({"memory_region_ops_write": "write", "memory_region_ops_read": "read"}.get(
                event[1], "device"))
    for thread in threads.values():
        if thread.frames:
            thread.record(now, functions)
    return functions


def main():
    trapline, session = sys.argv[1:]
    report = tables.of(trapline, "report", session)
    functions = truth(session + "/trace.dat")
    told = {row["name"]: row for row in report["guest_functions"]["rows"]}
    wrong = [name for name in functions.keys() ^ told.keys()]
    for name in functions.keys() & told.keys():
        true, row = functions[name], told[name]
        expected = [true["calls"], true["events"], true["most"], *(true[part] for part in PARTS)]
        printed = [row["calls"], row["qemu_events"], row["devices_at_most_ns"],
                   *(row[part + "_ns"] for part in PARTS)]
        if expected != printed:
            wrong.append(f"{name}: calls, events, at most, {', '.join(PARTS)}: "
                         f"computed {expected}, printed {printed}")
    print("\n".join(wrong))
    total = sum(sum(true[part] for part in PARTS) for true in functions.values())
    rows = sum(row["total_ns"] for row in report["groups"]["rows"])
    print(f"{len(functions)} functions, {total} ns; rows {rows} ns; {len(wrong)} differ")
    return bool(wrong) or len(functions) < 4 or rows != total


if __name__ == "__main__":
    sys.exit(main())
