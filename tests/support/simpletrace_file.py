"""Files of QEMU's simple backend, which simpletrace.py reads, for tests that make them."""
import struct


def record(event, time, payload=b"", pid=4711, order="<", version=4):
    kind = struct.pack(order + "Q", 1) if version == 4 else b""
    return kind + struct.pack(order + "QQII", event, time, 24 + len(payload), pid) + payload


def file(names, records, order="<", version=4, first=0):
    """Returns a file of events with these names, whose ids begin at `first`. Only version 4 has the names."""
    mappings = (struct.pack(order + "QQI", 0, first + i, len(name)) + name.encode() for i, name in enumerate(names))
    return struct.pack(order + "QQQ", 2**64 - 1, 0xF2B177CB0AA429B4, version) + b"".join(mappings if version == 4 else ()) + records
