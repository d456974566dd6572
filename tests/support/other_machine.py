"""A trace.dat as another machine would have written it.

The copy is of version 6, big-endian or not, with pages of 4096 bytes or more. Every number of its
header, its pages and its events, as their formats say, is in the other order; times, events and losses stay.
The first page of a larger one gives its time; the times of the others stand before their first events.
"""
import re
import struct

from recompress import converted

PAGE = 4096
LOST, COUNTED = 1 << 31, 1 << 30
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
FIELD = re.compile(r"field:([^;]+);\s*offset:(\d+);\s*size:(\d+);")


def swapped(data, size):
    return b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))


def element_size(declaration, size):
    """Of "u64 val", "char comm[16]", "__u8 rwbs[8]", "__data_loc char[] name": bytes that belong together."""
    if declaration.startswith("__data_loc"):
        return 4
    array = re.search(r"\[(\d*)\]", declaration)
    if not array:
        return size
    if re.search(r"\b(char|u8|__u8|uint8_t)\b", declaration):
        return 1
    return size // int(array[1]) if array[1] and int(array[1]) else 8


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, kind):
        return struct.unpack("<" + kind, self.take(struct.calcsize(kind)))[0]

    def text(self):
        end = self.data.index(b"\0", self.at)
        return self.take(end + 1 - self.at)


class Machine:
    def __init__(self, data, big, page_size):
        self.order = ">" if big else "<"
        self.big, self.page_size, self.fields = big, page_size, {}
        self.reader, self.out = Reader(data), bytearray()

    def put(self, kind, value):
        self.out += struct.pack(self.order + kind, value)

    def number(self, kind):
        value = self.reader.number(kind)
        self.put(kind, value)
        return value

    def sized(self, kind):
        data = self.reader.take(self.number(kind))
        self.out += data
        return data

    def format(self):
        text = self.sized("Q").decode(errors="replace")
        number = int(re.search(r"^ID: *(\d+)", text, re.M)[1])
        self.fields[number] = [(int(at), int(size), element_size(what, int(size)))
                               for what, at, size in FIELD.findall(text)]

    def header(self):
        reader = self.reader
        self.out += reader.take(10) + reader.text()
        assert reader.take(1) == b"\0"
        self.out += bytes([self.big]) + reader.take(1)
        reader.number("I")
        self.put("I", self.page_size)
        for _ in range(2):  # header_page, header_event
            self.out += reader.text()
            self.sized("Q")
        for _ in range(self.number("I")):
            self.format()
        for _ in range(self.number("I")):
            self.out += reader.text()
            for _ in range(self.number("I")):
                self.format()
        self.sized("I")
        self.sized("I")
        self.sized("Q")
        cpus = self.number("I")
        self.out += reader.take(10)
        while (option := self.number("H")) != 0:
            body = Reader(reader.take(self.number("I")))
            size = len(body.data)
            if option == 8 and size == 4:  # CPUCOUNT
                self.put("I", body.number("I"))
            elif option == 11:  # TRACEID
                self.put("Q", body.number("Q"))
            elif option == 14:  # TSC2NSEC
                self.put("I", body.number("I"))
                self.put("I", body.number("I"))
                self.put("Q", body.number("Q"))
            else:
                assert option in (1, 2, 4, 5, 6, 7, 9, 10), f"option {option}"
                self.out += body.data
        table = reader.take(10)
        assert table == b"flyrecord\0", table
        self.out += table
        return [(reader.number("Q"), reader.number("Q")) for _ in range(cpus)]

    def event(self, data):
        """An event's data in the other order."""
        if not self.big or len(data) < 2:
            return data
        number, = struct.unpack_from("<H", data)
        out = bytearray(data)
        for at, size, element in self.fields.get(number, []):
            end = at + size if size else len(data)
            if element > 1 and end <= len(data):
                out[at:end] = swapped(data[at:end], element)
        return bytes(out)

    def head(self, kind, delta):
        return struct.pack(self.order + "I", kind << 27 | delta if self.big else kind | delta << 5)

    def events(self, page):
        """The page's events as the other machine has them."""
        word = lambda value: struct.pack(self.order + "I", value)  # noqa: E731
        at, end, out = 16, 16 + (struct.unpack_from("<Q", page, 8)[0] & (1 << 27) - 1), b""
        while at + 4 <= end:
            head, = struct.unpack_from("<I", page, at)
            kind, delta = head & 31, head >> 5
            at += 4
            if 1 <= kind <= 28:
                out += self.head(kind, delta) + self.event(page[at:at + 4 * kind])
                at += 4 * kind
            elif kind == PADDING and delta == 0:
                break
            else:
                value, = struct.unpack_from("<I", page, at)
                out += self.head(kind, delta) + word(value)
                if kind == 0:
                    out += self.event(page[at + 4:at + value])
                    out += bytes(-len(out) % 4)
                    at += value + 3 & ~3
                elif kind == PADDING:
                    out += page[at + 4:at + value]
                    at += value
                else:
                    at += 4
        return out

    def pages(self, data):
        """A CPU's pages, as many in each of the other machine's as there is room for."""
        out, page, first, flags, lost = [], b"", 0, 0, 0

        def close():
            if page:
                body = struct.pack(self.order + "QQ", first, len(page) | flags) + page
                if flags & COUNTED:
                    body += struct.pack(self.order + "Q", lost)
                assert len(body) <= self.page_size
                out.append(body.ljust(self.page_size, b"\0"))

        for at in range(0, len(data), PAGE):
            time, commit = struct.unpack_from("<QQ", data, at)
            size = commit & (1 << 27) - 1
            events = self.events(data[at:at + PAGE])
            stamp = self.head(TIME_STAMP, time & (1 << 27) - 1) + struct.pack(self.order + "I", time >> 27)
            if page and not commit & LOST and len(page) + len(stamp + events) + 24 <= self.page_size:
                page += stamp + events
                continue
            close()
            page, first, flags = events, time, commit & (LOST | COUNTED)
            lost = struct.unpack_from("<Q", data, at + 16 + size)[0] if flags & COUNTED else 0
        close()
        return b"".join(out)

    def write(self):
        areas = self.header()
        place = -(-(len(self.out) + 16 * len(areas)) // self.page_size) * self.page_size
        all_pages = b""
        for at, size in areas:
            pages = self.pages(self.reader.data[at:at + size])
            self.put("Q", place + len(all_pages))
            self.put("Q", len(pages))
            all_pages += pages
        return bytes(self.out).ljust(place, b"\0") + all_pages


def as_other_machine(path, big=True, page_size=PAGE):
    """The bytes of the recording `path`, which has no instances, as another machine's."""
    return Machine(converted(path), big, page_size).write()
