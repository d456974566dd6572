#!/usr/bin/env python3
"""perfetto.py TRAPLINE TRACE_PROCESSOR_FOLDER RECORDING...: exports each recording, loads it into the real
trace processor, and holds counts and sums against the report, per reason and part, to the nanosecond; the states
of the vCPUs' threads against the same parts; and each flow against what it has to connect."""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("merge", "support")]
import tables  # noqa: E402
import truth  # noqa: E402
from trace_processor import TraceProcessor  # noqa: E402

QUERIES = {
    "errors": "select name, value from stats where value > 0 and severity != 'info'",
    "about": "select min(s.ts), sum(s.ts != b.start_ts) from slice s, (select min(ts) as start_ts from "
             "(select ts from slice union all select ts from ftrace_event)) b where s.category = 'trapline' "
             "and s.name not glob '* are left out: *'",
    "facts": "select name from slice where category = 'trapline' and (name glob 'command: *' or "
             "name glob 'trapline version: *' or name glob 'QEMU version: *')",
    "categories": "select category, count(*), sum(dur), min(dur) from slice group by category",
    "begins": "select ts from slice where category = 'exit'",
    "exits": "select name, count(*), sum(dur) from slice where category = 'exit' group by name",
    "parts": "select e.name, p.name, sum(p.dur) from slice p join slice e on p.parent_id = e.id "
             "where p.category = 'part' group by e.name, p.name",
    "nesting": "select count(*) from slice c join slice p on c.parent_id = p.id "
               "where c.ts < p.ts or c.ts + c.dur > p.ts + p.dur",
    "orphans": "select count(*) from slice where category in ('part', 'qemu') and parent_id is null",
    "flows": "select count(*) from flow f left join slice a on f.slice_out = a.id "
             "left join slice b on f.slice_in = b.id where a.id is null or b.id is null",
    "machines": "select count(*) from machine",
    # Names of tracks hold the thread; a guest's own threads may have the same numbers.
    "vcpus": "create view vcpu_track as select t.id as track_id, th.utid from track t join thread th "
             "on th.tid = cast(substr(t.name, instr(t.name, 'tid ') + 4) as int) "
             "where t.name glob 'vCPU *tid *' and ifnull(th.machine_id, 0) = 0",
    "parts of threads": "create table thread_part as select s.ts, s.dur, v.utid, s.name as part from slice s "
                        "join vcpu_track v using (track_id) where s.category = 'part' and s.dur > 0",
    "states of threads": "create table known_state as select ts, dur, utid, state, waker_utid from thread_state "
                         "join (select distinct utid from vcpu_track) using (utid) where dur > 0",
    "joined": "create virtual table part_state using "
              "span_join(thread_part partitioned utid, known_state partitioned utid)",
    "states": "select part, case when state glob 'R*' and state != 'Running' then 'R' else state end, sum(dur) "
              "from part_state group by 1, 2",
    # What a flow connects.
    "kinds": "select a.category, b.category, count(*), sum(b.ts < a.ts) from flow f join slice a on f.slice_out = a.id "
             "join slice b on f.slice_in = b.id group by 1, 2",
    "served": "select count(*) from slice where category = 'exit' and "
              "(extract_arg(arg_set_id, 'debug.device') is not null or "
              "extract_arg(arg_set_id, 'debug.handler') is not null)",
    "served elsewhere": "select count(*) from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id "
                        "where b.category = 'qemu' and (a.track_id != b.track_id or b.ts + b.dur > a.ts + a.dur)",
    "requests": "select b.id, b.ts, b.dur, a.id, a.category, a.ts from slice b join flow f on f.slice_in = b.id "
                "join slice a on f.slice_out = a.id where b.category = 'request'",
    "told too early": "select count(*) from flow f join slice a on f.slice_out = a.id join slice b "
                      "on f.slice_in = b.id where b.category = 'interrupt' and b.ts < a.ts + a.dur",
    "told twice": "select count(*) - count(distinct slice_out) from flow f join slice b on f.slice_in = b.id "
                  "where b.category = 'interrupt'",
    # A wake-up leads to the part that follows a blocked or halted one, at the time and by the thread that the scheduling
    # data says; those of interrupts are of nobody.
    "woken": "select count(*) from slice p join vcpu_track v using (track_id) join slice b on b.parent_id = p.parent_id "
             "join known_state s on s.utid = v.utid and s.ts = p.ts where p.category = 'part' and "
             "b.category = 'part' and b.name in ('blocked', 'halted') and b.ts + b.dur = p.ts and s.waker_utid is not null",
    "wake-ups": "select count(*), sum(a.dur = 0 and a.ts = p.ts and b.name in ('blocked', 'halted') and s.state glob 'R*' and "
                "(a.name glob 'interrupt wakes *' or a.name glob '*-' || w.tid || ' wakes *')) "
                "from flow f join slice a on f.slice_out = a.id join slice p on f.slice_in = p.id "
                "join vcpu_track v on v.track_id = p.track_id "
                "join slice b on b.parent_id = p.parent_id and b.category = 'part' and b.ts + b.dur = p.ts "
                "join known_state s on s.utid = v.utid and s.ts = p.ts join thread w on w.utid = s.waker_utid "
                "where a.category = 'wakeup'",
    "switches": "select count(*) from sched",
    "host cpus": "select count(*), min(dur) from slice where category = 'vcpu'",
}


