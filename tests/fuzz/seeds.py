#!/usr/bin/env python3
"""seeds.py TARGET FOLDER: first inputs of a fuzz target, gathered from the recordings and texts of tests/.

Nothing is kept in two places: recordings of tests/data, the golden cases' words, the worst cases of
tests/merge/worst_cases.py in small, and a few made here. A folder becomes one input as
tests/fuzz/input_files.h reads it.
"""
import pathlib
import re
import struct
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "merge")]
import worst_cases  # noqa: E402
from perf_data import PerfData  # noqa: E402
from trace_dat import FORMATS, TraceDat  # noqa: E402

NEXT_FILE = b"\xfe\xed\xf1\x1e"
MOST = 100 << 10  # a longer recording is too slow to be mutated
SMALL = 6000      # of a worst case
UFTRACE = ("info", "task.txt", "sid-1.map", "prog.sym", "1.dat", "2.dat", "perf-cpu0.dat", "perf-cpu1.dat",
           "kernel_header", "kernel-cpu0.dat", "kallsyms", "sync.txt")
SESSION = ("session.json", "raw/start.json", "raw/trace.dat", "raw/cpu0", "raw/cpu1", "raw/cmdlines",
           "raw/plan.json", "trace.dat", "raw/reserve")


def pack(files, names):
    return b"".join(NEXT_FILE + bytes([ord("A") + names.index(name)]) + data
                    for name, data in files.items())


def recordings(most=MOST):
    for path in sorted(TESTS.rglob("*.dat")):
        if path.stat().st_size <= most and path.read_bytes()[:10] == b"\x17\x08\x44tracing":
            yield path


def made(prefix):
    """What the worst cases whose names begin so make, in small: paths of files and folders."""
    for name, (make, _, _) in worst_cases.CASES.items():
        if not name.startswith(prefix):
            continue
        with tempfile.TemporaryDirectory() as folder:
            paths = make(folder, SMALL)
            for path in [paths] if isinstance(paths, str) else list(paths):
                yield name, pathlib.Path(path)


def every_event(dat=None):
    """One recording with each event that Trapline reads."""
    dat = dat or TraceDat(2)
    at = 10 ** 9
    for i in range(3):
        for name in FORMATS:
            values = {"buf": worst_cases_text(i)} if name == "ftrace:print" else {
                "pid": 5, "next_pid": 5 + i, "prev_pid": 5, "exit_reason": 0x60 + i, "isa": 1 + i % 2,
                "rwbs": b"R", "next_comm": b"cpu", "reason": 2, "gsi": 3, "vector": 0x20, "vec": 0x20}
            dat.event(i % 2, at, name, 5, **values)
            at += 1000
        if i == 1:
            dat.lost(0)
    return dat


def worst_cases_text(i):
    return ("trapline: E cpu0 d=1 0x100a30 small_b", "trapline: sync 1 7 0 before mono=5",
            "memory_region_ops_read cpu 0 mr 0x55 addr 0x71 value 0x1 size 1 name 'rtc'")[i % 3]


def perf_data():
    perf = every_event(PerfData(2))
    perf.round()
    perf.fork(10 ** 9, 5, 6)
    perf.comm(6, b"CPU 0/KVM")
    perf.throttle(True, 0, 10 ** 9 + 10 ** 6)
    perf.throttle(False, 0, 10 ** 9 + 2 * 10 ** 6)
    perf.event(1, 10 ** 9 + 10, "kvm:kvm_entry", 6, vcpu_id=0)
    perf.round()
    for compressed in (False, True):
        yield perf.file(compressed)
        yield perf.pipe(compressed)
    for path in sorted((TESTS / "data" / "perf").glob("*.perf.data")):
        yield path.read_bytes()


