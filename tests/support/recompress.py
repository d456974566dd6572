#!/usr/bin/env python3
"""recompress.py zlib|none FROM TO: a trace.dat of version 7, compressed with zlib or not at all.

Debian's trace-cmd neither writes nor reads zlib, which a trace-cmd without libzstd writes. Every section and
every CPU's data is written anew; zstd is first taken away by trace-cmd convert. docs/formats/trace-dat.md
has the layout.
"""
import struct
import subprocess
import sys
import tempfile
import zlib

CHUNK_PAGES = 10  # as many as trace-cmd puts into a block
DONE, BUFFER, FIRST_SECTION, LAST_SECTION = 0, 3, 16, 21


def text_at(data, at):
    end = data.index(b"\0", at)
    return data[at:end], end + 1


def block(data):
    packed = zlib.compress(data)
    return struct.pack("<II", len(packed), len(data)) + packed


def compression_name(packs):
    return b"zlib\0" if packs else b"none\0"


def unblock(data, at):
    packed, size = struct.unpack_from("<II", data, at)
    plain = zlib.decompress(data[at + 8:at + 8 + packed])
    assert len(plain) == size
    return plain, at + 8 + packed


class Copy:
    def __init__(self, data, compression):
        self.data, self.packs = data, compression == "zlib"
        at = len(b"\x17\x08Dtracing")
        version, at = text_at(data, at)
        assert version == b"7", version
        at += 2 + 4
        compression, after = text_at(data, at)
        assert compression in (b"none", b"zlib"), compression
        library, after = text_at(data, after)
        self.options, = struct.unpack_from("<Q", data, after)
        self.out = bytearray(data[:at] + compression_name(self.packs) + library + b"\0" + bytes(8))
        self.head = len(self.out) - 8

    def section(self, at):
        number, flags, name, size = struct.unpack_from("<HHIQ", self.data, at)
        body = self.data[at + 16:at + 16 + size]
        return number, name, unblock(body, 0)[0] if flags & 1 else body

    def put_section(self, number, name, body, packs=None):
        at = len(self.out)
        compressed = self.packs if packs is None else packs
        body = block(body) if compressed else body
        self.out += struct.pack("<HHIQ", number, 1 if compressed else 0, name, len(body)) + body
        return at

    def pages(self, at, size, compressed):
        if not compressed or size == 0:
            return self.data[at:at + size]
        count, = struct.unpack_from("<I", self.data, at)
        at, pages = at + 4, b""
        for _ in range(count):
            plain, at = unblock(self.data, at)
            pages += plain
        return pages

    def put_buffer(self, option):
        """A BUFFER option with its CPUs' data written anew; their section holds them all."""
        section, = struct.unpack_from("<Q", option)
        name, at = text_at(option, 8)
        clock, at = text_at(option, at)
        page_size, cpus = struct.unpack_from("<II", option, at)
        entries = [struct.unpack_from("<IQQ", option, at + 8 + 20 * i) for i in range(cpus)]
        number, flags, label, _ = struct.unpack_from("<HHIQ", self.data, section)
        place = len(self.out)
        self.out += struct.pack("<HHIQ", number, self.packs, label, 0)
        kept = b""
        for cpu, offset, size in entries:
            pages, step = self.pages(offset, size, flags & 1), CHUNK_PAGES * page_size
            chunks = [block(pages[i:i + step]) for i in range(0, len(pages), step)]
            packed = struct.pack("<I", len(chunks)) + b"".join(chunks) if chunks else b""
            self.out += bytes(-len(self.out) % page_size)  # as trace-cmd has them
            # The size leaves out the number of blocks.
            size = max(len(packed) - 4, 0) if self.packs else len(pages)
            kept += struct.pack("<IQQ", cpu, len(self.out) if pages else 0, size)
            self.out += packed if self.packs else pages
        struct.pack_into("<Q", self.out, place + 8, len(self.out) - place - 16)
        return struct.pack("<Q", place) + option[8:at + 8] + kept

    def write(self):
        link = self.head
        following = self.options
        while following:
            number, name, body = self.section(following)
            options, at, following = b"", 0, 0
            while at < len(body):
                option, size = struct.unpack_from("<HI", body, at)
                value = body[at + 6:at + 6 + size]
                at += 6 + size
                if option == DONE:
                    following, = struct.unpack_from("<Q", value)
                    break
                if option == BUFFER:
                    value = self.put_buffer(value)
                elif FIRST_SECTION <= option <= LAST_SECTION:
                    value = struct.pack("<Q", self.put_section(*self.section(*struct.unpack("<Q", value))))
                options += struct.pack("<HI", option, len(value)) + value
            # The end of the options, which links to the next: not compressed, so that it can be filled in.
            options += struct.pack("<HIQ", DONE, 8, 0)
            struct.pack_into("<Q", self.out, link, self.put_section(number, name, options, packs=False))
            link = len(self.out) - 8
        return bytes(self.out)


def converted(path, version=6, compression="none"):
    """Returns the bytes of a recording as trace-cmd converts it."""
    with tempfile.TemporaryDirectory() as folder:
        out = folder + "/out.dat"
        subprocess.run(["trace-cmd", "convert", "--file-version", str(version), "--compression", compression, "-i", path,
                        "-o", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(out, "rb") as file:
            return file.read()


def recompressed(path, compression):
    with open(path, "rb") as file:
        data = file.read()
    if b"zlib\0" not in data[:64] and b"none\0" not in data[:64]:
        data = converted(path, 7)
    return Copy(data, compression).write()


if __name__ == "__main__":
    with open(sys.argv[3], "wb") as out:
        out.write(recompressed(sys.argv[2], sys.argv[1]))
