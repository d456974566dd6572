#!/usr/bin/env python3
"""What a report's table prints is what its JSON has, and it fits the terminal.

  cells.py TRAPLINE RECORDING...

Of each row: every duration parses back to within 0.5 % of JSON's, every share to within 0.05; percentiles do
not fall; nothing but 0 reads as 0; what JSON does not know is "-". The rows are in the order of their shares. At 120,
100, 80 and 60 columns no line of report, explain and diff is wider than that but one that is a single word, or a
command to type; no column is left out for which there is room, and figures stand before the parts.
"""
import os
import json
import re
import subprocess
import sys

UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "cyc": 1, "kcyc": 1e3, "Mcyc": 1e6, "Gcyc": 1e9}
DURATIONS = {"total": "total_ns", "mean": "mean_ns", "p50": "p50_ns", "p99": "p99_ns", "max": "max_ns"}
PARTS = {part: f"{part}_ns" for part in ("kernel", "user", "preempted", "blocked", "halted")}
JOINED, SUM = ("preempted", "blocked", "halted"), "other"
FIGURES = ["exits", "share", "total", "mean", "p99", "max"]
FIRST = 24  # columns of a key that figures leave to it
failed = []


def report(trapline, words, columns=None):
    environment = {**os.environ, **({"COLUMNS": str(columns)} if columns else {})}
    if not columns:
        environment.pop("COLUMNS", None)
    done = subprocess.run([trapline, "report", *words], capture_output=True, text=True, check=False, env=environment)
    return done.stdout


def narrow_lines(trapline, words, columns, folder):
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run([trapline, *words], capture_output=True, text=True, check=False, env=environment, cwd=folder)
    return done.stdout.split("\n")


def check_widths(trapline, recording):
    """In the recording's folder: a path is not broken, and how long one is depends on where the checkout stands."""
    folder, recording = os.path.split(os.path.abspath(recording))
    for words in (["report", recording, "--waits", "--steal", "--kernel", "--halt", "--irq", "--phases", "--guest", "--slower-than",
                   "5ms"], ["explain", recording, "-v"], ["diff", recording, recording, "--by", "detail"], ["info", recording]):
        for columns in (120, 80, 60):
            for line in narrow_lines(trapline, words, columns, folder):
                fits = len(line) <= columns or len(line.split()) == 1 or re.match(r"(next:|     ) trapline ", line)
                expect(fits, folder, *words, columns, "columns:", line)


def expect(condition, *what):
    if not condition:
        failed.append(" ".join(str(word) for word in what))


def duration(cell):
    number, unit = cell.split(" ")
    return float(number.replace(",", "")) * UNITS[unit]


def table_of(text, by):
    """The titles and the rows of the table of --by, the rows by key."""
    lines = text.split("\n")
    at = next((i for i, line in enumerate(lines) if line.startswith(by + " ") and "exits" in line), None)
    if at is None:
        return [], {}
    titles = re.split(r"  +", lines[at].rstrip())
    rows = {}
    for line in lines[at + 1:]:
        if not line:
            break
        cells = re.split(r"  +", line)
        rows[cells[0]] = dict(zip(titles[1:], cells[1:]))
    return titles, rows


def cost(row):
    """All but the wait for a CPU and the halts themselves; of exits that did not end as well."""
    return sum(row[key] or 0 for key in ("kernel_ns", "user_ns", "blocked_ns", "unended_cost_ns"))


def check_row(name, titles, cells, row, whole):
    expect(cells.get("exits", "").replace(",", "") == str(row["count"]), name, "exits", cells.get("exits"), row["count"])
    last = 0
    for title, key in DURATIONS.items():
        ns, cell = row[key], cells.get(title)
        if ns is None or cell in (None, "-"):
            expect(ns is None and cell == "-", name, title, cell, ns)
            continue
        printed = duration(cell)
        expect(abs(printed - ns) <= ns * 0.00501, name, title, cell, ns)
        expect(ns == 0 or printed > 0, name, title, "reads as 0")
        if title in ("p50", "p99", "max"):
            expect(printed >= last, name, title, cell, "is below the one before")
            last = printed
    shares = dict(PARTS) if not row["halts"] else {}
    if shares and "kernel or QEMU" in titles and row["user_ns"] is None:
        shares["kernel or QEMU"] = shares.pop("kernel", "kernel_ns")
    for title, key in shares.items():
        ns, cell = row[key], cells.get(title)
        if title not in titles:
            expect(not ns, name, title, "is not shown", ns)
        elif ns is None or row["total_ns"] is None:  # of no exit that ended
            expect(cell == "-", name, title, cell)
        elif cell == "<0.1%":
            expect(0 < ns < row["total_ns"] * 0.0005, name, title, cell, ns)
        else:
            expect(abs(float(cell[:-1]) - 100 * ns / max(1, row["total_ns"])) <= 0.0501, name, title, cell, ns)
            expect(ns == 0 or cell != "0.0%", name, title, "reads as 0")
    if (row["total_ns"] is not None or row["unended_cost_ns"]) and whole:
        share = 100 * cost(row) / whole
        cell = cells["share"]
        if row["halts"] and row["kernel_ns"] is None:
            expect(cell == "-", name, "share", cell, "is not known")
            return
        expect(cell == "<0.1%" and 0 < share < 0.05 or abs(float(cell.strip("<%")) - share) <= 0.0501,
               name, "share", cell, share)


