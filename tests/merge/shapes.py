#!/usr/bin/env python3
"""shapes.py TRAPLINE RECORDING [SHAPE...]: one trace in the shapes in which people send it.

A piece of the recording is printed by trace-cmd, and given to `trapline report` in each shape: wrapped, quoted,
prefixed, encoded, cut, without a column. A shape's report equals that of the plain text, or of the plain text
without the events that the shape cannot tell, which the report names; or the shape is refused by its name. With
names of shapes, their reports are printed as well.
"""
import base64
import gzip
import html
import lzma
import quopri
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tables

PARTS = ("count", "total_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")
EVENT = re.compile(r"^ *(?P<comm>.{1,16})-(?P<tid>\d+) +\[(?P<cpu>\d+)\] +(?P<time>[\d.]+): (?P<name>\w+): *(?P<text>.*)$")
LEAST_READ = 32
SHORTER_NAMES = ("latency",)


def events(lines):
    for line in lines:
        yield EVENT.match(line).groupdict()


def plain(found, form="{comm:>16}-{tid:<5} [{cpu}] {time:>12}: {name}: {text}"):
    return [form.format(**one) for one in found]


def prefixed(form):
    return lambda lines: [form.format(i=i + 7, line=line) for i, line in enumerate(lines)]


def wrapped(lines, width, flowed=False, quote="", indent=""):
    """As mailers do it: at blanks, and a longer word stays whole."""
    out = []
    for line in lines:
        line = indent + line
        while len(line) > width:
            at = line.rfind(" ", len(line) - len(line.lstrip()) + 1, width + 1)
            if at <= 0 or not line[:at].strip():
                at = line.find(" ", width)
            if at <= 0:
                break
            out.append(quote + line[:at] + (" " if flowed else ""))
            line = line[at:].lstrip()
        out.append(quote + line)
    return out


def text(lines, end="\n"):
    return end.join(lines) + end


def mail(body, encoding):
    return f"From: a@example.org\nSubject: slow\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: {encoding}\n\n".encode() + body


def cut(lines, width):
    return [line[:width] for line in lines]


def perf_form(lines, form="{comm:>16} {tid:>7} [{cpu}] {time:>12}: kvm:{name}: {text}"):
    """Of KVM's events alone: perf prints the scheduler's otherwise than trace-cmd does."""
    return plain((one for one in events(only_kvm(lines))), form)


def only_kvm(lines):
    return [line for line in lines if re.search(r": kvm_(exit|entry|userspace_exit|pio|mmio|msr|fpu)", line)]


def only(lines, names):
    return [line for line in lines if re.search(rf": ({names}): ", line)]


def folded(lines, width):
    """Inside words."""
    return [line[i:i + width] for line in lines for i in range(0, len(line), width)]


def shifted(lines, seconds):
    def later(found):
        return f"{float(found[1]) + seconds:.6f}: "
    return [re.sub(r"(\d+\.\d+): ", later, line, count=1) for line in lines]


def latency(lines):
    return [f"{one['comm'][:8].strip():>8}-{one['tid']:<7} {int(one['cpu']):>3}d..1. {one['time']:>12}: {one['name'] + ':':<21} {one['text']}"
            for one in events(lines)]


def named_vcpu(lines):
    """As kernels since 5.17 print them: with the vCPU of each exit."""
    return [re.sub(r"kvm_exit: +reason", "kvm_exit: vcpu 0 reason", line) for line in lines]


PROSE = ["Hi all,", "", "the guest is slow since 7.3 (see [1]); this is what I see here:", ""]


