#!/usr/bin/env python3
"""A fleet in ClickHouse on this machine: how fast rows are loaded, what they take, and how long the questions take.

  bench_fleet.py --trapline PATH [--hosts 1000] [--rows 50000000] [RECORDING...]

Two shards on the loopback (docs/examples/fleet/fleet) get files of rows, one for each host, by its load. The rows
are those of the RECORDINGS (two of tests/data), again and again; each host has its name and one of seven days, and
every hundredth is five times slower in QEMU's devices. Files are made for twenty hosts at a time, in --folder: only
loading counts. clickhouse-client inserts such files, for comparison.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
FLEET = ROOT / "docs/examples/fleet/fleet"
LOADER = importlib.machinery.SourceFileLoader("fleet", str(FLEET))
fleet = importlib.util.module_from_spec(importlib.util.spec_from_loader("fleet", LOADER))
LOADER.exec_module(fleet)
sys.path.insert(0, str(ROOT / "tests" / "bench"))
from figures import figure  # pylint: disable=wrong-import-position

DAYS, SLOW, PORT, GROUP = 7, 100, 18320, 20
FIRST_DAY_NS, DAY_NS = 1793491200 * 10**9, 86400 * 10**9  # 2026-11-01
DURATIONS = ("total_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns", "halted_ns")
BASES = [ROOT / "tests" / "data" / name for name in ("box/demo-v6.dat", "svm-linux-2vcpu.dat")]


def rows_of(options, recording, number, count, work):
    """That many rows of the recording, again and again, of the host @."""
    command = [options.trapline, "export", recording, "--format", "jsonl", "--host", "@", "--session", str(number), "-o", "-"]
    once = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.count(b"\n")
    report = json.loads(subprocess.run([options.trapline, "report", recording, "--format", "json"], check=True,
                                       stdout=subprocess.PIPE, text=True).stdout)
    events = report["tables"]["sources"]["rows"][0]["events"]
    big = work / "big.dat"
    subprocess.run([sys.executable, ROOT / "tests/bench/merge/make_recording.py", recording, big, "--events",
                    str(events * (count // once + 2))], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command[2] = big
    rows = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[:count]
    big.unlink()
    return [json.loads(row) for row in rows]


class Hosts:
    """The rows of every host, as text; few texts differ by more than the host's name."""

    def __init__(self, sources):
        self.sources, self.texts = sources, {}

    def rows(self, host, name=None):
        key = host % len(self.sources), host % DAYS, host % SLOW == 7
        if key not in self.texts:
            self.texts[key] = self.text(*key)
        return self.texts[key].replace(b'"host":"@"', b'"host":"%s"' % (name or f"host-{host}").encode())

    def text(self, number, day, slow):
        lines = []
        for row in self.sources[number]:
            row = dict(row, wall_ns=FIRST_DAY_NS + day * DAY_NS + row["start_ns"] % (3600 * 10**9))
            if slow and row["device"]:
                row.update((name, row[name] * 5) for name in DURATIONS if row[name] is not None)
            lines.append(json.dumps(row, separators=(",", ":")) + "\n")
        return "".join(lines).encode()


class Servers:
    """Two shards of fleet serve."""

    def __init__(self, folder, memory):
        self.process = subprocess.Popen([FLEET, "serve", folder, "--port", str(PORT), "--memory", str(memory)],
                                        stdout=subprocess.PIPE, text=True)
        self.at = self.process.stdout.readline().split()
        self.shards = fleet.shards_of(argparse.Namespace(shards=self.at[1], password_file=self.at[3]))
        self.password = fleet.password_in(self.at[3])
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        self.pids = children.split()

    def cpu(self):
        used = 0
        for pid in self.pids:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
            used += int(fields[11]) + int(fields[12])
        return used / os.sysconf("SC_CLK_TCK")

    def resident(self):
        return [int(pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) >> 10
                for pid in self.pids]


class Cost:
    """Wall time and CPU time, of children and of the servers, from begin to end."""

    def __init__(self, servers):
        self.servers = servers
        self.wall = self.loader = self.server = 0.0

    def __enter__(self):
        self.begin = self.now()
        return self

    def __exit__(self, *_):
        self.wall, self.loader, self.server = (a + b - c for a, b, c in zip(
            (self.wall, self.loader, self.server), self.now(), self.begin))

    def now(self):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), usage.ru_utime + usage.ru_stime, self.servers.cpu()


