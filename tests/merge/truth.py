#!/usr/bin/env python3
"""Recordings whose truth is written down, made so that a plausible reading of them is false.

  truth.py TRAPLINE [CASE...]

Each case writes a text as tracefs prints it, with stamps in nanoseconds, or a trace.dat, and names what must be said of
it and what must not. Its first line is what truly happened.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from perf_data import PerfData  # noqa: E402
from trace_dat import TraceDat  # noqa: E402

US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
BEGIN = 1000 * SECOND
UFFDIO_COPY, KVM_RUN = 0xC028AA03, 0xAE80
VCPU, HOG, QEMU = ("CPU 0/KVM", 200), ("hog", 300), ("qemu-system-x86", 199)
IDLE = ("swapper/0", 0)
HARD = "d.h2."


class Recording:
    """The lines of a text; every time is in ns, a thread is (comm, tid)."""

    def __init__(self):
        self.lines, self.headings = [], ["# tracer: nop", "#"]
        self.dat = None  # a TraceDat, in place of the text
        self.threads = None  # (tid, process) that the recorder listed: a session, with names of VMs
        self.cgroups = []  # session.json's
        self.ran = {}  # by tid: schedstat's ns at both edges

    def add(self, at, cpu, thread, event, text, flags="d..2."):
        stamp = f"{at // SECOND}.{at % SECOND:09d}"
        self.lines.append((at, f"{thread[0]:>16}-{thread[1]:<7} [{cpu:03d}] {flags} {stamp}: {event}: {text}"))

    def switch(self, at, cpu, prev, state, to, prio=120):
        self.add(at, cpu, prev, "sched_switch",
                 f"prev_comm={prev[0]} prev_pid={prev[1]} prev_prio=120 prev_state={state} ==> "
                 f"next_comm={to[0]} next_pid={to[1]} next_prio={prio}")

    def waking(self, at, cpu, waker, woken, on, flags="d..2."):
        self.add(at, cpu, waker, "sched_waking", f"comm={woken[0]} pid={woken[1]} prio=120 target_cpu={on:03d}", flags)

    def wakeup(self, at, cpu, waker, woken, on, flags="d..2."):
        self.add(at, cpu, waker, "sched_wakeup", f"comm={woken[0]} pid={woken[1]} prio=120 target_cpu={on:03d}", flags)

    def wakes(self, at, cpu, waker, woken, on):
        self.waking(at, cpu, waker, woken, on)
        self.wakeup(at + US, cpu, waker, woken, on)

    def exit(self, at, cpu, thread, reason="IO_INSTRUCTION", rip=0x1000, vcpu=0):
        self.add(at, cpu, thread, "kvm_exit", f"vcpu {vcpu} reason {reason} rip 0x{rip:x} info1 0x{0:016x} "
                 f"info2 0x{0:016x} intr_info 0x00000000 error_code 0x00000000")

    def entry(self, at, cpu, thread, vcpu=0):
        self.add(at, cpu, thread, "kvm_entry", f"vcpu {vcpu}, rip 0x1002")

    def to_user(self, at, cpu, thread, why="KVM_EXIT_IO (2)"):
        self.add(at, cpu, thread, "kvm_userspace_exit", f"reason {why}")

    def port(self, at, cpu, thread, port):
        self.add(at, cpu, thread, "kvm_pio", f"pio_write at 0x{port:x} size 1 count 1 val 0x0")

    def io_exit(self, at, thread=VCPU, port=0x3F8):
        self.exit(at, 0, thread)
        self.port(at + US, 0, thread, port)
        self.to_user(at + 2 * US, 0, thread)

    def run_again(self, at, thread=VCPU):
        self.ioctl(at, 0, thread, KVM_RUN)
        self.entry(at + 10 * US, 0, thread)

    def ioctl(self, at, cpu, thread, command):
        self.add(at, cpu, thread, "sys_enter_ioctl", f"ioctl(fd: d, cmd: {command:x}, arg: 0)", ".....")

    def new_thread(self, at, maker, tid):
        self.add(at, 1, maker, "task_newtask", f"pid={tid} comm={maker[0]} clone_flags=3d0f00 oom_score_adj=0")

    def text(self):
        lines = [line for _, line in sorted(self.lines, key=lambda entry: entry[0])]
        return "\n".join([*self.headings, *lines]) + "\n"


CASES = {}


def case(*commands, says=(), never=()):
    """`says` and `never`: what stands in the output of the commands together, blanks as one."""
    def add(function):
        CASES[function.__name__] = (function, commands, says, never)
        return function
    return add


@case(["report", "--steal"], says=["preempted", "for 33.3% the vCPU waited for a CPU", "hog (tid 300) 180 ms"],
      never=["never had to wait", "halted 40.0%"])
def waiting_after_a_halt(trace):
    """A woken vCPU is preempted for 6 ms before it reads the clock for kvm_vcpu_wakeup: no part of its halt."""
    for i in range(30):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * MS, 0, VCPU, "HLT")
        trace.switch(at + 5 * MS + 10 * US, 0, VCPU, "S", IDLE)
        trace.wakes(at + 7 * MS, 1, QEMU, VCPU, 0)
        trace.switch(at + 7 * MS + 3 * US, 0, IDLE, "R", VCPU)
        trace.switch(at + 7 * MS + 6 * US, 0, VCPU, "R+", HOG)
        trace.switch(at + 13 * MS + 6 * US, 0, HOG, "S", VCPU)
        trace.add(at + 13 * MS + 8 * US, 0, VCPU, "kvm_vcpu_wakeup", "wait time 1996000 ns, polling valid")
        trace.entry(at + 13 * MS + 9 * US, 0, VCPU)
        trace.exit(at + 14 * MS, 0, VCPU, "CPUID")
        trace.entry(at + 14 * MS + 2 * US, 0, VCPU)
        trace.exit(at + 19 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 600 * MS, 0, VCPU)


@case(["stalls"], ["explain"], says=["slept until woken by worker (tid 210)"], never=["page", "uffd-server"])
def a_lock_whose_holder_had_a_fault(trace):
    """The vCPU slept 100 ms for a lock; its holder had one fault of its own, 1 ms, served by another thread."""
    worker, server = ("worker", 210), ("uffd-server", 400)
    for i in range(3):
        at = BEGIN + i * 200 * MS
        trace.entry(at, 0, VCPU)
        trace.io_exit(at + 5 * MS)
        trace.switch(at + 6 * MS, 0, VCPU, "S", IDLE)
        trace.switch(at + 10 * MS, 1, worker, "D", server)
        trace.ioctl(at + 10 * MS + 900 * US, 1, server, UFFDIO_COPY)
        trace.wakes(at + 10 * MS + 950 * US, 1, server, worker, 1)
        trace.switch(at + 11 * MS, 1, server, "S", worker)
        trace.wakes(at + 106 * MS, 1, worker, VCPU, 0)
        trace.switch(at + 106 * MS + 5 * US, 0, IDLE, "R", VCPU)
        trace.run_again(at + 106 * MS + 20 * US)
        trace.exit(at + 190 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 600 * MS, 0, VCPU)


@case(["stalls"], ["explain"], says=["slept until woken by vmm-main (tid 199)"], never=["page"])
def a_page_served_long_before(trace):
    """A thread answered a page fault, slept, and 105 ms later unlocks the mutex for which the vCPU sleeps."""
    main = ("vmm-main", 199)
    for i in range(3):
        at = BEGIN + i * 200 * MS
        trace.entry(at, 0, VCPU)
        trace.ioctl(at + MS, 1, main, UFFDIO_COPY)
        trace.io_exit(at + 5 * MS)
        trace.switch(at + 6 * MS, 0, VCPU, "S", IDLE)
        trace.switch(at + 20 * MS, 1, main, "S", ("swapper/1", 0))
        trace.waking(at + 90 * MS, 1, ("swapper/1", 0), main, 1, HARD)
        trace.switch(at + 90 * MS + 5 * US, 1, ("swapper/1", 0), "R", main)
        trace.wakes(at + 106 * MS, 1, main, VCPU, 0)
        trace.switch(at + 106 * MS + 5 * US, 0, IDLE, "R", VCPU)
        trace.run_again(at + 106 * MS + 20 * US)
        trace.exit(at + 199 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 600 * MS, 0, VCPU)


@case(["report", "--waits"], says=["Slept in halts", "vCPU 0, VM ~200"], never=["IPI"])
def an_ipi_of_another_destination(trace):
    """vCPU 0 sends an IPI to vCPU 1; in the same exit its thread wakes vCPU 2's for another reason."""
    vcpus = [VCPU, ("CPU 1/KVM", 201), ("CPU 2/KVM", 202)]
    for i in range(5):
        at = BEGIN + i * 100 * MS
        for number, vcpu in enumerate(vcpus):
            trace.entry(at, number, vcpu, number)
        trace.exit(at + MS, 2, vcpus[2], "HLT", vcpu=2)
        trace.switch(at + MS + US, 2, vcpus[2], "S", ("swapper/2", 0))
        trace.exit(at + 50 * MS, 0, VCPU, "APIC_WRITE")
        trace.add(at + 50 * MS + US, 0, VCPU, "kvm_apic_ipi", "dst 1 vec 251 (Fixed|physical|assert|edge|dst)")
        trace.wakes(at + 50 * MS + 5 * US, 0, VCPU, vcpus[2], 2)
        trace.switch(at + 50 * MS + 9 * US, 2, ("swapper/2", 0), "R", vcpus[2])
        trace.entry(at + 50 * MS + 20 * US, 0, VCPU)
        trace.entry(at + 50 * MS + 20 * US, 2, vcpus[2], 2)
        trace.exit(at + 60 * MS, 1, vcpus[1], "CPUID", vcpu=1)
        trace.entry(at + 60 * MS + US, 1, vcpus[1], 1)


@case(["report", "--waits"], says=["Blocked 120 ms", "unknown (record sched:sched_waking) 120 ms"])
def a_wake_up_that_a_stopper_passes_on(trace):
    """QEMU woke the vCPU from another CPU; migration/0 flushed the queue of wake-ups. No sched_waking is recorded."""
    stopper = ("migration/0", 18)
    for i in range(5):
        at = BEGIN + i * 50 * MS
        trace.entry(at, 0, VCPU)
        trace.io_exit(at + 5 * MS)
        trace.switch(at + 6 * MS, 0, VCPU, "S", IDLE)
        trace.switch(at + 30 * MS - 2 * US, 0, IDLE, "R", stopper)
        trace.wakeup(at + 30 * MS, 0, stopper, VCPU, 0)
        trace.switch(at + 30 * MS + 3 * US, 0, stopper, "S", VCPU)
        trace.run_again(at + 30 * MS + 20 * US)
        trace.exit(at + 49 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 250 * MS, 0, VCPU)


@case(["stalls"], says=["the host's kernel worked for it"], never=["in vain"])
def an_unmap_that_ended_long_before(trace):
    """A thread unmapped 4 KiB and computes since; 300 ms later the vCPU meets a fault again and again."""
    worker = ("worker", 210)
    trace.switch(BEGIN - US, 1, ("swapper/1", 0), "R", worker)
    trace.add(BEGIN + MS, 1, worker, "kvm_unmap_hva_range", "mmu notifier unmap range: 0x7f0000000000 -- 0x7f0000001000")
    trace.entry(BEGIN, 0, VCPU)
    for i in range(1000):
        at = BEGIN + 300 * MS + i * 100 * US
        trace.exit(at, 0, VCPU, "EPT_VIOLATION", 0x1234)
        trace.add(at + US, 0, VCPU, "kvm_page_fault", "vcpu 0 rip 0x1234 address 0x0000000000123000 error_code 0x182")
        trace.add(at + 95 * US, 0, VCPU, "kvm_entry", "vcpu 0, rip 0x1234")
    trace.exit(BEGIN + 800 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
    trace.to_user(BEGIN + 800 * MS + 1, 0, VCPU, "KVM_EXIT_INTR (10)")
    trace.run_again(BEGIN + 801 * MS)
    trace.switch(BEGIN + 900 * MS, 1, worker, "S", ("swapper/1", 0))


@case(["report", "--by", "device"], ["report", "--by", "detail"], says=["no device: KVM served them itself, or no event of QEMU names a device", "port 0xc050 write"],
      never=["kvm-apic-msi"])
def a_port_without_a_region(trace):
    """QEMU did not trace the port's region; while it serves the port it writes the message of an interrupt."""
    for i in range(60):
        at = BEGIN + i * 10 * MS
        trace.entry(at, 0, VCPU)
        trace.io_exit(at + 5 * MS, port=0xC050)
        trace.add(at + 6 * MS, 0, VCPU, "tracing_mark_write", "memory_region_ops_write cpu -1 mr 0x5589f1f2e5e0 "
                  "addr 0xfee01000 value 0x23 size 4 name 'kvm-apic-msi'", ".....")
        trace.run_again(at + 8 * MS)
        trace.exit(at + 9 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 600 * MS, 0, VCPU)


@case(["report", "--waits"], says=["unknown interrupt"], never=["softirq", "interrupt 27"])
def handlers_without_ends(trace):
    """A softirq and an interrupt of 1 ms each, whose ends were not recorded: then the hog ran."""
    for i in range(20):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 5 * MS + 10 * US, 0, VCPU, "R", HOG)
        trace.add(at + 6 * MS, 0, HOG, "softirq_entry", "vec=1 [action=TIMER]", "..s1.")
        trace.add(at + 8 * MS, 0, HOG, "irq_handler_entry", "irq=27 name=eth0", HARD)
        trace.switch(at + 15 * MS, 0, HOG, "R", VCPU)
        trace.entry(at + 15 * MS + 10 * US, 0, VCPU)
        trace.exit(at + 19 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 400 * MS, 0, VCPU)


