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
import zlib

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "merge")]
import simpletrace_file  # noqa: E402
import worst_cases  # noqa: E402
from perf_data import SAMPLE_TYPE, PerfData, record, zstd  # noqa: E402
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
    for name, (make, _) in worst_cases.CASES.items():
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
    yield from other_perf_data()


class ReadPerfData(PerfData):
    """Samples with values of a group of counters and with a chain of callers, of another clock."""
    def __init__(self, read_format, clock):
        super().__init__(2, SAMPLE_TYPE | 1 << 4 | 1 << 5)
        self.read_format, self.clock_id = read_format, clock

    def raw(self, cpu, time, data):
        data += bytes(-(len(data) + 4) % 8)
        of_each = 1 + bin(self.read_format & 20).count("1")
        times = bin(self.read_format & 3).count("1")
        values = struct.pack("<Q", 2) + bytes(8 * (times + 2 * of_each)) if self.read_format & 8 else bytes(8 * (times + of_each))
        self.records += record(9, struct.pack("<QIIQII", 77, 1, 1, time, cpu, 0) + values + struct.pack("<QQQ", 2, 1, 2)
                               + struct.pack("<I", len(data)) + data)

    def attr(self):
        attr = bytearray(super().attr())
        struct.pack_into("<QQ", attr, 32, self.read_format, 1 << 18 | 1 << 25)
        struct.pack_into("<i", attr, 92, self.clock_id)
        return bytes(attr)


def other_perf_data():
    for read_format, clock in ((0, 0), (1, 1), (2, 4), (4, 7), (12, 11), (15, 3), (31, -1)):
        yield every_event(ReadPerfData(read_format, clock)).file()
    for magic in (b"2ELIFREP", b"PERFFILE", b"perfdata"):
        yield magic + bytes(96)
    whole = every_event(PerfData(2))
    for kind, body in ((70, struct.pack("<QQ", 16, 0) + bytes(32) + bytes(16)), (83, struct.pack("<Q", 64) + bytes(64)),
                       (13, struct.pack("<Q", 3) + whole.trailer(0, 10 ** 9))):
        one = every_event(PerfData(2))
        one.records += record(kind, body)
        yield one.file()
    one = every_event(PerfData(2))
    data = one.data(False)
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x50) + zstd(data[:1000])
    one.records = record(83, struct.pack("<Q", len(frame)) + frame)
    yield one.file().replace(bytes(24), bytes(24), 1)
    for sample_type in (0, 1 << 1, SAMPLE_TYPE & ~(1 << 2), SAMPLE_TYPE & ~(1 << 10)):
        yield every_event(PerfData(2, sample_type)).file()
    for flags in (1 << 10, 1 << 18 | 1 << 27, 0):
        one = every_event(PerfData(2)).file()
        yield one[:144 - 40 + 40] + struct.pack("<Q", flags) + one[152:]
    yield PerfData(1).file()


def other_trace_dat():
    """Options, buffers and kinds of data that the recordings lack."""
    def option(number, body):
        return struct.pack("<HI", number, len(body)) + body

    def file(dat):
        with tempfile.NamedTemporaryFile() as made_file:
            dat.write(made_file.name)
            return pathlib.Path(made_file.name).read_bytes()

    counts = b"CPU: 0\nentries: 5\nread events: 5\n"
    for options in (option(1, b"0x10\0") + option(7, b"-500\0") + option(999, b"x") + option(2, counts)
                    + option(2, b"\nBuffer: a\n") + option(2, counts), option(3, struct.pack("<Q", 4096) + b"a\0"),
                    option(3, struct.pack("<Q", 1 << 40) + b"b\0"), option(8, b"5 cpu\0"), option(4, b"local [x86-tsc]\0")):
        yield file(every_event(TraceDat(2, options=options)))
        yield file(TraceDat(2, options=options))
    symbols = b"ffffffff81000000 T start\nffffffff81000100 t small_b\tx\n0 T none\n"
    dat = every_event()
    dat.event(0, 2 * 10 ** 9, "ftrace:funcgraph_entry", 5, func=0xffffffff81000100, depth=1)
    dat.event(0, 3 * 10 ** 9, "ftrace:funcgraph_exit", 5, func=0xffffffff81000108, depth=1)
    yield file(dat).replace(struct.pack("<IIQ", 0, 0, 0), struct.pack("<I", len(symbols)) + symbols + bytes(12), 1)
    whole = file(every_event())
    yield whole.replace(b"flyrecord\0", b"latency  \0", 1)
    at = whole.index(b"flyrecord\0") + 10
    yield whole[:at] + struct.pack("<4Q", 8192, 8192, 8192, 8192) + whole[at + 32:]
    yield whole[:-5000] + b"\xff" * 5000


