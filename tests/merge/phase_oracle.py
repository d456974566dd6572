"""The phases of a boot, once more from the text of `trace-cmd report`: beside `trapline report FILE --phase NAME=TEXT`.

The console is put together from the bytes that the guest wrote; the exits are oracle.py's.
"""
import collections

import oracle
import tables

number = oracle.number


def consoles(events):
    """(when, the line so far) of each byte that the guest writes, and of each marker."""
    lines = collections.defaultdict(str)
    for event in events:
        if event.name == "print":
            yield event.at, event.fields["buf"]
        detail = oracle.detail_of(event)
        if not detail or detail[1] not in ("port", "mmio") or detail[3] != "write":
            continue
        value = number(event.fields, "val", 256)
        if value > 255:
            continue
        where = detail[1], detail[2]
        line = lines[where] = "" if lines[where].endswith("\n") else lines[where]
        lines[where] = line + ("" if value in (0, 13) else chr(value))
        yield event.at, lines[where]


def begins(events, specs):
    """When each phase began."""
    left, found = list(specs), []
    for at, line in consoles(events):
        hit = next((i for i, (_, text) in enumerate(left) if text in line), None)
        if hit is not None:
            found.append((left[hit][0], at))
            left = left[hit + 1:]
    return found


def check(trapline, path, *texts):
    """Differences as sentences."""
    specs = [tuple(text.split("=", 1)) for text in texts]
    report = tables.of(trapline, "report", path, *(f"--phase={text}" for text in texts))
    rows, vcpus = report["phases"]["rows"], report["vcpus"]["rows"]
    model = oracle.model_of(path)
    spans = model.spans
    wanted = begins(model.events, specs)
    wrong = []
    if [(row["name"], row["start_ns"]) for row in rows[1:]] != wanted:
        wrong.append(f"phases {[(row['name'], row['start_ns']) for row in rows]}, oracle {wanted}")
    for row, last in zip(rows, [*(row["start_ns"] for row in rows[1:]), float("inf")], strict=True):
        mine = [s for s in spans if s.start < last and (row is rows[0] or s.start >= row["start_ns"])]
        sums = [len(mine), *(sum(s.parts[part] for s in mine) for part in oracle.PARTS)]
        got = [row["exits"], *(row[f"{part}_ns"] for part in oracle.PARTS)]
        if sums != got:
            wrong.append(f"{row['name']}: trapline {got}, oracle {sums}")
    for key in ("guest_ns", "halted_ns"):
        open_ns = sum(vcpu["open"]["ns"] for vcpu in vcpus
                      if vcpu["open"] and key.startswith(vcpu["open"]["state"]))
        # The exit in which a thread ended is in no phase; what it was halted in it is the vCPU's.
        ended_ns = sum(end - begin for vcpu in model.vcpus.values() if vcpu.phase == "gone" and vcpu.span
                       for begin, end, state in vcpu.span.pieces if key.startswith(state))
        if sum(row[key] for row in rows) + open_ns + ended_ns < sum(vcpu[key] for vcpu in vcpus):
            wrong.append(f"{key} of the phases is not that of the vCPUs")
    for key in ("paused_ns", "offline_ns", "not_seen_ns"):
        if sum(row[key] or 0 for row in rows) != sum(vcpu[key] or 0 for vcpu in vcpus):
            wrong.append(f"{key} of the phases is not that of the vCPUs")
    if len(wanted) != len(specs):
        wrong.append(f"the recording has only {wanted}")
    if not wrong:
        print(f"{path}: agree: {[(row['name'], row['exits']) for row in rows]}")
    return wrong