@case(["advise"], says=["No change that is known"], never=["smp_affinity"])
def a_softirq_that_no_affinity_moves(trace):
    """Softirq TIMER took the vCPU's CPU for 5 of 20 ms."""
    for i in range(60):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 10 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 10 * MS + 10 * US, 0, VCPU, "R+", HOG)
        trace.add(at + 10 * MS + 20 * US, 0, HOG, "softirq_entry", "vec=1 [action=TIMER]", "..s1.")
        trace.add(at + 15 * MS, 0, HOG, "softirq_exit", "vec=1 [action=TIMER]", "..s1.")
        trace.switch(at + 15 * MS + 10 * US, 0, HOG, "S", VCPU)
        trace.to_user(at + 15 * MS + 11 * US, 0, VCPU, "KVM_EXIT_INTR (10)")
        trace.run_again(at + 15 * MS + 12 * US)
        trace.exit(at + 19 * MS, 0, VCPU, "HLT")
    trace.entry(BEGIN + 1200 * MS, 0, VCPU)


@case(["advise"], ["advise", "--assume", "no-quota"],
      says=["costs at most 49.9%", "--assume no-quota", "gains 44.9% to 49.9%"])
def a_quota_that_nothing_tells_of(trace):
    """The vCPU's cgroup has 50 of 100 ms of the CPU; a thread of the lowest priority fills the rest."""
    batch = ("batch", 300)
    for i in range(20):
        at = BEGIN + i * 100 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 50 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 50 * MS + 10 * US, 0, VCPU, "R", batch, 139)
        trace.switch(at + 100 * MS - 50 * US, 0, batch, "R", VCPU)
        trace.to_user(at + 100 * MS - 40 * US, 0, VCPU, "KVM_EXIT_INTR (10)")
        trace.ioctl(at + 100 * MS - 30 * US, 0, VCPU, KVM_RUN)
    trace.entry(BEGIN + 2000 * MS, 0, VCPU)


@case(["advise"], ["stalls"], says=["a CPU quota, or other threads on the vCPUs' CPUs: costs 80.0%; gain unknown",
                                    "note: The CPU quota of /machine/web01 throttled its threads 30 times"], never=["No change that is known"])
def a_quota_beside_a_hog(trace):
    """The vCPU's cgroup has 20 of 100 ms of the CPU; the hog has the rest."""
    for i in range(30):
        at = BEGIN + i * 100 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 20 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 20 * MS + 3 * US, 0, VCPU, "R", HOG)
        trace.switch(at + 100 * MS - 10 * US, 0, HOG, "R", VCPU)
    trace.entry(BEGIN + 3000 * MS, 0, VCPU)
    trace.threads = [(199, 199), (200, 199)]
    trace.cgroups = [{"path": "/machine/web01", "nr_throttled": [5, 35], "throttled_ns": [100 * MS, 2500 * MS], "threads": [199, 200]}]


@case(["report"], ["report", "--host-cpu"], says=["VM web01 (199) took at least 0.499"], never=["took 0.499"])
def a_vcpu_that_has_its_cpu_for_itself(trace):
    """vCPU 1 runs its guest all the time, without an exit or a switch."""
    for i in range(100):
        at = BEGIN + i * 4 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 2 * MS, 0, VCPU, "HLT")
        trace.switch(at + 2 * MS + 10 * US, 0, VCPU, "S", IDLE)
        trace.wakes(at + 4 * MS - 10 * US, 0, IDLE, VCPU, 0)
        trace.switch(at + 4 * MS - 5 * US, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 400 * MS, 0, VCPU)
    trace.threads = [(199, 199), (200, 199), (201, 199)]
    trace.ran = {200: [10 * MS, 210 * MS], 201: [0, 400 * MS]}


@case(["explain", "--vm", "web01"], says=["QEMU thread qemu-system-x86 (tid 500) ran instead", "Keep other threads off the vCPU's CPU"],
      never=["QEMU's own threads"])
def the_main_loop_of_another_vm(trace):
    """The main loop of db01 takes the CPU of web01's vCPU for 15 ms."""
    neighbour, other = ("qemu-system-x86", 500), ("CPU 0/KVM", 501)
    trace.entry(BEGIN, 0, VCPU)
    trace.entry(BEGIN, 1, other)
    for i in range(5):
        at = BEGIN + i * 50 * MS + 5 * MS
        trace.exit(at, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 3 * US, 0, VCPU, "R+", neighbour)
        trace.switch(at + 15 * MS, 0, neighbour, "S", VCPU)
        trace.entry(at + 15 * MS + 3 * US, 0, VCPU)
        trace.exit(at + 20 * MS, 1, other, "CPUID")
        trace.entry(at + 20 * MS + 3 * US, 1, other)
    trace.threads = [(199, 199), (200, 199), (500, 500), (501, 500)]


@case(["stalls"], says=["2 vCPUs made no progress for 19.1 ms", "for 19.0 ms (99.7%) it was ready to run, but hog (tid 300) ran instead"],
      never=["it slept until woken by vCPU 1"])
def a_stall_behind_a_vcpu_that_has_the_lock(trace):
    """vCPU 1 has QEMU's lock and is preempted for 20 ms; vCPU 0 waits for the lock from 1 ms later on."""
    second = ("CPU 1/KVM", 201)
    for maker in (200, 201):
        trace.new_thread(BEGIN - 3 * MS + maker * US, QEMU, maker)
    trace.entry(BEGIN, 0, VCPU)
    trace.entry(BEGIN, 1, second, 1)
    for i in range(5):
        at = BEGIN + i * 50 * MS + 5 * MS
        trace.exit(at, 1, second, vcpu=1)
        trace.to_user(at + 2 * US, 1, second)
        trace.switch(at + 10 * US, 1, second, "R+", HOG)
        trace.io_exit(at + MS)
        trace.switch(at + MS + 10 * US, 0, VCPU, "S", IDLE)
        trace.switch(at + 20 * MS, 1, HOG, "S", second)
        trace.wakes(at + 20 * MS + 20 * US, 1, second, VCPU, 0)
        trace.switch(at + 20 * MS + 25 * US, 0, IDLE, "R", VCPU)
        trace.ioctl(at + 20 * MS + 50 * US, 1, second, KVM_RUN)
        trace.entry(at + 20 * MS + 60 * US, 1, second, 1)
        trace.run_again(at + 20 * MS + 70 * US)


@case(["report"], ["advise"], says=["The host has 2 CPUs", "more CPUs, or less beside the VM (2 CPUs for 2 vCPUs"], never=["taskset"])
def two_vms_on_as_many_cpus(trace):
    """Hogs take both CPUs from the vCPU of each VM for a fifth of the time; the text's heading tells of two CPUs."""
    trace.headings.append("# entries-in-buffer/entries-written: 400/400   #P:2")
    vcpus = (VCPU, ("CPU 0/KVM", 501))
    for process, vcpu in ((199, 200), (500, 501)):
        trace.new_thread(BEGIN - 3 * MS + vcpu * US, ("qemu-system-x86", process), vcpu)
    for i in range(40):
        for cpu, vcpu in enumerate(vcpus):
            at = BEGIN + i * 10 * MS + cpu * 100 * US
            trace.entry(at, cpu, vcpu)
            trace.exit(at + 5 * MS, cpu, vcpu, "EXTERNAL_INTERRUPT")
            trace.switch(at + 5 * MS + 10 * US, cpu, vcpu, "R", (f"hog{cpu}", 900 + cpu))
            trace.switch(at + 7 * MS + 10 * US, cpu, (f"hog{cpu}", 900 + cpu), "R", vcpu)
            trace.entry(at + 7 * MS + 20 * US, cpu, vcpu)
            trace.exit(at + 9 * MS, cpu, vcpu, "EXTERNAL_INTERRUPT")


@case(["explain"], ["advise"], never=["deep sleep", "cpu_dma_latency"])
def a_quota_beside_an_idle_cpu(trace):
    """The vCPU's timer fires while its cgroup is throttled: its CPU is idle until the next period, 4 ms later."""
    for i in range(50):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 15 * MS, 0, VCPU, "HLT")
        trace.switch(at + 15 * MS + US, 0, VCPU, "S", IDLE)
        trace.add(at + 16 * MS - 2 * US, 0, ("<idle>", 0), "hrtimer_expire_entry", "hrtimer=000000000000abcd "
                  "function=apic_timer_fn now=1", HARD)
        trace.waking(at + 16 * MS, 0, ("<idle>", 0), VCPU, 0, "d.h3.")
        trace.wakeup(at + 16 * MS + US, 0, ("<idle>", 0), VCPU, 0, "d.h4.")
        trace.add(at + 16 * MS + 2 * US, 0, ("<idle>", 0), "hrtimer_expire_exit", "hrtimer=000000000000abcd", HARD)
        trace.switch(at + 20 * MS - 20 * US, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 1000 * MS, 0, VCPU)


@case(["stalls"], says=["2 vCPUs made no progress"], never=["all 2 vCPUs", "all vCPUs"])
def a_vcpu_that_never_leaves_its_guest(trace):
    """A VM of three vCPUs; the third is in its guest all the time, and has no event of KVM."""
    vcpus = [VCPU, ("CPU 1/KVM", 201), ("CPU 2/KVM", 202)]
    hogs = [HOG, ("hog", 301)]
    for number in range(3):
        trace.new_thread(BEGIN - (5 - number) * MS, QEMU, 200 + number)
    trace.switch(BEGIN - 2 * MS, 2, ("swapper/2", 0), "R", vcpus[2])
    for i in range(6):
        for number in range(2):
            at, vcpu, hog = BEGIN + i * 200 * MS + number * US, vcpus[number], hogs[number]
            trace.entry(at, number, vcpu, number)
            if i == 5:
                break
            trace.exit(at + 100 * MS, number, vcpu, "EXTERNAL_INTERRUPT", vcpu=number)
            trace.switch(at + 100 * MS + 500, number, vcpu, "R", hog)
            trace.switch(at + 199 * MS, number, hog, "R", vcpu)
            trace.to_user(at + 199 * MS + 10, number, vcpu, "KVM_EXIT_INTR (10)")
            trace.ioctl(at + 199 * MS + 20, number, vcpu, KVM_RUN)


@case(["report"], ["explain"], ["advise"], never=["the guest ran 100.0%"],
      says=["vCPU 0 has been in an exit since 1000.010000000 (for 900 ms): shutdown at 0xe8f67, in QEMU: KVM_EXIT_SHUTDOWN.",
            "exits, with waits for a CPU, took at least 98.9%"])