def trace_dat():
    with tempfile.NamedTemporaryFile() as file:
        every_event().write(file.name)
        yield pathlib.Path(file.name).read_bytes()
    for path in recordings():
        yield path.read_bytes()
    for _, path in made(""):
        if path.is_file() and path.read_bytes()[:10] == b"\x17\x08\x44tracing":
            yield path.read_bytes()


def ring_page():
    for path in recordings():
        data = path.read_bytes()
        # Uncompressed pages begin at multiples of their size.
        for at in range(4096, min(len(data), 10 * 4096), 4096):
            yield data[at:at + 4096]
    for _, path in made("exits"):
        yield path.read_bytes()[-4096:]


def formats_in(data):
    return re.findall(rb"name: \w+\nID: \d+\nformat:\n.*?print fmt: [^\n]*\n", data, re.S)


def event_formats():
    seen = set()
    for path in recordings(8 << 20):
        for text in formats_in(path.read_bytes()):
            name = text.split(b"\n")[0]
            if name in seen:
                continue
            seen.add(name)
            events = b"".join(bytes([size]) + bytes(range(size)) for size in (8, 24, 48, 100))
            yield bytes([len(seen) % 64]) + text + b"\0" + events


def event_texts():
    for data in event_formats():
        yield data[1:]


def texts_of_markers():
    with_name = rb"[ -~]{8,300}"
    for path in recordings():
        lines = [line for line in re.findall(with_name, path.read_bytes())
                 if line.startswith((b"trapline: ", b"memory_region", b"virtio_", b"qemu_", b"kvm_"))]
        if lines:
            yield b"\n".join(lines[:40])


def marker_text():
    yield from texts_of_markers()
    yield "\n".join(worst_cases_text(i) for i in range(3)).encode()
    yield (b"trapline: calls 1 begin run=1a2b pid=5\ntrapline: E cpu0 d=0 0x1000 main\n"
           b"trapline: X cpu0 d=0 t=101 0x1000 main\ntrapline: L cpu0 12\n"
           b"trapline: calls 1 end run=1a2b written=2 lost=0\n")
    for path in TESTS.rglob("sync.txt"):
        yield re.sub(rb"(?m)^\d+ ", b"", path.read_bytes()[:4000])


def directories():
    for path in sorted(TESTS.rglob("info")):
        if path.with_name("task.txt").is_file():
            yield {file.name: file.read_bytes() for file in sorted(path.parent.iterdir()) if file.is_file()}
    for name, path in made("uftrace_of"):
        if path.is_dir():
            yield {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}


def renamed(files):
    """The directory with the names that the target knows; the tasks and the session get its numbers."""
    tids = sorted(int(name[:-4]) for name in files if re.fullmatch(r"\d+\.dat", name))[:2]
    sids = [name[4:-4] for name in sorted(files) if name.startswith("sid-")][:1]
    out = {}
    for name, data in files.items():
        for number, tid in enumerate(tids, 1):
            if name == f"{tid}.dat":
                name = f"{number}.dat"
            elif name == "task.txt":
                data = re.sub(rb"([tp]id=)%d\b" % tid, rb"\g<1>%d" % number, data)
        for sid in sids:
            data = data.replace(b"sid=" + sid.encode(), b"sid=1") if name == "task.txt" else data
            name = "sid-1.map" if name == f"sid-{sid}.map" else name
        if name == "info":
            data = re.sub(rb"taskinfo:tids=[0-9,]*", b"taskinfo:tids=1,2", data)
            data = re.sub(rb"taskinfo:nr_tid=\d+", b"taskinfo:nr_tid=2", data)
        if name.endswith(".sym"):
            binary = name[:-4]
            if "prog.sym" in out:
                continue
            out["sid-1.map"] = out.get("sid-1.map", files.get(f"sid-{sids[0]}.map", b"") if sids else b"").replace(
                binary.encode(), b"prog")
            name = "prog.sym"
        if name == "sid-1.map" and name in out:
            continue
        if name in UFTRACE:
            out[name] = data[:16384]
    return out