def refuses_cycles(trapline, recording, trace):
    done = subprocess.run([trapline, "export", recording, "--format", "perfetto", "-o", trace, "--force"],
                          capture_output=True, text=True, check=False)
    return done.returncode == 2 and "--tsc-khz" in done.stderr


def way_of_requests(rows):
    """Of each request that a flow leads to: when the exit began at which its way begins."""
    before = {row[0]: row[3:] for row in rows["requests"]}
    ways = collections.Counter()
    for request, start, length, *last in rows["requests"]:
        seen = {request}
        while last[1] == "request" and last[0] not in seen:
            seen.add(last[0])
            last = before[last[0]]
        ways[last[1], int(last[2]), int(start), int(length)] += 1
    return ways


def check_flows(rows, requests, expect):
    kinds = {(a, b): (int(count), int(back)) for a, b, count, back in rows["kinds"]}
    allowed = {("exit", "qemu"), ("exit", "request"), ("request", "request"), ("request", "interrupt"),
               ("exit", "vhost"), ("wakeup", "part")}
    expect("flows between others", set(kinds) - allowed, set())
    expect("flows back in time", sum(back for _, back in kinds.values()), 0)
    expect("exits with the handler that served them", kinds.get(("exit", "qemu"), (0, 0))[0], int(rows["served"][0][0]))
    expect("handlers outside of the exit that they served", rows["served elsewhere"][0][0], "0")
    begun = {int(start) for start, in rows["begins"]}
    expect("requests with the exit that notified of them", way_of_requests(rows),
           collections.Counter(("exit", row["notified_ns"], row["start_ns"], row["total_ns"]) for row in requests
                               if row["notified_ns"] in begun))
    expect("interrupts before the end of their request", rows["told too early"][0][0], "0")
    expect("requests that lead to several interrupts", rows["told twice"][0][0], "0")
    woken = int(rows["woken"][0][0])
    expect("wake-ups", [0 if cell == "[NULL]" else int(cell) for cell in rows["wake-ups"][0]], [woken, woken])
    return {" > ".join(kind): count for kind, (count, _) in kinds.items()}


def check_states(rows, report, expect):
    """thread_state has the times that the report says: asleep while blocked, runnable while preempted."""
    found = collections.defaultdict(dict)
    for part, state, total in rows["states"]:
        found[part][state] = int(total)
    sums = {part: sum(row[part + "_ns"] or 0 for row in report["groups"]["rows"]) for part in ("preempted", "blocked")}
    for part, state in (("preempted", "R"), ("blocked", "S")):
        expect(f"states while {part}", found[part], {state: sums[part]} if sums[part] else {})
    # From the first poll or sleep to the last wake-up: between, it may wake and sleep again.
    expect("states while halted", set(found["halted"]) - {"S", "Running", "R"}, set())
    for part in ("kernel", "user"):
        expect(f"states while in {part}", set(found[part]) - {"Running"}, set())