def a_vcpu_that_never_leaves_its_last_exit(trace):
    """A guest crashed 10 ms after the recording began: QEMU has its vCPU, and another thread goes on."""
    trace.entry(BEGIN, 0, VCPU)
    trace.exit(BEGIN + 5 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 5 * MS + US, 0, VCPU)
    trace.exit(BEGIN + 10 * MS, 0, VCPU, "shutdown", 0xE8F67)
    trace.to_user(BEGIN + 10 * MS + 2 * US, 0, VCPU, "KVM_EXIT_SHUTDOWN (8)")
    trace.waking(BEGIN + 910 * MS, 1, HOG, ("other", 301), 1)


@case(["report"], never=["has been in an exit"], says=["all 4 vCPUs", "HLT 8"])
def idle_vcpus_at_the_end(trace):
    """A guest of four vCPUs that idle when the recording ends."""
    for number in range(4):
        vcpu = (f"CPU {number}/KVM", 200 + number)
        for at in (BEGIN + number * US, BEGIN + 100 * MS + number * US):
            trace.entry(at, number, vcpu, number)
            trace.exit(at + MS, number, vcpu, "HLT", vcpu=number)
            trace.switch(at + MS + 10 * US, number, vcpu, "S", (f"swapper/{number}", 0))
            if at < BEGIN + 100 * MS:
                trace.wakes(at + 90 * MS, 3, QEMU, vcpu, number)
                trace.switch(at + 90 * MS + 5 * US, number, (f"swapper/{number}", 0), "R", vcpu)
    trace.waking(BEGIN + 900 * MS, 1, HOG, ("other", 301), 1)


@case(["report"], says=["5 exits in", "HLT 3", "CPUID 2", "How long the exits took was not recorded (kvm:kvm_entry)"])
def exits_alone(trace):
    """kvm_exit alone was recorded: three by HLT, two by CPUID."""
    for i, reason in enumerate(("HLT", "CPUID", "HLT", "HLT", "CPUID")):
        trace.exit(BEGIN + i * MS, 0, VCPU, reason)


@case(["report"], ["explain"], ["advise"], never=["QEMU took 11.0 ms", "45.0% to 72.7%", "never had to wait"],
      says=["sched_switch came first at 1001.805003000: before that exits are counted"])
def switches_from_the_middle_on(trace):
    """A hog takes the vCPU's CPU for 10 of 20 ms all the time; sched_switch is recorded in the last tenth."""
    for i in range(100):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.io_exit(at + 5 * MS, port=0x70)
        if i >= 90:
            trace.switch(at + 5 * MS + 3 * US, 0, VCPU, "R", HOG)
            trace.switch(at + 15 * MS, 0, HOG, "R", VCPU)
        trace.ioctl(at + 16 * MS, 0, VCPU, KVM_RUN)
        trace.entry(at + 16 * MS + 5 * US, 0, VCPU)
        trace.exit(at + 19 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 2000 * MS, 0, VCPU)


@case(["report"], ["advise"], never=["never had to wait", "exits cost 50"],
      says=["exits, and perhaps waits for a CPU after a sleep, took at least 50.0%",
            "whether the vCPU had to wait for a CPU after a sleep was not recorded (sched:sched_waking)"])
def a_wait_after_a_sleep_without_wake_ups(trace):
    """The vCPU sleeps in QEMU for 1 ms and then waits for its CPU for 4 ms; no wake-up was recorded."""
    for i in range(10):
        at = BEGIN + i * 10 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * MS, 0, VCPU, "CPUID")
        trace.switch(at + 5 * MS + US, 0, VCPU, "S", HOG)
        trace.switch(at + 10 * MS - 2 * US, 0, HOG, "R", VCPU)
    trace.entry(BEGIN + 100 * MS, 0, VCPU)


@case(["report", "--waits"], never=["IPI"], says=["vCPU 0 (tid 91)"])
def an_ipi_between_two_vms_without_a_process(trace):
    """vCPU 0 of one VM sends an IPI to its own vCPU 1, and wakes vCPU 1 of another VM in the same exit."""
    a, b = [("CPU 0/KVM", 91), ("CPU 1/KVM", 92)], [("CPU 0/KVM", 201), ("CPU 1/KVM", 202)]
    for cpu, (thread, vcpu) in enumerate([(a[0], 0), (a[1], 1), (b[0], 0), (b[1], 1)]):
        trace.entry(BEGIN + cpu, cpu, thread, vcpu)
    for i in range(5):
        at = BEGIN + MS + i * 10 * MS
        trace.exit(at, 3, b[1], "CPUID", vcpu=1)
        trace.switch(at + US, 3, b[1], "S", IDLE)
        trace.exit(at + 2 * MS, 0, a[0], "APIC_WRITE")
        trace.add(at + 2 * MS + US, 0, a[0], "kvm_apic_ipi", "dst 1 vec 251 (Fixed|physical|assert|edge|dst)")
        trace.wakes(at + 2 * MS + 2 * US, 0, a[0], b[1], 3)
        trace.entry(at + 2 * MS + 5 * US, 0, a[0])
        trace.switch(at + 2 * MS + 9 * US, 3, IDLE, "R", b[1])
        trace.entry(at + 2 * MS + 12 * US, 3, b[1], 1)


@case(["report"], says=["not seen"], never=["exits cost 5"])
def switches_of_a_trace_dat_come_late(trace):
    """Another thread takes the vCPU's CPU for 8 of 10 ms; sched_switch was enabled after 200 of 250 ms."""
    trace.dat = dat = TraceDat()
    for i in range(25):
        at = BEGIN + i * 10 * MS
        dat.event(0, at, "kvm:kvm_entry", VCPU[1], vcpu_id=0)
        dat.event(0, at + MS, "kvm:kvm_exit", VCPU[1], exit_reason=0x60, isa=2, vcpu_id=0)
        if i >= 20:
            dat.event(0, at + MS + US, "sched:sched_switch", VCPU[1], prev_pid=VCPU[1], next_pid=HOG[1])
        dat.event(0, at + 5 * MS, "irq:irq_handler_entry", HOG[1], irq=4)
        dat.event(0, at + 5 * MS + US, "irq:irq_handler_exit", HOG[1], irq=4)
        if i >= 20:
            dat.event(0, at + 9 * MS, "sched:sched_switch", HOG[1], prev_pid=HOG[1], next_pid=VCPU[1])
    dat.event(0, BEGIN + 250 * MS, "kvm:kvm_entry", VCPU[1], vcpu_id=0)


@case(["advise"], never=["4 KiB at a time", "gains"], says=["page faults of the guest's memory: costs", "gain unknown"])
def a_fault_in_vain(trace):
    """The same instruction faults on one page 200 times: another thread unmaps it, and no larger page ends that."""
    for i in range(200):
        at = BEGIN + i * 10 * US
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * US, 0, VCPU, "EPT_VIOLATION")
        trace.add(at + 6 * US, 0, VCPU, "kvm_page_fault", "vcpu 0 rip 0x1000 address 0x0000000000123000 error_code 0x182")
    for i in range(200):
        at = BEGIN + 2 * MS + i * 10 * US
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * US, 0, VCPU, "IO_INSTRUCTION")
        trace.port(at + 6 * US, 0, VCPU, 0x3F8)
        trace.to_user(at + 7 * US, 0, VCPU)
    trace.entry(BEGIN + 4 * MS, 0, VCPU)


@case(["explain", "--reason", "CPUID"], never=["were not recorded (trapline help devices)"],
      says=["its events there: memory_region_ops_write", "virtio_queue_notify"])
def an_exit_after_many_with_events(trace):
    """70 exits have events of QEMU, and then the one that is asked for."""
    def mark(at, text):
        trace.add(at, 0, VCPU, "tracing_mark_write", text)
    for i in range(71):
        at = BEGIN + i * 100 * US
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * US, 0, VCPU, "CPUID" if i == 70 else "IO_INSTRUCTION")
        trace.to_user(at + 7 * US, 0, VCPU)
        mark(at + 8 * US, "memory_region_ops_write cpu 0 mr 0x5589f1f2e5e0 addr 0x402 value 0x41 size 1 name 'debugcon'")
        if i == 70:
            mark(at + 9 * US, "virtio_queue_notify vdev 0x5589f1f2e5e0 n 0 vq 0x5589f1f2e5e0")
        trace.run_again(at + 90 * US)


@case(["report"], ["stalls"], never=["has been in an exit", "made no progress"], says=["halted for"])
def idle_where_a_halt_has_another_reason(trace):
    """A guest of TDX halts by TDCALL: only kvm_vcpu_wakeup at its end tells, and the last one has none."""
    trace.entry(BEGIN, 0, VCPU)
    for i in range(4):
        at = BEGIN + i * 100 * MS
        trace.exit(at + MS, 0, VCPU, "TDCALL")
        trace.switch(at + MS + 10 * US, 0, VCPU, "S", IDLE)
        if i < 3:
            trace.wakes(at + 90 * MS, 1, QEMU, VCPU, 0)
            trace.switch(at + 90 * MS + 5 * US, 0, IDLE, "R", VCPU)
            trace.add(at + 90 * MS + 9 * US, 0, VCPU, "kvm_vcpu_wakeup", "wait time 88990000 ns, polling valid")
            trace.entry(at + 90 * MS + 20 * US, 0, VCPU)
    trace.waking(BEGIN + 1000 * MS, 1, HOG, ("other", 301), 1)


@case(["report"], ["report", "--to", "+500ms"], says=["(tid 200) 100 100 1.00 s", "(tid 200) 50 100 500 ms"])
def exits_without_an_entry(trace):
    """Of 100 exits in a second every fourth has a kvm_entry; the first sched_switch comes at the end."""
    trace.entry(BEGIN, 0, VCPU)
    for i in range(100):
        trace.exit(BEGIN + i * 10 * MS + MS, 0, VCPU, "MSR_WRITE")
        if i % 4 == 0:
            trace.entry(BEGIN + i * 10 * MS + 2 * MS, 0, VCPU)
    trace.switch(BEGIN + SECOND, 0, VCPU, "R", IDLE)


@case(["report"], ["stalls"], never=["has been in an exit", "exits cost at least 9", "took at least 9"])
def a_fast_path_without_kvm_entry(trace):
    """Linux 5.10 enters the guest again after some MSR writes without a kvm_entry: after the last it computes."""
    trace.entry(BEGIN, 0, VCPU)
    for i in range(10):
        trace.exit(BEGIN + MS + i * 2 * MS, 0, VCPU, "MSR_WRITE")
        trace.exit(BEGIN + 2 * MS + i * 2 * MS, 0, VCPU, "CPUID")
        trace.entry(BEGIN + 2 * MS + i * 2 * MS + 2 * US, 0, VCPU)
    trace.exit(BEGIN + 30 * MS, 0, VCPU, "MSR_WRITE")
    trace.waking(BEGIN + 880 * MS, 1, HOG, ("other", 301), 1)


@case(["report", "--steal"], says=["for 995 ms of 1.01 s, in 2 waits", "the longest, 990 ms, began at 1000.020", "hog (tid 300) 995 ms"])
def a_wait_that_lasts_at_the_end(trace):
    """A hog takes the vCPU's CPU for 5 ms, then for 990 ms until the recording ends."""
    trace.entry(BEGIN, 0, VCPU)
    for at, until in ((BEGIN + 10 * MS, BEGIN + 15 * MS), (BEGIN + 20 * MS, None)):
        trace.exit(at - US, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at, 0, VCPU, "R+", HOG)
        if until:
            trace.switch(until, 0, HOG, "R+", VCPU)
            trace.entry(until + US, 0, VCPU)
    trace.waking(BEGIN + 1010 * MS, 1, QEMU, ("other", 301), 1)


@case(["report", "--steal"], never=["in 1 wait", "hog (tid 300) 45"])
def switches_away_alone(trace):
    """The vCPU is switched out once, and its next events show that it ran 990 us later; no switch to it was recorded."""
    for i in range(500):
        trace.entry(BEGIN + i * MS, 0, VCPU)
        trace.exit(BEGIN + i * MS + 900 * US, 0, VCPU, "EXTERNAL_INTERRUPT")
        if i == 455:
            trace.switch(BEGIN + i * MS + 910 * US, 0, VCPU, "R", HOG)