def trace_dat():
    with tempfile.NamedTemporaryFile() as file:
        every_event().write(file.name)
        yield pathlib.Path(file.name).read_bytes()
    for dat in other_trace_dat():
        yield dat
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


def format_answers():
    """A worker's answers about a format of type 7: right, empty, cut off, and of the wrong kind."""
    def text(word):
        return struct.pack("<I", len(word)) + word
    names = (b"common_pid", b"exit_reason", b"isa", b"vcpu_id", b"reason", b"prev_pid", b"next_pid", b"pid", b"buf")
    fields = b"".join(text(name) + struct.pack("<3I", 4 * (i + 1), 4, name == b"buf") for i, name in enumerate(names))
    tables = b"".join(text(name) + struct.pack("<II", 1, 12) + text(b"HLT") for name in (b"exit_reason", b"reason"))
    right = struct.pack("<2I", 7, len(names)) + fields + tables
    far = right.replace(struct.pack("<3I", 8, 4, 0), struct.pack("<3I", 65535, 4, 0))
    events = b"".join(bytes([size]) + bytes(range(size)) for size in (2, 8, 24, 48))
    for known in range(0, 64, 4):
        for kind, answer in ((3, right), (3, b""), (3, right[:-3]), (3, far), (6, right), (13, right)):
            answers = struct.pack("<BH", kind, len(answer)) + answer
            yield struct.pack("<BH", known, len(answers)) + answers + events


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
            elif name.startswith(("perf-cpu", "kernel-cpu")):
                data = data.replace(struct.pack("<I", tid), struct.pack("<I", number))
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
    names = ("memory_region_ops_read", "virtio_blk_handle_read", "texts", "numbers", "nothing")
    for order in "<>":
        for version in (2, 3, 4):
            how = 5, order, version
            records = b"".join(simpletrace_file.record(
                i % len(names), 1000 + i, struct.pack(order + "Q", i) * (i % 6) + struct.pack(order + "I", 3) + b"rtc", *how)
                for i in range(8))
            dropped = simpletrace_file.record((1 << 64) - 2, 2000, struct.pack(order + "Q", 7), *how)
            yield simpletrace_file.file(names, records + dropped, order, version)
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


def small_elf(names, link=None, build_id=b""):
    """An ELF file of one section of code, a function in it for each name."""
    strings = b"\0" + b"".join(name + b"\0" for name in names)
    table = bytes(24)
    for i, name in enumerate(names):
        table += struct.pack("<IBBHQQ", strings.index(name), (0x12, 0x02, 0x22, 0x1a, 0x10)[i % 5], 0, 1,
                             0x401000 + 32 * i, 16 * (i % 3))
    note = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id if build_id else b""
    link = b"" if link is None else link[0] + b"\0" * (4 - len(link[0]) % 4) + struct.pack("<I", link[1])
    parts = [(b".text", 1, 6, 0x401000, bytes(512)), (b".symtab", 2, 0, 0, table if names else b""),
             (b".strtab", 3, 0, 0, strings), (b".gnu_debuglink", 1, 0, 0, link),
             (b".note.gnu.build-id", 7, 2, 0x402000, note)]
    section_names = b"\0" + b"".join(part[0] + b"\0" for part in parts) + b".shstrtab\0"
    parts.append((b".shstrtab", 3, 0, 0, section_names))
    at, body, sections, notes = 120, b"", bytes(64), bytes(56)
    for name, kind, flags, address, data in parts:
        if name.startswith(b".note"):
            notes = struct.pack("<IIQQQQQQ", 4, 4, at, address, address, len(data), len(data), 4)
        sections += struct.pack("<IIQQQQIIQQ", section_names.index(name + b"\0"), kind if data else 1, flags, address, at,
                                len(data), 3 if kind == 2 else 0, 1, 4, 24 if kind == 2 else 0)
        data += bytes(-len(data) % 8)
        body, at = body + data, at + len(data)
    return (b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x401000, 64, at, 0, 64, 56, 1, 64,
                                                      len(parts) + 1, len(parts)) + notes + body + sections)