def check_about(recording, rows, expect):
    """What is said of the recording stands where it begins, not at 0, and says how a session was recorded."""
    expect("instants about the recording that are not at its begin", rows["about"][0][1], "0")
    session = pathlib.Path(recording) / "session.json"
    said = json.loads(session.read_text(encoding="utf-8")) if session.is_file() else {}
    versions = said.get("versions", {})
    wanted = {"command": " ".join(said.get("command", [])), "trapline version": versions.get("trapline"),
              "QEMU version": versions.get("qemu")}
    expect("facts", {name for name, in rows["facts"]}, {f"{name}: {text}" for name, text in wanted.items() if text})


def check_without_exits(trapline, processor, recording, trace):
    """Where the guest ran without KVM, or KVM's events were not recorded: the other tracks are whole."""
    subprocess.run([trapline, "export", recording, "--format", "perfetto", "-o", trace, "--force"], check=True)
    rows = processor.rows(trace, QUERIES)
    functions = tables.rows(trapline, recording, "functions")
    categories = {name: (int(count), int(shortest)) for name, count, _, shortest in rows["categories"]}
    problems = []
    check_about(recording, rows, lambda what, found, right: found == right or problems.append((what, found, right)))
    good = (not problems and not rows["errors"] and rows["nesting"] == [["0"]] and "exit" not in categories and
            int(rows["switches"][0][0]) > 100 and categories.get("function", (0, 0))[0] == len(functions) and
            min(shortest for _, shortest in categories.values()) >= 0)
    print(f"{recording}: {'' if good else rows['errors'] + problems} {categories}, {len(functions)} calls")
    return good


def check(trapline, processor, recording, work):
    trace = str(work / "x.pftrace")
    _, report, complaint = tables.asked(trapline, "report", recording)
    if report is None and "holds no VM exits" not in complaint:
        sys.exit(f"{recording}: {complaint}")
    if report is None or report["tables"]["counters"]["exits"] == 0:
        return check_without_exits(trapline, processor, recording, trace)
    if report["head"]["time_unit"] == "cycles":
        return refuses_cycles(trapline, recording, trace)
    subprocess.run([trapline, "export", recording, "--format", "perfetto", "-o", trace, "--force"], check=True)
    rows = processor.rows(trace, QUERIES)
    problems = []

    def expect(what, found, wanted):
        if found != wanted:
            problems.append(f"{what}: {found}, the report has {wanted}")

    wanted = tables.by_key(report["tables"])
    expect("stats with errors", rows["errors"], [])
    expect("slices outside of their parent", rows["nesting"][0][0], "0")
    expect("parts and handlers without a parent", rows["orphans"][0][0], "0")
    expect("flows that connect no two slices", rows["flows"][0][0], "0")
    for category, _, _, shortest in rows["categories"]:
        if int(shortest) < 0:
            problems.append(f"{category}: a slice without an end")
    expect("exits", {name: (int(count), int(total)) for name, count, total in rows["exits"]},
           {key: (row["count"], row["total_ns"] or 0) for key, row in wanted.items()})
    parts = {(exit_name, part): int(total) for exit_name, part, total in rows["parts"]}
    expect("parts", parts, {(key, part): row[part + "_ns"] for key, row in wanted.items()
                            for part in ("kernel", "user", "preempted", "blocked", "halted") if row[part + "_ns"]})
    if int(rows["switches"][0][0]) > 100:
        count, shortest = (int(cell) for cell in rows["host cpus"][0])
        expect("vCPUs on the host's CPUs, and their shortest time", (count > 0, shortest >= 0), (True, True))
    guest = sum(vcpu["guest_ns"] or 0 for vcpu in report["tables"]["vcpus"]["rows"])
    found = sum(int(total) for category, _, total, _ in rows["categories"] if category == "guest")
    expect("guest time", found, guest)
    check_states(rows, report["tables"], expect)
    check_about(recording, rows, expect)
    flows = check_flows(rows, tables.rows(trapline, recording, "requests"), expect)
    print(f"{recording}: flows {flows}")
    for problem in problems:
        print(f"{recording}: {problem[:2000]}")
    return not problems