def check_columns(name, columns, wide, narrow, by):
    """`wide`, `narrow`: lines of the same report without a width, and at these columns."""
    titles, shown = (re.split(r"  +", next((x for x in lines if x.startswith(by + " ") and "exits" in x), "")) for lines in
                     (wide, narrow))
    at = next((i for i, line in enumerate(wide) if line.startswith(by + " ") and "exits" in line), None)
    if at is None:
        return
    end = next(i for i in range(at, len(wide)) if not wide[i])
    rows = [re.split(r"  +", line) for line in wide[at:end]]
    width = {title: max((len(row[i]) for row in rows if i < len(row)), default=0) for i, title in enumerate(titles)}
    width[by] = min(width[by], max(FIRST, len(by)))
    width[SUM] = max(len(SUM), 6)  # "100.0%"
    used = sum(width[title] + 2 for title in shown) - 2
    joined = [title for title in JOINED if title in titles] if SUM in shown else []
    if joined:
        expect(not set(joined) & set(shown), name, columns, "columns:", SUM, "stands beside what it is the sum of")
        expect(used - width[SUM] + sum(width[title] + 2 for title in joined) - 2 > columns, name, columns, "columns:", SUM, "stands for",
               joined, "which have room")
    for title in titles:
        if title not in [*shown, *joined]:
            expect(used + 2 + width[title] > columns, name, columns, "columns:", title, "is left out and has room")
    wanted = [title for title in FIGURES if title in titles]
    if columns >= 80 and sum(width[title] + 2 for title in [by, *wanted]) - 2 <= columns:
        expect([title for title in shown if title in wanted] == wanted, name, columns, "columns:", shown)


def check_sums(name, titles, cells, rows):
    for row in rows if SUM in titles else []:
        if row["key"] in cells and row["total_ns"]:
            share = 100 * sum(row[PARTS[part]] or 0 for part in JOINED) / row["total_ns"]
            cell = cells[row["key"]].get(SUM, "")
            expect(cell == "<0.1%" and 0 < share < 0.05 or abs(float(cell.strip("<%")) - share) <= 0.0501, name, row["key"], SUM, cell, share)


def check(trapline, recording):
    check_widths(trapline, recording)
    for by in ("reason", "detail", "device", "vcpu"):
        words = [recording, "--by", by]
        text = report(trapline, words)
        if not text:
            return 0
        now = report(trapline, [*words, "--format", "json"])
        head, tables = (json.loads(now)[key] for key in ("head", "tables"))
        groups = tables["groups"]["rows"]
        if tables["groups"]["of"] != "exits" or head["user_end"] == "none":
            return 0
        titles, rows = table_of(text, by)
        whole = sum(vcpu["time_ns"] for vcpu in tables["vcpus"]["rows"] if vcpu["time_ns"])
        overhead = head["overhead"]
        if overhead:
            whole = overhead["guest_ns"] + overhead["exit_ns"] + (overhead["not_run_ns"] or 0)
        for row in groups:
            row["key"] = {"device": "no device"}.get(by, "not known") if row["key"] == "-" else row["key"]
        said = re.search(r"(?:exits cost|took) (?:at (?:least|most) )?<?[0-9.]+% \((.*?) alone: (?:at least )?<?([0-9.]+)%\);", text.replace("\n", " "))
        if overhead and said:
            most = max(groups, key=cost)
            expect(said[1] == most["key"] and abs(float(said[2]) - 100 * cost(most) / max(1, whole)) <= 0.0501,
                   recording, by, "sentence", said.groups(), most["key"])
            expect(rows.get(said[1], {}).get("share") == said[2] + "%", recording, by, "sentence and table", said.groups())
        costs = [cost(row) for key in rows for row in groups if row["key"] == key and not row["halts"]]
        expect(costs == sorted(costs, reverse=True), recording, by, "order", costs)
        for row in groups:
            expect(row["key"] in rows, recording, by, row["key"], "is not in the text")
            if row["key"] in rows:
                check_row(f"{recording} {by} {row['key']}:", titles, rows[row["key"]], row, whole)
        for columns in (120, 100, 80, 60):
            narrow = report(trapline, words, columns).split("\nnext: ")[0].split("\n")
            check_columns(f"{recording} {by}", columns, text.split("\n"), narrow, by)
            check_sums(f"{recording} {by} {columns} columns", *table_of("\n".join(narrow), by), groups)
            for line in narrow:
                expect(len(line) <= columns, recording, by, columns, "columns:", line)
    return 1


def main():
    trapline, *recordings = sys.argv[1:]
    checked = sum(check(trapline, recording) for recording in recordings)
    for line in failed[:30]:
        print(line)
    print(f"{checked} recordings, {len(failed)} differences")
    sys.exit(bool(failed) or not checked)


main()