def elf():
    files = ("prog", "prog.debug", "answers")
    for path in sorted((TESTS / "data").rglob("*.elf")):
        yield path.read_bytes()
    names = [b"main", b"_Z3foov", b"_ZN1a1bEv", b"_Z1!v", b"_RNvC1a1b", b"init", b"$x", b"_start"]
    debug = small_elf(names)
    yield debug
    for build_id, other in ((b"", b""), (b"\x12\xab" * 10,) * 2, (b"\x12\xab" * 10, b"\x34\xcd" * 10)):
        debug = small_elf(names, None, other)
        for crc in (zlib.crc32(debug), 5):
            yield pack({"prog": small_elf([], (b"prog.debug", crc), build_id), "prog.debug": debug}, files)
    # Answers of a worker that was taken over, and some that are impossible.
    def text(value):
        return struct.pack("<I", len(value)) + value

    def answer(kind, payload):
        return bytes([kind, len(payload)]) + payload

    facts = answer(5, text(b"12ab") + text(b"") + struct.pack("<IIQQQQ", 0, 1, 0x2000, 0x3000, 0x1000, 0x1800))
    rows = b"".join(struct.pack("<QQQII", 0x1000 + 16 * i, 8 * i, 0x1800, 84, 1) + text(b"_Z%d" % i) for i in range(5))
    lines = struct.pack("<QI", 0x1010, 7) + text(b"a.c") + struct.pack("<QI", 0x1000, 5) + text(b"b.c")
    whole = facts + answer(7, rows) + answer(10, b"") + answer(4, text(b"a") + text(b"") + text(b"c"))
    for answers in (whole + answer(4, text(b"e")) + facts + answer(8, lines) + answer(10, b""), facts + answer(8, b""),
                    facts + answer(7, rows[:-9]), answer(5, b"123"), answer(5, text(b"zz") + text(b"") + bytes(8)),
                    answer(11, struct.pack("<I", 3) + text(b"no")), facts + answer(7, rows) + answer(10, b"") + answer(4, b"12"),
                    whole + facts + answer(8, lines[:-2])):
        yield pack({"prog": small_elf([b"main"]), "answers": answers}, files)


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
    head = b"CPU 0/KVM-5 [001] d..1. "
    for text in (b"print: ip=0x1 buf=trapline: E cpu0 d=1 0x100a30 small_b", b"print: 0xff: trapline: sync 1 7 0 before mono=5",
                 b"tracing_mark_write: qemu_mutex_lock x", b"0xffffffff8110: text", b"bprint: f: text",
                 b"sys_enter_futex: uaddr: 0x7f, op: 0x80, val: 0x1, utime: 0x0", b"sys_exit_futex: 0x0",
                 b"kvm_userspace_exit: reason KVM_EXIT_IO (2)", b"kvm_userspace_exit: reason restart (4)",
                 b"kvm_pio: pio_write at 0x70 size 1 count 1 val 0x8f ", b"kvm_exit: reason NEW_REASON rip 0x1 info 0 0",
                 b"kvm:kvm_exit: vcpu 0 reason 0x4f rip 0x1", b"kvm_exit: vcpu 0 reason UNKNOWN (79) rip 0x1", b"unknown_event: a=1",
                 b"block_rq_issue: 254,16 RA 4096 () 57344 + 8 [a]", b"funcgraph_entry: func=0x1 depth=2"):
        yield (head + b"5.000001: " + text + b"\n") * 2 + head + b"4.9: kvm_entry: vcpu 0\n"
    yield b"a-1 [000] 5.1: sys_futex(uaddr: 7f, op: 80, val: 1)\na-1 [000] 5.2: sys_futex -> 0x0\na-1 [000] 5.3: other(x)\n"
    yield b"no trace\n" * 3
    yield (b"a-1 ( 5) [000] d... 5.1: kvm_entry: vcpu 0\n  <...>-2 (-----) [001] 5.2: kvm_exit: reason HLT rip 0x1 info\n"
           b" 0 0\nnoise\nmore noise\na b-3 [0000] 7: kvm_entry: vcpu 0\ncpu_0: a-1 [000] 8.1: kvm_entry: vcpu 1\n"
           b"a-1 [000] 8.0: kvm_exit: reason\na-1 [000] 8.2: kvm_exit: reason HLT\n\n")
    yield (b"a-1 [000] 1.000001: kvm_entry: vcpu 0\na-2 [001] 1.000002: kvm_exit: reason HLT rip 0x1 info 0 0\n"
           b"CPU:1 [LOST 7 EVENTS]\na-2 [001] 1.000004: kvm_entry: vcpu 1\nCPU:0 [EVENTS DROPPED]\n")


