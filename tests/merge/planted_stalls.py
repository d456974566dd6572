"""Planted stalls are found, with their names; quiet recordings have none.

tests/data/record/planted made the recordings. When each stall began and ended is taken from what the plant wrote down
itself, or from trace-cmd's text, as in planted_oracle.py: at least 95 % of that time is told as the stall's cause. The threshold of quiet
recordings was fixed before they were made.
"""
import bisect
import itertools
import pathlib
import re

import memory_oracle
import oracle
import planted_oracle
import tables
from planted_oracle import cut, overlap

FOUND, MOST, QUIET = 0.95, 1.01, "50ms"
SIGSTOP, SIGCONT = 19, 18
STATE = re.compile(r"^runstate_set current_run_state \d+ \(([\w-]+)\) new_state \d+ \(([\w-]+)\)")
DOWNTIME_OFF_NS = 3_000_000  # QEMU counts it in milliseconds, from before its vCPUs stop


def stalls(trapline, path, least="1ms", begin=None, end=None):
    return tables.of(trapline, "stalls", path, "--min", least, "--top", "0", *tables.window(begin, end))["stalls"]["rows"]


def told(rows, cause, culprit=""):
    """Nanoseconds of that cause in the vCPUs' stalls."""
    of = [row for row in rows if row["vcpus"] is None]
    return sum(one["ns"] for row in of for one in row["causes"]["rows"]
               if one["cause"] == cause and culprit in (one["culprit"] or ""))


def by_signals(events):
    begun, spans = None, []
    for event in events:
        if event.name != "signal_generate":
            continue
        signal = oracle.number(event.fields, "sig")
        if signal == SIGSTOP:
            begun = event.at
        elif signal == SIGCONT and begun is not None:
            spans.append((begun, event.at))
            begun = None
    return spans


def by_states(events):
    """From when the VM was stopped for its migration; to when that was done, and to when it went on."""
    times = {}
    for event in events:
        match = STATE.match(event.fields.get("buf", "").partition(": ")[2] or event.fields.get("buf", ""))
        if event.name == "print" and match:
            times[match[1], match[2]] = event.at
    stopped = times["running", "finish-migrate"]
    return stopped, times["finish-migrate", "postmigrate"], times["postmigrate", "running"]


def share(what, found, planted, wrong, most=MOST):
    print(f"{what}: {found} of {planted} ns ({found / planted:.2%})")
    if not FOUND * planted <= found <= most * planted:
        wrong.append(f"{what}: {found} of {planted} ns")


def check_uffd(trapline, folder, wrong):
    """From the fault's message to the thread that serves it until that has its answer."""
    lines = (folder / "uffd.txt").read_text(encoding="utf-8").split("\n")
    spans = [tuple(int(word) for word in line.split()[1:3]) for line in lines if line]
    # Before its first exit that is recorded nothing tells of the vCPU.
    events, _ = oracle.read(str(folder / "uffd.dat"))
    first = next(event.at for event in events if event.name == "kvm_exit")
    spans = [span for span in spans if span[0] >= first]
    rows = stalls(trapline, folder / "uffd.dat")
    share(f"{len(spans)} pages of plant-uffd", told(rows, "page", "plant-uffd"),
          sum(end - begin for begin, end in spans), wrong)


def check_stop(trapline, folder, wrong):
    spans = by_signals(oracle.read(str(folder / "stop.dat"))[0])
    rows = stalls(trapline, folder / "stop.dat")
    share(f"{len(spans)} SIGSTOPs", told(rows, "signal"), sum(end - begin for begin, end in spans), wrong)


def check_stop_vm(trapline, folder, wrong):
    """Both vCPUs of a VM: each stopped, and both at once."""
    spans = by_signals(oracle.read(str(folder / "stop-vm.dat"))[0])
    rows = [row for row in stalls(trapline, folder / "stop-vm.dat") if row["vcpus"] == row["vcpus_stopped"] == 2]
    share(f"{len(spans)} SIGSTOPs of a VM with 2 vCPUs", sum(one["ns"] for row in rows for one in row["causes"]["rows"]
                                                           if one["cause"] == "signal"),
          sum(end - begin for begin, end in spans), wrong)


