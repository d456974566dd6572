#!/usr/bin/env python3
"""compressions.py TRAPLINE FOLDER: the recordings of FOLDER, compressed with zlib, zstd and not at all.

Each copy has to give the report of the recording itself, to the last figure: oracle.py is right of all of them then.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from recompress import converted, recompressed  # noqa: E402


def report(trapline, path):
    run = subprocess.run([trapline, "report", path, "--by", "reason,detail,device", "--top", "0", "--format", "json"],
                         capture_output=True, check=False)
    return run.returncode, run.stdout.replace(json.dumps(path, ensure_ascii=False).encode(), b'"FILE"')


def main():
    trapline, folder = sys.argv[1:]
    paths = sorted(Path(folder).rglob("*.dat"))
    wrong = copies = 0
    with tempfile.TemporaryDirectory() as work:
        for path in paths:
            expected = report(trapline, str(path))
            for compression in ("zlib", "zstd", "none"):
                copy = Path(work) / "copy.dat"
                copy.write_bytes(converted(path, 7, "zstd") if compression == "zstd" else recompressed(path, compression))
                copies += 1
                if report(trapline, str(copy)) != expected:
                    wrong += 1
                    print(f"{path}: {compression} differs")
    print(f"{copies} copies of {len(paths)} recordings: {wrong} differ")
    return 1 if wrong or not copies else 0


sys.exit(main())
