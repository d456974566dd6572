"""Makes a perf.data from events, as tests/support/trace_dat.py makes a trace.dat.

  perf = PerfData(cpus=2)
  perf.event(cpu, time_ns, "kvm:kvm_entry", thread, vcpu_id=0)
  perf.round()
  perf.file() or perf.pipe()         # bytes; with compressed=True in zstd frames of raw blocks

docs/formats/perf-data.md has the layout.
"""
import struct

from trace_dat import TraceDat

SAMPLE_TYPE = 1 << 16 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10  # IDENTIFIER, TID, TIME, CPU, RAW
ID = 77


def record(kind, body, misc=0):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def zstd(data):
    """The first frame's head and one raw block: what follows may be a block again."""
    return struct.pack("<I", len(data) << 3)[:3] + data


class PerfData(TraceDat):
    def __init__(self, cpus=1, sample_type=SAMPLE_TYPE):
        super().__init__(cpus)
        self.records, self.sample_type = b"", sample_type

    def raw(self, cpu, time, data):
        data += bytes(-(len(data) + 4) % 8)
        body = struct.pack("<QIIQII", ID, 1, 1, time, cpu, 0) + struct.pack("<I", len(data)) + data
        self.records += record(9, body)

    def trailer(self, cpu, time):
        return struct.pack("<IIQIIQ", 1, 1, time, cpu, 0, ID)

    def write(self, path):
        self.round()
        path.write_bytes(self.file())

    def round(self):
        self.records += record(68, b"")

    def lost(self, cpu, time=0, count=3):
        self.records += record(2, struct.pack("<QQ", ID, count) + self.trailer(cpu, time))

    def fork(self, time, process, thread):
        self.records += record(7, struct.pack("<IIIIQ", process, process, thread, process, time)
                               + self.trailer(0, time))

    def comm(self, thread, name):
        self.records += record(3, struct.pack("<II", thread, thread) + name.ljust(16, b"\0")
                               + self.trailer(0, 0))

    def throttle(self, begins, cpu, time):
        self.records += record(5 if begins else 6, struct.pack("<QQQ", time, ID, 0) + self.trailer(cpu, time))

    def attr(self):
        return struct.pack("<IIQQQQQ", 2, 128, 100, 1, self.sample_type, 0, 1 << 18) + bytes(80)

    def tracing_data(self):
        head = self.head().split(b"options  \0")[0][:-4]  # without trace.dat's count of CPUs
        return head.replace(b"tracing6\0", b"tracing0.6\0", 1)

    def data(self, compressed):
        if not compressed:
            return self.records
        frame, out = struct.pack("<IBB", 0xFD2FB528, 0, 0x50), b""
        for at in range(0, len(self.records), 1000):
            out += record(81, frame + zstd(self.records[at:at + 1000]))
            frame = b""
        return out

    def file(self, compressed=False):
        data, formats = self.data(compressed), self.tracing_data()
        ids = 104 + 144
        at, end = ids + 8, ids + 8 + len(data)
        bits = 1 << 1 | (1 << 27 if compressed else 0)
        features = [formats] + ([bytes(20)] if compressed else [])
        table, body = b"", b""
        for feature in features:
            table += struct.pack("<QQ", end + 16 * len(features) + len(body), len(feature))
            body += feature
        return (b"PERFILE2" + struct.pack("<12Q", 104, 144, 104, 144, at, len(data), 0, 0, bits, 0, 0, 0)
                + self.attr() + struct.pack("<QQ", ids, 8) + struct.pack("<Q", ID) + data + table + body)

    def pipe(self, compressed=False):
        formats = self.tracing_data()
        size = struct.pack("<II", len(formats), 0)
        return (b"PERFILE2" + struct.pack("<Q", 16) + record(64, self.attr() + struct.pack("<Q", ID))
                + record(66, size) + formats + bytes(-len(formats) % 8) + self.data(compressed))
