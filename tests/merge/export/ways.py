#!/usr/bin/env python3
"""ways.py TRAPLINE TRACE_PROCESSOR_FOLDER RECORDING...: requests with their stages in the host's block layer, turns
of vhost workers, and a guest's intervals, in every format that has them: what the real trace processor and
the rows hold adds up to the report, to the nanosecond. Of a folder with host.dat and guest.dat the guest's intervals are
those of cyclictest's marker where it has them, else those of its tasks."""
import collections
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from trace_processor import TraceProcessor  # noqa: E402

STAGES = {"to bio": "start_to_bio", "block layer": "bio_to_issue", "disk": "issue_to_complete",
          "to end": "complete_to_end"}
PARTS = ("guest", "kernel", "user", "preempted", "blocked", "halted")
QUERIES = {
    "errors": "select name, value from stats where value > 0 and severity != 'info'",
    "nesting": "select count(*) from slice c join slice p on c.parent_id = p.id "
               "where c.ts < p.ts or c.ts + c.dur > p.ts + p.dur",
    "orphans": "select count(*) from slice where category in ('request stage', 'vhost part', 'guest span part') "
               "and parent_id is null",
    # Of each request with stages: whether they follow each other from its begin to its end.
    "stages": "select name, sum(dur), count(*) from slice where category = 'request stage' group by name",
    "cut": "select count(*) from (select p.dur as whole, sum(s.dur) as parts from slice s join slice p "
           "on s.parent_id = p.id where s.category in ('request stage', 'vhost part') and "
           "p.category in ('request', 'vhost') group by p.id) where whole != parts",
    "turns": "select s.name, count(*), sum(s.dur) from slice s join track t on s.track_id = t.id "
             "where s.category = 'vhost' and t.name glob 'vhost-* (tid *)' group by s.name",
    "turn parts": "select name, sum(dur) from slice where category = 'vhost part' group by name",
    "notifies": "select count(*) from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id "
                "where a.category = 'exit' and b.category = 'vhost' and b.ts >= a.ts and b.name = 'serves a notify'",
}
GUEST_QUERIES = {
    "errors": QUERIES["errors"],
    "nesting": QUERIES["nesting"],
    "orphans": QUERIES["orphans"],
    "spans": "select s.name, count(*), sum(s.dur), min(s.dur), max(s.dur) from slice s join track t "
             "on s.track_id = t.id where s.category = 'guest span' and t.name glob 'guest spans: *' group by s.name",
    "parts": "select p.name, s.name, sum(s.dur) from slice s join slice p on s.parent_id = p.id "
             "where s.category = 'guest span part' and p.category = 'guest span' group by 1, 2",
    "culprits": "select name, extract_arg(arg_set_id, 'debug.culprit'), sum(dur), count(*) from slice "
                "where category = 'guest span part' and extract_arg(arg_set_id, 'debug.culprit') is not null group by 1, 2",
}


