#!/usr/bin/env python3
"""Every oracle on the recordings of the tests: each computes a second time what trapline prints, from trace-cmd's text.

  oracles.py [--kept FOLDER] [--oracle NAME,...] TRAPLINE SET...
  oracles.py [--kept FOLDER] [--left-out] --oracle NAME,... TRAPLINE FILE...

SET: smoke, data, planted, guests or all; FILE: a recording. An oracle is the function check() of NAME_oracle.py, which
returns differences as sentences. All that a recording is needed for is done in a row, so that it is parsed once;
--kept keeps what was parsed for the next run. Each difference is printed with its recording and oracle.
"""
import argparse
import gc
import pathlib
import sys
import traceback

import block_oracle
import cyclictest_oracle
import fault_oracle
import guest_span_oracle
import halt_oracle
import host_cpu_oracle
import kernel_oracle
import oracle
import phase_oracle
import planted_faults
import planted_oracle
import planted_stalls
import recording
import request_oracle
import stall_oracle
import vhost_oracle
import wait_oracle

HERE = pathlib.Path(__file__).resolve().parent
DATA, PLANTED = HERE.parent / "data", HERE / "planted"
REAL_HOST = HERE.parents[2] / "shared/traces/real/host.dat"  # beside the project, where there is one
SMOKE = ("svm-2vcpu-lost", "vmx/linux-2vcpu", "arm64/kvm-arm64-mono")  # an AMD host, an Intel one, an arm64 one
NO_EXITS = ("box/no-kvm",)
HALTS = ("svm-linux-2vcpu", "svm-2vcpu-lost", "box/linux-irq", "vmx/linux-2vcpu", "arm64/kvm-arm64-linux",
         "arm64/kvm-arm64-mono")
REQUESTS = ("box/linux-irq", "svm-linux-2vcpu", "vmx/linux-2vcpu", "arm64/kvm-arm64-linux")
PHASES = {"svm-mono": ("devices=Running on KVM", "boot=Booting from", "guest=hello"),
          "box/linux-irq": ("dd=records out", "end=reboot: Power down"),
          "arm64/kvm-arm64-linux": ("work=WORKLOAD", "end=reboot")}
# The image began at this sector of the disk, and each request took the disk at least so many nanoseconds.
BLOCKS = {"blk-threads": (380026880, 0), "blk-iothread": (380026880, 0), "kvm-threads": (0, 2000000),
          "kvm-iothread": (0, 2000000)}
CHECKS = {"report": oracle.check, "wait": wait_oracle.check, "halt": halt_oracle.check, "host_cpu": host_cpu_oracle.check,
          "kernel": kernel_oracle.check, "fault": fault_oracle.check,
          "stall": stall_oracle.check, "request": request_oracle.check, "phase": phase_oracle.check,
          "block": block_oracle.check, "vhost": vhost_oracle.check, "guest_span": guest_span_oracle.check,
          "cyclictest": cyclictest_oracle.check, "planted_causes": planted_oracle.check,
          "planted_faults": planted_faults.check, "planted_stalls": planted_stalls.check}
KINDS = ("reason", "detail", "device")


def kinds_of(path):
    return (*KINDS, "nested") if path.parent.name == "nested" else KINDS


def of_data(name):
    path = DATA / f"{name}.dat"
    if name not in NO_EXITS:
        yield path, "report", kinds_of(path)
        yield path, "wait"
        yield path, "kernel"
        yield path, "host_cpu"
        yield path, "fault"
    yield path, "stall"
    if name in HALTS:
        yield path, "halt"
    if name in REQUESTS:
        yield path, "request"
    if name in PHASES:
        yield path, "phase", *PHASES[name]


def data():
    names = [str(path.relative_to(DATA))[:-len(".dat")] for pattern in ("*.dat", "*/*.dat") for path in DATA.glob(pattern)]
    gone = {*NO_EXITS, *HALTS, *REQUESTS, *PHASES} - set(names)
    assert not gone, f"there are no recordings {gone}"
    for name in sorted(set(names) - set(SMOKE)):
        yield from of_data(name)
    if REAL_HOST.exists():
        yield REAL_HOST, "report", KINDS


