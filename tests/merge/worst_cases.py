#!/usr/bin/env python3
"""The worst input of a megabyte that is known for each reader and state machine: every command ends
within 5 s of CPU time and 256 MiB, and four times the input takes about four times as long.

  worst_cases.py TRAPLINE [--size BYTES] [--quick] [CASE…]

--quick: of each case the first command and those that cost the most, and nothing of the signals.
"""
import argparse
import contextlib
import inspect
import os
import pathlib
import resource
import signal
import struct
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import simpletrace_file  # noqa: E402
from perf_data import PerfData  # noqa: E402
from trace_dat import FORMATS, PAGE, TraceDat  # noqa: E402

MOST_SECONDS, MOST_KIB, MOST_DEAF = 5.0, 256 << 10, 0.2
MOST_GROWTH = 6.5  # of the time of four times the input
STEP = 1000  # ns
PRINT = "ftrace:print"
CASES = {}

REPORT = ["report", "{}"]
BY = ["report", "--by", "reason,detail,device,qemu-event,function,stack,vcpu,vm,cpu,nested,"
      "preempted-by,blocked-on", "{}"]
SIDES = ["report", "--irq", "--halt", "--guest", "--waits", "--steal", "--kernel", "--slower-than", "0ns",
         "--format", "json", "{}"]
CALLS = ["report", "--by", "stack", "--top", "0", "{}"]
REQUESTS = ["report", "--by", "span", "{}"]
SPAN = ["--guest-span", "function:f"]
GUEST_SPANS = ["explain", *SPAN, "{}"]
HTML = ["report", "--format", "html", "--force", "-o", "{out}", "{}"]
TIMELINE = ["timeline", "{}"]
AROUND = ["timeline", "--around", "max", "{}"]
PICTURE = ["timeline", "--format", "html", "--force", "-o", "{out}", "{}"]
EXPLAIN = ["explain", "{}"]
STALLS = ["stalls", "{}"]
DIFF = ["diff", "{}", "{}"]
TOP = ["top", "--batch", "{}"]
INFO = ["info", "{}"]
PHASES = ["report", "--phase", "a=*x*x*x*x*x*x*x*x*y", "--phase", "b=zz", "{}"]
EXPORTS = [["export", "--format", to, "--force", "--allow-empty", "-o", "{out}", "{}"]
           for to in ("perfetto", "uftrace", "folded", "jsonl", "csv")]
EVENTS = ["export", "--format", "perfetto", "--events", "--force", "-o", "{out}", "{}"]
ALL = [REPORT, BY, SIDES, CALLS, REQUESTS, HTML, TIMELINE, AROUND, PICTURE, EXPLAIN, DIFF, TOP, INFO,
       PHASES, *EXPORTS, EVENTS]


def case(*commands):
    def add(make):
        CASES[make.__name__] = (make, list(commands))
        return make
    return add


def fill(make_events, size, cpus=1, **options):
    """Events until there are so many bytes: `make_events(dat, time, i)` adds the next few."""
    dat, i, at = TraceDat(cpus, **options), 0, 10 ** 9
    while dat.size + sum(len(page[1]) for page in dat.open if page) < size:
        at = make_events(dat, at, i) or at + STEP
        i += 1
    return dat


@contextlib.contextmanager
def formats(**small):
    """Events whose fields take less room: more of them fit."""
    before = dict(FORMATS)
    FORMATS.update({name.replace("__", ":"): fields for name, fields in small.items()})
    try:
        yield
    finally:
        FORMATS.clear()
        FORMATS.update(before)


SMALL_EXIT = {"kvm__kvm_exit": "u8 exit_reason,u8 isa,u8 vcpu_id"}


def room(dat, size):
    return dat.size + sum(len(page[1]) for page in dat.open if page) < size


def recording(folder, dat):
    path = os.path.join(folder, "t.dat")
    dat.write(path)
    return path


def an_exit(dat, at, thread, cpu=0, reason=0x60, **detail):
    dat.event(cpu, at, "kvm:kvm_exit", thread, exit_reason=reason, isa=2, vcpu_id=thread & 255)
    if detail:
        dat.event(cpu, at + 10, "kvm:kvm_pio", thread, **detail)
    dat.event(cpu, at + 100, "kvm:kvm_entry", thread, vcpu_id=thread & 255)


# ---- session.json, config, command line


def session(folder, text):
    dat = TraceDat()
    an_exit(dat, 10 ** 9, 1)
    dat.write(os.path.join(folder, "trace.dat"))
    pathlib.Path(folder, "session.json").write_text(text, encoding="utf-8")
    return folder