def check_migrate(trapline, folder, wrong):
    stopped, done, goes_on = by_states(oracle.read(str(folder / "migrate.dat"))[0])
    ms = int(re.search(r"(\d+) ms", (folder / "migrate.txt").read_text(encoding="utf-8"))[1])
    print(f"downtime: query-migrate {ms} ms, by runstate_set {(done - stopped) / 1e6:.1f} ms")
    if abs(done - stopped - ms * 1_000_000) > DOWNTIME_OFF_NS:
        wrong.append(f"downtime: {done - stopped} ns, query-migrate {ms} ms")
    rows = [row for row in stalls(trapline, folder / "migrate.dat")
            if row["begin_ns"] <= stopped + DOWNTIME_OFF_NS and row["begin_ns"] + row["ns"] >= goes_on]
    share("QEMU had stopped the VM", told(rows, "paused"), goes_on - stopped, wrong)


def slept_or_ready(recording, pieces, spans):
    """Nanoseconds of the planted spans in which the vCPU waited, in its exits."""
    vcpu = recording.vcpus[0]
    waits = cut(pieces[vcpu], recording.exits[vcpu])
    return sum(overlap(waits, begin, end) for begin, end in spans)


def check_migrate_to(trapline, folder, wrong):
    """The first QEMU's vCPU stays stopped; the guest goes on in the second."""
    path = folder / "migrate-to.dat"
    times = {}
    for event in oracle.read(str(path))[0]:
        text = event.fields.get("buf", "").partition(": ")[2] or event.fields.get("buf", "")
        if event.name == "print" and text.startswith(("runstate_set", "vm_state_notify")):
            times.setdefault(re.sub(r"current_run_state |new_state |reason |[()]|\d+ ", "", text).strip(), event.at)
    begun, stopped = times["runstate_set running finish-migrate"], times["vm_state_notify running finish-migrate"]
    done, goes_on = times["runstate_set finish-migrate postmigrate"], times["runstate_set inmigrate running"]
    ms = int(re.search(r"(\d+) ms", (folder / "migrate-to.txt").read_text(encoding="utf-8"))[1])
    print(f"downtime: query-migrate {ms} ms, by runstate_set {(done - begun) / 1e6:.1f} ms, "
          f"until the second QEMU ran it {(goes_on - begun) / 1e6:.1f} ms")
    if abs(done - begun - ms * 1_000_000) > DOWNTIME_OFF_NS:
        wrong.append(f"downtime: {done - begun} ns, query-migrate {ms} ms")
    # A vCPU that waits for its first KVM_RUN is in no stall: they are the first QEMU's.
    share("the guest was in neither QEMU", told(stalls(trapline, path, "1ms", stopped, goes_on), "paused"),
          goes_on - stopped, wrong)
    if not any(row["begin_ns"] <= begun + DOWNTIME_OFF_NS and row["open"] for row in stalls(trapline, path)):
        wrong.append("no stall from then on")


def storms_of(events, zaps):
    """(begin, end, times) of the longest row of faults at one instruction and address in each."""
    storms = []
    for begin, end in zaps:
        inside = [event for event in events if event.name == "kvm_page_fault" and begin <= event.at < end]
        rows = [list(row) for _, row in itertools.groupby(inside, lambda event: re.search(r"rip \S+ address \S+", event.text)[0])]
        longest = max(rows, key=len)
        storms.append((longest[0].at, longest[-1].at, len(longest)))
    return storms


def check_faults(trapline, folder, wrong):
    """The longest row of faults at one instruction and address while the memory was taken away.

    It ends where KVM may map it again, which is before its pages are freed.
    """
    path = folder / "faults.dat"
    zaps, = planted_oracle.spans_of(folder / "faults.txt").values()
    storms = storms_of(oracle.read(str(path))[0], zaps)
    if len(storms) < 2 or min(count for _, _, count in storms) < 1000:
        wrong.append(f"storms in {len(zaps)} times: {storms}")
    rows = [row for row in stalls(trapline, path) if row["same_faults"]]
    told = sorted((row["begin_ns"], row["begin_ns"] + row["ns"]) for row in rows)
    share(f"{sum(count for _, _, count in storms)} faults in {len(storms)} storms",
          sum(overlap(told, begin, end) for begin, end, _ in storms), sum(end - begin for begin, end, _ in storms), wrong)
    # Within 100 us after a longer exit exits are not told from what went on after that.
    counts, planted = sorted(row["same_faults"] for row in rows), sorted(count for _, _, count in storms)
    if len(counts) != len(planted) or any(not FOUND * all_ <= seen <= all_ for seen, all_ in zip(counts, planted)):
        wrong.append(f"faults: {counts}, planted {planted}")
    if in_phase(trapline, path, "mmu-notifier"):
        wrong.append("no event tells that memory was unmapped")


