"""Why each page fault came, once more from the text of `trace-cmd report`: beside `trapline export --rows faults` and
`report --faults`, as docs/formats/faults.md has it.

Who served a page is the wait oracle's; here a fault that is served only has to have slept.
"""
import collections
import subprocess

import oracle
import tables
from memory_oracle import CPU_SETS, READ_OR_EXECUTE, SET_MEMORY, WRITE

PAGE, LARGE = 4096, 512 * 4096
MOVABLE, ZERO, THIS_NODE, THERE, LEAF = 0x8, 0x100, 0x200000, 1 << 11, 1 << 7
GET_DIRTY_LOG, CLEAR_DIRTY_LOG = 0x4010AE42, 0xC018AEC0
BROUGHT = {"first-touch", "file", "disk"}
BY_REASON = ("npf", "EPT_VIOLATION")
WORKS = {"direct_reclaim": "reclaim", "memcg_reclaim": "reclaim", "memcg_softlimit_reclaim": "reclaim",
         "node_reclaim": "reclaim", "compaction": "compaction"}


def hexadecimal(event, field):
    return int(event.fields[field].removeprefix("0x"), 16)


def is_fault(span):
    detail = span.detail()
    return detail[1] == "page-fault" if detail else span.reason in BY_REASON


class Fault:
    """What a thread did since its exit began, or a worker since it brought a page last."""

    def __init__(self, at):
        self.since, self.did, self.code, self.arm, self.maps_again = at, set(), None, False, None
        self.order, self.page, self.size = -1, -1, 0  # of what was allocated last; that it faults on; of what it mapped

    def access(self):
        """(what, whether the page was present: None where it is not known, whether its access flag was clear)"""
        if not self.code:
            return None, None, False
        if self.arm:
            status = self.code >> 2 & 15
            what = "execute" if self.code >> 26 == 0x20 else "write" if self.code & 64 else "read"
            return what, status != 1, status == 2
        vmx = self.reason == "EPT_VIOLATION"
        fetch, present = (4, 0x38) if vmx else (16, 1)
        what = "execute" if self.code & fetch else "write" if self.code & 2 else "read"
        return what, bool(self.code & present), False


