"""Checks where a guest's times are put on its host's clock, by a third clock that saw both.

usage: guest_clock.py TRAPLINE FOLDER GUEST [WAY...] [--shift NS]

FOLDER (README.md) has host.dat, GUEST (guest.dat or uftrace.data), sync.txt with what
`trapline sync` printed in the guest, and truth.txt. Host and guest ran inside an emulator whose plugin
stamped the magic no-ops of both machines: truth.txt has lines "STAMP RECORD" (docs/formats/sync.md). So
the host's clock is known at each no-op of the guest, without anything that trapline is shown here. Asks
trapline for the guest's events on the host's clock and holds the map against that, to within the error
that the report prints and that of the truth.

WAY: trapline is shown the series of this way only (noop port mmio ptp marker), and without the TSC but
for noop, whose readings of the TSC are all that relates then. Without WAY it is shown all.
--shift adds to the truth, to show that a wrong relation does not pass.
"""
import bisect
import os
import re
import subprocess
import sys
import tempfile

import tables

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from guest_brackets import narrowest  # noqa: E402

SHOWN = re.compile(r"^ *(\d+)\.(\d{9}) ")


def brackets(path: str, series_of_guest: set[int]) -> tuple[list, list]:
    """(stamp, low, high) of the host's no-ops and of the guest's: the narrowest of each series."""
    best = narrowest(path)
    host = [b for series, b in best.items() if series not in series_of_guest]
    guest = [b for series, b in best.items() if series in series_of_guest]
    # Series with an action in each bracket are wide.
    narrow = 4 * min(high - low for _, low, high in host)
    return sorted(b for b in host if b[2] - b[1] <= narrow), sorted(guest)


def between(points: list[tuple[int, float]], x: int) -> float:
    """On the line through the two points around x."""
    right = min(max(bisect.bisect(points, (x, 0)), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (x - x0) * (y1 - y0) / (x1 - x0)


def own_clock(guest: str) -> list[tuple[int, float, float]]:
    """(mono, the clock of the guest's recording, error), where trace-cmd shows markers between two
    readings of mono; nothing for uftrace, which is on mono."""
    if not guest.endswith(".dat"):
        return []
    text = subprocess.run(["trace-cmd", "report", "-t", "-N", "-i", guest], check=True,
                          capture_output=True, text=True).stdout
    stamps: dict[tuple[int, int], int] = {}
    readings: dict[tuple[int, int], str] = {}
    for match in re.finditer(r"(\d+)\.(\d{9}): .*trapline: guest 1 (\d+) (\d+) (.*)", text):
        key = (int(match[3]), int(match[4]))
        if match[5].strip() == "marker":
            stamps[key] = int(match[1]) * 10**9 + int(match[2])
        else:
            readings[key] = match[5]
    best: dict[int, tuple[int, int, int]] = {}
    for (series, index), stamp in stamps.items():
        before = re.search(r"before mono=(\d+)", readings[series, index])
        after = re.search(r"after mono=(\d+)", readings[series, index + 1])
        low, high = int(before[1]), int(after[1])
        if series not in best or high - low < best[series][2] - best[series][1]:
            best[series] = (stamp, low, high)
    return sorted(((low + high) // 2, float(stamp), (high - low) / 2) for stamp, low, high in best.values())


def truth(path: str, series: set[int]) -> list[tuple[int, float, float]]:
    """(guest's time, host's, error) of the guest's no-ops."""
    host, guest = brackets(path, series)
    middles = [(stamp, (low + high) / 2) for stamp, low, high in host]
    # How far a middle is from the line through its neighbours, and half the widest bracket.
    error = max(abs(between(middles[:i] + middles[i + 1:], middles[i][0]) - middles[i][1])
                for i in range(1, len(middles) - 1)) + max(h - l for _, l, h in host) / 2
    narrow = 4 * min(high - low for _, low, high in guest)
    return [((low + high) // 2, between(middles, stamp), error + (high - low) / 2)
            for stamp, low, high in guest
            if high - low <= narrow and middles[0][0] < stamp < middles[-1][0]]


def times(pattern: str, *command: str) -> list[int]:
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(match[1]) * 10**9 + int(match[2]) for match in re.finditer(pattern, text, re.M)]


def placed_times(trapline: str, host: str, guest: str, syncs: list[str]) -> list[tuple[int, int]]:
    """The guest's own times, by trace-cmd or uftrace, and where trapline puts them."""
    if guest.endswith(".dat"):
        own = times(r"(\d+)\.(\d{9}): +sched_switch:", "trace-cmd", "report", "-t", "-N", "-i", guest)
        what = "sched_switch "
    else:
        own = times(r"^ *(\d+)\.(\d{9}) +\d+: \[(?:entry|exit )\]", "uftrace", "dump", "--no-pager",
                    "-d", guest)
        what = "(?:call (?!linux:)|return from (?!linux:))"
    shown = times(rf"^ *(\d+)\.(\d{{9}})  .{{16}} *{what}", trapline, "timeline", host, guest, *syncs)
    assert len(own) == len(shown), f"{len(own)} of the guest's own times, {len(shown)} on the timeline"
    return list(zip(sorted(own), shown))


def shown_lines(text: str, ways: list[str]) -> list[str]:
    """A series' way is its number modulo 8."""
    if not ways:
        return text.splitlines(keepends=True)
    numbers = {["noop", "port", "mmio", "ptp", "marker"].index(way) for way in ways}
    lines = [line for line in text.splitlines(keepends=True) if int(line.split()[3]) % 8 in numbers]
    return lines if "noop" in ways else [re.sub(r" tsc=\d+", "", line) for line in lines]


def main() -> None:
    args = sys.argv[1:]
    shift = 0
    if "--shift" in args:
        at = args.index("--shift")
        shift = int(args[at + 1])
        del args[at:at + 2]
    trapline, folder, guest_name, *ways = args
    host, guest = f"{folder}/host.dat", f"{folder}/{guest_name}"
    sync_text = open(f"{folder}/sync.txt", encoding="utf-8").read()
    series = {int(match[1]) for match in re.finditer(r"guest 1 (\d+) ", sync_text)}
    points = truth(f"{folder}/truth.txt", series)
    assert points, "no no-op of the guest between two of the host"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as sync:
        sync.write("".join(shown_lines(sync_text, ways)))
        sync.flush()
        check(trapline, host, guest, [sync.name], points, shift)


def check(trapline: str, host: str, guest: str, syncs: list[str],
          points: list[tuple[int, float, float]], shift: int) -> None:
    source = tables.of(trapline, "report", host, guest, *syncs)["sources"]["rows"][1]
    placed = placed_times(trapline, host, guest, syncs)
    clock = own_clock(guest)
    if clock:  # on its recording's clock instead of on mono
        line = [(mono, own) for mono, own, _ in clock]
        points = [(round(between(line, at)), host_at, error + max(c[2] for c in clock))
                  for at, host_at, error in points]
    ends = [placed[0], placed[-1]]  # the map is a line
    outside = 0
    worst = 0.0
    for at, host_at, error in points:
        apart = abs(between(ends, at) - host_at - shift)
        worst = max(worst, apart)
        if apart > source["error_ns"] + error:
            outside += 1
            if shift == 0:
                print(f"at {at}: {apart:.0f} ns apart, truth ± {error:.0f}", file=sys.stderr)
    print(f"checked={len(points)} outside={outside} worst_ns={worst:.0f} error_ns={source['error_ns']} "
          f"truth_ns={max(p[2] for p in points):.0f}")
    print(source["method"])
    if outside:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
