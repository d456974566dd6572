"""Checks a session's clocks by the guest alone: every exit lies in the function that caused it.

usage: guest_alignment.py SESSION GUEST-ELF REPORT-TEXT [SHIFT-NS]

SESSION has trace.dat, uftrace.data with sync.txt; REPORT-TEXT is `trace-cmd report -N -t` of it. An
oracle: it shares nothing with trapline. It relates the clocks by the brackets in sync.txt, takes the
functions from `uftrace dump` and nm, and prints: exits checked, how many lie outside of every call
of their function by more than the error, the error in ns, the offset and the rate. SHIFT-NS is added
to the relation, to show that a wrong one does not pass.
"""
import bisect
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from guest_brackets import narrowest  # noqa: E402

EXIT = re.compile(r"(\d+)\.(\d{9}): +kvm_exit: .*? rip 0x([0-9a-f]+)")
DUMP = re.compile(r"(\d+)\.(\d{9}) +\d+: \[(entry|exit )\] (\S+)\(([0-9a-f]+)\)")


def brackets(path: str) -> list[tuple[int, int, int]]:
    """(stamp of the plugin, the box's mono before, after): of each series the narrowest, without the
    series whose action (a marker) makes all of theirs wide."""
    best = narrowest(path)
    narrow = 2 * min(high - low for _, low, high in best.values())
    return sorted(b for b in best.values() if b[2] - b[1] <= narrow)


class Relation:
    """The box's time of a stamp: between two brackets the line through their middles, outside of
    them a line of the mean rate."""

    def __init__(self, points: list[tuple[int, int, int]], shift: int) -> None:
        assert len(points) >= 2, "fewer than two brackets"
        self.stamps = [p[0] for p in points]
        self.middles = [(p[1] + p[2]) // 2 + shift for p in points]
        # Half a bracket, and how far each bracket's middle is from the line through its neighbours.
        self.error = max(p[2] - p[1] for p in points) / 2 + max(
            (abs(self.at(points[i][0], i - 1, i + 1) - self.middles[i])
             for i in range(1, len(points) - 1)), default=0)

    def at(self, stamp: int, left: int, right: int) -> float:
        span = self.stamps[right] - self.stamps[left]
        slope = (self.middles[right] - self.middles[left]) / span
        return self.middles[left] + (stamp - self.stamps[left]) * slope

    def box(self, stamp: int) -> float:
        for end in (0, -1):
            if (stamp < self.stamps[0]) if end == 0 else (stamp > self.stamps[-1]):
                rate = (self.middles[-1] - self.middles[0]) / (self.stamps[-1] - self.stamps[0])
                return self.middles[end] + (stamp - self.stamps[end]) * rate
        right = min(max(bisect.bisect(self.stamps, stamp), 1), len(self.stamps) - 1)
        return self.at(stamp, right - 1, right)


def intervals(directory: str, relation: Relation) -> dict[int, list[tuple[float, float]]]:
    text = subprocess.run(["uftrace", "dump", "--no-pager", "-d", directory], check=True,
                          capture_output=True, text=True).stdout
    open_calls: list[tuple[int, float]] = []
    calls: dict[int, list[tuple[float, float]]] = collections.defaultdict(list)
    for match in DUMP.finditer(text):
        at = relation.box(int(match[1]) * 10**9 + int(match[2]))
        if match[3] == "entry":
            open_calls.append((int(match[5], 16), at))
        else:
            function, begin = open_calls.pop()
            assert function == int(match[5], 16), "unbalanced records"
            calls[function].append((begin, at))
    return calls


def main() -> None:
    session, elf, report = sys.argv[1:4]
    shift = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    relation = Relation(brackets(session + "/uftrace.data/sync.txt"), shift)
    calls = intervals(session + "/uftrace.data", relation)
    lines = subprocess.run(["nm", "-S", elf], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in lines.splitlines()]
    symbols = [(int(f[0], 16), int(f[1], 16)) for f in fields if len(f) == 4 and f[2] in "tT"]
    checked = outside = 0
    with open(report, encoding="utf-8", errors="replace") as exits:
        for line in exits:
            match = EXIT.search(line)
            if not match:
                continue
            at, rip = int(match[1]) * 10**9 + int(match[2]), int(match[3], 16)
            owner = [start for start, size in symbols if start <= rip < start + size]
            if not owner or owner[0] not in calls:
                continue
            checked += 1
            distance = min(max(begin - at, at - end) for begin, end in calls[owner[0]])
            if distance > relation.error:
                outside += 1
                if shift == 0:
                    print(f"{distance:.0f} ns outside: {line.strip()}", file=sys.stderr)
    first, last = relation.stamps[0], relation.stamps[-1]
    rate = (relation.middles[-1] - relation.middles[0]) / (last - first) - 1
    print(f"checked={checked} outside={outside} error_ns={relation.error:.0f} "
          f"offset_ns={relation.middles[0] - first} rate_ppm={rate * 1e6:.3f}")


main()