class Faults:
    def __init__(self, model):
        self.model, self.x86 = model, any("isa" in event.fields for event in model.events)
        self.doing, self.causes, self.seen = {}, {}, set()
        self.handed = []                                 # page, thread, since
        self.removed = {}                                # (vm, address, large): (by, how)
        self.advice, self.work, self.took, self.sets = {}, {}, {}, set()
        self.pages, self.changes = set(), collections.Counter()
        self.ranges, self.mapped = {}, {}
        self.changer, self.logs = {}, set()
        self.last, self.brought = {}, {}
        self.vcpus, self.vms, self.faulting = set(), set(), set()
        self.unknown = False  # the process of a vCPU that faulted is not known
        self.losses = 0

    def vm(self, tid):
        process = self.model.process.get(tid, 0)
        return tid if process == 0 and tid in self.vcpus else process

    def run(self):
        ends = {(span.tid, span.end): span for span in self.model.spans}
        holes = sorted(self.model.holes, key=lambda hole: hole.start)
        for event in self.model.events:
            while holes and holes[0].end <= event.at:
                holes.pop(0)
                self.forget()
            span = ends.pop((event.tid, event.at), None) if event.name == "kvm_entry" else None
            self.on(event)
            if span is not None:
                self.end(span)
        return self.causes

    def forget(self):
        self.losses += 1
        self.removed.clear()
        self.doing.clear()
        self.handed.clear()
        self.advice.clear()
        self.work.clear()
        self.took.clear()
        self.sets.clear()
        self.last.clear()
        self.brought.clear()

    def deed(self, event, *what):
        self.doing.setdefault(event.tid, Fault(event.at)).did.update(what)

    def on(self, event):
        name, tid = event.name, event.tid
        work = WORKS.get(name.removeprefix("mm_").removeprefix("vmscan_").removesuffix("_begin").removesuffix("_end"))
        if name in ("kvm_exit", "kvm_entry", "kvm_userspace_exit"):
            self.vcpus.add(tid)
            self.faulting.discard(tid)
        if name == "kvm_exit":
            self.doing[tid] = Fault(event.at)
        elif name in ("kvm_page_fault", "kvm_guest_fault"):
            self.faulting.add(tid)
            fault = self.doing.setdefault(tid, Fault(event.at))
            fault.page = hexadecimal(event, "fault_address" if "fault_address" in event.fields else "ipa") // PAGE * PAGE
            code, fault.arm = ("hsr", True) if name == "kvm_guest_fault" else ("error_code", False)
            fault.code = hexadecimal(event, code) if code in event.fields and fault.code is None else fault.code
        elif name == "mm_page_alloc":
            self.seen.add("page")
            flags = hexadecimal(event, "gfp_flags")
            order = oracle.number(event.fields, "order")
            if flags & MOVABLE and not (flags & THIS_NODE and order == 0):
                self.doing.setdefault(tid, Fault(event.at)).order = order
                self.deed(event, "page", *(["zero"] if flags & ZERO else []))
        elif name == "mm_filemap_add_to_page_cache":
            self.seen.add("file")
            self.deed(event, "file")
        elif name == "block_bio_queue" and "R" in event.text.split()[1]:
            self.deed(event, "disk")
        elif name == "kvm_unmap_hva_range":
            self.deed(event, *(["unmap"] if tid in self.faulting and tid not in self.work else []))
            self.sets.discard(tid)
            self.seen.add("unmap")
        elif name == "kvm_dirty_ring_push":
            self.deed(event, "ring")
        elif name == "fast_page_fault":
            self.on_fast(event)
        elif name == "kvm_tdp_mmu_spte_changed":
            self.on_mapping(event)
        elif name == "kvm_try_async_get_page":
            self.deed(event)
            self.handed.append((hexadecimal(event, "gva") // PAGE, tid, event.at))
        elif name == "kvm_async_pf_completed":
            self.on_brought(event)
        elif name == "sys_enter_madvise":
            self.advice[tid] = hexadecimal(event, "behavior")
        elif name == "sys_exit_madvise":
            self.advice.pop(tid, None)
        elif name == "sys_enter_ioctl":
            self.on_ioctl(event)
        elif name == "mm_collapse_huge_page_isolate":  # what it collapses is unmapped before
            vm, last, _ = self.took.pop(tid, (None, 0, None))
            for place, (by, how) in self.removed.items():
                if by == tid and not how and place[0] == vm and place[1] // LARGE == last // LARGE and not place[2]:
                    self.removed[place] = by, "collapse"
        elif work and name.endswith("_begin"):
            self.work[tid] = work
        elif work and self.work.get(tid) == work:
            self.work.pop(tid)

    def on_fast(self, event):
        old, now = (hexadecimal(event, key) for key in ("old_spte", "new_spte"))
        if not old & READ_OR_EXECUTE:
            return
        writes = hexadecimal(event, "error_code") & 2
        if old == now and (old & WRITE or not writes):
            self.deed(event, "mapped so")
        elif not old & WRITE and old | WRITE == now & ~CPU_SETS | old & CPU_SETS:
            self.deed(event, "logged")

    def unmaps(self, tid):
        return tid in self.doing and "unmap" in self.doing[tid].did

    def on_ioctl(self, event):
        self.advice.pop(event.tid, None)
        self.sets.discard(event.tid)
        command, vm = oracle.number(event.fields, "cmd"), self.vm(event.tid)
        if command in SET_MEMORY:
            self.changes[vm] += 1
            self.changer[vm] = event.tid
            self.sets.add(event.tid)
        if command in (GET_DIRTY_LOG, CLEAR_DIRTY_LOG):
            self.logs.add(vm)

    def on_mapping(self, event):
        self.seen.add("mapping")
        level, tid = int(event.fields["level"]), event.tid
        old, now = (hexadecimal(event, key) for key in ("old_spte", "new_spte"))

        def maps(entry):
            return bool(entry & THERE and (level == 1 or entry & LEAF))

        if not maps(old) and not maps(now) or now & THERE and not maps(now):
            return
        size = PAGE << 9 * min(level - 1, 3)
        is_its = tid in self.vcpus and tid in self.doing and 0 <= self.doing[tid].page - hexadecimal(event, "gfn") * PAGE < size
        place = self.vm(tid), hexadecimal(event, "gfn") * PAGE, level > 1
        if maps(old) and not maps(now):
            advice = self.advice.get(tid)
            how = self.work.get(tid) or (f"madvise {advice}" if advice is not None
                                         else "slots" if tid in self.sets else "copy" if tid in self.vcpus and self.unmaps(tid) else "")
            self.removed[place] = tid, how
            self.took[tid] = place
        elif maps(now) and not maps(old):
            for vm in place[0], 0:
                gone = self.removed.pop((vm, *place[1:]), None)
                if gone and is_its and (vm or len(self.vms) <= 1):
                    self.doing[tid].maps_again = gone
        if is_its and maps(now):
            self.doing[tid].size = size
        if is_its:
            self.deed(event, "change", *(["map"] if maps(now) and not maps(old) else []),
                      *(["writable"] if maps(now) and maps(old) and now & WRITE and not old & WRITE else []))

    def on_brought(self, event):
        page = hexadecimal(event, "gva") // PAGE
        done = self.doing.pop(event.tid, Fault(event.at))
        for of, tid, since in self.handed:
            if of == page and done.since >= since and tid in self.doing:
                self.doing[tid].did |= done.did & {"page", "zero", "file", "disk"}
        self.handed = [handed for handed in self.handed if handed[0] != page]

    def taken(self, vm, address):
        for of in (vm, 0):
            if of == 0 and len(self.vms) > 1:
                return None
            for large in (False, True):
                place = of, address // LARGE * LARGE if large else address, large
                if place in self.removed:
                    return self.removed[place]
        return None

    def end(self, span):
        tid = span.tid
        if not is_fault(span):
            detail = span.detail()
            self.seen.update(["device"] if detail and detail[1] == "mmio" else [])
            if span.reason not in ("interrupt", "EXTERNAL_INTERRUPT", "PREEMPTION_TIMER", "nmi", "IRQ"):
                self.last.pop(tid, None)
            return
        fault = self.doing.get(tid)
        if fault is None or not span.start <= fault.since < span.end:
            self.causes[tid, span.start] = None
            return
        fault.reason = span.reason
        detail, vm = span.detail(), self.vm(tid)
        self.vms.add(vm)
        self.unknown |= self.model.process.get(tid, 0) == 0
        self.unsure = self.unknown and len(self.vms) > 1
        shadow = self.x86 and span.reason not in BY_REASON
        address = detail[2] // PAGE * PAGE if detail and span.whose() == "guest" and not shadow else None
        fault.code = None if shadow else fault.code
        place, by_slots, first = (vm, address), False, None
        if address is not None:
            mapped = self.mapped_of(vm, address)
            first = None if self.unsure else True
            if place in self.pages:
                first, by_slots = False, address not in mapped
            mapped.add(address)
            self.pages.add(place)
        cause, how = self.why(span, fault, vm, address, first, by_slots)
        self.causes[tid, span.start] = cause, how, first
        # The fault that brings a page does not map it where memory was unmapped meanwhile: the next one does.
        if "page" in fault.did and (cause == "copy" or cause in BROUGHT and self.x86 and "mapping" in self.seen and "map" not in fault.did):
            self.brought[tid] = address, cause
        self.last[tid] = address
        if first and fault.size >= LARGE:
            begin = address // fault.size * fault.size
            for at in range(begin, begin + fault.size, PAGE):
                self.mapped_of(vm, at).add(at)
                self.pages.add((vm, at))

    def mapped_of(self, vm, address):
        """Which pages of its 2 MiB are mapped since the slots changed: told anew where they, or events, did since."""
        place = vm, address // LARGE
        known, state = self.ranges.get(place), (self.changes[vm], self.losses)
        if known != state:
            lost = known is not None and known[1] != self.losses
            self.mapped[place] = {at for of, at in self.pages if of == vm and at // LARGE == address // LARGE} if lost else set()
            self.ranges[place] = state
        return self.mapped[place]

    def why(self, span, fault, vm, address, first, by_slots):  # pylint: disable=too-many-return-statements
        tid, did = span.tid, fault.did
        access, present, aged = fault.access()
        repeats = address is not None and self.last.get(tid) == address
        at, brought = self.brought.pop(tid, (None, ""))
        maps_it = at == address and repeats and "page" not in did and (brought == "copy" or "map" in did)
        if aged:
            return "access-flag", ""
        if access == "execute" and present:
            return "no-execute", ""
        if access == "write" and did >= {"unmap", "page"} and fault.order == 0:
            return "copy", ""
        if maps_it and brought:
            return brought, ""
        for deed in ("file", "disk"):
            if deed in did:
                return deed, ""
        protects = did & {"logged", "writable"} or (
            fault.arm and present and access == "write" and "unmap" not in did and {"page", "unmap"} <= self.seen)
        if protects and "page" not in did:
            return "write-protected", "dirty ring" if "ring" in did else "dirty bitmap" if vm in self.logs else ""
        if "mapped so" in did:
            return "again", ""
        if address is not None and present is False and (taken := fault.maps_again or self.taken(vm, address)):
            return "removed", taken
        if "page" in did and present is False:
            large = fault.order >= 9 and "file" in self.seen  # nothing of that size is swapped in
            new = self.x86 and not self.losses and not self.unsure or first
            known = not self.x86 or "mapping" in self.seen
            return "first-touch" if known and new and ("zero" in did or large) else "not-known", ""
        if by_slots and present is False and "mapping" in self.seen:
            return "removed", (self.changer[vm], "slots")
        waited = span.parts["blocked"] + span.parts["halted"]
        if present is False and first and not self.losses and "page" in self.seen and not waited and "page" not in did and (
                "map" in did if self.x86 else "device" in self.seen):
            return "was-there", ""
        if repeats and "page" not in did and ("mapping" in self.seen and "change" not in did if self.x86
                                              else {"page", "unmap", "device"} <= self.seen):
            return "again?", ""  # if the instruction is the same
        return "not-known", ""


HOW = {"reclaim": "reclaim", "compaction": "compaction", "collapse": "collapse of pages", "copy": "copy on write",
       "slots": "memory slots", "": None, "madvise 4": "madvise(MADV_DONTNEED)", "madvise 25": "madvise(MADV_COLLAPSE)"}


def check(trapline, path):
    model = oracle.model_of(path)
    if model.fallback:
        return
    rows = tables.rows(trapline, path, "faults")
    spans = {(span.tid, span.start): span for span in model.spans if is_fault(span)}
    if {(row["tid"], row["start_ns"]) for row in rows} != spans.keys() or len(rows) != len(spans):
        yield f"{len(rows)} page faults are reported, there are {len(spans)}"
        return
    causes = Faults(model).run()
    for row in rows:
        key = row["tid"], row["start_ns"]
        span, known, cause = spans[key], causes.get(key), row["cause"]
        where = f"fault of tid {key[0]} at {key[1]}, {row['address'] or 0:#x}"
        parts = ("kernel_ns", "user_ns", "preempted_ns", "server_ns", "disk_ns", "other_wait_ns")
        if row["total_ns"] != span.end - span.start or (
                None not in [row[part] for part in parts] and sum(row[part] for part in parts) != row["total_ns"]):
            yield f"{where}: its parts do not sum to {span.end - span.start}"
        if known is None:
            continue
        if cause == "userfaultfd":
            if span.parts["blocked"] + span.parts["halted"] == 0:
                yield f"{where}: {row['by']} served it, and it did not sleep"
            continue
        ours, how, first = known
        if ours == "again?":
            ours = cause if cause in ("again", "not-known") else "again"
        by = None
        if isinstance(how, tuple):
            by, how = how[0], HOW.get(how[1], how[1])
        if (cause, row["by_tid"], row["how"], row["first"]) != (ours, by, how or None, None if first is None else int(first)):
            yield (f"{where}: {cause} by {row['by_tid']} ({row['how']}), first {row['first']}, and it is {ours} by {by} "
                   f"({how or None}), first {first}")
    # Of several vCPUs of unknown processes nothing tells which share their memory.
    if len({row["tid"] for row in rows if row["address"] is not None and row["vm"] is None}) > 1:
        try:
            yield f"{len(tables.rows(trapline, path, 'working-set'))} ranges of memory whose VMs are not known"
        except subprocess.CalledProcessError:
            pass
    else:
        yield from check_working_set(rows, tables.rows(trapline, path, "working-set"))
    report = tables.of(trapline, "report", path, "--faults")
    for name in ("faults", "fault_vcpus"):
        for column, of in (("count", lambda row: 1), ("total_ns", lambda row: row["total_ns"]), ("first", lambda row: row["first"] or 0)):
            if sum(row[column] for row in report[name]["rows"]) != sum(map(of, rows)):
                yield f"{name}: {column} does not sum to that of the faults"
    counts = collections.Counter(row["cause"] for row in rows)
    if {row["cause"] for row in report["faults"]["rows"]} != set(counts) or any(
            sum(row["count"] for row in report["faults"]["rows"] if row["cause"] == cause) != count for cause, count in counts.items()):
        yield "the rows by cause are not those of the faults"


def check_working_set(faults, ranges):
    """The ranges are the pages of the first faults, once each, in the order in which the first faults end."""
    pages, times, count = {}, 0, 0
    for fault in faults:
        if fault["first"] != 1 or (fault["vm"], fault["address"] // PAGE) in pages:
            continue
        size = max(fault["page_bytes"] or 0, PAGE)
        first = fault["address"] // size * size
        times += fault["total_ns"]
        count += 1
        for page in range(first // PAGE, (first + size) // PAGE):
            pages.setdefault((fault["vm"], page), (fault["start_ns"] + fault["total_ns"], fault["start_ns"]))
    found = [(row["vm"], page) for row in ranges for page in range(row["address"] // PAGE, (row["address"] + row["length"]) // PAGE)]
    if len(found) != len(set(found)) or set(found) != pages.keys():
        yield f"the working set has {len(found)} pages, and there are {len(pages)}"
        return
    if count != sum(row["faults"] for row in ranges):
        yield f"the working set is of {sum(row['faults'] for row in ranges)} faults, and there are {count}"
    if times != sum(row["total_ns"] for row in ranges):
        yield f"the faults of the working set take {sum(row['total_ns'] for row in ranges)} ns, and it is {times}"
    ends = []
    for row in ranges:
        order = [pages[row["vm"], page] for page in range(row["address"] // PAGE, (row["address"] + row["length"]) // PAGE)]
        ends.append(order[0])
        if order != sorted(order) or order[0][1] != row["start_ns"]:
            yield f"the pages from {row['address']:#x} on are not in the order of their faults"
    if ends != sorted(ends):
        yield "the ranges are not in the order of their first faults"
