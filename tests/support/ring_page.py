"""The ring buffer's pages in a trace.dat of version 6, where they are as the kernel wrote them: docs/formats/trace-dat.md."""
import struct

HEADER = 16  # of a page: u64 time, u64 commit


def areas(data):
    """Returns (offset, size) of each CPU's pages in the bytes of a file."""
    table = data.index(b"flyrecord\0") + len(b"flyrecord\0")
    cpus, = struct.unpack_from("<I", data, data.index(b"options  \0") - 4)
    return [struct.unpack_from("<QQ", data, table + 16 * cpu) for cpu in range(cpus)]


def entries_of(page):
    """(offset, kind, delta, second word) of each entry of a page, which are events up to kind 28."""
    at, end = HEADER, HEADER + (struct.unpack_from("<Q", page, 8)[0] & 0x7FFFFFF)
    while at < end:
        head, = struct.unpack_from("<I", page, at)
        kind, delta = head & 31, head >> 5
        word = struct.unpack_from("<I", page, at + 4)[0] if kind in (0, 29, 30, 31) else 0
        if kind == 29 and delta == 0:
            return
        yield at, kind, delta, word
        at += {0: 4 + ((word + 3) & ~3), 29: 4 + word, 30: 8, 31: 8}.get(kind, 4 + 4 * kind)
