#!/usr/bin/env python3
"""trapline itself on damaged recordings: it ends with 0, 1 or 3, soon, and in little memory.

  damaged_files.py TRAPLINE RECORDING… [--count N]
"""
import argparse
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

SECONDS = 30
MEMORY_KIB = 256 << 10
EXTREMES = (0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def mutated(original, rng):
    data = bytearray(original)
    for _ in range(rng.randint(1, 3)):
        # Headers are at the start (version 6) and at the end (version 7's options).
        where = rng.choice((4096, len(data), len(data), -400))
        at = rng.randrange(where) if where > 0 else len(data) - 1 - rng.randrange(-where)
        at = min(max(at, 0), len(data) - 9)
        kind = rng.randrange(4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            width = rng.choice((1, 2, 4, 8))
            value = rng.choice(EXTREMES) & ((1 << 8 * width) - 1)
            data[at:at + width] = value.to_bytes(width, "little")
        elif kind == 2:
            data[at:at + 8] = rng.randbytes(8)
        elif rng.randrange(3) == 0:
            del data[max(at, 16):]
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trapline")
    parser.add_argument("recordings", nargs="+")
    parser.add_argument("--count", type=int, default=12, help="mutations of each recording")
    options = parser.parse_args()
    wrong, statuses = 0, {}
    with tempfile.TemporaryDirectory(prefix="trapline-damaged-") as folder:
        path = os.path.join(folder, "damaged.dat")
        for name in options.recordings:
            original = pathlib.Path(name).read_bytes()
            for seed in range(options.count):
                rng = random.Random(f"{pathlib.Path(name).name} {seed}")
                pathlib.Path(path).write_bytes(mutated(original, rng))
                command = rng.choice((["report", "--by", "reason,detail,device"],
                                      ["report", "--format", "json", "--irq", "--halt"],
                                      ["timeline", "--around", "max"], ["info"]))
                try:
                    status = subprocess.run([options.trapline, *command, path], check=False,
                                            capture_output=True, timeout=SECONDS).returncode
                except subprocess.TimeoutExpired:
                    status = "hang"
                statuses[status] = statuses.get(status, 0) + 1
                if status not in (0, 1, 3):
                    wrong += 1
                    print(f"{name}, seed {seed}: {' '.join(command)}: {status}")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if most > MEMORY_KIB:
        wrong += 1
        print(f"resident: {most} KiB")
    print(f"by exit status: {statuses}; at most {most >> 10} MiB resident")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
