"""Computes from trace-cmd's text which way requests took through the host's block layer, and compares
it with what `report --by span` says.

`distance` is what the merge has to find out: the sector of the host's disk at which the guest's disk begins
(filefrag told it when the recording was made). With it each request's sectors on the host's disk are known,
whoever queued them. `shortest` is the time in nanoseconds after which the disk answers, where it was made to.
"""
import re

import recording
import tables

BLOCK = re.compile(r"(\d+),(\d+) (\w+) .*?(\d+) \+ (\d+) ")
PARTS = ("start_to_bio", "bio_to_issue", "issue_to_complete", "complete_to_end")


def number(text, name):
    return re.search(rf"\b{name} (\S+)", text)[1]


class Request:
    def __init__(self, at, write, sector, sectors):
        self.at, self.write, self.sector, self.sectors = at, write, sector, sectors
        self.queued = self.issued = self.completed = None

    def covers(self, write, sector, sectors):
        return (self.write == write and sector < self.sector + self.sectors
                and self.sector < sector + sectors)


def find(path, distance):
    """The four parts of each request, by the name of its first event."""
    opened, parts, most = {}, {}, 0
    for event in recording.read(path)[0]:
        at, name, text = event.at, event.name, event.text
        if name == "print":
            event = re.search(r"virtio_blk_\w+", text)
            event = event and event[0]
            if event in ("virtio_blk_handle_read", "virtio_blk_handle_write"):
                opened[number(text, "req")] = (event, Request(
                    at, event.endswith("write"), int(number(text, "sector")) + distance,
                    int(number(text, "nsectors"))))
                most = max(most, len(opened))
            elif event == "virtio_blk_req_complete":
                shape, request = opened.pop(number(text, "req"), (None, None))
                if request and request.completed:
                    parts.setdefault(shape, []).append(
                        (request.queued - request.at, request.issued - request.queued,
                         request.completed - request.issued, at - request.completed))
        elif name in ("block_bio_queue", "block_rq_issue", "block_rq_complete"):
            match = BLOCK.search(text)
            if not match:
                continue
            write, sector, sectors = "W" in match[3], int(match[4]), int(match[5])
            for _, request in opened.values():
                if not request.covers(write, sector, sectors):
                    continue
                if name == "block_bio_queue":
                    request.queued = request.queued or at
                elif name == "block_rq_issue":
                    request.issued = request.issued or at
                else:
                    request.completed = at
    return parts, most


def check(trapline, path, distance, shortest):
    """Differences as sentences."""
    expected, most = find(path, distance)
    report = tables.of(trapline, "report", path, "--by", "span")
    said = {row["key"].split("..")[0]: row for row in report["request_paths"]["rows"]}
    wrong = []
    for shape, requests in expected.items():
        block = said.get(shape, {}).get("block", {})
        for i, part in enumerate(PARTS):
            want = (len(requests), sum(parts[i] for parts in requests), max(parts[i] for parts in requests))
            got = block.get(part, {"count": 0, "total_ns": 0, "max_ns": 0})
            got = got["count"], got["total_ns"], got["max_ns"]
            if got != want:
                wrong.append(f"{shape} {part}: count, total, longest are {want}, trapline says {got}")
        if block and block["issue_to_complete"]["min_ns"] < shortest:
            wrong.append(f"{shape}: the disk answered before it can: {block['issue_to_complete']['min_ns']} ns")
        whole = sum(sum(parts) for parts in requests)
        rows = [row for row in report["groups"]["rows"] if row["key"].startswith(shape)]
        if rows and rows[0]["count"] == len(requests) and rows[0]["total_ns"] != whole:
            wrong.append(f"{shape}: the parts sum to {whole}, the requests to {rows[0]['total_ns']}")
    count = sum(len(requests) for requests in expected.values())
    if count < 20 or most < 2:
        wrong.append(f"the recording has {count} requests, {most} at once: too few to show anything")
    print(f"{path}: {count} requests on the disk, up to {most} at once")
    return wrong
