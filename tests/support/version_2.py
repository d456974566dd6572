#!/usr/bin/env python3
"""version_2.py [FILE]: JSON of version 3 (docs/formats/report.md) as it was before, for what reads that.

Version 3 has the same shape for every command: head, tables, notes. Before, report, explain, stalls,
advise, diff, the page and `top --batch` had each its own. The output is byte for byte what trapline
wrote then. What is no report of version 3 is left as it is.
"""
import json
import re
import sys

FLOAT = "\x00float:"  # a number keeps the digits it was written with


def rows(table):
    return table["rows"]


def without(row, *keys):
    return {key: value for key, value in row.items() if key not in keys}


def named(row, child, key="rows"):
    """A row whose child table is a list."""
    return {name: value[key] if name in child else value for name, value in row.items()}


def cut(json, table, key="rows_left_out"):
    if table.get("left_out"):
        json[key] = table["left_out"]
    return json


def waits_of(table):
    return cut({"total_ns": table["total_ns"], "rows": rows(table)}, table)


def replay_of(row):
    if "replay" not in row:
        return row
    replay = without(row["replay"], "rows", "left_out")
    return {**without(row, "replay"), "replay": {**replay, "settings": rows(row["replay"])}}


def phases_of(table):
    return {"rows": [named(row, ("devices", "functions")) for row in rows(table)], "never": table["never"]}


def steal_of(table):
    return [{**without(row, "by"), **waits_of(row["by"])} for row in rows(table)]


UNENDED = ("cut", "open", "unended_cost_ns")


def ended(row):
    """Rows of exits counted those that ended."""
    return {**without(row, *UNENDED), "count": row["count"] - row["cut"] - row["open"]} if "cut" in row else row


def groups_of(table):
    json = {"by": table["by"], "of": table["of"], "rows": [row for row in map(ended, rows(table)) if row["count"]]}
    if "total" in table:
        json["total"] = ended(table["total"])
    return cut(json, table)


def counters_of(table):
    unended = sum(table.get(key, 0) for key in ("exit_without_entry", "closed_by_loss", "exits_stopped"))
    return {**table, "exits": table["exits"] - unended} if "exits" in table else table


def report(new):
    head, tables = new["head"], new["tables"]
    json = {"version": 2, "sources": rows(tables["sources"]), "interval": head["interval"],
            **{key: head[key] for key in ("time_unit", "user_end", "from_userspace_exit", "filter", "all_exits") if key in head},
            "vcpus": rows(tables["vcpus"]), "overhead": head["overhead"], "groups": groups_of(tables["groups"]),
            "qemu_events": rows(tables["qemu_events"])}
    if "slow_exits" in tables:
        slow = tables["slow_exits"]
        json["slow_exits"] = {"slower_than_ns": slow["slower_than_ns"], "left_out": slow["left_out"], "exits": rows(slow)}
    for key in ("request_paths", "vhost"):
        if key in tables:
            json[key] = rows(tables[key])
    if "irqs" in tables:
        json["irqs"] = {"coalesced": tables["irqs"]["coalesced"], "rows": rows(tables["irqs"])}
    if "halts" in tables:
        json["halts"] = rows(tables["halts"])
    if "preempted" in tables:
        json["waits"] = {part: waits_of(tables[part]) for part in ("preempted", "blocked", "halted")}
    if "kernel" in tables:
        kernel = tables["kernel"]
        json["kernel"] = cut({"total_ns": kernel["total_ns"], "rows": rows(kernel)}, kernel)
    if "steal" in tables:
        json["steal"] = steal_of(tables["steal"])
    if "guest_functions" in tables:
        json["guest_functions"] = rows(tables["guest_functions"])
        cut(json, tables["guest_functions"], "guest_functions_left_out")
    json["counters"] = counters_of(tables["counters"])
    json["notes"] = new["notes"]
    if "halt_costs" in tables:
        json["halt_costs"] = [replay_of(row) for row in rows(tables["halt_costs"])]
    if "phases" in tables:
        json["phases"] = phases_of(tables["phases"])
    for key in ("next", "finding"):  # of --budget
        if "next" in head:
            json[key] = head[key]
    if "next" in head:
        lists = [{"list": key, "rows": table["left_out"]} for key, table in tables.items() if table.get("left_out")]
        json["left_out"] = {"lists": lists, "command": head["all"]} if lists else None
    return json


def node(row):
    json = {"text": row["text"], "ns": row["ns"]}
    if "count" in row:
        json["count"] = row["count"]
    if "children" in row:
        json["children"] = [node(child) for child in rows(row["children"])]
    return json


def tree(table):
    return node(rows(table)[0])


def span_head(head, *keys):
    return {key: head[key] for key in keys}


def worst_spans(table, start):
    return [{**({start: row[start]} if start == "start_ns" else {}), "tree": tree(row["tree"]),
             **{key: row[key] for key in ("sentence", "advice", "source")},
             **({start: row[start]} if start == "start" else {})} for row in rows(table)]


def span_rows(table):
    return [named(row, ("culprits",)) for row in rows(table)]