def check_unmapped(trapline, folder, wrong):
    """The same, and kvm_unmap_hva_range tells why: the exits of a storm before its last one, of 10 ms at most."""
    path = folder / "unmapped.dat"
    recording = planted_oracle.Recording(str(path))
    zaps, = planted_oracle.spans_of(folder / "unmapped.txt").values()
    storms = storms_of(recording.events, zaps)
    if max(count for _, _, count in storms) < 1000:
        wrong.append(f"storms: {storms}")
    unmaps = memory_oracle.Unmaps(recording.events)
    inside = [(begin, end) for begin, end in recording.exits[recording.vcpus[0]]
              if any(a <= begin and end <= b for a, b, _ in storms) and unmaps.any(begin, end)]
    share(f"{len(inside)} page faults in vain", in_phase(trapline, path, "mmu-notifier"),
          sum(end - begin for begin, end in inside), wrong)


def check_swap(trapline, folder, wrong):
    """As of the slow disk: the sleeps that its reads cover."""
    recording = planted_oracle.Recording(str(folder / "swap.dat"))
    planted = [end - begin for begin, end in recording.sleeps_of_disk()]
    if len(planted) < 5:
        wrong.append(f"{len(planted)} pages were swapped in")
    share(f"{len(planted)} pages from the slow swap area", told(stalls(trapline, folder / "swap.dat"), "blocked", "disk"),
          sum(planted), wrong)


def check_reclaim(trapline, folder, wrong):
    """Its cgroup's memory was full, so that the vCPU had to reclaim some before it got any."""
    path = folder / "reclaim.dat"
    recording = planted_oracle.Recording(str(path))
    works = memory_oracle.memory_works(recording.events)[recording.vcpus[0]]
    planted = sum(end - begin for begin, end, _ in works)
    if len(works) < 4:
        wrong.append(f"memory was reclaimed {len(works)} times")
    found = sum(cause["ns"] for row in stalls(trapline, path) for cause in row["causes"]["rows"] if cause["phase"] == "reclaim")
    share(f"{len(works)} times memory was reclaimed", found, planted, wrong)


def in_phase(trapline, path, phase, spans=None, least="100us"):
    """Nanoseconds of that phase in stalls; of those that the spans lie in."""
    return sum(cause["ns"] for row in stalls(trapline, path, least) for cause in row["causes"]["rows"]
               if cause["phase"] == phase and (spans is None or any(
                   row["begin_ns"] <= begin and end <= row["begin_ns"] + row["ns"] for begin, end in spans)))


def check_collapse(trapline, folder, wrong):
    """A thread of low priority collapsed pages; the vCPU slept until that was done."""
    path = folder / "collapse.dat"
    recording = planted_oracle.Recording(str(path))
    waits = memory_oracle.collapse_waits(recording.events)[recording.vcpus[0]]
    if len(waits) < 5:
        wrong.append(f"{len(waits)} waits for a collapse")
    share(f"{len(waits)} waits for a collapse", in_phase(trapline, path, "collapse"),
          sum(end - begin for begin, end in waits), wrong)


def any_in(times, begin, end):
    at = bisect.bisect_left(times, begin)
    return at < len(times) and times[at] <= end


def check_dirty(trapline, folder, wrong):
    """The storm of write faults after a migration began, in Bochs: each exit for one that was not left."""
    path = folder / "dirty.dat"
    recording = planted_oracle.Recording(str(path))
    vcpu = recording.vcpus[0]
    logged = memory_oracle.logged_writes(recording.events)[vcpu]
    off = [event.at for event in recording.events if event.name == "sched_switch"]
    planted = sum(end - begin for begin, end in recording.exits[vcpu]
                  if any_in(logged, begin, end) and not any_in(off, begin, end))
    if len(logged) < 4000:
        wrong.append(f"{len(logged)} write faults")
    # The guest runs between them, so that they are in no stall.
    notes = tables.document(trapline, "stalls", path, "--min", "1ms")["notes"]
    note = re.search(r"dirty logging took the host's kernel ([\d.]+) ms in ([\d,]+) exits", "\n".join(notes))
    if int(note[2].replace(",", "")) != len(logged):
        wrong.append(f"{note[2]} exits, {len(logged)} writes")
    share(f"{len(logged)} write faults while dirty pages were logged", int(float(note[1]) * 1e6), planted, wrong)