class Case:
    def __init__(self, trapline, processor, files, work):
        self.trapline, self.processor, self.files, self.trace = trapline, processor, files, str(work / "x.pftrace")
        self.problems = []

    def expect(self, what, found, wanted):
        if found != wanted:
            self.problems.append(f"{what}: {found}, not {wanted}")

    def run(self, *words):
        done = subprocess.run([self.trapline, words[0], *self.files, *words[1:]], capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{self.files} {words}: {done.stderr.decode()}")
        return done.stdout.decode("utf-8")

    def report(self, *words):
        return json.loads(self.run("report", *words, "--format", "json"))["tables"]

    def rows(self, kind, *words):
        """Both forms of rows, which must have the same cells."""
        lines = [json.loads(line) for line in
                 self.run("export", "--format", "jsonl", "--rows", kind, "--allow-empty", "-o", "-", *words).splitlines()]
        table = list(csv.DictReader(io.StringIO(self.run("export", "--format", "csv", "--rows", kind, "--allow-empty", "-o", "-", *words))))
        as_text = [{key: "" if value is None else str(value) for key, value in row.items()} for row in lines]
        self.expect(f"csv rows of {kind}", table, as_text)
        return lines

    def query(self, queries, *words):
        self.run("export", "--format", "perfetto", "-o", self.trace, "--force", *words)
        rows = self.processor.rows(self.trace, queries)
        # cyclictest's guest recorded in pieces, one for each sample: between two of them switches are missing.
        self.expect("stats with errors", [row for row in rows["errors"] if row[0] != "mismatched_sched_switch_tids"], [])
        self.expect("slices outside of their parent", rows["nesting"], [["0"]])
        self.expect("children without a parent", rows["orphans"], [["0"]])
        return rows


def check_requests(case):
    report = case.report("--by", "span")
    paths, workers = report["request_paths"]["rows"], report["vhost"]["rows"] if "vhost" in report else []
    rows = case.query(QUERIES)
    wanted = {stage: [sum(path["block"][key]["total_ns"] for path in paths if "block" in path),
                      sum(path["block"][key]["count"] for path in paths if "block" in path)]
              for stage, key in STAGES.items()}
    wanted = {stage: sums for stage, sums in wanted.items() if sums[1]}
    case.expect("stages", {name: [int(total), int(count)] for name, total, count in rows["stages"]}, wanted)
    case.expect("requests and turns that their parts do not fill", rows["cut"], [["0"]])
    requests = [row for row in case.rows("requests") if row["completed_ns"] is not None]
    case.expect("stages in rows", {"disk": [sum(row["completed_ns"] - row["issued_ns"] for row in requests),
                                            len(requests)]} if requests else {},
                {name: sums for name, sums in wanted.items() if name == "disk"})
    case.expect("stages in rows, to bio", sum(row["bio_ns"] - row["start_ns"] for row in requests),
                wanted.get("to bio", [0])[0])

    turns = case.rows("vhost")
    case.expect("turns", len(turns), sum(worker["turns"] for worker in workers))
    for key, sum_of in (("woken_to_run", lambda row: row["ran_at_ns"] - row["start_ns"]),
                        ("ran", lambda row: row["ran_ns"])):
        case.expect(f"turns: {key}", sum(map(sum_of, turns)), sum(worker[key]["total_ns"] for worker in workers))
    notified = [row for row in turns if row["notified_ns"] is not None]
    case.expect("turns by a notify", len(notified), sum(worker["notified"] for worker in workers))
    case.expect("notify to interrupt", sum(row["raised_ns"] - row["notified_ns"] for row in notified if row["raised_ns"]),
                sum(worker["notify_to_interrupt"]["total_ns"] for worker in workers))
    slices = {name: (int(count), int(total)) for name, count, total in rows["turns"]}
    for name, some in (("serves a notify", notified), ("turn", [row for row in turns if row not in notified])):
        case.expect(f"slices: {name}", slices.get(name, (0, 0)), (len(some), sum(row["total_ns"] for row in some)))
    case.expect("turns: runs", sum(int(total) for name, total in rows["turn parts"] if name == "runs"),
                sum(row["ran_ns"] for row in turns))
    case.expect("exits that lead to a turn", rows["notifies"], [[str(len(notified))]])
    if not wanted and not turns:
        case.problems.append("no request with stages and no turn: nothing was compared")
    return f"{wanted}, {len(turns)} turns"


def check_guest_spans(case):
    marker = any(path.parent.name == "cyclictest" for path in map(pathlib.Path, case.files))
    spec = "marker:hit latency threshold" if marker else "sched_switch:next_pid..sched_switch:prev_pid"
    report = case.report("--by", "guest-span", "--guest-span", spec)
    named = {f"CPU {vcpu['vcpu']}/KVM (tid {vcpu['tid']})": f"vCPU {vcpu['vcpu']}"
             for vcpu in case.report()["vcpus"]["rows"]}
    wanted = {row["key"] or spec: row for row in report["spans"]["rows"]}
    rows = case.query(GUEST_QUERIES, "--guest-span", spec)
    case.expect("intervals", {name: [int(cell) for cell in cells] for name, *cells in rows["spans"]},
                {key: [row["count"], row["total_ns"], min_of, row["max_ns"]] for (key, row), min_of in
                 zip(wanted.items(), [next((int(cells[3]) for cells in rows["spans"] if cells[0] == key), None)
                                      for key in wanted])})
    found = collections.defaultdict(int, {(span, part): int(total) for span, part, total in rows["parts"]})
    for key, row in wanted.items():
        case.expect(f"parts of {key}", [found[key, part] for part in PARTS], [row[part + "_ns"] for part in PARTS])
    culprits = collections.Counter()
    for part, culprit, total, _ in rows["culprits"]:
        culprits[part, named.get(culprit, culprit)] += int(total)
    case.expect("culprits", culprits, collections.Counter({(row["part"], row["culprit"]): row["ns"]
                                                           for row in report["culprits"]["rows"]}))
    spans = case.rows("guest-spans", "--guest-span", spec)
    sums = collections.defaultdict(collections.Counter)
    for row in spans:
        parts = {part + "_ns": row[part + "_ns"] for part in (*PARTS, "not_recorded")}
        case.expect("a row's parts", sum(parts.values()), row["total_ns"])
        case.expect("a row with a culprit of no wait", [row["preempted_by"] is None, row["blocked_on"] is None],
                    [row["preempted_ns"] == 0, row["blocked_ns"] == 0])
        sums[row["name"] or spec].update({"count": 1, "total_ns": row["total_ns"], **parts})
    case.expect("rows", {key: {name: total for name, total in row.items() if total} for key, row in sums.items()},
                {key: {name: row[name] for name in ("count", "total_ns", *(part + "_ns" for part in (*PARTS, "not_recorded")))
                       if row[name]} for key, row in wanted.items()})
    return f"{len(spans)} intervals, {len(wanted)} kinds, {len(culprits)} culprits"


def check_refusals(case):
    for words, said in ((["--format", "folded", "--guest-span", "function:main"], "--format perfetto"),
                        (["--format", "jsonl", "--rows", "guest-spans"], "--guest-span"),
                        (["--format", "jsonl", "--rows", "guest-span"], "guest-spans"),
                        (["--format", "perfetto", "--guest-span", "function:main"], "made in the guest")):
        output = f"{case.trace}.refused"
        done = subprocess.run([case.trapline, "export", case.files[0], *words, "-o", output], capture_output=True,
                              text=True, check=False)
        case.expect(" ".join(words), (done.returncode, said in done.stderr, pathlib.Path(output).exists()),
                    (2, True, False))


def main():
    trapline, folder, *recordings = sys.argv[1:]
    good = True
    with tempfile.TemporaryDirectory() as work, TraceProcessor(folder) as processor:
        for i, recording in enumerate(map(pathlib.Path, recordings)):
            of_guest = recording.is_dir()
            files = [str(recording / name) for name in ("host.dat", "guest.dat", "sync.txt")] if of_guest else [str(recording)]
            case = Case(trapline, processor, files, pathlib.Path(work))
            if i == 0:
                check_refusals(case)
            compared = check_guest_spans(case) if of_guest else check_requests(case)
            print(f"{recording}: {compared}")
            for problem in case.problems:
                print(f"{recording}: {problem[:1500]}")
            good = good and not case.problems
    return 0 if good and recordings else 1


sys.exit(main())
