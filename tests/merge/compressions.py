#!/usr/bin/env python3
"""compressions.py [--oracle] TRAPLINE FOLDER: the recordings of FOLDER, compressed with zlib, zstd and not at all.

Each copy has to give the report of the recording itself: the oracle is right of all of them then. With --oracle
(scripts/nightly) it reads every compressed copy by itself.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from recompress import recompressed  # noqa: E402

ORACLE = Path(__file__).parent / "oracle.py"


def report(trapline, path):
    run = subprocess.run([trapline, "report", path, "--by", "reason,detail,device", "--format", "csv"],
                         capture_output=True, check=False)
    return run.returncode, run.stdout


def make_copy(path, compression, copy):
    if compression != "zstd":
        copy.write_bytes(recompressed(str(path), compression))
        return
    subprocess.run(["trace-cmd", "convert", "--file-version", "7", "--compression", "zstd", "-i", path, "-o", copy],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def oracle_agrees(trapline, copy):
    run = subprocess.run([sys.executable, ORACLE, str(copy), "--compare", trapline, "--by", "reason,detail,device"],
                         capture_output=True, check=False)
    if run.returncode:
        print((run.stdout + run.stderr).decode())
    return run.returncode == 0


def main():
    with_oracle = sys.argv[1] == "--oracle"
    trapline, folder = sys.argv[-2:]
    paths = sorted(Path(folder).rglob("*.dat"))
    wrong = copies = judged = 0
    with tempfile.TemporaryDirectory() as work:
        for path in paths:
            expected = report(trapline, str(path))
            for compression in ("zlib", "zstd", "none"):
                copy = Path(work) / "copy.dat"
                make_copy(path, compression, copy)
                copies += 1
                if report(trapline, str(copy)) != expected:
                    wrong += 1
                    print(f"{path}: {compression} differs")
                if with_oracle and compression != "none" and expected[0] in (0, 3):
                    judged += 1
                    wrong += not oracle_agrees(trapline, copy)
    print(f"{copies} copies of {len(paths)} recordings, {judged} of them against the oracle: {wrong} differ")
    return 1 if wrong or not copies or with_oracle and not judged else 0


sys.exit(main())
