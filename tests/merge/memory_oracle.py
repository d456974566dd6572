"""What memory had to do with the time of threads, once more, from the events of trace-cmd's text (stall_oracle.py)."""
import collections

import oracle

BEGINS = ("direct_reclaim_begin", "memcg_reclaim_begin", "memcg_softlimit_reclaim_begin", "node_reclaim_begin",
          "compaction_begin")
# In an entry of KVM's page tables: what the CPU sets, the right to write, to read or execute.
CPU_SETS, WRITE, READ_OR_EXECUTE = 0x360, 2, 5
SET_MEMORY = (0x4020AE46, 0x40A0AE49)


def memory_works(events):
    """By thread: (begin, end, what), of which the end was recorded, before the thread was in the guest again."""
    works, begun, full = collections.defaultdict(list), {}, {}
    for event in events:
        name = event.name.removeprefix("mm_vmscan_").removeprefix("mm_")
        what = "reclaim" if "reclaim_" in name and name != event.name else "compaction"
        if event.name == "kvm_entry":
            begun.pop(event.tid, None)
            if event.tid in full:
                works[event.tid].append((full.pop(event.tid), event.at, "dirty-logging"))
        elif event.name == "kvm_dirty_ring_exit":
            full[event.tid] = event.at
        elif name in BEGINS:
            begun[event.tid] = (event.at, what)
        elif name.removesuffix("end") + "begin" in BEGINS and event.tid in begun:
            began, of = begun.pop(event.tid)
            if of == what:
                works[event.tid].append((began, event.at, what))
    return works


def logged_writes(events):
    """By thread: when a write made a page writable again, and nothing else; and when PML's log was full."""
    logged = collections.defaultdict(list)
    for event in events:
        if event.name == "fast_page_fault":
            old, new = (int(event.fields[key].removeprefix("0x"), 16) for key in ("old_spte", "new_spte"))
            if old & READ_OR_EXECUTE and not old & WRITE and old | WRITE == new & ~CPU_SETS | old & CPU_SETS:
                logged[event.tid].append(event.at)
        elif event.name == "kvm_exit" and "PML_FULL" in event.text:
            logged[event.tid].append(event.at)
    return logged


def collapse_waits(events):
    """By thread: (begin, end) of its sleeps that ended while who woke it, or woke its worker, collapsed pages."""
    waits, unmaps, collapses, asleep, woken = collections.defaultdict(list), {}, {}, {}, {}
    for event in events:
        tid = event.tid
        if event.name == "kvm_unmap_hva_range":
            unmaps[tid] = event.at
            collapses.pop(tid, None)
        elif event.name == "mm_collapse_huge_page_isolate":
            if tid in unmaps:
                collapses[tid] = unmaps[tid]
        elif event.name in ("mm_collapse_huge_page", "sys_enter_ioctl"):
            unmaps.pop(tid, None)
            collapses.pop(tid, None)
        elif event.name == "sched_switch":
            prev = oracle.number(event.fields, "prev_pid")
            if oracle.number(event.fields, "prev_state") & 0xff:
                asleep[prev] = event.at
                unmaps.pop(prev, None)
                collapses.pop(prev, None)
        elif event.name == "sched_waking":
            sleeper = oracle.number(event.fields, "pid")
            if sleeper not in asleep:
                continue
            slept = asleep.pop(sleeper)
            woken.pop(sleeper, None)
            if tid in collapses:
                since = collapses[tid]
                woken[sleeper] = (event.at, since)
            elif tid in woken and woken[tid][0] >= slept:
                since = woken[tid][1]
            else:
                continue
            waits[sleeper].append((max(slept, since), event.at))
    return waits


LONGEST_UNMAP = 10_000_000  # beyond it nothing is claimed


class Unmaps:
    """When threads that are no vCPUs unmapped memory, at the latest until they do something else, and no longer than that."""

    def __init__(self, events):
        self.events = events
        self.spans = []
        begun, vcpus = {}, set()

        def end(tid, at):
            if tid in begun:
                self.spans.append((begun.pop(tid), at))

        for event in events:
            if event.name == "sched_switch":
                if oracle.number(event.fields, "prev_state") & 0xff:
                    end(oracle.number(event.fields, "prev_pid"), event.at)
            elif event.name == "sys_enter_ioctl" and oracle.number(event.fields, "cmd") in SET_MEMORY:
                for tid in list(begun):
                    end(tid, event.at)
            elif event.name in ("kvm_unmap_hva_range", "mm_collapse_huge_page", "sys_enter_ioctl", "kvm_entry", "kvm_exit"):
                end(event.tid, event.at)
                if event.name == "kvm_exit":
                    vcpus.add(event.tid)
                if event.name == "kvm_unmap_hva_range" and event.tid not in vcpus:
                    begun[event.tid] = event.at
        self.spans += [(at, events[-1].at) for at in begun.values()]
        self.spans = [(begin, min(at, begin + LONGEST_UNMAP)) for begin, at in self.spans]

    def any(self, begin, end):
        return any(a <= end and b >= begin for a, b in self.spans)