@case(INFO, REPORT)
def session_of_many_keys(folder, size):
    keys = ",".join(f'"{i:x}":1' for i in range(size // 9))
    return session(folder, '{"closed":true,' + keys + "}")


@case(INFO)
def session_of_deep_lists(folder, size):
    return session(folder, '{"closed":true,"command":' + "[" * (size // 2) + "]" * (size // 2) + "}")


@case(INFO, REPORT)
def session_of_many_threads(folder, size):
    threads = ",".join(f'{{"tid":{i},"pid":{i % 9},"name":"x"}}' for i in range(size // 34))
    return session(folder, '{"closed":true,"threads":[' + threads + "]}")


@case(INFO, REPORT)
def session_of_many_syncs(folder, size):
    one = '{{"series":{0},"index":0,"stamp_ns":{1},"before":{{"mono":{1}}},"after":{{"mono":{2}}}}}'
    syncs = ",".join(one.format(i, i * 100, i * 100 + 50) for i in range(size // 95))
    return session(folder, '{"closed":true,"sync":[' + syncs + "]}")


# ---- uftrace directories


def uftrace(folder, tasks, records, tids=(1,), info="", maps=(), symbols=()):
    body = ("exename:x\ncmdline:uftrace record x\ntaskinfo:lines=2\n"
            f"taskinfo:nr_tid={len(tids)}\ntaskinfo:tids={','.join(map(str, tids))}\n{info}")
    header = b"Ftrace!\0" + struct.pack("<IHBBQQHHI", 4, 40, 1, 2, 0, 0, 0, 0, 0)
    pathlib.Path(folder, "info").write_bytes(header + body.encode())
    pathlib.Path(folder, "task.txt").write_text(tasks)
    for tid in tids:
        pathlib.Path(folder, f"{tid}.dat").write_bytes(records(tid))
    for sid, text in maps:
        pathlib.Path(folder, f"sid-{sid}.map").write_text(text)
    for name, text in symbols:
        pathlib.Path(folder, name).write_text(text)
    return folder


def record(at, leaves, depth, address):
    return struct.pack("<QQ", at, int(leaves) | 5 << 3 | depth << 6 | address << 16)


def a_few(_):
    return b"".join(record(10 ** 9 + i, i % 2, 0, 0x1000) for i in range(4))


ONE_TASK = 'SESS timestamp=1.0 pid=1 sid=a exename="x"\nTASK timestamp=1.0 tid=1 pid=1\n'


@case(INFO)
def uftrace_of_many_tasks(folder, size):
    n = size // 110
    return uftrace(folder, "TASK timestamp=1.0 tid=1 pid=1\n" * n +
                   "FORK timestamp=1.0 pid=1 ppid=3\n" * n +
                   'SESS timestamp=1.0 pid=4 sid=a exename="x"\n' * n, a_few)


@case(INFO)
def uftrace_of_many_sessions(folder, size):
    n = size // 80
    return uftrace(folder, 'SESS timestamp=1.0 pid=1 sid=a exename="x"\n' * n +
                   "TASK timestamp=1.0 tid=1 pid=1\n" * n, a_few)


@case(REPORT)
def uftrace_of_one_symbol_file_for_all(folder, size):
    n = size // 2 // 44
    lines = "".join(f"{i:012x}-{i + 1:012x} r-xp 00000000 00:00 0 /{i:x}/x\n" for i in range(n))
    names = "".join(f"{i * 16:016x} T f{i}\n" for i in range(size // 2 // 26))
    return uftrace(folder, ONE_TASK, a_few, maps=[("a", lines)], symbols=[("x.sym", names)])


@case(REPORT)
def uftrace_of_sessions_with_one_binary(folder, size):
    n, tasks = 400, ""
    for i in range(1, n):
        tasks += f'SESS timestamp=1.0 pid={i} sid=s{i} exename="x"\nTASK timestamp=1.0 tid={i} pid={i}\n'
    maps = [(f"s{i}", f"{i:012x}000-{i:012x}fff r-xp 00000000 00:00 0 /x\n") for i in range(1, n)]
    names = "".join(f"{i * 16:016x} T f{i}\n" for i in range((size - n * 200) // 26))
    return uftrace(folder, tasks, a_few, range(1, n), maps=maps, symbols=[("x.sym", names)])


@case(REPORT, TIMELINE)
def uftrace_of_patterns(folder, size):
    spec = ";".join("(a|b)*a(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)%d@arg1/s" % i
                    for i in range(size // 3 // 50))
    names = [f"{'ab' * 20}{i}" for i in range(size // 3 // 62)]
    symbols = "".join(f"{i * 16:016x} T {name}\n" for i, name in enumerate(names))
    calls = b"".join(struct.pack("<QQQ", 10 ** 9 + i, 4 | 5 << 3 | (i * 16) << 16, 0)
                     for i in range(size // 3 // 24))
    return uftrace(folder, ONE_TASK, lambda _: calls, info=f"argspec:{spec}\n",
                   maps=[("a", "000000000000-0000ffffffff r-xp 00000000 00:00 0 /x\n")],
                   symbols=[("x.sym", symbols)])


@case(REPORT, CALLS, *EXPORTS)
def uftrace_of_depths_up_and_down(folder, size):
    calls = b"".join(record(10 ** 9 + i, 0, 1023 * (i % 2), 0x1000 + i % 7) for i in range(size // 16))
    return uftrace(folder, ONE_TASK, lambda _: calls)


@case(CALLS, *EXPORTS)
def uftrace_of_deep_recursion(folder, size):
    calls = b"".join(record(10 ** 9 + i, (i >> 10) & 1, i % 1023 if i >> 10 & 1 == 0 else 1022 - i % 1023,
                            0x1000 + (i * 7919 >> 10) % 50) for i in range(size // 16))
    return uftrace(folder, ONE_TASK, lambda _: calls)


@case(CALLS, *EXPORTS)
def uftrace_of_long_names(folder, size):
    name = "n" * min(size // 2, 60000)
    calls = b"".join(record(10 ** 9 + i, 0, i % 1023, 0x1000) for i in range(size // 2 // 16))
    return uftrace(folder, ONE_TASK, lambda _: calls,
                   maps=[("a", "000000000000-0000ffffffff r-xp 00000000 00:00 0 /x\n")],
                   symbols=[("x.sym", f"{0x1000:016x} T {name}\n")])


@case(REPORT)
def uftrace_of_losses(folder, size):
    tids = range(1, 501)

    def records(tid):
        each = size // 500 // 16
        return record(10 ** 9 + tid, 0, 0, 0x1000) + struct.pack("<QQ", 0, 2 | 5 << 3 | 1 << 16) * each
    tasks = "".join(f"TASK timestamp=1.0 tid={i} pid=1\n" for i in tids)
    return uftrace(folder, ONE_TASK + tasks, records, tids)


# ---- trace.dat: what its header says


@case(INFO, REPORT, TIMELINE)
def header_of_many_formats(folder, size):
    text = b"name: f%d\nID: %d\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\n"
    dat = TraceDat(formats=[("s", text % (i, 1000 + i)) for i in range(size // 100)])
    an_exit(dat, 10 ** 9, 1)
    return recording(folder, dat)


@case(INFO, REPORT, TIMELINE)
def header_of_one_long_format(folder, size):
    fields = "".join(f"\tfield:int f{i};\toffset:8;\tsize:4;\tsigned:0;\n" for i in range(size // 45))
    text = f"name: f\nID: 999\nformat:\n{fields}\nprint fmt: \"x\"\n".encode()
    dat = TraceDat(formats=[("s", text)])
    an_exit(dat, 10 ** 9, 1)
    dat.raw(0, 2 * 10 ** 9, struct.pack("<HBBiii", 999, 0, 0, 1, 0, 0))
    return recording(folder, dat)


@case(INFO, REPORT)
def header_of_many_comms(folder, size):
    dat = TraceDat(comms=b"".join(b"%d x\n" % i for i in range(size // 8)))
    an_exit(dat, 10 ** 9, 1)
    return recording(folder, dat)


@case(INFO, REPORT)
def header_of_many_guests(folder, size):
    one = b"x\0" + struct.pack("<QI", 1, 8) + struct.pack("<II", 0, 5) * 8
    dat = TraceDat(options=(struct.pack("<HI", 13, len(one)) + one) * (size // (len(one) + 6)))
    an_exit(dat, 10 ** 9, 1)
    return recording(folder, dat)


@case(INFO, REPORT)
def header_of_many_cpus(folder, size):
    dat = TraceDat(cpus=max(2, min(size // (PAGE + 16), 8192)))
    for cpu in range(len(dat.pages)):
        an_exit(dat, 10 ** 9 + cpu, 5 + cpu, cpu)
    return recording(folder, dat)


# ---- trace.dat: events


@case(*ALL)
def exits_of_many_threads(folder, size):
    return recording(folder, fill(lambda dat, at, i: an_exit(dat, at, 5 + i), size))


@case(*ALL)
def exits_that_stay_open(folder, size):
    def one(dat, at, i):
        dat.event(0, at, "kvm:kvm_exit", 5 + i, exit_reason=1, isa=2, vcpu_id=0)
        dat.event(0, at + 10, "kvm:kvm_mmio", 5 + i, type=2, gpa=0x1000 + i, val=i)
    return recording(folder, fill(one, size))


@case(*ALL)
def losses_with_many_threads(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5 + i)
        if i % 50 == 0:
            dat.lost(0)
    return recording(folder, fill(one, size))


@case(*ALL)
def switches_of_many_threads(folder, size):
    def one(dat, at, i):
        if i < size // 200:
            return an_exit(dat, at, 5 + i)
        dat.event(0, at, "sched:sched_switch", 5 + i, prev_pid=5 + i % (size // 200), prev_state=i % 2,
                  next_pid=5 + i * 7 % (size // 200), next_comm=b"x")
    return recording(folder, fill(one, size))


@case(*ALL)
def waits_behind_many_runs(folder, size):
    """One vCPU waits all the time; who ran before it is told anew for each wait."""
    def one(dat, at, i):
        if i == 0:
            dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=1, isa=2, vcpu_id=0)
        thread = 5 if i % 2 else 6 + i
        dat.event(0, at, "sched:sched_switch", 5, prev_pid=5 if i % 2 == 0 else 5 + i,
                  prev_state=0, next_pid=thread, next_comm=b"x")
    return recording(folder, fill(one, size))


@case(*ALL)
def waits_that_begin_long_ago(folder, size):
    """Many vCPUs left one CPU at once; each returns there after all the runs since."""
    vcpus = size // 4 // 100

    def one(dat, at, i):
        if i < vcpus:
            dat.event(0, at, "kvm:kvm_exit", 5 + i, exit_reason=1, isa=2, vcpu_id=0)
            dat.event(0, at + 1, "sched:sched_switch", 5 + i, prev_pid=5 + i, next_pid=4)
        elif i < 3 * vcpus:
            dat.event(0, at, "sched:sched_switch", 4, prev_pid=3 + i % 2, next_pid=4 - i % 2)
        else:
            thread = 5 + i % vcpus
            dat.event(0, at, "sched:sched_switch", 4, prev_pid=4, next_pid=thread)
            dat.event(0, at + 1, "kvm:kvm_entry", thread)
    return recording(folder, fill(one, size))


@case(*ALL)
def wakeups_in_chains(folder, size):
    def one(dat, at, i):
        if i < size // 200:
            an_exit(dat, at, 5 + i)
            dat.event(0, at + 200, "kvm:kvm_exit", 5 + i, exit_reason=1, isa=2, vcpu_id=i)
            return
        thread = 5 + i % (size // 200)
        dat.event(0, at, "sched:sched_switch", thread, prev_pid=thread, prev_state=1, next_pid=0)
        dat.event(0, at + 1, "sched:sched_waking", thread - 1, pid=thread, target_cpu=0)
    return recording(folder, fill(one, size))


@case(*ALL)
def one_exit_of_many_parts(folder, size):
    def one(dat, at, i):
        if i == 0:
            dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=1, isa=2, vcpu_id=0)
        dat.event(0, at, "sched:sched_switch", 5, prev_pid=5, prev_state=i % 2, next_pid=6 + i)
        dat.event(0, at + 1, "sched:sched_waking", 6 + i, pid=5)
        dat.event(0, at + 2, "sched:sched_switch", 6 + i, prev_pid=6 + i, prev_state=1, next_pid=5)
    dat = fill(one, size)
    dat.event(0, 10 ** 12, "kvm:kvm_entry", 5, vcpu_id=0)
    return recording(folder, dat)


@case(*ALL)
def one_exit_of_many_handlers(folder, size):
    def one(dat, at, i):
        if i == 0:
            dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=1, isa=2, vcpu_id=0)
            dat.event(0, at + 1, "kvm:kvm_userspace_exit", 5, reason=2)
        dat.event(0, at + 2, PRINT, 5,
                  buf=f"memory_region_ops_read cpu 0 mr 0x1 addr 0x{i:x} value 0 size 1 name 'd{i}'")
        dat.event(0, at + 3, "sched:sched_switch", 5, prev_pid=5, next_pid=6)
        dat.event(0, at + 4, "sched:sched_switch", 6, prev_pid=6, next_pid=5)
    dat = fill(one, size)
    dat.event(0, 10 ** 12, "kvm:kvm_entry", 5, vcpu_id=0)
    return recording(folder, dat)


@case(*ALL)
def devices_without_number(folder, size):
    def one(dat, at, i):
        dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=0x7b, isa=2, vcpu_id=0)
        dat.event(0, at + 1, "kvm:kvm_pio", 5, rw=1, port=i, val=i)
        dat.event(0, at + 2, "kvm:kvm_userspace_exit", 5, reason=2)
        dat.event(0, at + 3, PRINT, 5,
                  buf=f"memory_region_ops_write cpu 0 mr 0x1 addr 0x{i:x} value 0 size 1 name 'd{i}'")
        dat.event(0, at + 4, "kvm:kvm_entry", 5, vcpu_id=0)
    return recording(folder, fill(one, size))


@case(*ALL)
def markers_of_many_names(folder, size):
    return recording(folder, fill(lambda dat, at, i: dat.event(0, at, PRINT, 5, buf=f"e{i} a b"), size))


@case(*ALL)
def markers_that_are_long(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5)
        dat.event(0, at + 200, PRINT, 5, buf="x " + "x" * 3900)
    return recording(folder, fill(one, size))


@case(*ALL)
def marker_calls_of_many_deep_tasks(folder, size):
    def one(dat, at, i):
        dat.event(0, at, PRINT, 5, buf=f"trapline: E cpu0 d=1023 t={i + 1} 0x1 f")
    return recording(folder, fill(one, size))


@case(*ALL)
def marker_calls_up_and_down(folder, size):
    def one(dat, at, i):
        dat.event(0, at, PRINT, 5, buf=f"trapline: E cpu0 d={1023 * (i % 2)} 0x1 f")
    return recording(folder, fill(one, size))


@case(*ALL)
def marker_calls_of_many_threads_and_losses(folder, size):
    def one(dat, at, i):
        dat.event(0, at, PRINT, 5 + i, buf=f"trapline: E cpu0 d=0 t={i + 1} 0x1 f")
        if i % 60 == 0:
            dat.lost(0)
    return recording(folder, fill(one, size))


@case(REQUESTS, HTML, *EXPORTS)
def requests_on_one_disk(folder, size):
    def one(dat, at, i):
        if i == 0:
            dat.event(0, at, "task:task_newtask", 4, pid=5)
        dat.event(0, at, PRINT, 5,
                  buf=f"virtio_blk_handle_read vdev 0x1 req 0x{i:x} sector {i * 8} nsectors 8")
        dat.event(0, at + 1, "block:block_bio_queue", 5, dev=1, sector=i * 8, nr_sector=8, rwbs=b"R")
        dat.event(0, at + 2, "block:block_rq_issue", 5, dev=1, sector=i * 8, nr_sector=8, rwbs=b"R")
    return recording(folder, fill(one, size))


@case(REQUESTS, HTML, *EXPORTS)
def requests_by_many_notifies(folder, size):
    def one(dat, at, i):
        if i < size // 300:
            dat.event(0, at, "kvm:kvm_exit", 5 + i, exit_reason=1, isa=2, vcpu_id=0)
            dat.event(0, at + 1, "kvm:kvm_mmio", 5 + i, type=2, gpa=i, val=i)
            return
        dat.event(0, at, PRINT, 4, buf=f"virtio_queue_notify vdev 0x1 n {i} vq 0x{i:x}")
        dat.event(0, at + 1, PRINT, 4, buf=f"virtio_blk_handle_read vdev 0x1 req 0x{i:x} sector 1 nsectors 1")
        dat.event(0, at + 2, PRINT, 4, buf=f"virtio_blk_req_complete vdev 0x1 req 0x{i:x} status 0")
        dat.event(0, at + 3, PRINT, 4, buf=f"virtio_notify vdev 0x1 vq 0x{i:x}")
    return recording(folder, fill(one, size))


@case(REQUESTS, HTML, *EXPORTS)
def vhost_workers_and_writes(folder, size):
    def one(dat, at, i):
        if i < 1024:
            dat.event(0, at, "sched:sched_switch", 4, prev_pid=4, next_pid=10000 + i,
                      next_comm=b"vhost-%d" % i)
            dat.event(0, at + 1, "sched:sched_switch", 4, prev_pid=10000 + i, prev_state=1, next_pid=4)
            dat.event(0, at + 2, "sched:sched_waking", 5, pid=10000 + i)
            return
        dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=1, isa=2, vcpu_id=0)
        for k in range(8):
            dat.event(0, at + 1 + k, "kvm:kvm_pio", 5, rw=1, port=1)
    return recording(folder, fill(one, size))


@case(SIDES, HTML, *EXPORTS)
def interrupts_that_wait(folder, size):
    def one(dat, at, i):
        dat.event(0, at, "kvm:kvm_msi_set_irq", 5, address=0xfee00000, data=i & 255)
        dat.event(0, at + 1, "kvm:kvm_apic_accept_irq", 5, apicid=i, vec=i & 255)
        dat.event(0, at + 2, "kvm:kvm_entry", 6 + i, vcpu_id=i)
    return recording(folder, fill(one, size))


@case(SIDES, HTML)
def interrupts_of_many_machines(folder, size):
    def one(dat, at, i):
        if i < size // 150:
            dat.event(0, at, "task:task_newtask", 4, pid=10 + i)
            dat.event(0, at + 1, "kvm:kvm_pic_set_irq", 10 + i, chip=0, pin=1)
            return
        dat.event(0, at, "kvm:kvm_entry", 10 + i % 1000, vcpu_id=0)
    return recording(folder, fill(one, size))


@case(*ALL)
def times_far_apart(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5 + i % 3)
        return at + (1 << 45)
    return recording(folder, fill(one, size))


@case(*ALL)
def times_apart_and_many_threads(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5 + i)
        return at + (1 << 31)
    return recording(folder, fill(one, size))


@case(*ALL)
def times_that_overflow(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5)
    dat = fill(one, size)
    dat.close(0)
    for i in range(0, len(dat.pages[0]), 2):
        dat.pages[0][i] = struct.pack("<Q", (1 << 64) - 1 - i) + dat.pages[0][i][8:]
    return recording(folder, dat)


@case(TOP)
def one_gap_of_ages(folder, size):
    dat = fill(lambda dat, at, i: an_exit(dat, at, 5), size)
    dat.close(0)  # a page has its own time, an event one of 59 bits
    an_exit(dat, 1 << 60, 5)
    return recording(folder, dat)


@case(PHASES)
def console_lines(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5, rw=1, port=0x3f8, val=ord("x") if i % 500 else 10)
    return recording(folder, fill(one, size))


@case(SIDES, HTML)
def halts(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5 + i % 7, reason=0x78)
        dat.event(0, at + 200, "irq:irq_handler_entry", 1, irq=i)
        dat.event(0, at + 201, "sched:sched_migrate_task", 1, pid=5 + i % 7, dest_cpu=i)
    return recording(folder, fill(one, size))


def qemu_log(folder, lines):
    path = os.path.join(folder, "qemu.log")
    pathlib.Path(path).write_text(lines)
    return path


@case(["report", "{}", "--by", "qemu-event"])
def qemu_log_of_one_line(folder, size):
    return qemu_log(folder, "5@1.000000:" + "x" * size)


@case(["report", "{}"])
def qemu_log_out_of_order(folder, size):
    lines = "".join(f"5@{(i * 7919) % 100000}.000000:e{i} x\n" for i in range(size // 24))
    return qemu_log(folder, lines)


# ---- clocks


def with_functions(folder, dat):
    data = os.path.join(folder, "uftrace.data")
    os.mkdir(data)
    uftrace(data, ONE_TASK, a_few)
    return [recording(folder, dat), data]


@case(["report", "{0}", "{1}"], ["info", "{0}", "{1}"])
def sync_markers_of_many_series(folder, size):
    def one(dat, at, i):
        for k, said in enumerate(("before mono={0}", "before mono={0} after mono={0}", "after mono={0}")):
            dat.event(0, at + k, PRINT, 5,
                      buf=f"trapline: sync 1 {i} {k} " + said.format(at * 2 + k * 7 + i * i % 1000))
    dat = fill(one, size, clock=b"local")
    an_exit(dat, 10 ** 12, 5)
    return with_functions(folder, dat)


@case(["report", "{0}", "{1}"], ["info", "{0}", "{1}"])
def guest_syncs_without_end(folder, size):
    def one(dat, at, i):
        an_exit(dat, at, 5)
    made = with_functions(folder, fill(one, size // 2))
    pathlib.Path(made[1], "sync.txt").write_text("# clock: mono\n" + "".join(
        f"trapline: guest 1 77 {i} before mono={10 ** 9 + i * 100} tsc={i * 300}"
        f" after mono={10 ** 9 + i * 100 - 40} tsc={i * 300 - 120}\n" for i in range(size // 2 // 95)))
    return made


# ---- many losses, and what one event touches


@case(STALLS, TOP, SIDES, BY)
def losses_in_text(folder, size):
    lines, at, length, i = [], 10 ** 6, 0, 0

    def add(text):
        nonlocal at, length
        at += 1
        lines.append(text.format(f"{at // 10 ** 6}.{at % 10 ** 6:06}"))
        length += len(lines[-1]) + 1
    while length < size * 0.55:
        add(f"a-{i + 5} [0] {{}}: kvm_exit: vcpu 0 reason hlt rip 0x0")
        i += 1
    while length < size:
        add("a-1 [0] {}: x: y")
        add("CPU:0 [LOST 1 EVENTS]")
    path = pathlib.Path(folder, "t.txt")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@case(STALLS, TOP, SIDES, BY)
def losses_in_perf_data(folder, size):
    perf, parts, length, at, i = PerfData(1), [], 0, 10 ** 9, 0
    while length < size:
        if length < size * 0.6:
            perf.event(0, at, "kvm:kvm_exit", 5 + i, exit_reason=1, isa=2, vcpu_id=0)
        else:
            perf.lost(0, at)
            perf.event(0, at + 10, "kvm:kvm_eoi", 1)
        parts.append(perf.records)
        length += len(perf.records)
        perf.records = b""
        at += STEP
        i += 1
    perf.records = b"".join(parts)
    perf.round()
    path = pathlib.Path(folder, "perf.data")
    path.write_bytes(perf.file())
    return str(path)


@case(SIDES, STALLS, TIMELINE)
def halts_that_are_told_again(folder, size):
    """Each end of a halt looks at what the exit did since, which is much."""
    with formats(sched__sched_switch="u16 prev_pid,u16 next_pid,u8 prev_state",
                 kvm__kvm_vcpu_wakeup="u32 ns,u8 waited,u8 valid"):
        dat, at, i = TraceDat(), 10 ** 9, 0
        dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=0x78, isa=2, vcpu_id=0)
        dat.event(0, at + 1000, "sched:sched_switch", 5, prev_pid=5, prev_state=1)
        dat.event(0, at + 2000, "sched:sched_waking", 6, pid=5)
        dat.event(0, at + 3000, "sched:sched_switch", 6, prev_pid=6, next_pid=5)
        dat.event(0, at + 4000, "kvm:kvm_vcpu_wakeup", 5, ns=10000, waited=1, valid=1)
        at += 5000
        while room(dat, size * 0.5):
            dat.event(0, at, "sched:sched_switch", 5 + i % 2, prev_pid=5 + i % 2, next_pid=6 - i % 2)
            at += STEP
            i += 1
        while room(dat, size):
            dat.event(0, at, "kvm:kvm_vcpu_wakeup", 5, ns=(1 << 32) - 1, waited=1, valid=1)
            at += 10
        dat.event(0, at, "kvm:kvm_entry", 5, vcpu_id=0)
        return recording(folder, dat)


@case(REPORT, STALLS)
def states_of_a_vmm(folder, size):
    with formats(**SMALL_EXIT, ftrace__print="u8 ip,text buf"):
        def one(dat, at, i):
            if room(dat, size * 0.4):
                dat.event(0, at, "kvm:kvm_exit", 5 + i, exit_reason=1, isa=2, vcpu_id=0)
            else:
                dat.event(0, at, PRINT, 5, buf=f"vm_state_notify running {i & 1} reason 1")
        return recording(folder, fill(one, size))


@case(REQUESTS, HTML)
def notifies_of_many_addresses(folder, size):
    with formats(**SMALL_EXIT, kvm__kvm_mmio="u8 type,u32 gpa,u8 val", ftrace__print="u8 ip,text buf",
                 task__task_newtask="u16 pid,u32 clone_flags"):
        many = 4096 * min(size, 10 ** 6) // 10 ** 6
        dat, at = TraceDat(), 10 ** 9

        def notify(i):
            dat.event(0, at, PRINT, 4, buf=f"virtio_queue_notify vdev 0x1 n 1 vq 0x{i + 1:x}")
        dat.event(0, at, "task:task_newtask", 4, pid=5, clone_flags=0x10000)
        for i in range(3 * many):
            at += 10
            if i == many:
                dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=1, isa=2)
            if i // many == 1:
                dat.event(0, at, "kvm:kvm_mmio", 5, type=2, gpa=i, val=1)
            else:
                notify(i % many)
        return recording(folder, dat)


@case(REQUESTS, HTML)
def bios_of_no_request(folder, size):
    """An image of many pieces, as many requests open as are kept, and bios that are of none."""
    with formats(**SMALL_EXIT, block__block_bio_queue="u16 dev,u32 sector,u8 nr_sector,c1 rwbs",
                 ftrace__print="u8 ip,text buf", task__task_newtask="u16 pid,u32 clone_flags"):
        def request(dat, at, i):
            dat.event(0, at, PRINT, 5,
                      buf=f"virtio_blk_handle_read vdev 0x1 req 0x{i:x} sector {i * 8} nsectors 8")

        def bio(dat, at, sector):
            dat.event(0, at, "block:block_bio_queue", 5, dev=1, sector=sector, nr_sector=8, rwbs=b"R")

        def one(dat, at, i):
            if i == 0:
                dat.event(0, at, "task:task_newtask", 4, pid=5, clone_flags=0x10000)
                dat.event(0, at, "kvm:kvm_exit", 4, exit_reason=1, isa=2)
                request(dat, at, 1)
            elif i <= 128:
                bio(dat, at, 10 ** 6 + i * 10 ** 5)
            elif i < 128 + 1024:
                request(dat, at, i)
            else:
                bio(dat, at, (1 << 31) + i * 16)
        return recording(folder, fill(one, size))


@case(GUEST_SPANS, [*EXPORTS[2][:-1], *SPAN, "{}"], [*EXPORTS[0][:-1], *SPAN, "{}"])
def guest_spans_that_overlap(folder, size):
    """Calls of many tasks go on over all exits: each has as many pieces as the vCPU has."""
    with formats(**SMALL_EXIT, kvm__kvm_entry="u8 vcpu_id", ftrace__print="u8 ip,text buf"):
        dat, at, tasks = TraceDat(), 10 ** 9, 0

        def an_exit_now():
            dat.event(0, at, "kvm:kvm_exit", 5, exit_reason=1, isa=2)
            dat.event(0, at + 10, "kvm:kvm_entry", 5)
        an_exit_now()
        while room(dat, size * 0.25):
            at += 20
            tasks += 1
            dat.event(0, at, PRINT, 5, buf=f"trapline: E cpu0 d=0 t={tasks} 0x1 f")
        while room(dat, size * 0.75):
            at += 20
            an_exit_now()
        for task in range(tasks):
            at += 20
            dat.event(0, at, PRINT, 5, buf=f"trapline: X cpu0 d=0 t={task + 1} 0x1 f")
        at += 20
        an_exit_now()
        return recording(folder, dat)


# ---- symbols, trace-events, simpletrace


@case(["symbols", "{}", "-o", "{out}"])
def symbols_at_one_address(folder, size):
    path = pathlib.Path(folder, "System.map")
    path.write_text("".join(f"{0x1000:016x} T f{i:07d}\n" for i in range(size // 28)))
    return str(path)


@case(["symbols", "{}", "-o", "{out}"])
def symbols_inside_each_other(folder, size):
    path = pathlib.Path(folder, "x.sym")
    n = size // 45
    path.write_text("".join(f"{i * 16:016x} {(2 * n - i) * 16:016x} T f{i}\n" for i in range(n)))
    return str(path)


def simpletrace(folder, declarations, names, records):
    pathlib.Path(folder, "events").write_text(declarations)
    path = pathlib.Path(folder, "trace")
    path.write_bytes(simpletrace_file.file(names, records))
    return str(path)


@case(["print", "--events", "{dir}/events", "{}"], ["print", "--format", "text", "--events", "{dir}/events", "{}"])
def simpletrace_of_many_events(folder, size):
    n = size // 2 // 40
    declarations = "".join(f'e{i}(int a, const char *s) "a %d s %s"\n' for i in range(n))
    records = b"".join(simpletrace_file.record(i % n, i, struct.pack("<QI", i, 0)) for i in range(size // 2 // 44))
    return simpletrace(folder, declarations, [f"e{i}" for i in range(n)], records)


@case(["print", "--format", "text", "--events", "{dir}/events", "{}"])
def trace_events_of_one_long_line(folder, size):
    return simpletrace(folder, 'e(int a) "' + "%d " * (size // 3) + '"\n', [], b"")


@case(["report", "--trace-events", "{dir}/events", "{}"], ["print", "--events", "{dir}/events", "{}"],
      ["print", "--format", "text", "--events", "{dir}/events", "{}"])
def simpletrace_of_one_long_declaration(folder, size):
    literal = size * 2 // 5
    records = b"".join(simpletrace_file.record(0, 10 ** 9 + i, struct.pack("<Q", i)) for i in range((size - 2 * literal) // 40))
    return simpletrace(folder, f'e(int a{"a" * literal}) "{"x" * literal} %d"\n', ["e"], records)


# ---- explain


@case(EXPLAIN)
def one_exit_of_many_kernel_functions(folder, size):
    def one(dat, at, i):
        if i == 0:
            dat.event(0, at - 10, "kvm:kvm_exit", 5, exit_reason=1, isa=2, vcpu_id=0)
        for name, time in (("entry", at), ("exit", at + 100)):
            dat.event(0, time, "ftrace:funcgraph_" + name, 5, func=0xffffffff81000000 + i * 16, depth=0)
    dat = fill(one, size)
    dat.event(0, 10 ** 10, "kvm:kvm_entry", 5, vcpu_id=0)
    return recording(folder, dat)


# ---- diff


RUNS = 100


@case(["diff", "--by", "cpu", "--top", "0", "--before", *(f"{{{i}}}" for i in range(RUNS)),
       "--after", *(f"{{{i}}}" for i in range(RUNS, 2 * RUNS))])
def many_runs_of_many_rows(folder, size):
    rows, exits, names = size // 5200, size // 95 // (2 * RUNS), []
    for run in range(2 * RUNS):
        lines = ""
        for i in range(run * exits, (run + 1) * exits):
            at = 10 ** 8 + i * 400 + i * i % 37
            for more, said in ((0, "kvm_exit: reason MSR_WRITE rip 0x0"), (50 + i * 7 % 43, "kvm_entry: vcpu 0")):
                seconds, rest = divmod(at + more, 10 ** 7)
                lines += f"a-5 [{i % rows}] {seconds}.{rest:07d}: {said}\n"
        names.append(os.path.join(folder, f"r{run}.txt"))
        pathlib.Path(names[-1]).write_text(lines)
    return names


# ---- running them

DEAF = {"one_gap_of_ages": [TOP], "times_apart_and_many_threads": [TOP, HTML],
        "exits_of_many_threads": [TOP, SIDES], "uftrace_of_depths_up_and_down": [REPORT],
        "losses_in_text": [TOP]}


def words_of(command, folder, made):
    out = os.path.join(folder, "out")
    names = made if isinstance(made, list) else [made]
    words = [word.format(*names, out=out, dir=folder) for word in command]
    if words[0] == "symbols":
        os.makedirs(out, exist_ok=True)
    return words


def run(trapline, words, folder, seconds):
    """(CPU seconds, resident KiB, exit status); killed after `seconds` of CPU time."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(null, fd)
        os.dup2(os.open(os.path.join(folder, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        os.execve(trapline, [trapline, *words], os.environ)
    _, status, usage = os.wait4(child, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status)


class Runs:
    """The least time of a command's runs, and the worst of what else they tell."""

    def __init__(self, trapline, command, folder, made):
        self.run = lambda: run(trapline, words_of(command, folder, made), folder, 15)
        self.seconds, self.kib, self.status = self.run()

    def again(self):
        seconds, kib, status = self.run()
        self.seconds, self.kib = min(self.seconds, seconds), max(self.kib, kib)
        self.status = min(self.status, status) if self.status < 0 else status


def faults(quarter, whole):
    bad = []
    if whole.seconds > MOST_SECONDS:
        bad.append(f"takes {whole.seconds:.1f} s")
    if whole.kib > MOST_KIB:
        bad.append(f"needs {whole.kib >> 10} MiB")
    if whole.seconds > 0.4 and whole.seconds > MOST_GROWTH * max(quarter.seconds, 0.03):
        bad.append(f"takes {whole.seconds:.2f} s, a quarter of it {quarter.seconds:.2f} s")
    for one in (quarter, whole):
        if one.status not in (0, 1, 2, 3):
            bad.append(f"ends with {one.status}")
    return bad


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def deafness(trapline, words, seconds):
    """CPU seconds from a SIGTERM, sent after so much of them, to the end; 0 where it ended before."""
    child = os.posix_spawn(trapline, [trapline, *words], os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0)
                                         for fd in (1, 2)])
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if cpu_of(child) >= seconds:
            break
        time.sleep(0.01)
    before = cpu_of(child)
    os.kill(child, signal.SIGTERM)
    limit = time.monotonic() + 30
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > limit:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    _, _, usage = os.wait4(child, 0)
    return usage.ru_utime + usage.ru_stime - before


def main():
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]).split("\n")[0])
    parser.add_argument("trapline")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", action="store_true", help="print each run")
    options = parser.parse_args()
    wrong = 0
    began = time.monotonic()
    for name in options.cases or CASES:
        make, commands = CASES[name]
        if options.quick:
            commands = [command for command in commands if command is commands[0] or command in (SIDES, HTML)]
        with tempfile.TemporaryDirectory(prefix="trapline-worst-") as folder:
            made = {}
            for part in (4, 1):
                os.mkdir(os.path.join(folder, str(part)))
                made[part] = make(os.path.join(folder, str(part)), options.size // part)
            for command in commands:
                shown = " ".join(command[:-1] if command[-1] == "{}" else command)
                quarter, whole = (Runs(options.trapline, command, os.path.join(folder, str(part)), made[part])
                                  for part in (4, 1))
                bad = faults(quarter, whole)
                for _ in range(2):  # a machine that does something else makes one run slow, not three
                    if bad:
                        quarter.again(), whole.again()
                        bad = faults(quarter, whole)
                wrong += len(bad)
                if bad or options.table:
                    print(f"{name}: {shown}: {whole.seconds:.2f} s ({quarter.seconds:.2f}), {whole.kib >> 10} MiB, "
                          f"{whole.status} {'; '.join(bad)}", flush=True)
    for name in set() if options.quick else set(DEAF) & set(options.cases or CASES):
        with tempfile.TemporaryDirectory(prefix="trapline-worst-") as folder:
            made = CASES[name][0](folder, options.size)
            for command in DEAF[name]:
                for after in (0.05, 0.5):
                    seconds = deafness(options.trapline, words_of(command, folder, made), after)
                    if seconds > MOST_DEAF:
                        wrong += 1
                        print(f"{name}: {' '.join(command)}: goes on for {seconds:.2f} s after SIGTERM")
    print(f"{wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