def shapes(lines):
    """(name, bytes, plain lines of equal report or a pattern of the refusal, pattern of what the report says)."""
    body = text(lines)
    raw = body.encode()
    kvm = only_kvm(lines)
    exits = only(lines, "kvm_exit")
    no_sched = [line for line in lines if ": sched_" not in line]
    half = len(lines) // 2
    first, second = lines[:half], lines[half:]
    quoted = ["> " + line for line in lines]
    yield "plain", raw, lines, ""
    for width in (72, 60, 50, 40):
        yield f"wrapped-{width}", text(PROSE + wrapped(lines, width)).encode(), lines, ""
    yield "wrapped-76-indented", text(wrapped(lines, 76, indent="    ")).encode(), lines, ""
    yield "flowed", text(wrapped(lines, 72, flowed=True)).encode(), lines, ""
    yield "wrapped-quoted", text(PROSE + wrapped(lines, 70, quote="> ")).encode(), lines, ""
    yield "quoted-wrapped", text(wrapped(quoted, 74)).encode(), lines, ""
    yield "quoted", text(quoted).encode(), lines, ""
    yield "quoted-deep", text(prefixed(">> > {line}")(lines)).encode(), lines, ""
    yield "quoted-some", text([("> " if i // 9 % 2 else "") + line for i, line in enumerate(lines)]).encode(), lines, ""
    yield "quoted-bar", text(prefixed("| {line}")(lines)).encode(), lines, ""
    yield "quoted-name", text(prefixed("jd> {line}")(lines)).encode(), lines, ""
    yield "indented", text(prefixed("\t    {line}")(lines)).encode(), lines, ""
    yield "unindented", text([line.strip() for line in lines]).encode(), lines, ""
    yield "bullets", text(prefixed("* {line}")(lines)).encode(), lines, ""
    yield "numbered", text(prefixed("{i:>6}\t{line}")(lines)).encode(), lines, ""
    yield "grep-n", text(prefixed("{i}:{line}")(lines)).encode(), lines, ""
    yield "grep-H", text(prefixed("trace.txt:{i}:{line}")(lines)).encode(), lines, ""
    yield "dmesg", text(prefixed("[   12.{i:06}] {line}")(lines)).encode(), lines, ""
    yield "journal", text(prefixed("Nov 28 01:02:03 host trace[812]: {line}")(lines)).encode(), lines, ""
    yield "dates", text(prefixed("2026-11-28 01:02:03.{i:06} {line}")(lines)).encode(), lines, ""
    yield "dates-T", text(prefixed("2026-11-28T01:02:03.{i:06}Z {line}")(lines)).encode(), lines, ""
    yield "markdown", text(["# Report", "```", *lines, "```", "Thanks"]).encode(), lines, ""
    yield "blank-lines", text([more for line in lines for more in (line, "")]).encode(), lines, ""
    yield "diff", text(prefixed("+{line}")(lines)).encode(), lines, ""
    yield "html", ("<html><body><pre>\n" + html.escape(body) + "</pre></body></html>\n").encode(), lines, ""
    yield "entities", html.escape(body).encode(), lines, ""
    yield "html-breaks", ("<p>" + "<br>\n".join(html.escape(line).replace("  ", " &nbsp;") for line in lines) + "</p>\n").encode(), lines, ""
    yield "quoted-printable", mail(quopri.encodestring(raw), "quoted-printable"), lines, ""
    yield "quoted-printable-bare", quopri.encodestring(raw), lines, ""
    yield "base64", mail(base64.encodebytes(raw), "base64"), lines, ""
    yield "base64-bare", base64.encodebytes(raw), lines, ""
    yield "gz", gzip.compress(raw), lines, ""
    if shutil.which("zstd"):
        yield "zst", subprocess.run(["zstd", "-qc"], input=raw, stdout=subprocess.PIPE, check=True).stdout, lines, ""
    yield "crlf", text(lines, "\r\n").encode(), lines, ""
    yield "cr-only-ends", text([line + "\r\r" for line in lines]).encode(), lines, ""
    yield "bom", b"\xef\xbb\xbf" + raw, lines, ""
    yield "utf-16", body.encode("utf-16"), lines, ""
    yield "utf-16-be", b"\xfe\xff" + body.encode("utf-16-be"), lines, ""
    yield "nbsp", text([line.replace("  ", " \u00a0") for line in lines]).encode(), lines, ""
    yield "tabs", text([re.sub(r"(?<=: ) +", "\t", line) for line in lines]).encode(), lines, ""
    yield "trailing-blanks", text([line + " " * (i % 7) for i, line in enumerate(lines)]).encode(), lines, ""
    yield "no-newline-at-end", raw[:-1], lines, ""
    yield "colours", text([re.sub(r"(kvm_\w+:)", "\x1b[1;31m\\1\x1b[0m", line) for line in lines]).encode(), lines, ""
    yield "latency", text(["cpus=1", *latency(lines)]).encode(), lines, ""
    yield "flags", text(plain(events(lines), "{comm:>16}-{tid:<5} [{cpu}] d..1. {time:>12}: {name}: {text}")).encode(), lines, ""
    yield "perf", text(perf_form(lines)).encode(), kvm, ""
    yield "perf-no-cpu", text(perf_form(lines, "{comm:>16} {tid:>7} {time:>12}: kvm:{name}: {text}")).encode(), kvm, "CPU"
    yield "perf-no-comm", text(perf_form(lines, "{tid:>7} [{cpu}] {time:>12}: kvm:{name}: {text}")).encode(), kvm, ""
    yield "no-cpu", text(plain(events(lines), "{comm:>16}-{tid:<5} {time:>12}: {name}: {text}")).encode(), no_sched, "CPU"
    yield "no-task", text(plain(events(named_vcpu(lines)), "[{cpu}] {time:>12}: {name}: {text}")).encode(), no_sched, "one VM"
    yield "no-task-no-cpu", text(plain(events(named_vcpu(lines)), "{time:>12}: {name}: {text}")).encode(), no_sched, "one VM"
    yield "no-tid", text(plain(events(named_vcpu(lines)), "{comm} [{cpu}] {time:>12}: {name}: {text}")).encode(), no_sched, "one VM"
    yield "exits-only", text(exits).encode(), exits, ""
    yield "kvm-only", text(kvm).encode(), kvm, ""
    open_exit = next(i for i in reversed(range(len(lines))) if ": kvm_exit:" in lines[i]) + 1
    yield "open-exit", text(lines[:open_exit]).encode(), lines[:open_exit], ""
    yield "cut-80", text(cut(plain(events(only_kvm(lines))), 80)).encode(), kvm, "cut"
    yield "elided", text([line for i, line in enumerate(lines) if not 40 <= i < 60]).encode(), [line for i, line in enumerate(lines) if not 40 <= i < 60], ""
    yield "merged", text(prefixed("host.dat:  {line}")(lines)).encode(), lines, ""
    yield "merged-only", text([f"  guest.dat:  {line.replace('kvm_', 'x_')}" if i % 3 == 0 else f"  host.dat:  {line}"
                               for line in lines for i in (0, 1)]).encode(), r"grep .*(host|guest)\.dat", ""
    yield "doubled", text([*lines, "", *lines]).encode(), lines, "repeat"
    yield "doubled-quoted", text([*lines, "", "On Friday, A wrote:", *quoted]).encode(), lines, "repeat"
    yield "doubled-overlap", text([*lines[:len(lines) * 3 // 4], "", *lines[len(lines) // 4:]]).encode(), lines, "repeat"
    yield "doubled-crlf", raw + text(lines, "\r\n").encode(), lines, "repeat"
    yield "doubled-sorted", text(sorted([*lines, *lines])).encode(), "twice", ""
    yield "two-excerpts", text([*first, "", "and 600 s later:", "", *shifted(second, 600)]).encode(), None, "loss"
    yield "two-excerpts-dots", text([*first, "...", *shifted(second, 600)]).encode(), None, "loss"
    yield "two-excerpts-back", text([*shifted(second, 600), "", "Before that:", *first]).encode(), None, "loss"
    yield "no-time", text(plain(events(kvm), "{comm:>16}-{tid:<5} [{cpu}] {name}: {text}")).encode(), exits, "no line has a time"
    yield "ts-diff", text([re.sub(r"(\d\.\d{6}: )", r"\1(+12)  ", line) for line in lines]).encode(), lines, ""
    yield "xz", lzma.compress(raw), "xz -d", ""
    for width in (60, 72, 80):
        yield f"folded-in-words-{width}", text(folded(lines, width)).encode(), "folded within words", ""
    yield "elided-marker", text([*first, "[...]", *second]).encode(), None, "loss"
    yield "lost-records", text([*first, re.sub(r": .*", ": PERF_RECORD_LOST lost 7", second[0]), *second]).encode(), None, "loss"
    yield "name-with-colon", text([line.replace("qemu-system-x86-", "x: y-", 1) for line in lines]).encode(), None, ""
    yield "strace", b'1234  ioctl(19</dev/kvm>, KVM_RUN, 0) = 0\n' * 9, "strace", ""
    yield "perf-kvm-stat", b"Analyze events for all VMs, all VCPUs:\n\n             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time \n\n                 HLT         10    50.00%    90.00%      2.60us   4072.98us   3431.60us ( +-   0.17% )\n", "perf kvm stat", ""
    yield "kvm_stat", b"kvm statistics - summary\n\n Event                                         Total %Total CurAvg/s\n kvm_exit                                   52166411   46.8  2773738\n", "kvm_stat", ""
    yield "perf-top", b"Samples: 8K of event 'kvm:kvm_exit', 1 Hz, Event count (approx.): 479 lost: 0/0 drop: 0/0\nOverhead  Trace output\n  36.22%  reason MSR_WRITE rip 0xffffffff8110ac58 info 0 0\n", "perf top", ""
    yield "uftrace-text", b"# DURATION     TID     FUNCTION\n            [  1234] | main() {\n   1.079 us [  1234] |   puts();\n   2.500 us [  1234] | } /* main */\n", "uftrace", ""


def report(trapline, path):
    _, found, complaint = tables.asked(trapline, "report", path, "--by", "reason,detail")
    return found["tables"] if found else complaint.replace(str(path), "FILE").strip()


def timeline(trapline, path):
    """What each event is, of whom; without columns."""
    run = subprocess.run([trapline, "timeline", str(path)], capture_output=True, check=False)
    return [re.sub(r"\s+", " ", line).strip() for line in run.stdout.decode(errors="replace").splitlines()]


def difference(expected, found):
    for one in (expected, found):
        if isinstance(one, str):
            return "refused: " + one
    return next(tables.differences(expected, found, PARTS, ("exits", "entries", "userspace_exits")), "")


def main():
    trapline, recording, *wanted = sys.argv[1:]
    printed = subprocess.run(["trace-cmd", "report", "-i", recording], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             check=True).stdout.decode().splitlines()
    lines = [line for line in printed if EVENT.match(line)][3000:3600]
    wrong = read = shown = 0
    with tempfile.TemporaryDirectory() as work:
        path, plain_path = Path(work) / "trace.txt", Path(work) / "plain.txt"
        for name, content, expected, says in shapes(lines):
            if wanted and name not in wanted:
                continue
            shown += 1
            path.write_bytes(content)
            found = report(trapline, path)
            if isinstance(expected, str):
                bad = "" if isinstance(found, str) and re.search(expected, found) else f"not refused with '{expected}': {str(found)[:300]}"
            elif expected is None:
                bad = "" if not isinstance(found, str) else "refused: " + found
            else:
                plain_path.write_text(text(expected))
                bad = difference(report(trapline, plain_path), found)
                if not bad and expected is lines and name not in SHORTER_NAMES:
                    one, other = timeline(trapline, plain_path), timeline(trapline, path)
                    bad = next((f"'{a}', found '{b}'" for a, b in zip(one, other) if a != b), "")
            if not bad and says:
                told = subprocess.run([trapline, "report", str(path), "-v"], capture_output=True, check=False)
                if not re.search(says, told.stdout.decode() + told.stderr.decode()):
                    bad = f"does not say '{says}'"
            read += not bad and not isinstance(expected, str)
            wrong += bool(bad)
            if bad:
                print(f"{name}: {bad}"[:400])
            if wanted:
                print(subprocess.run([trapline, "report", str(path)], capture_output=True, check=False).stdout.decode())
    print(f"{shown} shapes: {read} read as the plain text, {wrong} wrong")
    return 1 if wrong or not shown or (not wanted and read < LEAST_READ) else 0


sys.exit(main())
