#!/usr/bin/env python3
"""uftrace.py TRAPLINE FOLDER RECORDING...: each recording as a uftrace directory, in the real uftrace, the machine's
(0.13) and FOLDER's (0.19): calls and total per vmexit:REASON equal the report's, replay runs to the end, dump --chrome
is valid and has the sums to the nanosecond."""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tables  # noqa: E402

SCALE = {"us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def uftrace(program, directory, command, *options):
    done = subprocess.run([program, command, "-d", str(directory), "--no-pager", *options], capture_output=True,
                          check=False, timeout=100)
    if done.returncode or done.stderr.strip():
        sys.exit(f"{program} {command} {options}: status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout.decode("utf-8")


def report_of(text):
    rows = {}
    for line in text.splitlines():
        words = line.split(maxsplit=3)
        if len(words) == 4 and words[3].startswith("vmexit:"):
            rows[words[3].removeprefix("vmexit:")] = (float(words[0]), words[1], int(words[2]))
    return rows


def sums_of_dump(text):
    sums, stacks = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(list)
    for event in json.loads(text, parse_float=str)["traceEvents"]:
        # The scheduler's come from files of their own, CPU after CPU: not in order of time
        # (0x30d42 and those after it are uftrace's numbers of switches to and from the task).
        if event["ph"] not in "BE" or event["name"].startswith(("linux:", "<30d4")):
            continue
        whole, fraction = event["ts"].split(".")
        at, stack = int(whole) * 1000 + int(fraction), stacks[event.get("tid", event["pid"])]
        if event["ph"] == "B":
            stack.append((event["name"], at))
            continue
        name, begin = stack.pop()
        assert name == event["name"] and at >= begin, event
        if name.startswith("vmexit:"):
            sums[name.removeprefix("vmexit:")][0] += 1
            sums[name.removeprefix("vmexit:")][1] += at - begin
    return dict(sums)


def check(trapline, programs, recording, work):
    report = tables.document(trapline, "report", recording)
    directory = work / "uftrace.data"
    command = [trapline, "export", recording, "--format", "uftrace", "-o", str(directory), "--force"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if report["head"]["time_unit"] == "cycles":
        return done.returncode == 2 and "--tsc-khz" in done.stderr
    if done.returncode:
        sys.exit(f"{recording}: {done.stderr}")
    if report["head"]["user_end"] == "none":
        print(f"{recording}: left out: its exits have no duration, and uftrace shows no call without one")
        return True
    wanted = {key: [row["count"], row["total_ns"] or 0] for key, row in tables.by_key(report["tables"]).items()}
    return all([check_with(program, directory, recording, wanted) for program in programs])


def check_with(program, directory, recording, wanted):
    problems = []
    found = report_of(uftrace(program, directory, "report", "-f", "total,call"))
    for key, (count, total) in wanted.items():
        value, unit, calls = found.get(key, (0, "us", 0))
        if calls != count or abs(value * SCALE[unit] - total) > SCALE[unit] / 1000:
            problems.append(f"report, {key}: {calls} calls, {value} {unit}; the report has {count}, {total} ns")
    if set(found) != set(wanted):
        problems.append(f"report: {sorted(found)}, the report has {sorted(wanted)}")
    replay = uftrace(program, directory, "replay", "-f", "none")
    if replay.count("vmexit:") < sum(count for count, _ in wanted.values()):
        problems.append("replay: it ends before the last exit")
    sums = sums_of_dump(uftrace(program, directory, "dump", "--chrome"))
    if sums != wanted:
        problems.append(f"dump --chrome: {sums}, the report has {wanted}")
    for problem in problems:
        print(f"{recording}, {program}: {problem}"[:1500])
    return not problems


def main():
    trapline, folder, *recordings = sys.argv[1:]
    programs = ["uftrace", f"{folder}/bin/uftrace"]
    versions = [subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
                for program in programs]
    assert versions[0] != versions[1], f"both are {versions[0]}"
    with tempfile.TemporaryDirectory() as work:
        good = [check(trapline, programs, recording, pathlib.Path(work)) for recording in recordings]
    print(f"{len(good)} recordings in uftrace {' and '.join(versions)}, {good.count(False)} with differences")
    return 0 if good and all(good) else 1


sys.exit(main())
