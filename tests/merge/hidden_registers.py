#!/usr/bin/env python3
"""Guests that hide their registers: kvm_exit has rip 0, as of SEV-ES, SNP and TDX.

  hidden_registers.py TRAPLINE SESSION   SESSION has two VMs, web01 and db01; trace-cmd is needed

The rip of the raw events of a real recording is made 0: of one VM, of both, and of the first exits of one. Rows of a
hidden guest say so, the other VM's rows stay as they were, and no symbol is looked up, although one covers address 0.
"""
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import tables

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from recompress import converted  # noqa: E402
from ring_page import areas, entries_of  # noqa: E402

PAGE = 4096
HIDDEN = "hidden (confidential guest)"


def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, check=True).stdout.decode()


def kvm_exit_format(path):
    """(id, offset of common_pid, offset of guest_rip)"""
    text = output("trace-cmd", "dump", "--events", path)
    event = re.search(r"^name: kvm_exit\nID: (\d+)\n(.*?)^print fmt", text, re.M | re.S)
    offset = {name: int(at) for name, at in re.findall(r"(\w+);\s+offset:(\d+);", event[2])}
    return int(event[1]), offset["common_pid"], offset["guest_rip"]


def hide(path, hides):
    """Makes the rip 0 of each kvm_exit for which hides(thread) says so."""
    event, pid_at, rip_at = kvm_exit_format(path)
    file = bytearray(path.read_bytes())
    for offset, size in areas(file):
        for start in range(offset, offset + size, PAGE):
            for at, kind, _, _ in entries_of(file[start:start + PAGE]):
                at += start + (4 if kind else 8)
                if kind > 28 or struct.unpack_from("<H", file, at)[0] != event:
                    continue
                if hides(struct.unpack_from("<i", file, at + pid_at)[0]):
                    struct.pack_into("<Q", file, at + rip_at, 0)
    path.write_bytes(file)


class Session:
    def __init__(self, trapline, folder, original, hides):
        self.trapline, self.path = trapline, pathlib.Path(folder)
        shutil.copy(original / "session.json", self.path)
        (self.path / "trace.dat").write_bytes(converted(original / "trace.dat"))
        hide(self.path / "trace.dat", hides)
        self.symbols = self.path / "symbols"
        self.symbols.write_text("0000000000000000 T at_zero\n0000000000001000 T above\n")

    def run(self, *arguments):
        return output(self.trapline, *arguments)

    def report(self, *options):
        return tables.document(self.trapline, "report", self.path, "--symbols", self.symbols, *options)

    def counts(self, *options):
        return {row["key"]: row["count"] for row in self.report(*options)["tables"]["groups"]["rows"]}


def main():
    trapline, original = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = []

    def expect(what, got, wanted):
        if got != wanted:
            wrong.append(f"{what}: {got}, not {wanted}")

    def session(hides):
        folder = tempfile.TemporaryDirectory()
        folders.append(folder)
        return Session(trapline, folder.name, original, hides)

    folders = []
    plain = session(lambda thread: False)
    vms = {vcpu["vm_name"]: vcpu for vcpu in plain.report()["tables"]["vcpus"]["rows"]}
    web, db = vms["web01"], vms["db01"]
    name = {vm: f"{vm} ({vms[vm]['vm']})" for vm in vms}
    shown = plain.counts("--by", "vm,function")
    expect("functions of guests that show their registers", [key for key in shown if HIDDEN in key], [])

    one = session(lambda thread: thread == web["tid"])
    got = one.counts("--by", "vm,function")
    wanted = {key: count for key, count in shown.items() if key.startswith(name["db01"])}
    wanted[f"{name['web01']} / {HIDDEN}"] = web["exits"]
    expect("one hidden VM", got, wanted)
    note = [note for note in one.report()["notes"] if "confidential" in note]
    expect("notes", len(note), 1)
    expect("the VM that the note names", [name for name in vms if name in "".join(note)], ["web01"])
    slow = one.report("--slower-than", "0", "--vm", "web01")["tables"]["slow_exits"]["rows"]
    expect("slow exits", {row["function"] for row in slow}, {HIDDEN})
    rows = tables.rows(trapline, one.path, "exits", "--symbols", one.symbols)
    hidden = [row for row in rows if row["tid"] == web["tid"]]
    expect("exported rows", {(row["rip"], row["function"]) for row in hidden}, {(None, HIDDEN)})
    expect("exported rows of the other", HIDDEN in {row["function"] for row in rows if row["tid"] == db["tid"]}, False)
    expect("timeline", HIDDEN in one.run("timeline", one.path, "--vm", "web01", "--around", "max"), True)

    both = session(lambda thread: True)
    expect("both hidden", both.counts("--by", "function"), {HIDDEN: web["exits"] + db["exits"]})

    # A guest at address 0, which had another rip before: no function, and not hidden.
    seen = set()

    def later(thread):
        known = thread in seen
        seen.add(thread)
        return known
    late = session(later)
    expect("rip 0 after another one", late.counts("--by", "function").get(HIDDEN), None)
    expect("symbols at rip 0", "at_zero" in late.counts("--by", "function"), False)
    for line in wrong:
        print(line)
    print(f"{len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
