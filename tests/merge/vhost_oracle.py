"""Computes from trace-cmd's text what `report --by span` says of a vhost worker, and compares.

All wake-ups of the recording's one worker come from its one vCPU: a turn begins with the first sched_waking
after a sleep and ends with the next one, which the switch's state tells.
"""
import re

import recording
import tables


def find(path):
    worker, asleep, woken, ran, since, exit_at, wrote, notify = None, True, None, 0, None, None, False, None
    turns, raised = [], None
    interrupts = 0
    for event in recording.read(path)[0]:
        at, name, text, tid = event.at, event.name, event.text, event.tid
        if name == "kvm_exit":
            exit_at, wrote = at, False
        elif name in ("kvm_entry", "kvm_userspace_exit"):
            exit_at = None
        elif name in ("kvm_pio", "kvm_mmio", "kvm_fast_mmio") and "read" not in text:
            wrote = True
            if name == "kvm_fast_mmio" and woken and notify is None and exit_at:
                notify = exit_at
        elif name == "sched_switch":
            left, state, comm, came = re.search(
                r"prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+)", text).groups()
            if comm.startswith("vhost-"):
                if worker is None:
                    worker, asleep = int(came), False
                if int(came) == worker:
                    since = at
                    if woken and woken[1] is None:
                        woken[1] = at
            if worker is not None and int(left) == worker:
                ran += at - since if since else 0
                since = None
                if not state.startswith("R"):
                    if woken and woken[1]:
                        turns.append((woken[1] - woken[0], ran, notify, raised))
                    asleep, woken, ran, notify, raised = True, None, 0, None, None
        elif name == "sched_waking" and worker is not None and f" pid={worker} " in text and asleep:
            asleep, woken, ran = False, [at, None], 0
            notify = exit_at if wrote else None
        elif name == "kvm_msi_set_irq" and tid == worker:
            interrupts += 1
            raised = raised or at
    return worker, turns, interrupts


def check(trapline, path):
    """Differences as sentences."""
    worker, turns, interrupts = find(path)
    row = tables.of(trapline, "report", path, "--by", "span")["vhost"]["rows"][0]
    after = [raised - notify for _, _, notify, raised in turns if notify and raised]
    want = {"tid": worker, "turns": len(turns), "notified": sum(1 for turn in turns if turn[2]),
            "interrupts": interrupts, "woken_to_run": sum(turn[0] for turn in turns),
            "ran": sum(turn[1] for turn in turns), "notify_to_interrupt": sum(after)}
    got = {key: row[key]["total_ns"] if isinstance(row[key], dict) else row[key] for key in want}
    if len(turns) < 10 or interrupts < 10:
        return [f"{len(turns)} turns and {interrupts} interrupts: too few to show anything"]
    print(f"{path}: {len(turns)} turns of thread {worker}")
    return [f"trapline says {got}, the events {want}"] if got != want else []