GUEST = {
    "errors": QUERIES["errors"],
    "machines": QUERIES["machines"],
    "threads": "select count(*) from thread_state join thread using (utid) where machine_id > 0",
    # Placed by the trace processor, from the guest's clock: no exit of a vCPU begins in one run of the guest's scheduler on
    # that CPU and ends in another.
    "runs": "create table run as select s.ts, s.ts + s.dur as til, c.cpu from sched s join cpu c using (ucpu) "
            "where c.machine_id = 1 and s.dur > 0",
    "exits": "create table vcpu_exit as select s.ts, s.ts + s.dur as til, cast(substr(t.name, 6) as int) as cpu from slice s "
             "join track t on s.track_id = t.id join (select cpu, min(ts) as first, max(til) as last from run group by cpu) r "
             "on r.cpu = cast(substr(t.name, 6) as int) where s.category = 'exit' and t.name glob 'vCPU *' and "
             "s.ts >= r.first and s.ts + s.dur <= r.last",
    "inside": "select (select count(*) from vcpu_exit), count(*) from vcpu_exit x join run r on r.cpu = x.cpu and "
              "x.ts >= r.ts and x.til <= r.til",
    "skipped": "select name, value from stats where name like 'packet_skipped%' and value > 0",
    "waking": "select count(*) from thread_state where state = 'W'",
    "processes": "select count(*), min(s.dur), count(distinct s.name) from slice s join track t on s.track_id = t.id "
                 "where s.category = 'guest process' and t.name = 'guest processes'",
}


def fields(data):
    """The fields of a protobuf message: (number, value), bytes where it has a length."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        value = number() if tag & 7 == 0 else None
        if value is None:
            length = {1: 8, 5: 4}.get(tag & 7) or number()
            value, at = data[at:at + length], at + length
        yield tag >> 3, value


def own_times(trace):
    """The times of the guest's sched_switches as they stand in the trace, on the guest's clock."""
    times = []
    for _, packet in fields(pathlib.Path(trace).read_bytes()):
        packet = dict(fields(packet))
        if packet.get(98) != 1 or 1 not in packet:
            continue
        times += [event[1] for field, event in ((field, dict(fields(value))) for field, value in fields(packet[1])
                                                if field == 2) if 4 in event]
    return sorted(times)


def check_guest(trapline, processor, host, guest, work):
    """The guest's kernel is a machine of its own with its own clock, and a vCPU's track shows the guest's processes."""
    trace = str(work / "x.pftrace")
    subprocess.run([trapline, "export", host, guest, "--format", "perfetto", "-o", trace, "--force"], check=True)
    rows = processor.rows(trace, GUEST)
    count, shortest, names = (int(cell) for cell in rows["processes"][0])
    states = int(rows["threads"][0][0])
    exits, inside = (int(cell) for cell in rows["inside"][0])
    report = subprocess.run(["trace-cmd", "report", "-t", "-F", "sched_switch", guest], capture_output=True, text=True, check=True)
    recorded = sorted(int(time.replace(".", "")) for time in re.findall(r" ([0-9]+\.[0-9]{9}): +sched_switch:", report.stdout))
    own = own_times(trace)
    off = max(abs(a - b) for a, b in zip(own, recorded))
    print(f"{host} with {guest}: {inside} exits inside the guest's runs, {len(own)} switches at most {off} ns off its clock")
    if (rows["errors"] or rows["skipped"] or rows["waking"] != [["0"]] or rows["machines"] != [["2"]] or states < count or count < 100 or
            shortest < 0 or names < 3 or exits < 500 or inside != exits or len(own) != len(recorded) or off > 1000):
        print(f"{host} with {guest}: {rows}, {len(recorded)} switches")
        return False
    return True


def main():
    trapline, folder, *recordings = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work, TraceProcessor(folder) as processor:
        # A text does not tell of which kernel it is.
        text = pathlib.Path(work) / "text.txt"
        text.write_text(truth.texts()["waiting_after_a_halt"], encoding="utf-8")
        good = [check(trapline, processor, str(recording), pathlib.Path(work)) for recording in [*recordings, text]]
        for clock in (pathlib.Path(recording).parent for recording in recordings if "guest-clock" in recording):
            for folder in (clock, clock.with_name("guest-clock-arm64")):
                good.append(check_guest(trapline, processor, str(folder / "host.dat"), str(folder / "guest.dat"), pathlib.Path(work)))
    print(f"{len(good)} recordings, {good.count(False)} with differences")
    return 0 if good and all(good) else 1


sys.exit(main())
