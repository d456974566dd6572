"""Takes the pages of each CPU out of a version 6 trace.dat, for trace-cmd restore.

usage: split_trace_dat.py TRACE.DAT PREFIX -> PREFIX.cpu0, PREFIX.cpu1, …

An own parser of trace-cmd.dat.v6(5): the program under test has no hand in it.
"""
import struct
import sys
from pathlib import Path


class Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def skip(self, code: str) -> None:
        size = self.number(code)
        self.at += size

    def expect(self, text: bytes) -> None:
        assert self.data[self.at : self.at + len(text)] == text, (self.at, text)
        self.at += len(text)

    def string(self) -> bytes:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end]
        self.at = end + 1
        return text

    def formats(self) -> None:
        for _ in range(self.number("I")):
            self.skip("Q")


def main() -> None:
    path, prefix = sys.argv[1:]
    data = Path(path).read_bytes()
    reader = Reader(data)
    reader.expect(b"\x17\x08\x44tracing6\0\0\x08")
    page = reader.number("I")
    for title in (b"header_page\0", b"header_event\0"):
        reader.expect(title)
        reader.skip("Q")
    reader.formats()
    for _ in range(reader.number("I")):
        reader.string()
        reader.formats()
    for code in "IIQ":  # kallsyms, printk formats, names of threads
        reader.skip(code)
    cpus = reader.number("I")
    reader.expect(b"options  \0")
    while reader.number("H") != 0:
        reader.skip("I")
    reader.expect(b"flyrecord\0")
    for cpu in range(cpus):
        offset, size = reader.number("Q"), reader.number("Q")
        assert offset % page == 0 and size % page == 0 and offset + size <= len(data)
        Path(f"{prefix}.cpu{cpu}").write_bytes(data[offset : offset + size])


main()
