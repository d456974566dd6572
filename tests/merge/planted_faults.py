"""The causes of planted page faults are those of the guest's own order: which page it reads and writes when.

tests/data/record/pages made the recordings: the guest goes through its pages once, from 16 MiB on.
"""
from pathlib import Path

import fault_oracle

FIRST, PAGE, PAGES, FOUND = 0x1000000, 4096, 300, 0.95
# What each page's faults are, in order, with who did it.
CHECKS = {
    "pages-copied": [("was-there", None), ("copy", None), ("copy", None)],
    "pages-served": [("userfaultfd", "plant-uffd")],
    "pages-swapped": [("swap", None)],
    "pages-zapped": [("first-touch", None), ("removed", "plant-zap"), ("removed", "plant-zap")],
}


def check(trapline, folder, name):
    rows = fault_oracle.rows_of(trapline, Path(folder) / name)
    expected, right, wrong = CHECKS[name], 0, 0
    for i in range(PAGES):
        of_page = [row for row in rows if row["address"] is not None and row["address"] // PAGE == FIRST // PAGE + i]
        for row, (cause, by) in zip(of_page, expected):
            fits = row["cause"] == cause and (by is None or by in (row["by"] or ""))
            right += fits
            wrong += not fits and row["cause"] != "not-known"
    whole = [row for row in fault_oracle.rows_of(trapline, Path(folder) / name, "working-set") if row["address"] == FIRST]
    if [(row["length"], row["faults"]) for row in whole] != [(PAGES * PAGE, PAGES)]:
        yield f"{name}: the guest's pages are no single range of the working set: {whole}"
    known = PAGES * len(expected)
    print(f"{name}: {right} of {known} faults have the planted cause, {wrong} another one")
    if right < FOUND * known or wrong > known / 100:
        yield f"{name}: {right} of {known} faults have the planted cause, {wrong} another one"
