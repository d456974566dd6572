"""Makes a trace.dat, version 6, from events: for recordings that no kernel would write.

  dat = TraceDat(cpus=2)
  dat.event(cpu, time_ns, "kvm:kvm_exit", thread, exit_reason=0x60, guest_rip=0, isa=2, vcpu_id=0)
  dat.lost(cpu)                      # before the CPU's next page
  dat.write(path)

Formats hold the fields that Trapline reads, of events that were used; docs/formats/trace-dat.md has
the layout.
"""
import struct

PAGE = 4096
FORMATS = {
    "kvm:kvm_exit": "u32 exit_reason,u64 guest_rip,u32 isa,u32 vcpu_id",
    "kvm:kvm_entry": "u32 vcpu_id",
    "kvm:kvm_userspace_exit": "u32 reason,u32 errno",
    "kvm:kvm_pio": "u32 rw,u32 port,u32 val",
    "kvm:kvm_mmio": "u32 type,u64 gpa,u64 val",
    "kvm:kvm_msi_set_irq": "u64 address,u64 data",
    "kvm:kvm_set_irq": "u32 gsi,u32 level",
    "kvm:kvm_apic_accept_irq": "u32 apicid,u32 vec",
    "kvm:kvm_inj_virq": "u32 vector,u32 reinjected",
    "kvm:kvm_eoi": "u32 apicid,u32 vector",
    "kvm:kvm_pic_set_irq": "u32 chip,u32 pin,u32 imr",
    "sched:sched_switch": "u32 prev_pid,u64 prev_state,u32 next_pid,c16 next_comm",
    "sched:sched_waking": "u32 pid,u32 target_cpu",
    "sched:sched_migrate_task": "u32 pid,u32 dest_cpu",
    "irq:irq_handler_entry": "u32 irq",
    "irq:irq_handler_exit": "u32 irq",
    "syscalls:sys_enter_futex": "u64 uaddr,u64 op",
    "block:block_bio_queue": "u32 dev,u64 sector,u32 nr_sector,c8 rwbs",
    "block:block_rq_issue": "u32 dev,u64 sector,u32 nr_sector,c8 rwbs",
    "block:block_rq_complete": "u32 dev,u64 sector,u32 nr_sector,c8 rwbs",
    "task:task_newtask": "u32 pid,u64 clone_flags",
    "ftrace:funcgraph_entry": "u64 func,u32 depth",
    "ftrace:funcgraph_exit": "u64 func,u32 depth",
    "ftrace:print": "u64 ip,text buf",
}
KERNELS_HEADERS = (b"""\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
""", b"""# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
""")
COMMON = (("unsigned short common_type", 0, 2), ("unsigned char common_flags", 2, 1),
          ("unsigned char common_preempt_count", 3, 1), ("int common_pid", 4, 4))


def fields_of(name):
    at, fields = 8, []
    for word in FORMATS[name].split(","):
        kind, field = word.split(" ")
        size = 0 if kind == "text" else int(kind[1:]) // (8 if kind[0] == "u" else 1)
        fields.append((kind, field, at, size))
        at += size
    return fields, at


def format_text(name, number):
    lines = [f"name: {name.split(':')[1]}", f"ID: {number}", "format:"]
    for text, at, size in COMMON:
        lines.append(f"\tfield:{text};\toffset:{at};\tsize:{size};\tsigned:0;")
    lines.append("")
    for kind, field, at, size in fields_of(name)[0]:
        what = f"char {field}[]" if kind == "text" else f"char {field}[{size}]" if kind[0] == "c" \
            else f"{kind} {field}"
        lines.append(f"\tfield:{what};\toffset:{at};\tsize:{size};\tsigned:0;")
    return "\n".join(lines) + '\n\nprint fmt: "x"\n'