def load(servers, hosts, options, work):
    cost, rows = Cost(servers), 0
    for first in range(0, options.hosts, GROUP):
        files = []
        for host in range(first, min(first + GROUP, options.hosts)):
            files.append(work / f"{host}.jsonl")
            files[-1].write_bytes(hosts.rows(host))
            rows += len(hosts.sources[host % len(hosts.sources)])
        with cost:
            subprocess.run([FLEET, "load", *servers.at, *files], check=True, stdout=subprocess.DEVNULL)
        for file in files:
            file.unlink()
    print(f"fleet load: {rows} rows of {options.hosts} hosts in {cost.wall:.1f} s, {rows / cost.wall / 1e3:.0f} thousand a "
          f"second; CPU of the loader {cost.loader / rows * 1e6:.2f} us a row, of the servers {cost.server / rows * 1e6:.2f}, "
          f"{rows / (cost.loader + cost.server) / 1e3:.0f} thousand rows a CPU second")


def peer(servers, hosts, options, work):
    """fleet load and clickhouse-client in turns, with the same rows, of hosts that go again."""
    fetched = subprocess.run([ROOT / "scripts/fetch", "clickhouse"], check=True, stdout=subprocess.PIPE, text=True)
    client = fetched.stdout.strip() + "/bin/clickhouse-client"
    each, count = ([], []), GROUP * len(hosts.sources[0])
    for turn in range(options.rounds):
        files = [work / f"{host}.jsonl" for host in range(GROUP)]
        for host, file in enumerate(files):
            file.write_bytes(hosts.rows(0, f"peer-{turn}-{host}"))
        with Cost(servers) as ours:
            subprocess.run([FLEET, "load", *servers.at, *files], check=True, stdout=subprocess.DEVNULL)
        with Cost(servers) as theirs, subprocess.Popen(["cat", *files], stdout=subprocess.PIPE) as rows:
            subprocess.run([client, "--port", str(PORT + 1), "--password", servers.password, "--query",
                            "INSERT INTO trapline.exits_local FORMAT JSONEachRow"], check=True, stdin=rows.stdout)
        for costs, cost in zip(each, (ours, theirs)):
            costs.append((cost.loader + cost.server) / count * 1e6)
        for file in files:
            file.unlink()
    for shard in servers.shards:
        shard.ask("ALTER TABLE trapline.exits_local DELETE WHERE startsWith(host, 'peer-')")
    ours, theirs = map(statistics.median, each)
    print(f"CPU of loader and servers: {ours:.2f} us a row, of clickhouse-client {theirs:.2f}")
    figure("fleet load, a row", ours, "us", ours / theirs, "clickhouse-client")


def questions(servers, options):
    shards = servers.shards
    settings = {**fleet.DEFAULTS, "at": str(FIRST_DAY_NS + 4 * DAY_NS), "host": "host-7", "session": str(7 % len(options.recordings))}
    settings["start_ns"] = shards[0].ask("SELECT max(start_ns) FROM trapline.exits WHERE host = 'host-7'").strip()
    for name, text in fleet.questions("clickhouse").items():
        times = []
        for _ in range(3):
            with Cost(servers) as cost:
                rows = shards[0].rows(fleet.filled(text, settings))
            times.append((cost.wall, cost.server))
        print(f"query {name:10}" + "; ".join(f"{wall:6.2f} s, {cpu:6.2f} CPU s" for wall, cpu in times) + f"; {len(rows)} rows")
        if name == "outliers":
            slow = sum(int(row[0].split("-")[1]) % SLOW == 7 for row in rows)
            print(f"  of the {len(rows)} hosts and devices that it names, {slow} are of the hosts made slow")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trapline", required=True)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison")
    parser.add_argument("--memory", type=int, default=2048, help="MiB of each server's queries")
    parser.add_argument("--folder", help="for the servers' data and the files")
    parser.add_argument("--wait", action="store_true", help="leave the servers until Enter, to ask them more")
    parser.add_argument("recordings", nargs="*", default=BASES)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended early"))
    with tempfile.TemporaryDirectory(prefix="trapline-fleet-", dir=options.folder) as name:
        work = pathlib.Path(name)
        servers = Servers(name, options.memory)
        try:
            subprocess.run([FLEET, "schema", *servers.at], check=True)
            hosts = Hosts([rows_of(options, recording, number, options.rows // options.hosts, work)
                           for number, recording in enumerate(options.recordings)])
            peer(servers, hosts, options, work)
            load(servers, hosts, options, work)
            sizes = [shard.rows("SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND "
                                "table = 'exits_local'")[0] for shard in servers.shards]
            size, kept = (sum(int(row[i]) for row in sizes) for i in range(2))
            print(f"on disk: {size / kept:.1f} bytes a row, {size / 2**20:.0f} MiB")
            questions(servers, options)
            if options.wait:
                input("Enter ends the servers")
            print(f"resident MiB, at most, of each server: {servers.resident()}")
        finally:
            servers.process.terminate()
            servers.process.wait()


if __name__ == "__main__":
    main()
