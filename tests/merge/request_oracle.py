"""Computes from trace-cmd's text what `report --by span` says of virtio requests, in another way.

The guest's notifies are found by what the merge does not know: they are the MMIO writes of two bytes.
On VMX a notify is a kvm_fast_mmio, which has no value: QEMU lays the queues of a device four bytes apart,
so the address tells the queue's number. (One device with queues, as in all recordings here.)
"""
import bisect
import re

import recording
import tables

SHAPES = ("virtio_blk_handle_read", "virtio_blk_handle_write", "virtio_queue_notify")


def number(text, name):
    return re.search(rf"\b{name} (\S+)", text)[1]


class Oracle:
    def __init__(self):
        self.exit, self.vcpu_thread = {}, {}
        self.writes, self.last = {}, {}   # by queue number; by queue
        self.served, self.open = {}, {}   # by thread; by (shape, pointer)
        self.ended, self.notifies = {}, []
        self.injected = {}                # by (thread, vector)
        self.spans = []                   # [shape, notified, start, end, (thread, time) or None]

    def marker(self, tid, at, text):
        name = text.split(" ", 1)[0]
        if name == "virtio_queue_notify":
            n, queue = number(text, "n"), number(text, "vq")
            own = [exit for exit, write in self.writes.get(n, []) if write > self.last.get(queue, at)]
            self.served[tid] = own[0] if own else None
            self.last[queue] = at
            self.open["virtio_queue_notify", queue] = (self.served[tid], at)
        elif name in SHAPES:
            self.open[name, number(text, "req")] = (self.served.get(tid), at)
        elif name == "virtio_blk_req_complete":
            for shape in SHAPES[:2]:
                begun = self.open.pop((shape, number(text, "req")), None)
                if begun:
                    self.spans.append([shape, *begun, at, None])
                    self.ended[tid] = [self.spans[-1]]
        elif name == "virtio_notify":
            begun = self.open.pop(("virtio_queue_notify", number(text, "vq")), None)
            told = self.ended.pop(tid, [])
            if begun:
                self.spans.append(["virtio_queue_notify", *begun, at, None])
                told.append(self.spans[-1])
            self.notifies.append([tid, told])

    def kernel(self, tid, at, name, text):
        if name == "kvm_exit":
            self.exit[tid] = at
        elif name == "kvm_entry" and "vcpu " in text:
            self.vcpu_thread[int(number(text, "vcpu").rstrip(","))] = tid
        elif name == "kvm_mmio" and text.startswith("mmio write len 2 "):
            n = str(int(number(text, "val"), 16))
            self.writes.setdefault(n, []).append((self.exit[tid], at))
        elif name == "kvm_fast_mmio":
            n = str((int(text.split()[-1], 16) & 0xFFF) // 4)
            self.writes.setdefault(n, []).append((self.exit[tid], at))
        elif name == "kvm_msi_set_irq" and self.notifies and self.notifies[-1][0] == tid:
            for span in self.notifies.pop()[1]:
                span[4] = (int(number(text, "dst"), 16), int(number(text, "vec")), at)
        elif name == "kvm_inj_virq" and "reinjected" not in text:
            vector = int(re.search(r"0x[0-9a-f]+", text)[0], 16)
            self.injected.setdefault((tid, vector), []).append(at)

    def figures(self):
        figures = {}
        for shape, notified, start, end, raised in self.spans:
            row = figures.setdefault(shape, {"requests": [], "notify_to_start": [],
                                             "end_to_injection": [], "notify_to_injection": []})
            row["requests"].append(end - start)
            if notified:
                row["notify_to_start"].append(start - notified)
            if not raised:
                continue
            vcpu, vector, at = raised
            times = self.injected.get((self.vcpu_thread.get(vcpu), vector), [])
            place = bisect.bisect_right(times, at)
            if place < len(times):
                row["end_to_injection"].append(times[place] - end)
                if notified:
                    row["notify_to_injection"].append(times[place] - notified)
        return figures


def check(trapline, path):
    """Differences as sentences."""
    oracle = Oracle()
    for event in recording.read(path)[0]:
        if event.name == "print":
            oracle.marker(event.tid, event.at, event.text.split(": ", 1)[1])
        else:
            oracle.kernel(event.tid, event.at, event.name, event.text)
    figures = oracle.figures()
    report = tables.of(trapline, "report", path, "--by", "span")
    wrong = []

    def expect(what, is_so, printed, computed):
        if not is_so:
            wrong.append(f"{what}: printed {printed}, computed {computed}")

    rows = {row["key"].split("..")[0]: row for row in report["request_paths"]["rows"]}
    expect("rows", set(rows) == set(figures) == set(SHAPES), sorted(rows), sorted(figures))
    for shape, row in rows.items():
        own = figures[shape]
        expect(f"{shape} requests", row["requests"] == len(own["requests"]), row["requests"],
               len(own["requests"]))
        # What the merge has not yet proved is missing: of each queue the first notifies.
        for part in ("notify_to_start", "end_to_injection", "notify_to_injection"):
            printed, computed = row[part], own[part]
            missing = len(computed) - printed["count"]
            expect(f"{shape} {part} known", 0 <= missing <= 4, printed["count"], len(computed))
            if missing == 0 and computed:
                for key, value in (("total_ns", sum(computed)), ("min_ns", min(computed)),
                                   ("max_ns", max(computed))):
                    expect(f"{shape} {part} {key}", printed[key] == value, printed[key], value)
            elif computed:
                # The sum of some of them: between the smallest and the largest that are left.
                ordered = sorted(computed)
                low, high = sum(ordered[:printed["count"]]), sum(ordered[missing:])
                expect(f"{shape} {part} total", low <= printed["total_ns"] <= high,
                       printed["total_ns"], f"{low} to {high}")
                expect(f"{shape} {part} max", printed["max_ns"] in computed, printed["max_ns"], "")
                expect(f"{shape} {part} min", printed["min_ns"] in computed, printed["min_ns"], "")
        print(f"{shape}: {row['requests']} requests; notified {row['notify_to_start']['count']}, "
              f"injected {row['end_to_injection']['count']}")
    return wrong
