#!/usr/bin/env python3
"""perfetto.py TRAPLINE TRACE_PROCESSOR_FOLDER RECORDING...: exports each recording, loads it into the real
trace processor, and holds counts and sums against the report, per reason and part, to the nanosecond."""
import json
import pathlib
import subprocess
import sys
import tempfile

QUERY = pathlib.Path(__file__).resolve().parents[2] / "support" / "trace_processor.js"
QUERIES = {
    "errors": "select name, value from stats where value > 0 and severity != 'info'",
    "categories": "select category, count(*), sum(dur), min(dur) from slice group by category",
    "exits": "select name, count(*), sum(dur) from slice where category = 'exit' group by name",
    "parts": "select e.name, p.name, sum(p.dur) from slice p join slice e on p.parent_id = e.id "
             "where p.category = 'part' group by e.name, p.name",
    "nesting": "select count(*) from slice c join slice p on c.parent_id = p.id "
               "where c.ts < p.ts or c.ts + c.dur > p.ts + p.dur",
    "orphans": "select count(*) from slice where category in ('part', 'qemu') and parent_id is null",
    "flows": "select count(*) from flow f left join slice a on f.slice_out = a.id "
             "left join slice b on f.slice_in = b.id where a.id is null or b.id is null",
    "machines": "select count(*) from machine",
    "switches": "select count(*) from sched",
    "host cpus": "select count(*), min(dur) from slice where category = 'vcpu'",
}


def query(folder, trace, queries=None):
    queries = queries or QUERIES
    done = subprocess.run(["node", str(QUERY), folder, trace, *queries.values()], capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode:
        sys.exit(f"{trace}: the trace processor failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    answers = done.stdout.split("\n> ")
    rows = {}
    for name, answer in zip(queries, answers):
        rows[name] = [line.split(" | ") for line in answer.strip("\n").split("\n")[2:]]
    return rows


def refuses_cycles(trapline, recording, trace):
    done = subprocess.run([trapline, "export", recording, "--to", "perfetto", "-o", trace],
                          capture_output=True, text=True, check=False)
    return done.returncode == 2 and "--tsc-khz" in done.stderr


def check(trapline, folder, recording, work):
    trace = str(work / "x.pftrace")
    report = json.loads(subprocess.run([trapline, "report", recording, "--format", "json"],
                                       capture_output=True, check=True).stdout)
    if report["time_unit"] == "cycles":
        return refuses_cycles(trapline, recording, trace)
    subprocess.run([trapline, "export", recording, "--to", "perfetto", "-o", trace, "--force"], check=True)
    rows = query(folder, trace)
    problems = []

    def expect(what, found, wanted):
        if found != wanted:
            problems.append(f"{what}: {found}, the report has {wanted}")

    wanted = {row["key"]: row for row in report["groups"]["rows"]}
    expect("stats with errors", rows["errors"], [])
    expect("slices outside of their parent", rows["nesting"][0][0], "0")
    expect("parts and handlers without a parent", rows["orphans"][0][0], "0")
    expect("flows that connect no two slices", rows["flows"][0][0], "0")
    for category, _, _, shortest in rows["categories"]:
        if int(shortest) < 0:
            problems.append(f"{category}: a slice without an end")
    expect("exits", {name: (int(count), int(total)) for name, count, total in rows["exits"]},
           {key: (row["count"], row["total_ns"]) for key, row in wanted.items()})
    parts = {(exit_name, part): int(total) for exit_name, part, total in rows["parts"]}
    expect("parts", parts, {(key, part): row[part + "_ns"] for key, row in wanted.items()
                            for part in ("kernel", "user", "preempted", "blocked") if row[part + "_ns"]})
    if int(rows["switches"][0][0]) > 100:
        count, shortest = (int(cell) for cell in rows["host cpus"][0])
        expect("vCPUs on the host's CPUs, and their shortest time", (count > 0, shortest >= 0), (True, True))
    guest = sum(vcpu["guest_ns"] for vcpu in report["vcpus"])
    found = sum(int(total) for category, _, total, _ in rows["categories"] if category == "guest")
    expect("guest time", found, guest)
    for problem in problems:
        print(f"{recording}: {problem}")
    return not problems


GUEST = {
    "errors": QUERIES["errors"],
    "machines": QUERIES["machines"],
    "threads": "select count(*) from thread_state join thread using (utid) where machine_id > 0",
    "skipped": "select name, value from stats where name like 'packet_skipped%' and value > 0",
    "processes": "select count(*), min(s.dur), count(distinct s.name) from slice s join track t on s.track_id = t.id "
                 "where s.category = 'guest process' and t.name = 'guest processes'",
}


def check_guest(trapline, folder, host, guest, work):
    """The guest's kernel is a machine of its own, and a vCPU's track shows the guest's processes."""
    trace = str(work / "x.pftrace")
    subprocess.run([trapline, "export", host, guest, "--to", "perfetto", "-o", trace, "--force"], check=True)
    rows = query(folder, trace, GUEST)
    count, shortest, names = (int(cell) for cell in rows["processes"][0])
    states = int(rows["threads"][0][0])
    if (rows["errors"] or rows["skipped"] or rows["machines"] != [["2"]] or states < count or count < 100 or
            shortest < 0 or names < 3):
        print(f"{host} with {guest}: {rows}")
        return False
    return True


def main():
    trapline, folder, *recordings = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        good = [check(trapline, folder, recording, pathlib.Path(work)) for recording in recordings]
        for host in (pathlib.Path(recording) for recording in recordings if "guest-clock" in recording):
            good.append(check_guest(trapline, folder, str(host), str(host.parent / "guest.dat"), pathlib.Path(work)))
    print(f"{len(good)} recordings, {good.count(False)} with differences")
    return 0 if good and all(good) else 1


sys.exit(main())
