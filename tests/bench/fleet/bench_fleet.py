#!/usr/bin/env python3
"""A fleet in ClickHouse on this machine: how fast rows are loaded, what they take, and how long the questions take.

  bench_fleet.py --trapline PATH [--hosts 1000] [--rows 50000000] [--seconds 200] RECORDING...

Two shards on the loopback (scripts/fleet serve) get the rows of the recordings; the servers then make each simulated
host's sessions from one of them: times and day are moved, durations scaled by 0.9 to 1.1, and every hundredth host
is five times slower in QEMU's devices. It stops making sessions after --seconds. It prints the figures.
"""
import argparse
import importlib.machinery
import importlib.util
import itertools
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

FLEET = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "fleet"
LOADER = importlib.machinery.SourceFileLoader("fleet", str(FLEET))
fleet = importlib.util.module_from_spec(importlib.util.spec_from_loader("fleet", LOADER))
LOADER.exec_module(fleet)

DAYS = 7
NUMBERS = ("total_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")


def make_sessions(shards, columns, sources, first, end, turn):
    """One of the hosts first to end - 1: each from the recording of its number, on its shard."""
    parts = []
    for name in columns:
        if name == "host":
            parts.append("concat('host-', toString(n))")
        elif name == "session":
            parts.append(f"concat(session, '-{turn}')")
        elif name == "start_ns":
            parts.append(f"start_ns + {turn} * 60000000000")
        elif name == "day":
            parts.append(f"toDate('2026-11-01') + n % {DAYS}")
        elif name in NUMBERS:
            scale = "(0.9 + 0.2 * (n % 97) / 96) * if(n % 100 = 7 AND isNotNull(device), 5, 1)"
            parts.append(f"toUInt64({name} * {scale})")
        elif name == "wall_ns":
            parts.append(f"toUInt64(1793491200000000000 + (n % {DAYS}) * 86400000000000 + start_ns % 3600000000000)")
        else:
            parts.append(name)
    for number, shard in enumerate(shards):
        shard.ask(f"INSERT INTO trapline.exits_local ({', '.join(columns)}) SELECT {', '.join(parts)} FROM trapline.base "
                  f"ARRAY JOIN arrayFilter(x -> x % {sources} = toUInt32(session) AND halfMD5(concat('host-', toString(x))) % "
                  f"{len(shards)} = {number}, arrayMap(x -> x + {first}, range({end - first}))) AS n")


def fill(shards, options):
    columns = [row[0] for row in shards[0].rows("DESCRIBE TABLE trapline.exits_local")]
    began = time.monotonic()
    rows, step = 0, 100
    for turn in itertools.count():
        for first in range(0, options.hosts, step):
            make_sessions(shards, columns, len(options.recordings), first, min(first + step, options.hosts), turn)
            rows = int(shards[0].ask("SELECT count() FROM trapline.exits"))
            if turn > 0 and (rows >= options.rows or time.monotonic() > began + options.seconds):
                return options.hosts, rows, time.monotonic() - began


def load(shards, options, work):
    """The recordings' rows, in a table of their own on every shard; how fast fleet load is."""
    files = []
    for number, recording in enumerate(options.recordings):
        files.append(str(work / f"{number}.jsonl"))
        subprocess.run([options.trapline, "export", recording, "--format", "jsonl", "--host", "base", "--session",
                        str(number), "-o", files[-1]], check=True)
    size = sum(pathlib.Path(name).stat().st_size for name in files)
    began = time.monotonic()
    for shard in shards:
        names = f"{shard.host}:{shard.port}"
        subprocess.run([FLEET, "load", "--shards", names, "--day", "2026-11-01", *files], check=True,
                       stdout=subprocess.DEVNULL)
    took = time.monotonic() - began
    count = int(shards[0].ask("SELECT count() FROM trapline.exits_local"))
    for shard in shards:
        shard.ask("CREATE TABLE trapline.base ENGINE = Memory AS SELECT * FROM trapline.exits_local")
        shard.ask("ALTER TABLE trapline.exits_local DROP PARTITION '2026-11-01'")
    print(f"fleet load: {len(shards) * count / took / 1e3:.0f} thousand rows/s, {size / count:.0f} bytes a row in JSON")
    return count


def questions(shards, options):
    settings = {**fleet.DEFAULTS, "at": str(1793491200000000000 + 4 * 86400000000000), "host": "host-7",
                "session": f"{7 % len(options.recordings)}-0", "ns": "1000000"}
    settings["start_ns"] = shards[0].ask("SELECT max(start_ns) FROM trapline.exits WHERE host = 'host-7' AND "
                                         f"session = '{settings['session']}'").strip()
    for name, text in fleet.questions("clickhouse").items():
        if name == "summary":
            continue
        times = []
        for _ in range(2):
            began = time.monotonic()
            rows = shards[0].rows(fleet.filled(text, settings))
            times.append(time.monotonic() - began)
        print(f"query {name:10} {times[0]:7.2f} s, again {times[1]:7.2f} s, {len(rows)} rows")
        if name == "outliers":
            slow = sum(int(row[0].split("-")[1]) % 100 == 7 for row in rows)
            print(f"  of the {len(rows)} hosts and devices that it names, {slow} are of the hosts made slow")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--memory", type=int, default=2048, help="MiB of each server's queries")
    parser.add_argument("recordings", nargs="+")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended early"))
    with tempfile.TemporaryDirectory(prefix="trapline-fleet-") as name:
        work = pathlib.Path(name)
        command = [FLEET, "serve", name, "--port", "18320", "--memory", str(options.memory)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                shards = fleet.shards_of(argparse.Namespace(shards=server.stdout.readline().split()[1],
                                                            password_file=f"{name}/password"))
                subprocess.run([FLEET, "schema", "--shards", ",".join(shard.name for shard in shards),
                                "--password-file", f"{name}/password"], check=True)
                base = load(shards, options, work)
                hosts, rows, took = fill(shards, options)
                print(f"{rows} rows of {hosts} hosts, made from {base} in {took:.0f} s ({rows / took / 1e6:.2f} M rows/s)")
                if hosts == 0 or rows == 0:
                    sys.exit("no rows")
                sizes = [shard.rows("SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND "
                                    "table = 'exits_local'")[0] for shard in shards]
                size, kept = (sum(int(row[i]) for row in sizes) for i in range(2))
                print(f"on disk: {size / kept:.1f} bytes a row, {size / 2**20:.0f} MiB")
                questions(shards, options)
                rss = []
                for child in pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
                    status = pathlib.Path(f"/proc/{child}/status").read_text(encoding="ascii")
                    rss.append(int(status.split("VmHWM:")[1].split()[0]) >> 10)
                print(json.dumps({"resident MiB, at most, of each server": rss}))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
