"""Makes a uftrace directory small: cut.py DIRECTORY

Of kernel-cpu*.dat the pages from the program's first record on, of kallsyms the functions in them (each
with the next symbol, where it ends); no symbols of libraries.
"""
import glob
import os
import re
import struct
import subprocess
import sys

directory = sys.argv[1]
PAGE = 4096
# Files are named by their task.
start = min(struct.unpack("<Q", open(path, "rb").read(8))[0]
            for path in glob.glob(f"{directory}/*.dat") if re.fullmatch(r"\d+\.dat", os.path.basename(path)))
for path in glob.glob(f"{directory}/kernel-cpu*.dat"):
    data = open(path, "rb").read()
    pages = [data[at:at + PAGE] for at in range(0, len(data), PAGE)]
    first = next((i for i in range(len(pages) - 1, -1, -1) if struct.unpack("<Q", pages[i][:8])[0] < start), 0)
    open(path, "wb").write(b"".join(pages[first:]))
dump = subprocess.run(["uftrace", "dump", "--no-pager", "-d", directory], check=True, capture_output=True,
                      text=True, errors="replace").stdout
names = set(re.findall(r"\] (\S+)\(ffff", dump))
lines = open(f"{directory}/kallsyms", encoding="utf-8").read().splitlines(keepends=True)
lines = sorted((line for line in lines if "[" not in line), key=lambda line: int(line[:16], 16))
kept: set[int] = set()
for i, line in enumerate(lines):
    if line.split()[2] in names:
        kept.update((i, i + 1))
open(f"{directory}/kallsyms", "w", encoding="utf-8").write("".join(lines[i] for i in sorted(kept) if i < len(lines)))
for path in glob.glob(f"{directory}/*.so*.sym") + [f"{directory}/default.opts"]:
    os.remove(path)