def uftrace():
    for files in directories():
        yield pack(renamed(files), UFTRACE)


def uftrace_texts():
    kinds = {"info": 0, "task.txt": 1, "kernel_header": 3}
    values = b"\0" + b"\x03\0abc\0\0\0" + bytes(range(64))
    for files in directories():
        for name, data in list(files.items())[:12]:
            kind = 2 if name.endswith(".map") else kinds.get(name)
            if kind is not None:
                yield bytes([kind]) + data[:20000] + (values if kind == 0 else b"")
    specs = (b"argspec:lines=2\nargspec:main@arg1/i32,arg2/s;open@arg1/s,fparg1/f64,arg3/x16,arg4/c\n"
             b"retspec:main@retval/i32;f@retval/s,retval/f32\nargauto:a::b@arg1/p,arg2/o8,arg3/S\n"
             b"retauto:f@retval/u64\n")
    for pattern in (b"regex", b"glob", b"simple"):
        header = b"Ftrace!\0" + struct.pack("<IHBBQQHHI", 4, 40, 1, 2, 1 << 4, 1 << 13 | 1 << 15, 0, 0, 0)
        yield b"\0" + header + b"exename:x\npattern_type:" + pattern + b"\n" + specs + values


def simpletrace():
    def file(version, body, order="<", length=b""):
        return struct.pack(order + "QQQ", (1 << 64) - 1, 0xf2b177cb0aa429b4, version) + length + body

    names = (b"memory_region_ops_read", b"virtio_blk_handle_read", b"texts", b"numbers", b"nothing")
    for order in "<>":
        mappings = b"".join(struct.pack(order + "QQI", 0, i, len(name)) + name for i, name in enumerate(names))
        for version in (2, 3, 4):
            body = mappings if version == 4 else b""
            for i in range(8):
                arguments = struct.pack(order + "Q", i) * (i % 6) + struct.pack(order + "I", 3) + b"rtc"
                kind = struct.pack(order + "Q", 1) if version == 4 else b""
                head = (order + "QQII", order + "QQII")[version == 2]
                body += kind + struct.pack(head, i % len(names), 1000 + i, 24 + len(arguments), 5) + arguments
            body += (struct.pack(order + "Q", 1) if version == 4 else b"") + struct.pack(
                order + "QQIIQ", (1 << 64) - 2, 2000, 32, 5, 7)
            yield file(version, body, order)
        rfc = struct.pack(order + "QQQQ", 0xAA0011FF, 5, 1, 1000)
        for i in range(4):
            rfc += struct.pack(order + "QQQQ", 0xA1B2C3D4, i, 1000 + i, 1) + struct.pack(order + "QQ", 8, i)
        yield rfc
    for _, path in made("simpletrace"):
        if path.is_file():
            yield path.read_bytes()


def trace_events():
    markers = "\n%%\n" + "\n".join(worst_cases_text(i) for i in range(3))
    for path in TESTS.rglob("*trace-events"):
        yield path.read_bytes()[:20000] + markers.encode()
    yield (b'disable vcpu e(int a, const char *b) "%d %s"\ntcg f(TCGv_i32 a) "a %u", "b %u"\n'
           b'vcpu tcg g(TCGv addr, uint64_t v) "info=%d", "v=0x%"PRIx64" %-5s %*d %.*s"\n'
           b"%%\ne 5 text\ng cpu=0x1 v=0x5 \n")


def symbols():
    for path in sorted(TESTS.rglob("*.sym")) + sorted(TESTS.rglob("kallsyms")):
        yield path.read_bytes()[:20000]
    for _, path in made("symbols"):
        yield path.read_bytes()
    yield b"0000000000001000 T _Z3foov\nffffffff81000000 t init\t[kvm]\n0000000000002000 d data\n"
    yield b"# symbols: 2\n# path name: /bin/x\n# build-id: 12ab\n0000000000001000 00000020 T main\n"