class TraceDat:
    for_trace_cmd = False  # with what trace-cmd needs to read it, too

    def __init__(self, cpus=1, formats=(), comms=b"", options=b"", clock=b"mono", printk=b"",
                 kallsyms=b""):
        self.pages = [[] for _ in range(cpus)]
        self.numbers = {}
        self.open = [None] * cpus  # {time of its last event, bytes}
        self.lose = [False] * cpus
        self.formats, self.comms, self.options = list(formats), comms, options
        self.clock, self.printk, self.kallsyms = clock, printk, kallsyms
        self.size = 0  # of all pages

    def number(self, name):
        return self.numbers.setdefault(name, 100 + len(self.numbers))

    def event(self, cpu, time, name, thread, **values):
        fields, size = fields_of(name)
        data = bytearray(struct.pack("<HBBi", self.number(name), 0, 0, thread)) + bytes(size - 8)
        for kind, field, at, width in fields:
            value = values.get(field, 0)
            if kind[0] == "u":
                data[at:at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            elif kind == "text":
                data += (value or "x").encode() + b"\0"
            else:
                data[at:at + width] = (value or b"").ljust(width, b"\0")[:width]
        data += bytes(-len(data) % 4)
        self.raw(cpu, time, bytes(data))

    def raw(self, cpu, time, data):
        words = len(data) // 4
        page = self.open[cpu]
        if page is not None and len(page[1]) + len(data) + 16 > PAGE - 32:
            self.close(cpu)
            page = None
        if page is None:
            page = self.open[cpu] = [time, bytearray(), time]
        delta = time - page[0]
        if delta >= 1 << 27:
            page[1] += struct.pack("<II", 30 | (delta & (1 << 27) - 1) << 5, delta >> 27)
            delta = 0
        page[0] = time
        if words <= 28:
            page[1] += struct.pack("<I", words | delta << 5) + data
        else:
            page[1] += struct.pack("<II", delta << 5, len(data) + 4) + data

    def lost(self, cpu):
        self.close(cpu)
        self.lose[cpu] = True

    def close(self, cpu):
        page, self.open[cpu] = self.open[cpu], None
        if page is None:
            return
        commit = len(page[1]) | (1 << 31 if self.lose[cpu] else 0)
        self.lose[cpu] = False
        self.pages[cpu].append((struct.pack("<QQ", page[2], commit) + page[1]).ljust(PAGE, b"\0"))
        self.size += PAGE

    def head(self):
        text = b"\x17\x08\x44tracing6\0" + bytes([0, 8]) + struct.pack("<I", PAGE)
        page, event = KERNELS_HEADERS if self.for_trace_cmd else (b"\n", b"\n")
        text += b"header_page\0" + struct.pack("<Q", len(page)) + page
        text += b"header_event\0" + struct.pack("<Q", len(event)) + event
        groups = {"ftrace": []}
        for name, number in self.numbers.items():
            groups.setdefault(name.split(":")[0], []).append(format_text(name, number).encode())
        for system, one in self.formats:
            groups.setdefault(system, []).append(one)
        for system in sorted(groups, key=lambda one: one != "ftrace"):
            if system == "ftrace":
                text += struct.pack("<I", len(groups[system]))
            else:
                text += system.encode() + b"\0" + struct.pack("<I", len(groups[system]))
            for one in groups[system]:
                text += struct.pack("<Q", len(one)) + one
            if system == "ftrace":
                text += struct.pack("<I", len(groups) - 1)
        text += struct.pack("<I", len(self.kallsyms)) + self.kallsyms
        text += struct.pack("<I", len(self.printk)) + self.printk
        text += struct.pack("<Q", len(self.comms)) + self.comms
        text += struct.pack("<I", len(self.pages)) + b"options  \0" + self.options
        uname = 5 if self.for_trace_cmd else 6
        for number, body in ((4, b"[" + self.clock + b"]\0"), (uname, b"Linux host 6.1.0\0")):
            text += struct.pack("<HI", number, len(body)) + body
        return text + struct.pack("<H", 0) + b"flyrecord\0"

    def write(self, path):
        for cpu in range(len(self.pages)):
            self.close(cpu)
        head = self.head()
        at = -(-(len(head) + 16 * len(self.pages)) // PAGE) * PAGE
        table, data = b"", b""
        for pages in self.pages:
            table += struct.pack("<QQ", at + len(data) if pages else 0, len(pages) * PAGE)
            data += b"".join(pages)
        with open(path, "wb") as file:
            file.write((head + table).ljust(at, b"\0") + data)