def guest_span_report(new):
    head, tables = new["head"], new["tables"]
    return {"version": 1, "time_unit": "ns", "by": "guest-span", **span_head(head, "guest_span", "clocks", "count", "total_ns"),
            "rows": span_rows(tables["spans"]), "culprits": rows(tables["culprits"]), "counters": tables["counters"],
            "notes": new["notes"]}


def guest_spans(new):
    head, tables = new["head"], new["tables"]
    return {"version": 1, **span_head(head, "guest_span", "count", "total_ns", "p50_ns", "p99_ns", "max_ns", "clocks"),
            "tree": tree(tables["tree"]), "worst": worst_spans(tables["worst"], "start_ns"),
            "counters": tables["counters"], "notes": new["notes"]}


def explain(new):
    head, tables = new["head"], new["tables"]
    waker = rows(tables["waker"])
    return {"version": 1, "time_unit": head["time_unit"], "exit": rows(tables["exit"])[0], "guest_ns": head["guest_ns"],
            "accesses": head["accesses"], "culprits": rows(tables["culprits"]), "kernel": rows(tables["kernel"]),
            "waker": named(waker[0], ("qemu_events",)) if waker else None,
            "qemu_events": rows(tables["qemu_events"]), "qemu_events_left_out": tables["qemu_events"]["left_out"],
            "steps": rows(tables["steps"]), "steps_left_out": tables["steps"]["left_out"],
            **{key: head[key] for key in ("finding", "advice", "source")}, "notes": new["notes"]}


def stall_row(row):
    row = named(row, ("causes", "noticed"))
    return {**without(row, "finding", "name", "start"), "finding": row["finding"]}


def stalls(new):
    table = new["tables"]["stalls"]
    return {"version": 1, "time_unit": new["head"]["time_unit"], "min_ns": table["min_ns"], "count": table["count"],
            "total_ns": table["total_ns"], "stalls": [stall_row(row) for row in rows(table)],
            "stalls_left_out": table["left_out"], "notes": new["notes"]}


def advise(new):
    head = new["head"]
    advice = [without(row, "host_low_ns", "host_high_ns") for row in rows(new["tables"]["advice"]) if row["host_high_ns"] is None]
    return {"version": 1, "time_unit": head["time_unit"], "overhead": head["overhead"], "finding": head["finding"],
            "advice": [row for row in advice if row["gain_high_ns"] is not None],
            "not_validated": [row for row in advice if row["gain_high_ns"] is None],
            "record": head["record"], "notes": new["notes"]}


def diff(new):
    head, tables = new["head"], new["tables"]
    return {"version": 2, "by": head["by"], "rows_of": head["rows_of"], "cycles": head["time_unit"] == "cycles",
            **{key: head[key] for key in ("user_end", "confidence", "seed", "method", "splits", "tests", "proven_changes")},
            "before": [without(row, "lost") for row in rows(tables["before"])],
            "after": [without(row, "lost") for row in rows(tables["after"])],
            "rows": rows(tables["changes"]), "rows_left_out": tables["changes"]["left_out"], "warnings": new["notes"]}


def top(new):
    head, tables = new["head"], new["tables"]
    groups, stall = tables["groups"], rows(tables["longest_stall"])
    waits = {part: {"total_ns": tables[part]["total_ns"], "rows": rows(tables[part])} for part in ("preempted", "blocked")}
    return {"version": 2, **head["interval"], "events": head["events"], "lost_events": head["losses"]["events"],
            "gaps": head["losses"]["gaps"], "gaps_uncounted": head["losses"]["gaps_uncounted"], "vcpus": rows(tables["vcpus"]),
            **{key: head[key] for key in ("filter",) if key in head}, "by": groups["by"], "rows": rows(groups),
            "rows_left_out": groups["left_out"], "exits_folded": groups["exits_folded"], "waits": waits,
            "requests": rows(tables["requests"]), "longest_stall": stall[0] if stall else None,
            "slow_exits": rows(tables["slow_exits"])}


def packed(table, last=()):
    """{"columns", "rows"}; the columns of `last` at the end."""
    order = sorted(range(len(table["columns"])), key=lambda i: last.index(table["columns"][i]) if table["columns"][i] in last else -1)
    return {"columns": [table["columns"][i] for i in order], "rows": [[row[i] for i in order] for row in rows(table)]}


def set_of(table):
    """A table of the page by a dimension."""
    columns = table["columns"]
    table_rows = [ended(dict(zip(columns, row))) for row in rows(table)]
    kept = [column for column in columns if column not in UNENDED]
    return packed({"columns": kept, "rows": [[row[key] for key in kept] for row in table_rows if row["count"]]},
                  ("max_at", "halts"))