def elf():
    for path in sorted((TESTS / "data").rglob("*.elf")):
        yield path.read_bytes()


def session_json():
    for path in TESTS.rglob("session.json"):
        yield path.read_bytes()[:30000]
    for _, path in made("session_of"):
        yield (path / "session.json").read_bytes()


def session():
    dat = every_event()
    for cpu in range(2):
        dat.close(cpu)
    head = dat.head()
    head = head[:head.index(b"flyrecord\0") - 40]
    with tempfile.NamedTemporaryFile() as file:
        dat.write(file.name)
        whole = pathlib.Path(file.name).read_bytes()
    pages = [b"".join(cpu) for cpu in dat.pages]
    head = dat.head()
    cut = head.index(struct.pack("<I", 2) + b"options  \0") - 8  # where the names of threads begin
    start = ('{"page_size":4096,"head_bytes":%d,"cpus":2,"clocks":"local [mono]","uname":"Linux host",'
             '"version":"trapline 1"}' % cut).encode()
    json = b'{"version": 1, "closed": false}'
    files = {"session.json": json, "raw/start.json": start, "raw/trace.dat": head[:cut], "raw/cpu0": pages[0],
             "raw/cpu1": pages[1], "raw/cmdlines": b"5 cpu\n"}
    yield pack(files, SESSION)
    yield pack({"session.json": json, "trace.dat": whole}, SESSION)


def qemu_log():
    for path in TESTS.rglob("*.log"):
        yield path.read_bytes()[:20000]
    yield "".join(f"{5 + i % 2}@{i}.{i * 7 % 1000000:06d}:{worst_cases_text(2)}\n" for i in range(20)).encode()
    for _, path in made("qemu_log"):
        if path.name == "qemu.log":
            yield path.read_bytes()


def trace_text():
    for line in (b"a-1 [000] d..1. 5.678901: kvm_exit: vcpu 0 reason EPT_MISCONFIG rip 0xfff0 info1 0x0",
                 b"> a-1 [000] d..1. 5.6: kvm_exit: vcpu 0 reason\n> HLT rip 0xfff0",
                 b"CPU 0/KVM  1/2 [001] 5.678901234: kvm:kvm_exit: reason EXIT_IOIO rip 0xfff0 info 0 0",
                 b"a-1 [000] 5.678901: kvm_exit: TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x40",
                 b"a-1 [000] 5.678901: kvm_exit: SEPC:0x40, SCAUSE:0x17, STVAL:0x3, HTVAL:0x4000, HTINST:0x0",
                 b"a-1 [000] 5: kvm_exit: exit_reason=1024 guest_rip=0xfff0 isa=2 vcpu_id=5",
                 b"a-1 [000] 5.1: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b "
                 b"next_pid=2 next_prio=120\nb-2 [000] 5.2: sched_switch: b:2 [120] S ==> a:1 [120]",
                 b"a-1 [000] .... 5.1: sys_ioctl(fd: d, cmd: ae80, arg: 0)"):
        yield line + b"\na-1 [000] 6.678901: kvm_entry: vcpu 0, rip 0xfff0\n"
    yield (b"a-1 [000] 1.000001: kvm_entry: vcpu 0\na-2 [001] 1.000002: kvm_exit: reason HLT rip 0x1 info 0 0\n"
           b"CPU:1 [LOST 7 EVENTS]\na-2 [001] 1.000004: kvm_entry: vcpu 1\nCPU:0 [EVENTS DROPPED]\n")


def sync_records():
    for path in TESTS.rglob("sync.txt"):
        yield path.read_bytes()[:6000]
    yield (b"# clock: mono\n" + b"".join(
        b"%d trapline: sync 1 9 %d before mono=%d tsc=%d after mono=%d tsc=%d\n"
        % (i * 100, i, i * 100, i * 300, i * 100 - 50, i * 300 - 120) for i in range(8)))