def check_dirty_ring(trapline, folder, wrong):
    path = folder / "dirty-ring.dat"
    recording = planted_oracle.Recording(str(path))
    spans = [work[:2] for work in memory_oracle.memory_works(recording.events)[recording.vcpus[0]]]
    if len(spans) < 3:
        wrong.append(f"the ring was full {len(spans)} times")
    share(f"the ring of dirty pages was full {len(spans)} times", in_phase(trapline, path, "dirty-logging", spans),
          sum(end - begin for begin, end in spans), wrong, 1.05)  # with the write before it in the same exit


def check_copied(trapline, folder, wrong):
    """Write faults on present pages, and memory that is unmapped, both for copies: none of the phases."""
    path = folder / "copied.dat"
    events, _ = oracle.read(str(path))
    writes, unmaps = (sum(event.name == name for event in events) for name in ("fast_page_fault", "kvm_unmap_hva_range"))
    if writes < 3000 or unmaps < 3000:
        wrong.append(f"{writes} write faults, {unmaps} times memory was unmapped")
    rows = stalls(trapline, path, "20us")
    wrong += [f"{row['begin_ns']}: {cause['text']}" for row in rows for cause in row["causes"]["rows"] if cause["phase"]]
    print(f"{writes} write faults, {unmaps} copies, {len(rows)} stalls of 20us")


def check_killed(trapline, folder, wrong, name="killed"):
    """QEMU was killed while a signal had stopped it."""
    events, _ = oracle.read(str(folder / name / "trace.dat"))
    vcpus = {event.tid for event in events if event.name == "kvm_exit"}
    stopped = [event.at for event in events if event.name == "sched_switch"
               and oracle.number(event.fields, "prev_pid") in vcpus and oracle.number(event.fields, "prev_state") & oracle.STOPPED]
    killed = [event.at for event in events if event.name == "sched_waking" and event.at > stopped[0]
              and oracle.number(event.fields, "pid") in vcpus]
    rows = stalls(trapline, folder / name)
    share("stopped until it was killed", told(rows, "signal"), killed[0] - stopped[0], wrong)


def check_killed_snapshot(trapline, folder, wrong):
    check_killed(trapline, folder, wrong, "killed-snapshot")


def check_hog(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "hog.dat"))
    planted = slept_or_ready(recording, recording.ready, recording.runs[recording.planted("plant-hog")])
    share("ready beside plant-hog", told(stalls(trapline, folder / "hog.dat"), "preempted", "plant-hog"), planted, wrong)


def check_lock(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "lock.dat"))
    held, = planted_oracle.spans_of(folder / "lock.txt").values()
    share("plant-lock held QEMU's lock", told(stalls(trapline, folder / "lock.dat"), "blocked", "plant-lock"),
          slept_or_ready(recording, recording.asleep, held), wrong)


def check_disk(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "disk.dat"))
    planted = sum(end - begin for begin, end in recording.sleeps_of_disk())
    share("pages from the slow disk", told(stalls(trapline, folder / "disk.dat"), "blocked", "disk"), planted, wrong)


def check_quota(trapline, folder, wrong):
    recording = planted_oracle.Recording(str(folder / "quota/trace.dat"))
    share("the quota was used up", told(stalls(trapline, folder / "quota"), "preempted", "CPU quota"), recording.throttled(),
          wrong, 1 + planted_oracle.SHARE)


def check_quiet(trapline, folder, wrong):
    paths = sorted(folder.glob("quiet-*.dat"))
    for path in paths:
        wrong += [f"{path.name}: {row['finding']}" for row in stalls(trapline, path, QUIET)]
    print(f"{len(paths)} quiet recordings, {len(wrong)} stalls of {QUIET}")
    if len(paths) < 10:
        wrong.append(f"{len(paths)} recordings, not 10")


CHECKS = {"hog": check_hog, "lock": check_lock, "disk": check_disk, "quota": check_quota, "uffd": check_uffd,
          "stop": check_stop, "stop-vm": check_stop_vm, "migrate": check_migrate, "migrate-to": check_migrate_to, "faults": check_faults, "unmapped": check_unmapped,
          "swap": check_swap, "reclaim": check_reclaim, "collapse": check_collapse, "dirty": check_dirty, "dirty-ring": check_dirty_ring,
          "copied": check_copied, "killed": check_killed, "killed-snapshot": check_killed_snapshot, "quiet": check_quiet}


def check(trapline, folder, name):
    """Differences as sentences; `name` is one of CHECKS."""
    wrong = []
    CHECKS[name](trapline, pathlib.Path(folder), wrong)
    return wrong