@case(["report"], says=["halted for 4.97 s"], never=["offline 99"])
def an_idle_vm_that_ends_without_switches(trace):
    """The vCPU halts at 30 ms and its VM is killed at 5 s."""
    trace.entry(BEGIN, 0, VCPU)
    for i in range(1, 30):
        trace.exit(BEGIN + i * MS, 0, VCPU, "CPUID")
        trace.entry(BEGIN + i * MS + 10 * US, 0, VCPU)
    trace.exit(BEGIN + 30 * MS, 0, VCPU, "HLT")
    trace.add(BEGIN + 5000 * MS, 0, VCPU, "sched_process_exit", "comm=CPU 0/KVM pid=200 prio=120")
    trace.new_thread(BEGIN + 5100 * MS, ("sh", 90), 91)


@case(["report", "--waits"], says=["IPI from vCPU 1, VM ~200, which waited for worker (tid 400)"])
def an_ipi_of_a_vcpu_that_had_waited(trace):
    """vCPU 1 sleeps until a worker wakes it, then sends vCPU 0 an IPI; the next time it sends one at once."""
    second = ("CPU 1/KVM", 201)
    trace.entry(BEGIN, 0, VCPU)
    trace.entry(BEGIN, 1, second, 1)
    for at, slept in ((BEGIN + 10 * MS, True), (BEGIN + 30 * MS, False)):
        trace.exit(at, 0, VCPU, "HLT")
        trace.switch(at + 5 * US, 0, VCPU, "S", IDLE)
        trace.exit(at + 6 * US, 1, second, "EPT_VIOLATION", vcpu=1)
        if slept:
            trace.switch(at + 10 * US, 1, second, "D", ("worker", 400))
            trace.wakes(at + 8 * MS, 1, ("worker", 400), second, 1)
            trace.switch(at + 8 * MS + 5 * US, 1, ("worker", 400), "S", second)
        trace.entry(at + 8 * MS + 10 * US, 1, second, 1)
        trace.exit(at + 9 * MS, 1, second, "APIC_WRITE", vcpu=1)
        trace.add(at + 9 * MS + US, 1, second, "kvm_apic_ipi", "dst 0 vec 251 (Fixed|physical|assert|edge|dst)")
        trace.wakes(at + 9 * MS + 2 * US, 1, second, VCPU, 0)
        trace.entry(at + 9 * MS + 10 * US, 1, second, 1)
        trace.switch(at + 9 * MS + 10 * US, 0, IDLE, "R", VCPU)
        trace.entry(at + 9 * MS + 20 * US, 0, VCPU)


@case(["report"], ["stalls"], says=["offline", "118 ms"], never=["made no progress", "has been in an exit"])
def a_vm_that_ends_without_switches(trace):
    """The vCPU's thread ends after 100 accesses; the recording, without sched_switch, lasts two seconds more."""
    for i in range(100):
        trace.io_exit(BEGIN + i * MS)
        trace.run_again(BEGIN + i * MS + 100 * US)
    trace.io_exit(BEGIN + 100 * MS)
    trace.add(BEGIN + 118 * MS, 0, VCPU, "sched_process_exit", "comm=CPU 0/KVM pid=200 prio=120")
    trace.new_thread(BEGIN + 2000 * MS, ("sh", 90), 91)


@case(["report"], ["explain"], says=["paused", "9.90 ms 100 µs 100 µs - 100 µs"], never=["400 ms", "2 accesses"])
def a_stop_without_kvm_exit(trace):
    """A signal stops the vCPU for 400 ms after the 51st of 100 accesses; kvm_exit and kvm_entry were not recorded."""
    trace.switch(BEGIN - 5 * US, 0, IDLE, "R", VCPU)
    for i in range(100):
        at = BEGIN + i * MS + (400 * MS if i > 50 else 0)
        trace.port(at, 0, VCPU, 0x3F8)
        trace.to_user(at + US, 0, VCPU)
        if i == 50:
            trace.switch(at + 20 * US, 0, VCPU, "T", IDLE)
            trace.waking(at + 400 * MS, 1, HOG, VCPU, 0)
            trace.switch(at + 400 * MS + 5 * US, 0, IDLE, "R", VCPU)
        trace.ioctl(at + 101 * US + (400 * MS if i == 50 else 0), 0, VCPU, KVM_RUN)


@case(["report"], ["stalls"], never=["made no progress", "exits cost at least 9", "exits cost 9", "took at least 9", "took 9"])
def halts_that_were_filtered_out(trace):
    """kvm_exit was recorded but for HLT: the vCPU sleeps in its halts for 90 of 100 ms."""
    for i in range(5):
        at = BEGIN + i * 100 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + MS, 0, VCPU, "CPUID")
        trace.entry(at + MS + 5 * US, 0, VCPU)
        trace.switch(at + 10 * MS, 0, VCPU, "S", IDLE)
        trace.wakes(at + 99 * MS, 1, QEMU, VCPU, 0)
        trace.switch(at + 99 * MS + 5 * US, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 500 * MS, 0, VCPU)


@case(["stalls"], ["explain"], never=["page (userfaultfd)"], says=["slept until woken by uffd-server (tid 400)"])
def a_page_answered_before_the_fault(trace):
    """A thread answered another page 4 ms before the vCPU's fault; later it unmaps, and lets go of the lock that it waits for."""
    server = ("uffd-server", 400)
    for i in range(3):
        at = BEGIN + i * 200 * MS
        trace.entry(at, 0, VCPU)
        trace.ioctl(at + MS, 1, server, UFFDIO_COPY)
        trace.exit(at + 5 * MS, 0, VCPU, "EPT_VIOLATION")
        trace.add(at + 5 * MS + US, 0, VCPU, "kvm_page_fault", "vcpu 0 rip 0x1000 address 0x0000000000123000 error_code 0x182")
        trace.switch(at + 6 * MS, 0, VCPU, "D", IDLE)
        trace.wakes(at + 160 * MS, 1, server, VCPU, 0)
        trace.switch(at + 160 * MS + 5 * US, 0, IDLE, "R", VCPU)
        trace.entry(at + 160 * MS + 20 * US, 0, VCPU)
        trace.exit(at + 190 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 600 * MS, 0, VCPU)


@case(["stalls", "--from", "+300ms", "--min", "1ms"], ["explain", "--from", "+300ms"], ["advise", "--from", "+300ms"],
      never=["lost"], says=["made no progress", "left the guest", "at least 19.5%"])
def losses_before_a_part(trace):
    """CPU 0 lost events in the first 100 ms of 600."""
    for i in range(60):
        if i == 5:
            trace.lines.append((BEGIN + i * 10 * MS, "CPU:0 [LOST 9 EVENTS]"))
        trace.entry(BEGIN + (i * 10 + 1) * MS, 0, VCPU)
        trace.exit(BEGIN + (i * 10 + 9) * MS, 0, VCPU, "CPUID")


@case(["report"], says=["vCPU 0 (tid 200) 22 - 997 ms"], never=["106"])
def an_exit_without_an_end_and_a_loss_elsewhere(trace):
    """vCPU 0 has 22 exits in 1 s; after the 21st, KVM entered the guest without kvm_entry. CPU 3 lost events."""
    other = ("CPU 1/KVM", 201)
    for cpu, thread, vcpu, exits in ((0, VCPU, 0, [*range(21), 99]), (3, other, 1, range(100))):
        trace.switch(BEGIN - 4 * MS, cpu, IDLE, "R", thread)
        trace.entry(BEGIN, cpu, thread, vcpu)
        for i in exits:
            trace.exit(BEGIN + (10 * i + 5) * MS, cpu, thread, "CPUID", vcpu=vcpu)
            if vcpu == 1 or i != 20:
                trace.entry(BEGIN + (10 * i + 7) * MS, cpu, thread, vcpu)
    trace.lines.append((BEGIN + 6 * MS, "CPU:3 [LOST 5 EVENTS]"))


@case(["report", "--steal"], ["explain"], ["stalls"], never=["hog", "not allowed to run"], says=["unknown (no sched:sched_migrate_task was seen)"])
def a_wait_in_which_the_cpu_idled(trace):
    """The vCPU waited for another CPU than the one that it left and came back to; its moves were not recorded."""
    trace.waking(BEGIN - MS, 1, HOG, ("other", 301), 1)
    for i in range(10):
        at = BEGIN + i * 50 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 10 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 10 * MS + 10 * US, 0, VCPU, "R", HOG)
        trace.switch(at + 30 * MS, 0, HOG, "S", IDLE)
        trace.switch(at + 40 * MS, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 500 * MS, 0, VCPU)


def plug_in(trace, begin, tid, vcpu, ends=True):
    """QEMU makes a vCPU, which runs for 50 ms."""
    thread = (f"CPU {vcpu}/KVM", tid)
    trace.new_thread(begin, QEMU, tid)
    trace.switch(begin + MS, vcpu, IDLE, "R", thread)
    for i in range(5):
        trace.entry(begin + (10 * i + 3) * MS, vcpu, thread, vcpu)
        trace.exit(begin + (10 * i + 9) * MS, vcpu, thread, "CPUID", vcpu=vcpu)
    trace.switch(begin + 52 * MS, vcpu, thread, "X" if ends else "S", IDLE)
    return thread


@case(["report"], says=["vCPU 1 (tid 201)", "vCPU 1 (tid 201 #2)", "all 2 vCPUs"])
def a_vcpu_that_was_made_again(trace):
    """A VM of two vCPUs, of which one was unplugged and plugged in again: its thread got the id of the one before."""
    for begin, tid, vcpu in ((0, 200, 0), (MS, 201, 1), (300 * MS, 201, 1)):
        plug_in(trace, BEGIN + begin, tid, vcpu)


@case(["stalls"], says=["2 vCPUs 1000.380000000 90.0 ms"], never=["of 3"])
def a_stall_after_a_vcpu_was_made_again(trace):
    """As before, but the vCPU's thread got another id. Then other threads run instead of both vCPUs."""
    plug_in(trace, BEGIN + MS, 201, 1)
    for thread, vcpu in ((plug_in(trace, BEGIN, 200, 0, False), 0), (plug_in(trace, BEGIN + 300 * MS, 205, 1, False), 1)):
        hog = ("hog", 300 + vcpu)
        trace.switch(BEGIN + 370 * MS, vcpu, IDLE, "R", thread)
        trace.entry(BEGIN + 371 * MS, vcpu, thread, vcpu)
        trace.exit(BEGIN + 380 * MS, vcpu, thread, "EXTERNAL_INTERRUPT", vcpu=vcpu)
        trace.switch(BEGIN + 380 * MS + US, vcpu, thread, "R", hog)
        trace.switch(BEGIN + 469 * MS, vcpu, hog, "R", thread)
        trace.entry(BEGIN + 470 * MS, vcpu, thread, vcpu)
        trace.exit(BEGIN + 480 * MS, vcpu, thread, "CPUID", vcpu=vcpu)
        trace.entry(BEGIN + 481 * MS, vcpu, thread, vcpu)


@case(["report"], ["stalls"], never=["made no progress", "left the guest"], says=["LOST:", "kvm_entry without"])
def a_buffer_that_was_overwritten(trace):
    """CPU 0's events of 800 ms were overwritten: the vCPU left CPU 1 in an exit and ran on CPU 0 since."""
    trace.entry(BEGIN, 1, VCPU)
    trace.exit(BEGIN + MS, 1, VCPU, "EXTERNAL_INTERRUPT")
    trace.switch(BEGIN + MS + 10 * US, 1, VCPU, "R", HOG)
    trace.lines.append((BEGIN + 800 * MS, "##### CPU 0 buffer started ####"))
    trace.switch(BEGIN + 800 * MS + US, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 800 * MS + 9 * US, 0, VCPU)
    trace.exit(BEGIN + 801 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 801 * MS + US, 0, VCPU)


def ran_instead(trace, hog, left="X"):
    for i in range(20):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.io_exit(at + 5 * MS)
        trace.switch(at + 5 * MS + 3 * US, 0, VCPU, "R", hog)
        trace.switch(at + 15 * MS, 0, hog, "R" if i < 19 else left, VCPU)
        trace.ioctl(at + 16 * MS, 0, VCPU, KVM_RUN)


@case(["explain"], ["report", "--waits"], ["stalls"], ["report", "--slower-than", "12ms"],
      ["report", "--slower-than", "12ms", "--format", "csv"],
      says=["hog (tid 300) ran instead", "preempted 10.0 ms preempted by hog (tid 300)", ',"hog (tid 300)",'], never=["sshd"])
