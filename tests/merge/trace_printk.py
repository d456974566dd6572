#!/usr/bin/env python3
"""trace_printk's events have their text, which is among the strings of the file, and functions the names that the
file's kallsyms has, as trace-cmd prints them; where these are missing, or are none, the file's other events have
theirs, and nothing crashes.

  trace_printk.py TRAPLINE
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import trace_dat  # noqa: E402

trapline = sys.argv[1]
BPRINT, BPUTS, STRING, OTHER = 6, 15, 0xffffffff82819730, 0xffffffff82819760
COMMON = """name: %s
ID: %d
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;
"""
FORMATS = [
    ("ftrace", (COMMON % ("bprint", BPRINT) + "\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;\n"
                "\tfield:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;\n\n"
                "print fmt: \"%ps: %s\", (void *)REC->ip, REC->fmt\n").encode()),
    ("ftrace", (COMMON % ("bputs", BPUTS) + "\tfield:const char * str;\toffset:16;\tsize:8;\tsigned:0;\n\n"
                "print fmt: \"%ps: %s\", (void *)REC->ip, REC->str\n").encode()),
]
KALLSYMS = b"""ffffffff81000000 T _text
ffffffff81000100 t do_work
ffffffff81000180 T after_it
ffffffff81000200 t in_module\t[kvm]
ffffffff81000300 T _etext
"""
PRINTK = f'{STRING:#x} : "vcpu %d took %llu of %s\\n"\n{OTHER:#x} : "resumed\\n"\n'.encode()
failures = []


def check(name, condition, what):
    if not condition:
        failures.append(f"{name}: {what}")


def recording(path, printk):
    dat = trace_dat.TraceDat(1, FORMATS, printk=printk)
    dat.event(0, 10 ** 9, "kvm:kvm_entry", 5, vcpu_id=3)
    ip = struct.pack("<Q", 0xffffffff81000100)
    dat.raw(0, 10 ** 9 + 1000, struct.pack("<HBBi", BPRINT, 0, 0, 5) + ip + struct.pack("<QIQ", STRING, 3, 77) +
            b"them\0\0\0\0")
    dat.raw(0, 10 ** 9 + 2000, struct.pack("<HBBi", BPUTS, 0, 0, 5) + ip + struct.pack("<Q", OTHER))
    dat.write(path)


def functions(path, kallsyms):
    """An event that prints %ps and %pS, at a function's start, within it, before and after all, and in a module."""
    text = COMMON % ("calls", 300) + "\tfield:void * to;\toffset:16;\tsize:8;\tsigned:0;\n\n" \
        "print fmt: \"%ps calls %pS\", (void *)REC->ip, REC->to\n"
    dat = trace_dat.TraceDat(1, [("test", text.encode())], kallsyms=kallsyms)
    dat.for_trace_cmd = True
    dat.event(0, 10 ** 9, "kvm:kvm_entry", 5, vcpu_id=3)
    for i, address in enumerate((0x81000100, 0x8100017f, 0x80ffffff, 0x81000400, 0x81000210)):
        dat.raw(0, 10 ** 9 + 1000 * (i + 1), struct.pack("<HBBiQQ", 300, 0, 0, 5, 0xffffffff00000000 + address,
                                                         0xffffffff00000000 + address))
    dat.write(path)


with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/trace.dat"

    def texts(printk):
        recording(path, printk)
        done = subprocess.run([trapline, "timeline", path], capture_output=True, check=False)
        check(printk, "crashed" not in done.stderr.decode(), done.stderr)
        return done.returncode, [line.split(maxsplit=3)[3] for line in done.stdout.decode().splitlines()]

    status, lines = texts(PRINTK)
    check("strings", status == 0, status)
    check("strings", lines == ["entry", "bprint 0xffffffff81000100: vcpu 3 took 77 of them",
                               "bputs 0xffffffff81000100: resumed"], lines)
    status, lines = texts(b"")
    check("none", status == 0 and lines[0] == "entry" and "NO FORMAT FOUND" in lines[1], (status, lines))
    for wrong in (b"x" * 100000, b":\n::\n", b"0x1:", b"0xffffffff82819730 : ", b"\n" * 1000, PRINTK[:40], PRINTK[:-3],
                  f'{STRING:#x} : "%n%s%s%s%s%999999999d"\n'.encode() + PRINTK[-30:]):
        status, lines = texts(wrong)
        check(wrong[:40], status in (0, 3) and lines[0] == "entry" and len(lines) == 3, (status, lines))

    def calls(words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if " calls " in line]
        return done.returncode, [line[line.index("calls") + 5:].strip(" :") for line in lines]

    for kallsyms in (b"", KALLSYMS, KALLSYMS.replace(b"ffffffff", b"00000000").replace(b"810", b"000")):
        functions(path, kallsyms)
        mine, theirs = calls([trapline, "timeline", path]), calls(["trace-cmd", "report", "-i", path])
        check("functions", mine[0] == 0 and len(mine[1]) == 5 and mine[1] == theirs[1], (mine, theirs))
        check("names", any("do_work" in line for line in mine[1]) == (kallsyms == KALLSYMS), mine)
    for wrong in (b"x" * 100000, b"\n" * 1000, b"ffffffff81000100", b"ffffffff81000100 t " + b"y" * 70000 + b"\n",
                  b"ffffffff81000100 t a\n" * 700000, KALLSYMS[:70], KALLSYMS[::-1], b"\0" * 1000):
        functions(path, wrong)
        status, lines = calls([trapline, "timeline", path])
        check(wrong[:40], status in (0, 3) and (status == 3 or len(lines) == 5), (status, lines))

for failure in failures:
    print(f"FAILED: {failure}")
sys.exit(bool(failures))
