#!/usr/bin/env python3
"""compressions.py TRAPLINE FOLDER: the recordings of FOLDER, compressed with zlib and not at all.

Each copy has to give the report of the recording itself: the oracle and trace-cmd, which reads no zlib, are
right of all of them then.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from recompress import recompressed  # noqa: E402


def report(trapline, path):
    run = subprocess.run([trapline, "report", path, "--by", "reason,detail,device", "--format", "csv"],
                         capture_output=True, check=False)
    return run.returncode, run.stdout


def main():
    trapline, folder = sys.argv[1:3]
    paths = [path for path in sorted(Path(folder).rglob("*.dat")) if path.read_bytes()[10:12] == b"7\0"]
    wrong = copies = 0
    with tempfile.TemporaryDirectory() as work:
        for path in paths:
            expected = report(trapline, str(path))
            for compression in ("zlib", "none"):
                copy = Path(work) / "copy.dat"
                copy.write_bytes(recompressed(str(path), compression))
                copies += 1
                if report(trapline, str(copy)) != expected:
                    wrong += 1
                    print(f"{path}: {compression} differs")
    print(f"{copies} copies of {len(paths)} recordings: {wrong} differ")
    return 1 if wrong or not copies else 0


sys.exit(main())
