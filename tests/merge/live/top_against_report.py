"""Holds the figures of `trapline top --batch` to those of `trapline report`.

usage: top_against_report.py TRAPLINE RECORDING [--interval TIME] [--by LIST] [--lines FILE]

With --lines: what top printed, by the same LIST, while the recording was made. The intervals together are the recording: per row the exits, their parts and the longest; per vCPU its
exits, guest time and parts. Each interval alone, without the exits that began before it, is what the
report says of that part of the recording: counts, parts, and where nothing began before, percentiles. In a recording without kvm_exit an exit is
handed out by the next event of its thread: of each vCPU one may count in the next interval.
"""
import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tables  # noqa: E402
from states import MOST_POLLED, STATES, top_differences  # noqa: E402

PARTS = ("kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")
PERCENTILES = ("min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
MINUTE, UNDECIDED = 60_000_000_000, 100_000  # a stall may go on for as long
MOST_PARTS = 8  # intervals that are reported alone: a report is a pass over all of it

parser = argparse.ArgumentParser()
parser.add_argument("trapline")
parser.add_argument("recording")
parser.add_argument("--interval", default="500ms")
parser.add_argument("--by", default="reason,device")
parser.add_argument("--lines")
options = parser.parse_args()
failures = 0


def check(what: str, top: object, report: object) -> None:
    global failures
    if top != report:
        failures += 1
        print(f"{what}: top {top}, report {report}")


if options.lines:
    with open(options.lines, encoding="utf-8") as file:
        printed = file.read()
else:
    printed = tables.output(options.trapline, "top", "--batch", "--interval", options.interval, "--by", options.by, options.recording)
documents = list(map(json.loads, printed.splitlines()))
frames = [frame["head"] | frame["head"]["interval"] | frame["tables"] for frame in documents]
report = tables.document(options.trapline, "report", "--by", options.by, options.recording)
whole, vcpus = report["tables"], report["tables"]["vcpus"]["rows"]
groups = tables.by_key(whole)
if not frames or not groups:
    sys.exit(f"{options.recording}: nothing to compare")

for before, after in zip(frames, frames[1:]):
    check("an interval begins where the last one ended", after["start_ns"], before["end_ns"])
check("exits that were not told apart", sum(frame["groups"]["exits_folded"] for frame in frames), 0)
sums: dict[str, Counter] = {}
for frame in frames:
    for row in frame["groups"]["rows"]:
        into = sums.setdefault(row["key"], Counter())
        for name in ("count", "total_ns", *PARTS):
            into[name] += row[name] or 0
        into["max_ns"] = max(into["max_ns"], row["max_ns"])
check("rows", sorted(sums), sorted(groups))
for key, row in groups.items():
    for name in ("count", "total_ns", "max_ns", *PARTS):
        check(f"{key} {name}", sums.get(key, Counter())[name], row[name] or 0)

for difference in top_differences(report, documents):
    check(*difference)
for vcpu in vcpus:
    of = [mine for frame in frames for mine in frame["vcpus"]["rows"] if mine["tid"] == vcpu["tid"]]
    check(f"tid {vcpu['tid']} exits", sum(mine["exits"] for mine in of), vcpu["exits"])
    for one in of:
        frame = next(frame for frame in frames if one in frame["vcpus"]["rows"])
        length = frame["end_ns"] - frame["start_ns"]
        if sum(one[f"{state}_ns"] or 0 for state in STATES[:-1]) > length + MOST_POLLED:
            check(f"tid {vcpu['tid']} time in an interval of", one, length)

# The longest stall of the last minute, of those that ended: of vCPUs, where no whole VM's stands for them.
_, stalls, _ = tables.asked(options.trapline, "stalls", "--top", "0", options.recording)
found = stalls["tables"]["stalls"]["rows"] if stalls else []
if all(stall["vcpus"] is None for stall in found):
    for frame in frames[:-1]:
        end, stall = frame["end_ns"], next(iter(frame["longest_stall"]["rows"]), None)
        ended = [one["ns"] for one in found if end - MINUTE <= one["begin_ns"] + one["ns"] < end - UNDECIDED]
        if stall is None or not stall["open"]:
            check(f"{frame['start_ns']} longest stall", (stall or {"ns": 0})["ns"] >= max(ended, default=0), True)
        if stall is not None and not stall["open"]:
            check(f"{frame['start_ns']} is a stall", stall["ns"] in [one["ns"] for one in found], True)

compared = 0
handed_out_late = len(vcpus) if all(key.startswith("KVM_EXIT") for key in sums) else 0
for frame in frames[:: max(1, len(frames) // MOST_PARTS)]:
    _, part, _ = tables.asked(options.trapline, "report", "--by", options.by, *tables.window(frame["start_ns"], frame["end_ns"] - 1),
                              options.recording)
    rows = tables.by_key(part["tables"]) if part else {}
    for row in frame["groups"]["rows"]:
        alone = rows.get(row["key"], Counter())
        name = f"{frame['start_ns']} {row['key']}"
        if 0 < abs(row["count"] - row["carried"] - alone["count"]) <= handed_out_late:
            continue
        check(f"{name} count", row["count"] - row["carried"], alone["count"])
        check(f"{name} total_ns", row["total_ns"] - row["carried_ns"], alone["total_ns"])
        if row["carried"] == 0:
            for column in (*PARTS, *PERCENTILES):
                check(f"{name} {column}", row[column], alone[column])
            compared += 1
    check(f"{frame['start_ns']} rows that top lacks", sorted(set(rows) - {row["key"] for row in frame["groups"]["rows"]}), [])
print(f"{len(frames)} intervals, {len(sums)} rows; {compared} rows of intervals alone; {failures} differences")
sys.exit(failures != 0 or compared == 0)
