#!/usr/bin/env python3
"""What trapline advise predicted of a change, beside what the change gained.

  advice.py TRAPLINE FOLDER predict     writes FOLDER/predictions.json from FOLDER/before
  advice.py TRAPLINE FOLDER             holds FOLDER/after to it

A gain is 1 - busy time after / busy time before, of the same work of the guest. predictions.json is committed
before the changed machine is recorded. The recordings none-* have nothing to gain: they get no advice.
"""
import json
import pathlib
import statistics
import subprocess
import sys

# The advice that the experiment follows; of two VMs both rows of it.
EXPERIMENTS = {"rtc": "rtc", "hpet": "hpet", "pm-timer": "pm-timer", "serial": "serial", "debug-port": "debug-port",
               "pages": "pages", "polling": "polling", "cpus-hog": "cpus", "cpus-vm": "cpus", "quota": "quota", "notify": "notify"}
WIDEST, MOST_MISSES = 2, 1 / 8


def asked(trapline, command, path):
    run = subprocess.run([trapline, command, path, "--format", "json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def paths_of(folder, name):
    """A session, a recording, or several of what is not the same each time."""
    return [folder / name] if (folder / name).is_dir() else sorted(folder.glob(f"{name}.dat")) or sorted(folder.glob(f"{name}-[0-9].dat"))


def predicted(trapline, folder, name):
    advice = [asked(trapline, "advise", path)["advice"] for path in paths_of(folder / "before", name)]
    rows = [row for one in advice for row in one if row["id"] == EXPERIMENTS[name]]
    return [round(sum(row[edge] for row in rows) / len(advice), 4) for edge in ("gain_low", "gain_high")]


def busy_ns(trapline, paths):
    overheads = [asked(trapline, "report", path)["overhead"] for path in paths]
    return statistics.median(sum(overhead[part] for part in ("guest_ns", "exit_ns", "not_run_ns")) for overhead in overheads)


def main():
    trapline, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    file = folder / "predictions.json"
    if sys.argv[3:] == ["predict"]:
        file.write_text(json.dumps({name: predicted(trapline, folder, name) for name in EXPERIMENTS
                                    if paths_of(folder / "before", name)}, indent=1) + "\n",
                        encoding="utf-8")
        return
    wrong, misses = [], 0
    predictions = json.loads(file.read_text(encoding="utf-8"))
    for name, (low, high) in predictions.items():
        if not 0 < low <= high <= WIDEST * low:
            wrong.append(f"{name}: {low} to {high} is no interval, or wider than a factor of {WIDEST}")
        before, after = (busy_ns(trapline, paths_of(folder / phase, name)) for phase in ("before", "after"))
        gain = 1 - after / before
        hit = low <= gain <= high
        misses += not hit
        today = " to ".join(f"{edge:7.2%}" for edge in predicted(trapline, folder, name))
        print(f"{name:12} predicted {low:7.2%} to {high:7.2%}, measured {gain:7.2%}{'' if hit else '   MISSED'}; today {today}")
    if misses > MOST_MISSES * len(predictions):
        wrong.append(f"{misses} of {len(predictions)} gains lie outside")
    quiet = sorted((folder / "before").glob("none-*.dat"))
    if len(quiet) < 3:
        wrong.append("fewer than three recordings without anything to gain")
    for path in quiet:
        if rows := asked(trapline, "advise", path)["advice"]:
            wrong.append(f"{path.name}: {[row['cause'] for row in rows]}")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