def planted():
    """Guests that wait for what is planted beside them."""
    files = sorted({*PLANTED.glob("*.dat"), *PLANTED.glob("*/trace.dat")})
    names = {str(path.relative_to(PLANTED))[:-len(".dat")] for path in files}
    gone = (planted_oracle.CHECKS.keys() - names) | (planted_faults.CHECKS.keys() - {name.removesuffix("/trace") for name in names}) | (
        planted_stalls.CHECKS.keys() - {"quiet"} - {name.removesuffix("/trace") for name in names})
    assert not gone, f"there are no recordings {gone}"
    for path in files:
        name = str(path.relative_to(PLANTED))[:-len(".dat")]
        if name == "own-all":
            continue
        yield path, "kernel"
        yield path, "stall"
        yield path, "host_cpu"
        yield path, "fault"
        if name in planted_oracle.CHECKS:
            yield path, "planted_causes", name
        # A session's file alone: what the recorder's threads did among themselves is known to be theirs.
        if name in planted_oracle.CHECKS and name != "own/trace" or name == "quota-io/trace":
            yield path, "wait"
        if name.removesuffix("/trace") in planted_faults.CHECKS:
            yield PLANTED, "planted_faults", name.removesuffix("/trace")
        if name.removesuffix("/trace") in planted_stalls.CHECKS:
            yield PLANTED, "planted_stalls", name.removesuffix("/trace")
    yield PLANTED, "planted_stalls", "quiet"
    # tests/data/record/preempt: a vCPU is switched out between kvm_entry and a late kvm_exit.
    # tests/data/record/stopped: QEMU's monitor stops the VM.
    for path, *more in (HERE / "preempted/preempt-full.dat", "wait"), (HERE / "stopped/stopped.dat",):
        yield path, "report", KINDS
        yield path, "kernel"
        yield path, "stall"
        yield from ((path, name) for name in more)
    yield HERE / "inside-kernel/events.dat", "kernel"
    yield HERE / "inside-kernel/functions.dat", "kernel"


def guests():
    """Disks and networks of guests, and a guest's own recording."""
    for name, arguments in BLOCKS.items():
        yield HERE / f"requests/{name}.dat", "block", *arguments
    yield HERE / "requests/vhost-net.dat", "vhost"
    yield HERE / "cyclictest", "cyclictest"


def smoke():
    for name in SMOKE:
        yield from of_data(name)
    # A host whose guest recorded its functions, and its tasks.
    host = HERE / "guest-clock/host.dat"
    yield host, "report", KINDS
    yield from ((host, name) for name in ("wait", "kernel", "stall"))
    yield host.parent, "guest_span"


SETS = {"smoke": smoke, "data": data, "planted": planted, "guests": guests}


def jobs_of(asked, oracles):
    for one in asked:
        if one in SETS or one == "all":
            for name, jobs in SETS.items():
                if one in (name, "all"):
                    yield from jobs()
        else:
            path = pathlib.Path(one).resolve()
            yield from ((path, name, kinds_of(path)) if name == "report" else (path, name) for name in oracles)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kept", type=pathlib.Path)
    parser.add_argument("--oracle", type=lambda text: text.split(","), metavar="NAME,...", help=", ".join(CHECKS))
    parser.add_argument("--left-out", action="store_true", help="the recorder left events out on purpose: none counts as lost")
    parser.add_argument("trapline")
    parser.add_argument("of", nargs="+", metavar="SET|FILE")
    options = parser.parse_args()
    recording.KEPT, oracle.LEFT_OUT = options.kept, options.left_out
    gc.disable()  # there are many objects, and no cycles
    jobs = [job for job in jobs_of(options.of, options.oracle or ()) if not options.oracle or job[1] in options.oracle]
    failed = 0
    for path, name, *arguments in jobs:
        try:
            wrong = list(CHECKS[name](options.trapline, str(path), *arguments))
        except Exception:  # pylint: disable=broad-except
            wrong = traceback.format_exc().splitlines()
        failed += bool(wrong)
        for line in wrong[:20]:
            print(f"FAILED: {path}: {name}: {line}")
        if wrong[20:]:
            print(f"FAILED: {path}: {name}: and {len(wrong) - 20} more")
    if stall_oracle.FOUND and not any(stall_oracle.FOUND):
        failed += 1
        print("FAILED: stall: no recording has a stall: nothing was compared")
    files = len({path for path, *_ in jobs})
    print(f"{len(jobs)} comparisons on {files} recordings, {failed} differ")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
