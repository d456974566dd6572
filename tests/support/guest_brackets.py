"""The brackets in a plugin's sync.txt (docs/formats/sync.md), for the oracles: shares nothing with trapline."""
import re

RECORD = re.compile(r"(\d+) trapline: guest 1 (\d+) (\d+)(.*)")


def narrowest(path: str) -> dict[int, tuple[int, int, int]]:
    """Of each series the narrowest: (the plugin's stamp, mono before, mono after)."""
    best: dict[int, tuple[int, int, int]] = {}
    last = None
    for line in open(path, encoding="utf-8"):
        match = RECORD.match(line)
        if not match:
            continue
        stamp, series, index = (int(match[i]) for i in (1, 2, 3))
        after = re.search(r" after mono=(\d+)", match[4])
        if last and after and last[1:3] == (series, index - 1):
            low, high = last[3], int(after[1])
            if series not in best or high - low < best[series][2] - best[series][1]:
                best[series] = (last[0], low, high)
        before = re.search(r" before mono=(\d+)", match[4])
        last = (stamp, series, index, int(before[1])) if before else None
    return best
