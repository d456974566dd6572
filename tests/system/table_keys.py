"""No printer names a table: merge/render/ has none of the keys that tables of merge/ have.

usage: table_keys.py SOURCE-TREE

The page's own tables are made in merge/render/page/, which is not looked at.
"""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
KEY = re.compile(r'(?:^\s*\w+(?:\.\w+\(\)|\[\d\])?\.key = |TableOf<[\w:]+> \w+\(\s*\{\.key = )"([a-z_]+)"', re.MULTILINE)
keys = set()
for folder in ("report", "compare", "explain", "live"):
    for path in (ROOT / "merge" / folder).glob("*.cc"):
        keys.update(KEY.findall(path.read_text(encoding="utf-8")))
texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "merge/render").glob("*.cc")}
printers = {path: text for path, text in texts.items() if "merge/render/print.h" in text}
found = [f"{path.relative_to(ROOT)}: \"{key}\" is a table's key"
         for path, text in printers.items() for key in sorted(keys) if f'"{key}"' in text]
print(f"{len(keys)} keys, {len(printers)} files of printers, {len(found)} found")
for one in found:
    print("FAILED:", one)
sys.exit(bool(found) or len(keys) < 20 or not printers)