def patterns():
    for text in ("kvm_*\nkvm_exit", "a?c*\nabc\nabd", "nr_throttled 5\nthrottled_usec 7\n", "0::/machine/vm\n"):
        yield b"\0" + text.encode()
    yield b"\1serial_*,-serial_read\n# comment\n"
    for text in ("+1.5s", "500us", "12m", "reason,detail", "virtio=a,b", "name=start:end@req", "a=*x*y", "p99>5%",
                 "trace.dat=-12", "vmlinux@0x1000", "exit > 1ms and reason == HLT", "irq=irq_handler_entry:irq..x",
                 "reason:HLT>500us", "sched:sched_switch", "both"):
        yield b"\2" + text.encode()
    yield b"\3out=x\ncontexts=stack\nclock=mono\nsymbols=x@0x10\ninclude=a*\ncode=0x1-0x5\nlimit=5M\nstart=0x10"
    yield (b"\4qemu-system-x86_64\n-name\nguest=vm,debug-threads=on\n-trace\nenable=a\n-D\nlog\n-plugin\n"
           b"libtrapline.so,output=both,out=x\n-accel\ntcg\n-msg\ntimestamp=on")


def monitor():
    yield b"\0info trace-events\ntrace-event serial_* on\ntrace-event serial_write off\ntrace-file\ntrace-file flush\n"
    yield b"\1serial_write : state 1\nserial_read : state 0\nok\nok\ntrace file \"x\" on\nok\n"
    yield (b'\2{"QMP": {"version": {}}}\n{"return": {}}\n{"return": [{"name": "serial_write", "state": "enabled"}]}\n'
           b'{"event": "STOP"}\n{"return": [{"name": "a", "state": "disabled"}]}\n{"error": {"desc": "no"}}\n')


def decoders():
    for number, path in ((0, "data/demo-guest.elf"), (2, "data/arm64/demo-guest-arm64.elf")):
        code = (TESTS / path).read_bytes()
        for at in range(4096, len(code) - 256, max(256, len(code) // 40)):
            yield bytes([number]) + code[at:at + 256]
    yield b"\3" + struct.pack("<8I", 0x00008067, 0x000080e7, 0x0c0000ef, 0x10200073, 0x30200073, 0x00113423, 0x7139,
                              0x8082)
    yield b"\0\xe8\x00\x00\x00\x00\xff\xd0\xc3\xff\x15\x00\x00\x00\x00\x0f\x05\x48\xcf\x0f\x07\xca\x00\x00"


def choices():
    """For targets that make something valid of any input."""
    for seed in range(8):
        state, data = seed + 1, bytearray()
        for _ in range(400):
            state = state * 1103515245 + 12345 & 0x7fffffff
            data.append(state >> 16 & 255)
        yield bytes(data)


call_tracker = pipeline = simpletrace_written = choices


def sdt_notes():
    """An ELF file with nothing but probes."""
    def note(name, description):
        return (struct.pack("<III", len(name), len(description), 3) + name + b"\0" * (-len(name) % 4)
                + description + b"\0" * (-len(description) % 4))

    probe = struct.pack("<QQQ", 0x401000, 0x402000, 0x403000) + b"qemu\0memory_region_ops_read\0-4@%edi 8@%rsi\0"
    notes = note(b"stapsdt\0", probe) + note(b"GNU\0", b"\1\2\3\4") + note(b"", b"") + note(b"stapsdt\0", probe[:20])
    names = b"\0.note.stapsdt\0.shstrtab\0"
    body = notes + names
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 3, 2)
    sections = bytes(64)
    for name, kind, at, size in ((1, 7, 64, len(notes)), (15, 3, 64 + len(notes), len(names))):
        sections += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, size, 0, 0, 4, 0)
    yield header + body + sections


def main():
    target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(globals()[target]()):
        (folder / f"seed-{number:03d}").write_bytes(data)


if __name__ == "__main__":
    main()
