#!/usr/bin/env python3
"""The rows of `trapline diff` that are no exits are those of `trapline report`, one by one.

  diff_rows.py TRAPLINE RECORDING VMS GUEST NATIVE FAULTS REORDERED OTHERS

RECORDING has interrupts and waits; VMS the threads of VMs and all of their switches; GUEST (files with commas) calls of a
guest's functions and exits, NATIVE calls of the same program outside; FAULTS page faults, REORDERED of the same pages in
another order, OTHERS of other pages. Numbers and total times of each row
are compared, and the folded stacks with the functions' own times.
"""
import collections
import sys
import tempfile

import tables


def diff(trapline: str, before: str, after: str, *options: str) -> dict:
    return tables.document(trapline, "diff", before, after, "--top", "0", *options)


def expect(what: str, expected: dict, got: dict) -> None:
    wrong = {key: (expected.get(key), got.get(key)) for key in expected.keys() | got.keys()
             if expected.get(key) != got.get(key)}
    assert expected and not wrong, f"{what}: expected and got {wrong}"
    print(f"{what}: {len(expected)} rows are the same")


def rows(changes: dict) -> dict:
    """(number, total ns) by row of the first side."""
    return {row["key"]: (row["before_count"], round(row["mean"]["before"] * row["before_count"]))
            for row in changes["rows"] if row["before_count"]}


def irqs(report: dict) -> dict:
    steps = {"raise_to_inject": "to injection", "raise_to_entry": "to entry", "inject_to_eoi": "to EOI"}
    return {f"{row['vector']} {row['pin']} {name}": (row[step]["count"], row[step]["total_ns"])
            for row in report["irqs"]["rows"] for step, name in steps.items() if row[step]["count"]}


def waits(report: dict) -> dict:
    sums = collections.Counter(), collections.Counter()
    for part, text in (("preempted", "preempted by "), ("blocked", "blocked on ")):
        for row in report[part]["rows"]:
            name = row["culprit"]
            for begin in (" (tid ", " (record "):
                if begin in name:
                    before, rest = name.split(begin, 1)
                    name = before + rest.split(")", 1)[1]
            sums[0][text + name] += row["count"]
            sums[1][text + name] += row["ns"]
    return {key: (sums[0][key], sums[1][key]) for key in sums[0]}


def roles(report: dict, run: dict) -> dict:
    """(threads, time as a share of the wall time of the run's vCPUs) by role"""
    sums = collections.Counter(), collections.Counter()
    for vm in report["host_cpu"]["rows"]:
        for row in vm["threads"]["rows"]:
            if row["part"] is None:
                sums[0][row["role"]] += 1
                sums[1][row["role"]] += row["ns"]
    return {role: (sums[0][role], round(sums[1][role] / (run["wall_ns"] * run["vcpus"]), 9)) for role in sums[0]}


def shares(changes: dict) -> dict:
    return {row["key"]: (row["before_count"], round(row["share"]["before"], 9)) for row in changes["rows"]}


def faults(report: dict) -> dict:
    """(faults, time) by cause"""
    sums = collections.Counter(), collections.Counter()
    for row in report["faults"]["rows"]:
        sums[0][row["cause"]] += row["count"]
        sums[1][row["cause"]] += row["total_ns"]
    return {cause: (sums[0][cause], sums[1][cause]) for cause in sums[0]}


def first_touches(trapline: str, recording: str) -> dict:
    """The time of the faults of each page, in the order of its first fault."""
    pages: dict = {}
    for row in tables.rows(trapline, recording, "faults"):
        if row["address"] is not None:
            pages[row["address"] // 4096] = pages.get(row["address"] // 4096, 0) + row["total_ns"]
    return pages


def tau(order: list) -> float:
    pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1:]]
    return sum(1 if a < b else -1 for a, b in pairs) / len(pairs)


def expect_pages(trapline: str, before: str, after: str) -> tuple:
    report, compared = (tables.of(trapline, *words, "--faults") for words in (("report", before), ("diff", before, after)))
    expect("faults", faults(report), rows(compared["changes"]))
    a, b = (first_touches(trapline, path) for path in (before, after))
    both, places = [page for page in a if page in b], {page: i for i, page in enumerate(b)}
    expected = {"in both": (len(both), sum(a[page] for page in both), sum(b[page] for page in both)),
                "only before": (len(a.keys() - b.keys()), sum(ns for page, ns in a.items() if page not in b), None),
                "only after": (len(b.keys() - a.keys()), None, sum(ns for page, ns in b.items() if page not in a))}
    expect("pages", expected, {row["key"]: (row["pages"], row["before_ns"], row["after_ns"]) for row in compared["pages"]["rows"]})
    got, truth = compared["pages"]["tau"], tau([places[page] for page in both])
    assert abs(got - truth) < 1e-9, (got, truth)
    print(f"Kendall's tau of {len(both)} pages: {got:.4f}")
    return truth, len(a.keys() - b.keys()), len(b.keys() - a.keys())


def calls(report: dict) -> dict:
    return {row["name"]: (row["calls"], row["own_ns"]) for row in report["guest_functions"]["rows"] if row["calls"]}


def folded(path: str, column: int) -> collections.Counter:
    """Time by function: of the last frame that is one, exits' causes belong to it."""
    times = collections.Counter()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            stack, *values = line.rsplit(" ", 2)
            times[stack] += int(values[column])
    return times


def main() -> None:
    trapline, recording, vms, guest, native, with_faults, reordered, others = sys.argv[1:]
    report = tables.of(trapline, "report", recording, "--irq", "--waits")
    expect("interrupts", irqs(report), rows(diff(trapline, recording, recording, "--irq")["tables"]["changes"]))
    expect("waits", waits(report), rows(diff(trapline, recording, recording, "--waits")["tables"]["changes"]))
    report, compared = (tables.of(trapline, *words, "--host-cpu") for words in (("report", vms), ("diff", vms, vms)))
    expect("threads", roles(report, compared["before"]["rows"][0]), shares(compared["changes"]))
    assert expect_pages(trapline, with_faults, reordered)[0] < 1
    assert min(expect_pages(trapline, others, with_faults)[1:]) > 0
    files = guest.split(",")
    report = tables.of(trapline, "report", *files, "--guest")
    with tempfile.NamedTemporaryFile() as flame:
        comparison = diff(trapline, guest, native, "--guest", "--flame", flame.name, "--force")
        expect("calls", calls(report), rows(comparison["tables"]["changes"]))
        assert any("without KVM" in text for text in comparison["notes"]), comparison["notes"]
        before, after = folded(flame.name, 0), +folded(flame.name, 1)  # without what is not there
    own = {row["name"]: row for row in report["guest_functions"]["rows"]}
    compute = sum(ns for stack, ns in before.items() if stack.endswith(";compute"))
    assert compute == own["compute"]["guest_ns"], (compute, own["compute"])
    writes = sum(ns for stack, ns in before.items() if ";device_write;" in stack)
    assert writes == own["device_write"]["own_ns"] - own["device_write"]["guest_ns"], writes
    assert not any(";" in stack.split("device_write", 1)[1] for stack in after if "device_write" in stack), after
    assert any(stack.endswith(";device_write") for stack in after), after
    print(f"flame: {len(before)} stacks; device_write has {writes} ns in exits under KVM and none natively")


main()