def text_fields():
    for form in range(66):
        for data in choices():
            yield bytes([form]) + data[form % 7:96 + form % 7]


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
    # Each form that the decoders know, and its neighbours.
    riscv = (0x00008067, 0x00028067, 0x000080e7, 0x008282e7, 0x0c0000ef, 0x004000ef, 0x80000297, 0x00000073,
             0x10200073, 0x30200073, 0x00113423, 0x01010113, 0x00010133, 0x00053103, 0x34011173, 0x54ca3013,
             0x0080006f, 0x00000067)
    riscv_16 = (0x7139, 0x8082, 0x9082, 0x8282, 0x9282, 0x9702, 0x812A, 0xe406, 0x6102, 0x0001, 0x9002)
    yield b"\3" + struct.pack(f"<{len(riscv)}I", *riscv)
    yield b"\3" + struct.pack(f"<{len(riscv_16)}H", *riscv_16)
    a64 = (0x94000010, 0x94000001, 0x97fffff0, 0xd63f0100, 0xd73f0811, 0xd65f03c0, 0xd65f0bff, 0xd69f03e0, 0xd69f0bff,
           0xd61f0100, 0xd4000001, 0xd4000002, 0xd4000003, 0xa9bf7bfd, 0xa9017bfd, 0xf9000bfe, 0xf81f0ffe, 0x9100001f,
           0x9100011f, 0xcb2063ff, 0x8b20611f, 0xf2ca899f, 0xd503201f)
    yield b"\2" + struct.pack(f"<{len(a64)}I", *a64)
    x86 = (b"\xe8\x10\x20\0\0", b"\xe8\0\0\0\0", b"\x66\xe8\x34\x12", b"\xff\xd0", b"\x41\xff\xd3", b"\xff\x15\0\0\0\0",
           b"\xff\x1d\0\0\0\0", b"\xff\xe0", b"\xc3", b"\xc2\x08\0", b"\xf3\xc3", b"\xcb", b"\xca\x08\0",
           b"\x9a\x34\x12\0\xf0", b"\x9a\x78\x56\x34\x12\x10\0", b"\xcf", b"\x48\xcf", b"\x0f\x05", b"\x0f\x34",
           b"\x0f\x07", b"\x0f\x35", b"\x0f\x1f\x84\0TRLN", b"\x2e\x3e\x26\x36\x64\x65\x67\xf0\xf2\x90", b"\xff", b"\x0f")
    for number in (0, 1):
        for code in x86:
            yield bytes([number]) + code
        # A frame that the processor pushed for a handler, with an error code and without.
        for error in (b"", bytes(8)):
            yield bytes([number]) + error + struct.pack("<6Q", 0x401000, 0x33, 0x246, 0x7fff0000, 0x2b, 0) + bytes(72)
        yield bytes([number]) + struct.pack("<2Q", 0x33, 0x80050033) + bytes(96)
    for level in (0, 1, 3):
        yield b"\3" + struct.pack("<3Q", level, 0x80201001, 0x1000) + bytes(64)
    for level, control in ((0, 1), (1, 1 << 62), (3, 0), (2, 0)):
        yield b"\2" + struct.pack("<5Q", level << 2, control, 0x1000, 0x2000, 0x8000) + bytes(64)


def choices():
    """For targets that make something valid of any input."""
    for seed in range(8):
        state, data = seed + 1, bytearray()
        for _ in range(400):
            state = state * 1103515245 + 12345 & 0x7fffffff
            data.append(state >> 16 & 255)
        yield bytes(data)


call_tracker = directory_written = pipeline = record_order = simple_backend = simpletrace_written = unfinished = choices


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
