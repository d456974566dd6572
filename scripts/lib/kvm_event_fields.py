"""Prints the fields of KVM's events in kernels, from their modules: nothing is booted.

usage: kvm_event_fields.py MODULES-CPIO|RECORDING...

A module's cpio is that of scripts/fetch kernel-amd64, …: FOLDER/modules.cpio. Where KVM is part of the
kernel (arm64), a recording tells: a trace.dat has the formats of its events.

An event's print format stands in its module under the name print_fmt_EVENT; it names the fields. A line
for each event: in which of the files it is, and which fields it has; "=" where they are as before.
"""
import re
import struct
import subprocess
import sys
from pathlib import Path

SYMTAB = 2


def cpio_files(data: bytes):
    """(name, content) of a newc archive."""
    at = 0
    while data[at : at + 6] == b"070701":
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        size, name_size = fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        content = (at + 110 + name_size + 3) & ~3
        if name == "TRAILER!!!":
            return
        yield name, data[content : content + size]
        at = (content + size + 3) & ~3


def text_at(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("latin-1")


def print_formats(elf: bytes):
    """EVENT -> print format, of a 64-bit little-endian relocatable file."""
    start, = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + size * i) for i in range(count)]
    formats = {}
    for section in sections:
        if section[1] != SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
            symbol = text_at(elf, names + name)
            if symbol.startswith("print_fmt_") and 0 < index < count:
                formats[symbol.removeprefix("print_fmt_")] = text_at(elf, sections[index][4] + value)
    return formats


def of_modules(path: Path):
    """The kernel's release, and EVENT -> its fields."""
    fields = {}
    for name, content in cpio_files(path.read_bytes()):
        if "kvm" in name:
            for event, text in print_formats(content).items():
                fields[event] = " ".join(dict.fromkeys(re.findall(r"REC->(\w+)", text)))
    return (path.parent / "release").read_text().strip(), fields


def of_recording(path: Path):
    """The same of a trace.dat, by its name; events of the scheduler and of system calls left out."""
    text = subprocess.run(["trace-cmd", "dump", "--events", path], check=True, capture_output=True,
                          text=True, errors="replace").stdout
    fields = {}
    for event in re.split(r"^name: ", text, flags=re.M)[1:]:
        name = event.split("\n")[0]
        if re.match(r"kvm|vgic|vcpu|trap|halt", name):
            found = re.findall(r"field:[^;]*?(\w+)(?:\[\w*\])?;", event)
            fields[name] = " ".join(field for field in found if not field.startswith("common_"))
    return path.stem, fields


def main() -> None:
    read = [(of_recording if path.suffix == ".dat" else of_modules)(path) for path in map(Path, sys.argv[1:])]
    kernels = [fields for _, fields in read]
    print("|".join(["event", *(release for release, _ in read)]))
    for event in sorted(set().union(*kernels)):
        row, before = [event], None
        for fields in kernels:
            now = fields.get(event)
            row.append("" if now is None else "=" if now == before else now or "no fields")
            before = now
        print("|".join(row))


main()