def page_recording(new):
    head, tables = new["head"], new["tables"]
    worst = packed(tables["worst"], ("start", "waits", "neighbourhood"))
    at = worst["columns"].index("waits")
    for row in worst["rows"]:
        row[at] = [row[at][i:i + 4] for i in range(0, len(row[at]), 4)]
    counters = counters_of(tables["counters"])
    counters.setdefault("bios_ambiguous", None)
    combos = tables["combos"]
    json = {"recorded": rows(tables["recorded"]), "tool": head["tool"], "command": head["words"], "sources": rows(tables["sources"]),
            "interval": head["interval"], "duration_ns": head["duration_ns"],
            **{key: head[key] for key in ("time_unit", "user_end", "from_userspace_exit")}, "counters": counters,
            "finding": head["finding"] or "", "notes": new["notes"], "time": head["time"],
            "vcpus": [{**without(row, "name", "shares"), "name": row["name"], "shares": row["shares"]} for row in rows(tables["vcpus"])],
            "overhead": head["overhead"], "lost": rows(tables["lost"]), "lost_left_out": tables["lost"]["left_out"],
            "values": combos["values"], "combos": rows(combos), "cells": rows(tables["cells"]),
            "sets": [{"by": table["by"], "rows_left_out": table["left_out"], **set_of(table)}
                     for key, table in tables.items() if key.startswith("by_")],
            "requests": rows(tables["requests"]), "request_paths": rows(tables["request_paths"]),
            "vhost": rows(tables["vhost"]) if "vhost" in tables else []}
    if "kernel" in tables:
        kernel = tables["kernel"]
        json["kernel"] = {"columns": kernel["columns"], "rows": rows(kernel), "rows_left_out": kernel["left_out"],
                          "total_ns": kernel["total_ns"], "whose": kernel["whose"]}
    json["irqs"] = {"coalesced": tables["irqs"]["coalesced"], "rows": rows(tables["irqs"])}
    json["halts"] = rows(tables["halts"])
    json["guest_functions"] = rows(tables["guest_functions"])
    json["guest_stacks"] = packed(tables["guest_stacks"])
    if "phases" in tables:
        phases = phases_of(tables["phases"])
        json["phases"] = {**phases, "rows": [{**without(row, "start"), "start": row["start"]} for row in phases["rows"]]}
    if "kernel_stacks" in tables:
        json["kernel_stacks"] = packed(tables["kernel_stacks"])
    if "spans" in tables:
        spans = tables["spans"]
        parts = [key for key in spans if key.endswith("_ns") and key not in ("total_ns", "p50_ns", "p99_ns", "max_ns")]
        json["guest_spans"] = {"spec": spans["guest_span"], **span_head(spans, "clocks", "count", "total_ns", "p50_ns", "max_ns", *parts),
                               "rows": rows(spans), "rows_left_out": spans["left_out"], "culprits": rows(tables["span_culprits"]),
                               "worst": worst_spans(tables["span_worst"], "start"), "counters": spans["counters"]}
    if "stalls" in tables:
        table = tables["stalls"]
        json["stalls"] = {"min_ns": table["min_ns"], "count": table["count"], "total_ns": table["total_ns"],
                          "rows": [{**stall_row(row), "name": row["name"], "start": row["start"]} for row in rows(table)]}
    json["worst"] = worst
    json["neighbourhoods"] = rows(tables["neighbourhoods"])
    json["texts"] = tables["worst"]["texts"]
    json["waits"] = {part: {"total_ns": tables[part]["total_ns"], "rows": rows(tables[part]), "rows_left_out": tables[part]["left_out"]}
                     for part in ("preempted", "blocked")}
    json["left_out"] = head["left_out"]
    return json


def page(new):
    json = {**new, "recordings": [page_recording(one) for one in new["recordings"]]}
    if "comparison" in new:
        json["comparison"] = diff(new["comparison"])
    return json


def convert(new):
    """A document of version 3 as one of version 2; another one as it is."""
    if not isinstance(new, dict) or new.get("version") != 3:
        return new
    if new.get("format") == "trapline-page":
        return page(new) if "head" in new["recordings"][0] else new
    if "head" not in new:
        return new
    command, tables = new["head"]["command"], new["tables"]
    if "guest_span" in new["head"]:
        return guest_span_report(new) if command == "report" else guest_spans(new)
    return {"report": report, "explain": explain, "stalls": stalls, "advise": advise, "diff": diff, "top": top}[command](new)


def loads(text):
    """json.loads() of what version 2 would have been."""
    return convert(json.loads(text))


def load(file):
    return loads(file.read())


def text_of(text):
    """The bytes that trapline wrote before, of those that it writes now."""
    try:
        new = json.loads(text, parse_float=lambda digits: FLOAT + digits)
    except ValueError:
        return text
    old = convert(new)
    if old is new:
        return text
    lines = text.rstrip(b"\n" if isinstance(text, bytes) else "\n")
    in_lines = (b"\n" if isinstance(text, bytes) else "\n") in lines
    ascii = "format" in new
    made = json.dumps(old, ensure_ascii=ascii, indent=2 if in_lines else None, separators=None if in_lines else (",", ":"))
    made = re.sub(r'"\\u0000float:([^"]*)"', r"\1", made)
    if ascii:
        made = made.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    made += "\n" if text[-1:] in (b"\n", "\n") else ""
    return made.encode() if isinstance(text, bytes) else made


if __name__ == "__main__":
    with open(sys.argv[1], "rb") if len(sys.argv) > 1 else sys.stdin.buffer as given:
        sys.stdout.buffer.write(text_of(given.read()))
