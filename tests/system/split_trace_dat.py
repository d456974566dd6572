"""Takes the pages of each CPU out of a version 6 trace.dat, for trace-cmd restore.

usage: split_trace_dat.py TRACE.DAT PREFIX -> PREFIX.cpu0, PREFIX.cpu1, …
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from ring_page import areas  # noqa: E402

path, prefix = sys.argv[1:]
data = Path(path).read_bytes()
assert data[:12] == b"\x17\x08\x44tracing6\0"
for cpu, (offset, size) in enumerate(areas(data)):
    assert offset % 4096 == 0 and size % 4096 == 0 and offset + size <= len(data)
    Path(f"{prefix}.cpu{cpu}").write_bytes(data[offset:offset + size])
