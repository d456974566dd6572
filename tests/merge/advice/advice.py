#!/usr/bin/env python3
"""What trapline advise predicted of a change, beside what the change gained.

  advice.py TRAPLINE FOLDER predict NAME...   adds to FOLDER/predictions.json from FOLDER/before
  advice.py TRAPLINE FOLDER                   holds FOLDER/after to it

A gain is 1 - busy time after / busy time before, of the same work of the guest; of OF_HOST the
host's CPUs that the VM takes less. Of some of these only the most is predicted; of `iothread` nothing, give or take a
tenth of what the main loop takes: it gained more. predictions.json is committed before the changed machine is recorded,
and stays as it was then; the gains that lie outside are in MISSED. Today's intervals hold them all: what missed was
mended, or has no figure any more. The recordings none-* have nothing to gain: they get no advice.
"""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tables  # noqa: E402

# The advice that the experiment follows; of two VMs both rows of it.
EXPERIMENTS = {"rtc": "rtc", "hpet": "hpet", "pm-timer": "pm-timer", "serial": "serial", "debug-port": "debug-port",
               "pages": "pages", "polling": "polling", "cpus-hog": "cpus", "cpus-vm": "cpus", "quota": "quota",
               "notify": "notify", "ticks": "ticks", "timer-line": "timer-line", "halt-polls": "halt-polls",
               "poll-max-ns": "iothread-polls", "guest-tick": "wakeups", "iothread": "iothread"}
OF_HOST = {"ticks", "timer-line", "halt-polls", "poll-max-ns", "guest-tick", "iothread"}  # CPU time of the host, in CPUs
MISSED = {"linux-6.1": {"pages", "polling", "iothread"}, "linux-6.12": {"notify", "ticks", "iothread"}}
WITHDRAWN = {"notify", "iothread"}
WIDEST = 2


def advice_of(trapline, path):
    """What changes gain of the busy time. None of the recordings had a quota, but those that say so."""
    rows = tables.of(trapline, "advise", path, "--assume", "no-quota")["advice"]["rows"]
    return [row for row in rows if row["host_high_ns"] is None and row["gain_high_ns"] is not None]


def paths_of(folder, name):
    """A session, a recording, or several of what is not the same each time."""
    if (folder / name).is_dir():
        return [folder / name]
    return sorted(folder.glob(f"{name}.dat")) or sorted(folder.glob(f"{name}-[0-9].dat"))


def predicted(trapline, folder, name):
    if name in OF_HOST - WITHDRAWN:
        path, = paths_of(folder / "before", name)
        report = tables.document(trapline, "advise", path)
        row, = (row for row in report["tables"]["advice"]["rows"] if row["id"] == EXPERIMENTS[name])
        interval = report["head"]["interval"]["end_ns"] - report["head"]["interval"]["start_ns"]
        return [round(row[edge] / interval, 4) for edge in ("host_low_ns", "host_high_ns")]
    advice = [advice_of(trapline, path) for path in paths_of(folder / "before", name)]
    rows = [row for one in advice for row in one if row["id"] == EXPERIMENTS[name]]
    return [round(sum(row[edge] for row in rows) / len(advice), 4) for edge in ("gain_low", "gain_high")]


def host_ns(trapline, path):
    """(CPU time of the VM's threads, the recording's length)"""
    report = tables.document(trapline, "report", path, "--host-cpu")
    interval = report["head"]["interval"]["end_ns"] - report["head"]["interval"]["start_ns"]
    return sum(thread["ns"] for vm in report["tables"]["host_cpu"]["rows"] for thread in vm["threads"]["rows"]
               if thread["part"] is None), interval


def gain_of(trapline, folder, name):
    if name in OF_HOST:
        (before, interval), (after, other) = (host_ns(trapline, *paths_of(folder / phase, name)) for phase in ("before", "after"))
        # A guest with work to do does the same in either; one without has the same time.
        return (before - after) / interval if name == "halt-polls" else before / interval - after / other
    before, after = (busy_ns(trapline, paths_of(folder / phase, name)) for phase in ("before", "after"))
    return 1 - after / before


def busy_ns(trapline, paths):
    overheads = [tables.document(trapline, "report", path)["head"]["overhead"] for path in paths]
    return statistics.median(sum(overhead[part] for part in ("guest_ns", "exit_ns", "not_run_ns"))
                             for overhead in overheads)


def main():
    trapline, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    file = folder / "predictions.json"
    if sys.argv[3:4] == ["predict"]:
        predictions = json.loads(file.read_text(encoding="utf-8"))
        predictions |= {name: predicted(trapline, folder, name) for name in sys.argv[4:]}
        file.write_text(json.dumps(predictions, indent=1) + "\n", encoding="utf-8")
        return
    wrong, missed = [], set()
    for name, (low, high) in json.loads(file.read_text(encoding="utf-8")).items():
        gain = gain_of(trapline, folder, name)
        today = predicted(trapline, folder, name)
        if not low <= gain <= high:
            missed.add(name)
        print(f"{name:12} predicted {low:7.2%} to {high:7.2%}, measured {gain:7.2%}, "
              f"today {today[0]:7.2%} to {today[1]:7.2%}{'   MISSED' if name in missed else ''}")
        for edges in [[low, high], *([] if name in WITHDRAWN else [today])]:
            is_bound = name in OF_HOST and edges[0] <= 0 < edges[1]
            if not is_bound and not 0 < edges[0] <= edges[1] <= WIDEST * edges[0] + 2e-4:
                wrong.append(f"{name}: {edges} is no interval, or wider than a factor of {WIDEST}")
        if not today[0] <= gain <= today[1] and name not in WITHDRAWN:
            wrong.append(f"{name}: the gain lies outside of today's interval")
        if name in WITHDRAWN and today != [0, 0]:
            wrong.append(f"{name}: has a figure")
    if missed != MISSED[folder.name]:
        wrong.append(f"missed: {sorted(missed)}, not {sorted(MISSED[folder.name])}")
    quiet = sorted((folder / "before").glob("none-*.dat"))
    if len(quiet) < 3:
        wrong.append("fewer than three recordings without anything to gain")
    for path in quiet:
        if rows := advice_of(trapline, path):
            wrong.append(f"{path.name}: {[row['cause'] for row in rows]}")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


main()