def an_id_that_is_used_again(trace):
    """hog kept the vCPU waiting and ended; sshd, which never did, got its id."""
    ran_instead(trace, HOG)
    trace.new_thread(BEGIN + 410 * MS, ("systemd", 1), 300)
    trace.switch(BEGIN + 420 * MS, 1, IDLE, "R", ("sshd", 300))
    trace.switch(BEGIN + 421 * MS, 1, ("sshd", 300), "S", IDLE)
    trace.entry(BEGIN + 400 * MS, 0, VCPU)
    trace.exit(BEGIN + 700 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 701 * MS, 0, VCPU)


@case(["explain"], ["report", "--waits"], says=["10.0 ms (71.6%) it was ready to run and did not run; where it was is unknown", "200 ms 100.0% 20 10.0 ms"],
      never=["ran something", "2 pieces"])
def a_wait_that_an_idle_cpu_ends(trace):
    """hog ran for 10 ms, then the CPU idled for 20 us: the vCPU may have waited for another CPU."""
    for i in range(20):
        at = BEGIN + i * 20 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 2 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.switch(at + 3 * MS, 0, VCPU, "R", HOG)
        trace.switch(at + 13 * MS, 0, HOG, "S", IDLE)
        trace.switch(at + 13 * MS + 20 * US, 0, IDLE, "R", VCPU)
        trace.entry(at + 16 * MS, 0, VCPU)
        trace.exit(at + 18 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 400 * MS, 0, VCPU)


@case(["stalls", "--to", "+10ms", "--min", "1ms"], ["report", "--steal", "--to", "+10ms"],
      says=["hog (tid 300) ran instead", "hog (tid 300) 5.00 ms"], never=["unknown"])
def a_wait_that_a_parts_end_cuts(trace):
    """hog ran instead of the vCPU, before the part's end and after it."""
    ran_instead(trace, HOG)


@case(["report", "--to", "+22ms"], says=["59.1% 0.2% 13.5% 27.3%", "user offline"], never=["40.7%"])
def a_vcpu_that_ends_after_a_part(trace):
    """QEMU took the vCPU away 10 ms after it had left its guest for the last time; the part ends before that."""
    for i in range(3):
        trace.entry(BEGIN + i * 5 * MS, 0, VCPU)
        trace.io_exit(BEGIN + i * 5 * MS + 4 * MS)
        trace.ioctl(BEGIN + i * 5 * MS + 4 * MS + 990 * US, 0, VCPU, KVM_RUN)
    trace.switch(BEGIN + MS, 1, IDLE, "R", HOG)
    trace.entry(BEGIN + 15 * MS, 0, VCPU)
    trace.io_exit(BEGIN + 16 * MS)
    trace.switch(BEGIN + 25 * MS, 0, VCPU, "X", IDLE)
    trace.exit(BEGIN + 30 * MS, 1, ("CPU 1/KVM", 201), vcpu=1)
    trace.entry(BEGIN + 31 * MS, 1, ("CPU 1/KVM", 201), vcpu=1)


@case(["explain"], ["report", "--waits"], ["report", "--slower-than", "12ms", "--format", "csv"],
      says=["sh (tid 300) ran instead", "gzip (tid 300) 7.00 ms", ',"sh (tid 300)",'], never=["gzip (tid 300) ran instead", "gzip-300"])
def a_program_that_executes_another(trace):
    """sh kept the vCPU waiting 20 times, gzip, which it became, once and for less."""
    shell, gzip = ("sh", 300), ("gzip", 300)
    ran_instead(trace, shell, "S")
    trace.switch(BEGIN + 410 * MS, 1, IDLE, "R", gzip)
    trace.switch(BEGIN + 411 * MS, 1, gzip, "R", IDLE)
    trace.entry(BEGIN + 400 * MS, 0, VCPU)
    trace.exit(BEGIN + 700 * MS, 0, VCPU, "CPUID")
    trace.switch(BEGIN + 701 * MS, 0, VCPU, "R", gzip)
    trace.switch(BEGIN + 708 * MS, 0, gzip, "S", VCPU)
    trace.entry(BEGIN + 709 * MS, 0, VCPU)


