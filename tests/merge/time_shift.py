#!/usr/bin/env python3
"""Files with the options that move times, against trace-cmd's own stamps of the same files.

  time_shift.py TRAPLINE RECORDING OF-TWO-CPUS HOST GUEST

RECORDING is a trace.dat of version 6, OF-TWO-CPUS one of two CPUs. Copies of them get the options TIME_SHIFT (as `trace-cmd record -A`
writes into a guest's file), TSC2NSEC and OFFSET; every kvm_exit and kvm_entry that Trapline shows has to stand
where trace-cmd report has it. HOST and GUEST are a real pair of one kernel: the guest's events have to
stand where trace-cmd has them, beside the same events of the host.
"""
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import tables

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from recompress import converted  # noqa: E402
from ring_page import areas  # noqa: E402

OPTIONS, FLYRECORD = b"options  \0", b"flyrecord\0"
OFFSET, TRACE_ID, TIME_SHIFT, TSC2NSEC = 7, 11, 12, 14
INTERPOLATE = 1
PAGE = 4096
SECOND = 10**9


def with_options(data, added):
    """The version 6 file `data` with further options [(id, bytes)]."""
    start = at = data.index(OPTIONS) + len(OPTIONS)
    while True:
        number, = struct.unpack_from("<H", data, at)
        if number == 0:
            break
        at += 6 + struct.unpack_from("<I", data, at + 2)[0]
    body = data[start:at] + b"".join(struct.pack("<HI", number, len(option)) + option
                                     for number, option in added)
    table = data.index(FLYRECORD, at) + len(FLYRECORD)
    between = data[at:table]
    out, of_cpus = data[:start] + body + between, areas(data)
    place = -(-(len(out) + 16 * len(of_cpus)) // PAGE) * PAGE
    entries, pages = b"", b""
    for offset, size in of_cpus:
        entries += struct.pack("<QQ", place + len(pages), size)
        pages += data[offset:offset + size]
        pages += bytes(-len(pages) % PAGE)
    return (out + entries).ljust(place, b"\0") + pages


def shift(*cpus, flags=0, fractions=True):
    """TIME_SHIFT of CPUs with samples [(time, offset, scaling, fraction)]."""
    body = struct.pack("<QII", 0x1234567, flags, len(cpus))
    for samples in cpus:
        body += struct.pack("<I", len(samples))
        for column in range(3):
            body += b"".join(struct.pack("<q", sample[column]) for sample in samples)
    if fractions:
        body += b"".join(struct.pack("<q", sample[3]) for samples in cpus for sample in samples)
    return TIME_SHIFT, body


def trace_cmd_stamps(*command):
    text = subprocess.run(["trace-cmd", "report", "-t", "-N", *command], check=True, text=True,
                          capture_output=True, errors="replace").stdout
    return [match[1] for match in re.finditer(r"\s(\d+\.\d+): kvm_(?:exit|entry): ", text)]


def trapline_stamps(trapline, *files):
    text = subprocess.run([trapline, "timeline", *files], check=True, text=True,
                          capture_output=True).stdout
    return [match[1] for match in re.finditer(r"^(\d+\.\d+)  .{16}\s*(?:exit|entry)\b", text, re.M)]


def as_ns(stamp):
    seconds, fraction = stamp.split(".")
    return int(seconds) * SECOND + int(fraction.ljust(9, "0"))


def switches(*command):
    """{time: text} of the sched_switch lines."""
    text = subprocess.run(command, check=True, text=True, capture_output=True,
                          errors="replace").stdout
    found = re.findall(r"(\d+\.\d{9})[: ].*sched_switch:? +(prev_comm=.*?) *$", text, re.M)
    return {as_ns(stamp): event for stamp, event in found}


def check_pair(trapline, host, guest):
    """Returns how many checks failed."""
    in_host = switches("trace-cmd", "report", "-t", "-N", host)
    in_guest = switches("trace-cmd", "report", "-t", "-N", guest)
    merged = switches(trapline, "timeline", host, guest)
    missing = [at for at, event in in_guest.items() if merged.get(at) != event]
    print(f"pair: {len(in_guest)} events of the guest, {len(in_host)} of the host, "
          f"{len(missing)} not where trace-cmd has them")
    # Where both have three events in a row, so far apart from each other: how far the shift is off.
    guest_times, host_times, place = sorted(in_guest), sorted(in_host), {}
    for at in zip(host_times, host_times[1:], host_times[2:]):
        place.setdefault(tuple(in_host[one] for one in at), []).append(at)
    apart = []
    for at in zip(guest_times, guest_times[1:], guest_times[2:]):
        for other in place.get(tuple(in_guest[one] for one in at), []):
            if all(abs((at[i] - at[0]) - (other[i] - other[0])) < 100_000 for i in (1, 2)):
                apart.append(abs(at[0] - other[0]))
    print(f"pair: {len(apart)} places in both, {min(apart, default=0) / 1000:.0f} to "
          f"{max(apart, default=0) / 1000:.0f} µs apart")
    # By their own clocks, local and mono, they would be 48 ms apart.
    return (len(missing) != 0) + (len(in_guest) < 100) + (len(apart) < 50 or max(apart) > 2_000_000)


def check_unknown_error(trapline, recording):
    """What nobody knows of a clock is no 0 in the report."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other.dat"
        other.write_bytes(Path(recording).read_bytes())
        sources = tables.of(trapline, "report", recording, other, "--offset", f"{other}=5000")["sources"]
    errors = [source["error_ns"] for source in sources["rows"]]
    print(f"errors with --offset: {errors}")
    return errors != [0, None]


def cases_of(first, last):
    """{name: options} for a recording of one CPU whose counts are in between."""
    middle = (first + last) // 2
    tsc2nsec = TSC2NSEC, struct.pack("<IIQ", 735842807, 31, 0)  # of a TSC of 2.92 GHz
    return {
        "no option": [],
        "one sample": [shift([(first, 5 * SECOND + 7, 1, 0)])],
        "two samples, the first counts": [shift([(first, -1001, 1, 0), (last, 5000, 1, 0)])],
        "two samples, interpolated": [
            shift([(first, 1000, 1, 0), (last, 900_001_000, 1, 0)], flags=INTERPOLATE)],
        "four samples": [
            shift([(first - 10, 1000, 1, 0), (first + 1000, 2000, 1, 0), (middle, -9000, 1, 0),
                   (last, 77_000, 1, 0)])],
        "four samples, interpolated": [
            shift([(first - 10, 1000, 1, 0), (first + 1000, 2000, 1, 0), (middle, 9000, 1, 0),
                   (last - 1000, 77_000, 1, 0)], flags=INTERPOLATE)],
        "scaled": [shift([(first, 3 * SECOND, 3 << 20, 21), (last, 3 * SECOND, 3 << 20, 21)])],
        "without fractions": [shift([(first, 40, 1, 0), (last, 40, 1, 0)], fractions=False)],
        "offset": [(OFFSET, b"12345678\0")],
        "shift and offset": [shift([(first, 5 * SECOND, 1, 0)]), (OFFSET, b"-1000\0")],
        "TSC2NSEC": [tsc2nsec],
        "a shift and TSC2NSEC": [tsc2nsec, shift([(first, 5 * SECOND, 1, 0), (last, 5 * SECOND, 1, 0)])],
        "samples, interpolated, and TSC2NSEC": [
            shift([(first, 1000, 1, 0), (middle, -9000, 1, 0), (last, 77_000, 1, 0)], flags=INTERPOLATE), tsc2nsec],
    }


def cases_of_two_cpus(first, last):
    tsc2nsec = TSC2NSEC, struct.pack("<IIQ", 735842807, 31, 0)
    steps = [(first, 1000, 1, 0), (last, 1000, 1, 0)]
    slope = [(first, -9000, 1, 0), ((first + last) // 2, 5000, 1, 0), (last, 77_000_000, 1, 0)]
    return {
        "each CPU has its own": [shift(steps, [(first, 3_000_000, 1, 0), (last, 3_000_000, 1, 0)])],
        "each CPU has its own samples": [shift(steps, slope, flags=INTERPOLATE)],
        "each CPU has its own samples, and TSC2NSEC": [tsc2nsec, shift(slope, steps, flags=INTERPOLATE)],
    }


def check_cases(trapline, data, cases):
    """`cases` makes {name: options} of the first and the last count. Returns how many checks failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "guest.dat"
        path.write_bytes(data)
        plain = trace_cmd_stamps(str(path))
        assert len(plain) > 5000, len(plain)
        for name, options in cases(as_ns(plain[0]), as_ns(plain[-1])).items():
            path.write_bytes(with_options(data, options))
            expected, actual = trace_cmd_stamps(str(path)), trapline_stamps(trapline, str(path))
            moved = sum(a != b for a, b in zip(expected, plain))
            if actual != expected or len(actual) != len(plain) or (options and moved == 0):
                failed += 1
                wrong = next((pair for pair in zip(expected, actual) if pair[0] != pair[1]), None)
                print(f"FAILED {name}: {len(expected)} stamps expected, {len(actual)} printed; "
                      f"expected and printed first {wrong}")
            else:
                print(f"{name}: {len(actual)} stamps, {moved} moved")
    return failed


def main():
    trapline, recording, of_two_cpus, host, guest = sys.argv[1:]
    failed = check_pair(trapline, host, guest) + check_unknown_error(trapline, recording)
    failed += check_cases(trapline, Path(recording).read_bytes(), cases_of)
    failed += check_cases(trapline, converted(of_two_cpus), cases_of_two_cpus)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