@case(["explain"], ["report", "--waits"], says=["hog (tid 300) 95.0 ms"], never=["sshd"])
def a_culprit_that_ended_before_the_wait(trace):
    """hog ran 95 ms instead and ended; its id was sshd's before the vCPU ran again."""
    trace.switch(BEGIN, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN, 0, VCPU)
    trace.exit(BEGIN + 5 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
    trace.switch(BEGIN + 5 * MS, 0, VCPU, "R", HOG)
    trace.switch(BEGIN + 100 * MS, 0, HOG, "X", ("cc1", 310))
    trace.new_thread(BEGIN + 101 * MS, ("systemd", 1), 300)
    trace.switch(BEGIN + 102 * MS, 1, IDLE, "R", ("sshd", 300))
    trace.switch(BEGIN + 103 * MS, 1, ("sshd", 300), "S", IDLE)
    trace.switch(BEGIN + 110 * MS, 0, ("cc1", 310), "S", VCPU)
    trace.entry(BEGIN + 111 * MS, 0, VCPU)


@case(["report", "--host-cpu"], ["report"], says=["VM 199 took 0.9", "its vCPU 100.0%", "worker (tid 300 #2)"],
      never=["400 ms", "sshd", "810 ms"])
def host_cpu_of_an_id_that_is_used_again(trace):
    """sshd ran 400 ms and ended; then a thread of QEMU's got its id."""
    trace.new_thread(BEGIN, QEMU, 200)
    trace.switch(BEGIN + MS, 0, IDLE, "R", VCPU)
    trace.switch(BEGIN + MS, 1, IDLE, "R", ("sshd", 300))
    trace.entry(BEGIN + 2 * MS, 0, VCPU)
    trace.switch(BEGIN + 401 * MS, 1, ("sshd", 300), "X", IDLE)
    trace.new_thread(BEGIN + 402 * MS, QEMU, 300)
    trace.switch(BEGIN + 403 * MS, 1, IDLE, "R", ("worker", 300))
    trace.switch(BEGIN + 403 * MS + 10 * US, 1, ("worker", 300), "S", IDLE)
    trace.exit(BEGIN + 410 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 411 * MS, 0, VCPU)


@case(["report", "--host-cpu"], says=["VM 199 took", "worker (tid 300) 40"], never=["sshd", "400 ms"])
def host_cpu_of_an_id_that_another_process_took(trace):
    """A thread of QEMU's ran 40 ms and ended; then sshd got its id and ran 400 ms."""
    trace.new_thread(BEGIN, QEMU, 200)
    trace.new_thread(BEGIN, QEMU, 300)
    trace.switch(BEGIN + MS, 0, IDLE, "R", VCPU)
    trace.switch(BEGIN + MS, 1, IDLE, "R", ("worker", 300))
    trace.entry(BEGIN + 2 * MS, 0, VCPU)
    trace.switch(BEGIN + 41 * MS, 1, ("worker", 300), "X", IDLE)
    trace.add(BEGIN + 42 * MS, 1, ("init", 1), "task_newtask", "pid=300 comm=init clone_flags=1200000 oom_score_adj=0")
    trace.switch(BEGIN + 43 * MS, 1, IDLE, "R", ("sshd", 300))
    trace.switch(BEGIN + 443 * MS, 1, ("sshd", 300), "S", IDLE)
    trace.exit(BEGIN + 450 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 451 * MS, 0, VCPU)


def a_vm(trace, begin, tid):
    """QEMU 199 runs for 100 ms; its vCPU for 50 ms."""
    trace.switch(begin, 1, IDLE, "R", QEMU)
    trace.new_thread(begin + MS, QEMU, tid)
    vcpu = ("CPU 0/KVM", tid)
    trace.switch(begin + 2 * MS, 0, IDLE, "R", vcpu)
    for i in range(5):
        trace.entry(begin + (10 * i + 3) * MS, 0, vcpu)
        trace.exit(begin + (10 * i + 9) * MS, 0, vcpu, "CPUID")
    trace.switch(begin + 52 * MS, 0, vcpu, "X", IDLE)
    trace.switch(begin + 100 * MS, 1, QEMU, "X", IDLE)


def forked(trace, at, tid=199):
    trace.add(at, 1, ("bash", 50), "task_newtask", f"pid={tid} comm=bash clone_flags=1200000 oom_score_adj=0")


@case(["report", "--host-cpu"], ["report", "--host-cpu", "--from", "+250ms"],
      says=["VM 199 #2 took at least", "main loop: qemu-system-x86 (tid 199 #2) 100 ms", "vCPU 0 (tid 230) 50.0 ms",
            "Other threads took 30.0 ms, which is in none of its rows."],
      never=["199 took at least 0.7", "vhost: vhost", "300 ms"])
def two_vms_whose_process_had_one_id(trace):
    """QEMU ended, and a second one got its id; the kernel's thread vhost-199 worked for either."""
    a_vm(trace, BEGIN, 200)
    forked(trace, BEGIN + 200 * MS)
    a_vm(trace, BEGIN + 300 * MS, 230)
    trace.switch(BEGIN + 350 * MS, 2, IDLE, "R", ("vhost-199", 240))
    trace.switch(BEGIN + 380 * MS, 2, ("vhost-199", 240), "S", IDLE)


@case(["report"], says=["VM 199 vCPU 0 (tid 200)", "VM 199 #2 vCPU 0 (tid 230)"])
def two_vms_whose_process_had_one_id_without_switches(trace):
    """Only what KVM does was recorded, and that threads were made."""
    for begin, tid in ((0, 200), (300 * MS, 230)):
        if begin:
            forked(trace, BEGIN + begin - MS)
        trace.new_thread(BEGIN + begin, QEMU, tid)
        for i in range(5):
            trace.entry(BEGIN + begin + (10 * i + 3) * MS, 0, ("CPU 0/KVM", tid))
            trace.exit(BEGIN + begin + (10 * i + 9) * MS, 0, ("CPU 0/KVM", tid), "CPUID")


def restarted(trace, first=QEMU, vcpu=230):
    """`first` runs a VM with the vCPU 200 when the recording begins, and ends; 100 ms later a QEMU 199 is made, with `vcpu`."""
    trace.threads = [(199, 199), (200, 199)]
    trace.switch(BEGIN - MS, 1, IDLE, "R", first)
    trace.switch(BEGIN - MS, 0, IDLE, "R", VCPU)
    for i in range(5):
        trace.entry(BEGIN + (10 * i + 3) * MS, 0, VCPU)
        trace.exit(BEGIN + (10 * i + 9) * MS, 0, VCPU, "CPUID")
    trace.switch(BEGIN + 52 * MS, 0, VCPU, "X", IDLE)
    trace.switch(BEGIN + 99 * MS, 1, first, "X", IDLE)
    forked(trace, BEGIN + 200 * MS)
    a_vm(trace, BEGIN + 300 * MS, vcpu)


@case(["report", "--host-cpu"], ["report", "--from", "+260ms"], ["stalls", "--min", "1ms"], ["timeline"],
      ["explain", "--around", "1000.310000000", "--vm", "199 #2", "--vcpu", "0"],
      says=["VM 199 vCPU 0 (tid 200)", "VM 199 #2 vCPU 0 (tid 230)", "main loop: qemu-system-x86 (tid 199) 100 ms",
            "main loop: qemu-system-x86 (tid 199 #2) 100 ms", "VM 199 #2 took 1.064", "VM 199 #2 vCPU 0 left the guest"],
      never=["web01 (199) vCPU", "no such VM", "Other threads", "1000.303000000 web01 vCPU 0"])
def a_vm_of_a_session_that_was_restarted(trace):
    """The recorder listed the first QEMU's threads. The name is of one of the two VMs, or of both."""
    restarted(trace)


@case(["report"], says=["VM 199 vCPU 0 (tid 200)", "VM 199 #2 vCPU 0 (tid 230)", "all 2 vCPUs"], never=["web01"])
def a_vm_of_a_session_that_was_restarted_without_switches(trace):
    """Only what KVM does was recorded, and that threads were made."""
    restarted(trace)
    trace.lines = [line for line in trace.lines if "sched_switch" not in line[1]]


@case(["report", "--to", "+150ms"], ["report", "--to", "+150ms", "--vm", "web01"], ["stalls", "--min", "1ms", "--to", "+150ms"],
      ["explain", "--to", "+150ms", "--vm", "web01"], ["report", "--to", "+150ms", "--vm", "199 #2"],
      says=["VM web01 (199) took", "stalls of 1.00 ms", "0 exits in"], never=["no such VM", "VM 199"])
def a_part_before_a_vm_was_restarted(trace):
    """Each command that looks at the part alone finds one VM with the name, whatever comes within a second."""
    restarted(trace)
    trace.threads += [(500, 500), (501, 500)]
    for i in range(5):
        trace.entry(BEGIN + (10 * i + 3) * MS, 3, ("CPU 0/KVM", 501))
        trace.exit(BEGIN + (10 * i + 9) * MS, 3, ("CPU 0/KVM", 501), "CPUID")


@case(["report"], ["report", "--vm", "web01"], says=["VM 199 vCPU 0 (tid 200)", "VM 199 #2 vCPU 0 (tid 230)", "no such VM"],
      never=["web01 (199)", "?200"])
def a_vm_whose_vcpus_id_sshd_got(trace):
    """As before, and then sshd got the id of the first vCPU: the list, which has it as QEMU's, means that one."""
    restarted(trace)
    forked(trace, BEGIN + 150 * MS, 200)
    trace.switch(BEGIN + 151 * MS, 2, IDLE, "R", ("sshd", 200))
    trace.switch(BEGIN + 160 * MS, 2, ("sshd", 200), "S", IDLE)


@case(["report", "--host-cpu"], says=["VM web01 (199) took 1.582 CPUs", "144 ms", "vCPU 0 (tid 200) 53.0 ms"], never=["at least 1.", "sshd"])
def host_cpu_of_a_vm_with_a_vcpus_id_that_sshd_got(trace):
    """One of the VM's two vCPUs ended, and sshd got its id."""
    trace.threads = [(199, 199), (200, 199), (201, 199)]
    other = ("CPU 1/KVM", 201)
    for vcpu, thread in ((0, VCPU), (1, other)):
        trace.switch(BEGIN - MS, vcpu, IDLE, "R", thread)
        for i in range(5):
            trace.entry(BEGIN + (10 * i + 3) * MS, vcpu, thread, vcpu)
            trace.exit(BEGIN + (10 * i + 9) * MS, vcpu, thread, "CPUID", vcpu=vcpu)
    trace.switch(BEGIN + 52 * MS, 0, VCPU, "X", IDLE)
    forked(trace, BEGIN + 60 * MS, 200)
    trace.switch(BEGIN + 61 * MS, 0, IDLE, "R", ("sshd", 200))
    trace.switch(BEGIN + 70 * MS, 0, ("sshd", 200), "S", IDLE)
    trace.switch(BEGIN + 90 * MS, 1, other, "S", IDLE)


def another_vm_before(trace):
    """VM 700 runs with a vCPU 200 and ends; then QEMU 199 makes a vCPU, which has that id. The list is of the end."""
    restarted(trace, ("qemu-system-x86", 700), 200)


@case(["report", "--host-cpu"], ["report", "--host-cpu", "--from", "+250ms", "--vm", "web01"],
      says=["VM web01 (199) vCPU 0 (tid 200 #2)", "VM ?200 vCPU 0 (tid 200)", "VM web01 (199) took 0.374", "150 ms"],
      never=["VM 199", "Other threads", "took at least", "no such VM"])
def a_list_of_a_later_vm(trace):
    """One process had the id 199; what ran before it was made is not its."""
    another_vm_before(trace)


@case(["report", "--host-cpu"], says=["VM 700 vCPU 0 (tid 200)", "VM web01 (199) vCPU 0 (tid 200 #2)", "VM 700 took 0.382", "(tid 700) 100 ms"],
      never=["?200", "took at least"])
def a_list_of_an_earlier_vm(trace):
    """As before, and the list is of the beginning."""
    another_vm_before(trace)
    trace.threads = [(700, 700), (200, 700)]


@case(["report", "--host-cpu"], ["report", "--host-cpu", "--from", "1000"], says=["The vCPUs of VM ?200 took"], never=["VM web01 (199)", "sh (tid 199)"])
def a_vcpu_whose_making_was_lost(trace):
    """sh had the id of QEMU, whose vCPU is made while events are lost: the list does not say of which of the two it is."""
    trace.threads = [(199, 199), (200, 199)]
    trace.switch(BEGIN - 61 * MS, 0, HOG, "S", IDLE)
    trace.switch(BEGIN - 60 * MS, 1, IDLE, "R", ("sh", 199))
    trace.switch(BEGIN - 50 * MS, 1, ("sh", 199), "X", IDLE)
    forked(trace, BEGIN - 40 * MS)
    trace.switch(BEGIN - 39 * MS, 1, IDLE, "R", QEMU)
    trace.lines.append((BEGIN - 20 * MS, "CPU:1 [LOST 5 EVENTS]"))
    trace.switch(BEGIN - 5 * MS, 0, IDLE, "R", VCPU)
    for i in range(5):
        trace.entry(BEGIN + (10 * i + 3) * MS, 0, VCPU)
        trace.exit(BEGIN + (10 * i + 9) * MS, 0, VCPU, "CPUID")
    trace.switch(BEGIN + 52 * MS, 0, VCPU, "X", IDLE)
    trace.switch(BEGIN + 100 * MS, 1, QEMU, "S", IDLE)


@case(["report", "--host-cpu"], says=["VM web01 (199) took at least", "VM ~201 vCPU 1 (tid 201)", "Other threads took 53.0 ms", "VM db01 (500) took 0."],
      never=["VM db01 (500) took at least"])
def a_vcpu_that_no_list_has(trace):
    """vCPU 1 was unplugged before the threads were listed. VM 500, which began in the recording, has told of each thread."""
    trace.threads = [(199, 199), (200, 199)]
    forked(trace, BEGIN - 10 * MS, 500)
    trace.new_thread(BEGIN - 9 * MS, ("qemu-system-x86", 500), 501)
    for cpu, thread, vcpu in ((0, VCPU, 0), (1, ("CPU 1/KVM", 201), 1), (2, ("CPU 0/KVM", 501), 0)):
        trace.switch(BEGIN - MS, cpu, IDLE, "R", thread)
        for i in range(5):
            trace.entry(BEGIN + (10 * i + 3) * MS, cpu, thread, vcpu)
            trace.exit(BEGIN + (10 * i + 9) * MS, cpu, thread, "CPUID", vcpu=vcpu)
        trace.switch(BEGIN + 52 * MS, cpu, thread, "X", IDLE)
    trace.switch(BEGIN + 90 * MS, 3, IDLE, "R", HOG)


@case(["report", "--host-cpu"], says=["VM web01 (199) took at least", "VM db01 (500) took at least", "Other threads took 30.0 ms"])
def a_thread_whose_listing_is_a_later_ones(trace):
    """An IOThread of VM 199 ended, and VM 500 made a thread with its id, which the list has."""
    trace.threads = [(199, 199), (200, 199), (500, 500), (501, 500), (250, 500)]
    worker = ("IO io0", 250)
    for cpu, thread in ((0, VCPU), (1, ("CPU 0/KVM", 501))):
        trace.switch(BEGIN - MS, cpu, IDLE, "R", thread)
        for i in range(5):
            trace.entry(BEGIN + (10 * i + 3) * MS, cpu, thread)
            trace.exit(BEGIN + (10 * i + 9) * MS, cpu, thread, "CPUID")
        trace.switch(BEGIN + 52 * MS, cpu, thread, "X", IDLE)
    trace.switch(BEGIN, 2, IDLE, "R", worker)
    trace.switch(BEGIN + 30 * MS, 2, worker, "X", IDLE)
    trace.new_thread(BEGIN + 35 * MS, ("qemu-system-x86", 500), 250)
    trace.switch(BEGIN + 36 * MS, 2, IDLE, "R", worker)
    trace.switch(BEGIN + 46 * MS, 2, worker, "S", IDLE)


@case(["report", "--vcpu", "0"], ["explain"], says=["5 exits in", "vCPU 0 left the guest for 4.00 ms"], never=["no exits", "exits with"])
def a_vcpus_id_that_a_shell_had(trace):
    """sh ended, and QEMU's vCPU got its id."""
    trace.switch(BEGIN - 90 * MS, 1, IDLE, "R", ("sh", 200))
    trace.switch(BEGIN - 80 * MS, 1, ("sh", 200), "X", IDLE)
    a_vm(trace, BEGIN, 200)


@case(["report", "--host-cpu"], ["report"], says=["VM 199 took", "150 ms"], never=["gcc", "550 ms", "Other threads", "VM 199 #"])
def a_vms_process_whose_id_another_program_had(trace):
    """gcc ran for 400 ms with the id that QEMU got, and again after QEMU ended."""
    for begin in (0, 2 * SECOND):
        forked(trace, BEGIN + begin)
        trace.switch(BEGIN + begin + MS, 3, IDLE, "R", ("gcc", 199))
        trace.switch(BEGIN + begin + 401 * MS, 3, ("gcc", 199), "X", IDLE)
    forked(trace, BEGIN + 900 * MS)
    a_vm(trace, BEGIN + SECOND, 200)


@case(["report", "--host-cpu", "--from", "+100ms", "--to", "+300ms"], says=["VM 199 took 2.0", "IO io0 (tid 250) 200 ms"])
def host_cpu_of_a_part(trace):
    """An IOThread that has its CPU from before the part until after it."""
    io_thread = ("IO io0", 250)
    trace.new_thread(BEGIN, QEMU, 200)
    trace.new_thread(BEGIN, QEMU, 250)
    trace.switch(BEGIN + MS, 0, IDLE, "R", VCPU)
    trace.switch(BEGIN + 2 * MS, 1, IDLE, "R", io_thread)
    for i in range(100):
        trace.entry(BEGIN + i * 4 * MS + 3 * MS, 0, VCPU)
        trace.exit(BEGIN + i * 4 * MS + 5 * MS, 0, VCPU, "CPUID")
    for i in range(100):
        trace.switch(BEGIN + i * 4 * MS + 4 * MS, 2, IDLE, "R", ("other", 400))
        trace.switch(BEGIN + i * 4 * MS + 5 * MS, 2, ("other", 400), "S", IDLE)
    trace.switch(BEGIN + 402 * MS, 1, io_thread, "S", IDLE)


def interrupted(trace, ends):
    """The vCPU's thread runs 400 ms; every 10 ms an interrupt takes it 1 ms, and a softirq 3 ms with an interrupt in it."""
    trace.new_thread(BEGIN, QEMU, 200)
    trace.switch(BEGIN + MS, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 2 * MS, 0, VCPU)
    for name, text, at, ns in (("softirq", "vec=1 [action=TIMER]", 4, 3), ("irq_handler", "irq=27 name=eth0", 5, 1),
                               ("local_timer", "vector=236", 2, 1)):
        for i in range(40) if name in ends else ():
            trace.add(BEGIN + (i * 10 + at) * MS, 0, VCPU, f"{name}_entry", text, HARD)
            trace.add(BEGIN + (i * 10 + at + ns) * MS - 1, 0, VCPU, f"{name}_exit", text, HARD)
    trace.exit(BEGIN + 401 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
    trace.entry(BEGIN + 401 * MS + US, 0, VCPU)
    trace.switch(BEGIN + 402 * MS, 0, VCPU, "S", IDLE)


@case(["report", "--host-cpu"], says=["interrupts", "156 ms"], never=["how long interrupts took"])
def interrupts_of_all_kinds(trace):
    """The first end of a kind shows that its ends are recorded: 39 ms of the timer and 117 ms of softirqs count."""
    interrupted(trace, ("softirq", "irq_handler", "local_timer"))


@case(["report", "--host-cpu"], says=["Not known: how long interrupts took; what kernel workers did for VMs. trapline record --host-cpu"],
      never=["interrupts 0", "0 ns", "117 ms"])
def interrupts_without_the_timers(trace):
    """The local timer's interrupts took the vCPU's thread 40 ms, without an event."""
    interrupted(trace, ("softirq", "irq_handler"))


@case(["report", "--host-cpu"], says=["work items: kworker/1:0 (tid 9) 30.0 ms", "kernel workers 6.9%", "woke its threads on idle CPUs: 1.", "took 2.00 ms"],
      never=["Not known", "200 ms", "40.0 ms"])
def work_for_a_vm(trace):
    """A kernel worker runs 30 ms for the vCPU's thread, of which it sleeps 20 ms in between; 150 ms of another item that an interrupt
    queued while that thread ran, and 10 ms of one that its own program did. An interrupt wakes the main loop on an idle CPU."""
    worker = ("kworker/1:0", 9)

    def work(at, cpu, thread, what, item, flags=0):
        text = "work struct={} function=f workqueue=events req_cpu=8192 cpu=1" if what == "queue_work" else "work struct {}: function f"
        trace.add(at, cpu, thread, f"workqueue_{what}", text.format(item), *([flags] if flags else []))

    interrupted(trace, ("softirq", "irq_handler", "local_timer"))
    work(BEGIN + 3 * MS, 0, VCPU, "queue_work", "00000000aaaa0001")
    work(BEGIN + 3 * MS + 500 * US, 0, VCPU, "queue_work", "00000000aaaa0002", HARD)
    trace.switch(BEGIN + 4 * MS, 1, IDLE, "R", worker)
    work(BEGIN + 5 * MS, 1, worker, "execute_start", "00000000aaaa0001")
    trace.switch(BEGIN + 15 * MS, 1, worker, "D", IDLE)
    trace.switch(BEGIN + 35 * MS, 1, IDLE, "R", worker)
    work(BEGIN + 55 * MS, 1, worker, "execute_end", "00000000aaaa0001")
    work(BEGIN + 60 * MS, 1, worker, "execute_start", "00000000aaaa0002")
    work(BEGIN + 210 * MS, 1, worker, "execute_end", "00000000aaaa0002")
    work(BEGIN + 220 * MS, 1, worker, "execute_start", "00000000aaaa0003")
    work(BEGIN + 230 * MS, 1, worker, "execute_end", "00000000aaaa0003")
    trace.switch(BEGIN + 240 * MS, 1, worker, "I", QEMU)
    trace.switch(BEGIN + 241 * MS, 1, QEMU, "S", IDLE)
    trace.add(BEGIN + 250 * MS, 1, IDLE, "irq_handler_entry", "irq=27 name=eth0", HARD)
    trace.waking(BEGIN + 251 * MS, 1, IDLE, QEMU, 1, HARD)
    trace.add(BEGIN + 252 * MS, 1, IDLE, "irq_handler_exit", "irq=27 ret=handled", HARD)
    trace.switch(BEGIN + 253 * MS, 1, IDLE, "R", QEMU)
    trace.switch(BEGIN + 254 * MS, 1, QEMU, "S", IDLE)


@case(["report", "--host-cpu", "--to", "+10ms"],
      ["export", "--format", "csv", "--rows", "host-cpu", "-o", "-", "--to", "+10ms"],
      says=["No thread that is known to be a VM's ran in this part", "nothing to export", "exits with 2"],
      never=["not all of their switches", "took"])
def host_cpu_before_the_vm_ran(trace):
    """Only sshd runs in the first 10 ms."""
    trace.switch(BEGIN, 1, IDLE, "R", ("sshd", 300))
    trace.switch(BEGIN + 5 * MS, 1, ("sshd", 300), "S", IDLE)
    trace.new_thread(BEGIN + 20 * MS, QEMU, 200)
    trace.switch(BEGIN + 21 * MS, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 22 * MS, 0, VCPU)
    trace.exit(BEGIN + 30 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 31 * MS, 0, VCPU)


@case(["report", "--host-cpu", "--from", "+0ms"], says=["main loop: qemu-system-x86 (tid 199)", "vCPU ×10"], never=["vCPU ×20", "main loop: sh"])
def wake_ups_with_another_event_between(trace):
    """The vCPU wakes the main loop 10 times; an event that no figure is made of comes after each sched_waking. QEMU's first
    thread was a shell's at first."""
    trace.switch(BEGIN, 1, IDLE, "R", ("sh", 199))
    trace.new_thread(BEGIN + 10 * US, ("sh", 199), 200)
    trace.switch(BEGIN + 20 * US, 1, ("sh", 199), "S", IDLE)
    trace.switch(BEGIN + MS, 0, IDLE, "R", VCPU)
    for i in range(10):
        at = BEGIN + i * 10 * MS + 2 * MS
        trace.entry(at, 0, VCPU)
        trace.exit(at + 5 * MS, 0, VCPU, "CPUID")
        trace.waking(at + 5 * MS + 10 * US, 0, VCPU, QEMU, 1)
        trace.add(at + 5 * MS + 11 * US, 0, VCPU, "sched_stat_runtime", "comm=CPU 0/KVM pid=200 runtime=5000000 [ns] vruntime=1 [ns]")
        trace.wakeup(at + 5 * MS + 12 * US, 0, VCPU, QEMU, 1)
        trace.switch(at + 5 * MS + 20 * US, 1, IDLE, "R", QEMU)
        trace.switch(at + 6 * MS, 1, QEMU, "S", IDLE)
    trace.entry(BEGIN + 110 * MS, 0, VCPU)


@case(["export", "--format", "csv", "--rows", "host-cpu", "-o", "-"], says=[',,0,200,', ',,0,400,', '"~200"', '"~400"'])
def host_cpu_of_two_vms_without_a_process(trace):
    """vCPU 0 of a VM and vCPU 0 of another one, which began before the recording."""
    for cpu, thread in ((0, VCPU), (1, ("CPU 0/KVM", 400))):
        trace.switch(BEGIN + MS, cpu, IDLE, "R", thread)
        trace.entry(BEGIN + 2 * MS, cpu, thread)
        trace.exit(BEGIN + 9 * MS, cpu, thread, "CPUID")
        trace.entry(BEGIN + 10 * MS, cpu, thread)
        trace.switch(BEGIN + 20 * MS, cpu, thread, "S", IDLE)


@case(["export", "--format", "csv", "--rows", "working-set", "-o", "-"],
      says=[",1000000000000,4000,16797696,2076672,2,", ",1000010000000,0,16777216,20480,0,", ",33554432,2097152,1,"],
      never=[",33558528,"])
def the_working_set_of_large_pages(trace):
    """A page; then the 2 MiB around it, by a fault on a page after it; and 2 MiB of which a page is mapped alone again later."""
    trace.new_thread(BEGIN - MS, QEMU, 200)

    def fault(at, address, level):
        trace.exit(at, 0, VCPU, "EPT_VIOLATION")
        trace.add(at + 100, 0, VCPU, "kvm_page_fault", f"vcpu 0 rip 0x1000 address 0x{address:016x} error_code 0x182")
        trace.add(at + 200, 0, VCPU, "kvm_tdp_mmu_spte_changed",
                  f"as id 0 gfn {address >> 12 & ~((1 << 9 * (level - 1)) - 1):x} level {level} old_spte 0 new_spte {'b77' if level == 1 else 'bf7'}")
        trace.entry(at + 2 * US, 0, VCPU)

    fault(BEGIN, 0x1005000, 1)
    fault(BEGIN + 10 * MS, 0x1008000, 2)
    fault(BEGIN + 20 * MS, 0x2000000, 2)
    fault(BEGIN + 30 * MS, 0x2001000, 1)


@case(["report", "--steal"], ["stalls"], ["info"],
      says=["what was stolen from it was not recorded", "only those away from the recorded threads", "the guest ran 75.0%"],
      never=["CPUs of the host", "asleep", "ready to run"])
def perf_of_one_process(trace):
    """`perf record -p`: half of each exit a hog had the CPU, and the switch back is not recorded."""
    trace.dat = perf = PerfData(cpus=2)
    for i in range(100):
        at = BEGIN + i * 4 * MS
        perf.event(0, at, "kvm:kvm_entry", VCPU[1], vcpu_id=0)
        perf.event(0, at + 3 * MS, "kvm:kvm_exit", VCPU[1], exit_reason=0x60, isa=2, vcpu_id=0)
        perf.event(0, at + 3 * MS + 500 * US, "sched:sched_switch", VCPU[1], prev_pid=VCPU[1], prev_state=256, next_pid=300, next_comm=b"hog")
    perf.event(0, BEGIN + 400 * MS, "kvm:kvm_entry", VCPU[1], vcpu_id=0)


@case(["report", "--waits"], says=["vCPU 0 (tid 200)"], never=["#2"])
def a_new_thread_that_is_told_twice(trace):
    """perf's fork and task_newtask are of one new thread."""
    trace.new_thread(BEGIN - 10 * MS, QEMU, 200)
    trace.new_thread(BEGIN - 10 * MS + 6 * US, QEMU, 200)
    ran_instead(trace, HOG)


@case(["report", "--waits"], says=["VM 199 vCPU 0 (tid 200)", "VM 500 vCPU 0 (tid 210)"], never=["#2", "VM 199 #"])
def a_process_whose_id_was_a_shells(trace):
    """sh had the id of the QEMU that runs the VM, and ended; another VM runs beside."""
    trace.switch(BEGIN - 90 * MS, 1, IDLE, "R", ("sh", 199))
    trace.switch(BEGIN - 80 * MS, 1, ("sh", 199), "X", IDLE)
    trace.add(BEGIN - 70 * MS, 1, ("init", 1), "task_newtask", "pid=199 comm=init clone_flags=1200000 oom_score_adj=0")
    trace.switch(BEGIN - 60 * MS, 1, IDLE, "R", QEMU)
    for maker, vcpu in ((QEMU, VCPU), (("qemu-system-x86", 500), ("CPU 0/KVM", 210))):
        trace.new_thread(BEGIN - 50 * MS, maker, vcpu[1])
        for i in range(10):
            trace.entry(BEGIN + i * MS, vcpu[1] % 4, vcpu)
            trace.exit(BEGIN + i * MS + 500 * US, vcpu[1] % 4, vcpu, "CPUID")


@case(["report", "--by", "vm,reason"], ["export", "--format", "csv", "--rows", "exits", "-o", "-"],
      says=["199 / CPUID", "500 / MSR_WRITE", "VM 199 vCPU 0 (tid 200)", "VM 500 vCPU 0 (tid 200 #2)", "199,0,200,", "500,0,200,"],
      never=["?200", "~200", "4194504"])
def a_vcpus_id_in_two_vms(trace):
    """The vCPU of VM 199 ended, and a vCPU of VM 500 got its id."""
    for maker, begin, reason in ((QEMU, 0, "CPUID"), (("qemu-system-x86", 500), 2 * SECOND, "MSR_WRITE")):
        trace.new_thread(BEGIN + begin - 5 * MS, maker, 200)
        trace.switch(BEGIN + begin - MS, 0, IDLE, "R", VCPU)
        for i in range(10):
            trace.entry(BEGIN + begin + i * MS, 0, VCPU)
            trace.exit(BEGIN + begin + i * MS + 500 * US, 0, VCPU, reason)
        trace.switch(BEGIN + begin + 12 * MS, 0, VCPU, "X", IDLE)


@case(["export", "--format", "csv", "--rows", "interrupts", "-o", "-", "--from", "1000.00016"], ["report", "--irq", "--from", "1000.00016"],
      says=["1000000452000,59000", "vector 0x24 msi 1 ", "1 interrupt was raised again"], never=["1000000170000"])
def an_interrupt_that_pends_when_a_part_begins(trace):
    """Raised at 152 µs, before the part, and not injected before 301: the raise at 170 is none of its own. The next one is at 452."""
    io_thread = ("IO io0", 250)
    trace.new_thread(BEGIN - 5 * MS, QEMU, 200)
    trace.new_thread(BEGIN - 5 * MS, QEMU, 250)
    trace.entry(BEGIN, 0, VCPU)
    for raised, injected in ((152, 0), (155, 0), (170, 301), (452, 501)):
        at = BEGIN + raised * US
        trace.add(at, 2, io_thread, "kvm_msi_set_irq", "dst 0 vec 36 (Fixed|physical|edge)")
        trace.add(at + US, 2, io_thread, "kvm_apic_accept_irq", "apicid 0 vec 36 (Fixed|edge)")
        if not injected:
            continue
        at = BEGIN + injected * US
        trace.exit(at - US, 0, VCPU, "EXTERNAL_INTERRUPT")
        trace.add(at, 0, VCPU, "kvm_inj_virq", "IRQ 0x24")
        trace.entry(at + US, 0, VCPU)
        trace.exit(at + 9 * US, 0, VCPU, "APIC_WRITE")
        trace.add(at + 10 * US, 0, VCPU, "kvm_eoi", "apicid 0 vector 36")
        trace.entry(at + 11 * US, 0, VCPU)


@case(["advise"], says=["whether a vCPU waited for a CPU after a sleep was not recorded"])
def advice_where_only_waits_after_a_sleep_are_unknown(trace):
    """sched_switch tells of the other waits, and there was none."""
    restarted(trace)


@case(["report"], says=["how much of it the VMM took was not recorded"], never=["of it QEMU took"])
def a_firecracker_beside_a_qemu(trace):
    """Two VMs; no event tells the kernel's part of an exit from the VMM's."""
    for cpu, thread in ((0, ("fc_vcpu 0", 150)), (1, VCPU)):
        for i in range(10):
            trace.entry(BEGIN + i * MS, cpu, thread)
            trace.exit(BEGIN + i * MS + 500 * US, cpu, thread, "IO_INSTRUCTION")


def texts():
    """Of all cases, by name."""
    found = {}
    for name, (function, *_) in CASES.items():
        trace = Recording()
        function(trace)
        if trace.lines:  # a trace.dat has none
            found[name] = trace.text()
    return found


def write_session(path, trace):
    path.mkdir()
    (path / "trace.dat").write_text(trace.text(), encoding="utf-8")
    session = {"version": 1, "closed": True, "command": ["qemu"], "vms": [{"pid": 199, "name": "web01"}, {"pid": 500, "name": "db01"}],
               "threads": [{"tid": tid, "pid": process, "name": "x", "ran_ns": trace.ran.get(tid, [0, 0])} for tid, process in trace.threads], "cgroups": trace.cgroups,
               "parts": [{"name": "trace.dat", "size": (path / "trace.dat").stat().st_size}]}
    (path / "session.json").write_text(json.dumps(session), encoding="utf-8")


def check(trapline, name, folder):
    """What is wrong with the case's output."""
    function, commands, says, never = CASES[name]
    trace, path = Recording(), folder / f"{name}.txt"
    function(trace)
    if trace.dat:
        trace.dat.write(path)
    elif trace.threads:
        write_session(path, trace)
    else:
        path.write_text(trace.text(), encoding="utf-8")
    out = ""
    for command in commands:
        run = subprocess.run([trapline, command[0], path, *command[1:]], capture_output=True, check=False, text=True)
        out += run.stdout + run.stderr + (f" exits with {run.returncode} " if run.returncode else "")
    plain = " ".join(out.replace(str(path), "FILE").split())
    wrong = [f"does not say: {text}" for text in says if text not in plain]
    wrong += [f"says: {text}" for text in never if text in plain]
    return [f"{name}: {line}" for line in wrong] + ([out] if wrong else [])


def round_on_another_cpu(trace, begin):
    """60 ms: CPU 0's vCPU halts and is woken for CPU 1, where it runs for 48 ms; then it is woken back to CPU 0."""
    trace.entry(begin, 0, VCPU)
    trace.exit(begin + 5 * MS, 0, VCPU, "HLT")
    trace.switch(begin + 5 * MS + 3 * US, 0, VCPU, "S", IDLE)
    for at, before, after in ((begin + 6 * MS, 0, 1), (begin + 58 * MS, 1, 0)):
        trace.waking(at, 0, IDLE, VCPU, before, HARD)
        trace.add(at + 1, 0, IDLE, "sched_migrate_task",
                  f"comm={VCPU[0]} pid={VCPU[1]} prio=120 orig_cpu={before} dest_cpu={after}", HARD)
        trace.wakeup(at + 2, 0, IDLE, VCPU, after, HARD)
    trace.switch(begin + 58 * MS + 3 * US, 0, IDLE, "R", VCPU)


@case(["report", "--steal"], ["stalls"],
      says=["not seen vCPU 0 (tid 200)", "what ran there is not seen", "No stall of 10.0 ms or more"],
      never=["for 8", "made no progress", "runnable and did not run", "has been in an exit"])
def a_cpu_that_is_not_recorded(trace):
    """CPU 1, where the vCPU is for 52 of 60 ms, is left out by a mask: it waited for some us."""
    for i in range(3):
        round_on_another_cpu(trace, BEGIN + i * 60 * MS)
    trace.entry(BEGIN + 180 * MS, 0, VCPU)


@case(["report", "--host-cpu"], says=["at least", "what ran there is not seen"], never=["ready to run"])
def a_cpu_that_is_not_recorded_at_the_end(trace):
    """The vCPU is woken for CPU 1, which is not recorded, 60 ms before the end, and runs there."""
    round_on_another_cpu(trace, BEGIN)
    trace.entry(BEGIN + 59 * MS, 0, VCPU)
    trace.exit(BEGIN + 60 * MS, 0, VCPU, "HLT")
    trace.switch(BEGIN + 60 * MS + 3 * US, 0, VCPU, "S", IDLE)
    trace.waking(BEGIN + 61 * MS, 0, IDLE, VCPU, 0, HARD)
    trace.wakeup(BEGIN + 61 * MS + US, 0, IDLE, VCPU, 1, HARD)
    trace.switch(BEGIN + 120 * MS, 0, IDLE, "R", HOG)


@case(["report", "--steal"], says=["20.0 ms 45.0% <0.1% - 50.0% 5.0%", "Stolen by"],
      never=["not seen"])
def a_wait_on_a_cpu_that_was_quiet(trace):
    """CPU 1 runs a hog from before the recording on; the vCPU is woken for it and waits 10 ms, until it runs there."""
    trace.entry(BEGIN, 0, VCPU)
    trace.exit(BEGIN + 5 * MS, 0, VCPU, "HLT")
    trace.switch(BEGIN + 5 * MS + 3 * US, 0, VCPU, "S", IDLE)
    trace.waking(BEGIN + 6 * MS, 0, IDLE, VCPU, 0, HARD)
    trace.wakeup(BEGIN + 6 * MS + US, 0, IDLE, VCPU, 1, HARD)
    trace.switch(BEGIN + 16 * MS, 1, HOG, "R", VCPU)
    trace.entry(BEGIN + 16 * MS + 5 * US, 1, VCPU)
    trace.exit(BEGIN + 20 * MS, 1, VCPU, "CPUID")
    trace.entry(BEGIN + 20 * MS + US, 1, VCPU)


@case(["report", "--host-cpu"], says=["59.0 ms 0.0% 0.0% - 100.0%"], never=["guest 100.0%"])
def a_cpu_whose_events_end_early(trace):
    """CPU 1's buffer was full after 1 ms; its vCPU slept after 10 ms and is woken, and moved, after 50 ms."""
    vcpu = ("CPU 1/KVM", 201)
    trace.switch(BEGIN, 1, IDLE, "R", vcpu)
    trace.entry(BEGIN + MS, 1, vcpu, vcpu=1)
    trace.entry(BEGIN + MS, 0, VCPU)
    trace.waking(BEGIN + 50 * MS, 0, VCPU, vcpu, 1, HARD)
    trace.add(BEGIN + 50 * MS + US, 0, VCPU, "sched_migrate_task",
              "comm=CPU 1/KVM pid=201 prio=120 orig_cpu=1 dest_cpu=0", HARD)
    trace.exit(BEGIN + 60 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 60 * MS + US, 0, VCPU)


@case(["report"], says=["vCPU 0 (tid 200) 2 48 42.0 ms 52.4% <0.1% - <0.1% 47.6%"],
      never=["not seen", "of which nothing is in the recording"])
def an_idle_cpu_where_a_thread_was_before(trace):
    """A thread that ran on CPU 1 before the recording is woken for CPU 0; CPU 1 is idle; the vCPU halts for 20 ms."""
    other = ("other", 410)
    trace.switch(BEGIN, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + US, 0, VCPU)
    trace.waking(BEGIN + 2 * MS, 0, VCPU, other, 1, HARD)
    trace.add(BEGIN + 2 * MS + US, 0, VCPU, "sched_migrate_task",
              "comm=other pid=410 prio=120 orig_cpu=1 dest_cpu=0", HARD)
    trace.wakeup(BEGIN + 2 * MS + 2 * US, 0, VCPU, other, 0, HARD)
    trace.exit(BEGIN + 20 * MS, 0, VCPU, "HLT")
    trace.switch(BEGIN + 20 * MS + US, 0, VCPU, "S", other)
    trace.switch(BEGIN + 21 * MS, 0, other, "S", IDLE)
    trace.wakes(BEGIN + 40 * MS, 0, IDLE, VCPU, 0)
    trace.switch(BEGIN + 40 * MS + 2 * US, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 40 * MS + 3 * US, 0, VCPU)
    trace.exit(BEGIN + 42 * MS - US, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 42 * MS, 0, VCPU)


@case(["report", "--steal"], says=["hog (tid 300) 20.0 ms 100.0%"], never=["not seen", "of which nothing is in the recording"])
def a_cpu_with_events_of_kvm_alone(trace):
    """vCPU 1 never leaves CPU 1, for which a worker is woken; vCPU 0 waits 20 ms for CPU 0."""
    vcpu = ("CPU 1/KVM", 201)
    trace.switch(BEGIN, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + US, 0, VCPU)
    trace.entry(BEGIN + 2 * US, 1, vcpu, vcpu=1)
    trace.wakes(BEGIN + MS, 0, VCPU, ("kworker/1:0", 410), 1)
    trace.exit(BEGIN + 20 * MS, 0, VCPU, "EXTERNAL_INTERRUPT")
    trace.switch(BEGIN + 20 * MS + US, 0, VCPU, "R", HOG)
    for i in range(4):
        trace.exit(BEGIN + (10 + 10 * i) * MS, 1, vcpu, "CPUID", vcpu=1)
        trace.entry(BEGIN + (10 + 10 * i) * MS + US, 1, vcpu, vcpu=1)
    trace.switch(BEGIN + 40 * MS, 0, HOG, "R", VCPU)
    trace.entry(BEGIN + 40 * MS + US, 0, VCPU)
    trace.exit(BEGIN + 42 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 42 * MS + US, 0, VCPU)


@case(["report"], says=["not seen vCPU 0 (tid 200) 3 33 90.0 ms 81.1% <0.1% - <0.1% 0.2% 18.7%"], never=["16."])
def a_cpu_whose_events_begin_late(trace):
    """The vCPU sleeps 0.2 ms, goes to CPU 1, whose first event is at 70 ms, runs there, halts, and is woken back."""
    trace.entry(BEGIN, 0, VCPU)
    trace.exit(BEGIN + 51 * MS, 0, VCPU, "EPT_VIOLATION")
    trace.switch(BEGIN + 51 * MS + 3 * US, 0, VCPU, "D", IDLE)
    trace.waking(BEGIN + 51 * MS + 200 * US, 0, IDLE, VCPU, 0, HARD)
    trace.add(BEGIN + 51 * MS + 200 * US + 1, 0, IDLE, "sched_migrate_task",
              f"comm={VCPU[0]} pid={VCPU[1]} prio=120 orig_cpu=0 dest_cpu=1", HARD)
    trace.wakeup(BEGIN + 51 * MS + 201 * US, 0, IDLE, VCPU, 1, HARD)
    trace.waking(BEGIN + 68 * MS, 0, IDLE, VCPU, 1, HARD)
    trace.add(BEGIN + 68 * MS + US, 0, IDLE, "sched_migrate_task",
              f"comm={VCPU[0]} pid={VCPU[1]} prio=120 orig_cpu=1 dest_cpu=0", HARD)
    trace.switch(BEGIN + 68 * MS + 4 * US, 0, IDLE, "R", VCPU)
    trace.entry(BEGIN + 68 * MS + 8 * US, 0, VCPU)
    trace.exit(BEGIN + 69 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 69 * MS + US, 0, VCPU)
    trace.switch(BEGIN + 70 * MS, 1, ("swapper/1", 0), "R", HOG)
    trace.exit(BEGIN + 90 * MS, 0, VCPU, "CPUID")
    trace.entry(BEGIN + 90 * MS + US, 0, VCPU)


def main():
    trapline, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        wrong = [line for name in names or CASES for line in check(trapline, name, Path(folder))]
    print("\n".join(wrong) if wrong else f"{len(names or CASES)} recordings: nothing false is said")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
