#!/usr/bin/env python3
"""fleet.py TRAPLINE CLICKHOUSE_FOLDER RECORDING...: a cluster of two shards on the loopback, as scripts/fleet makes it,
returns through its Distributed tables what the reports of the recordings have, summed; a shard that is killed while
rows are loaded costs none and doubles none; DuckDB answers the same questions alike on the files."""
import argparse
import collections
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
FLEET = pathlib.Path(os.environ["TRAPLINE_SOURCE_DIR"]) / "scripts" / "fleet"
LOADER = importlib.machinery.SourceFileLoader("fleet", str(FLEET))
PROGRAM = importlib.util.module_from_spec(importlib.util.spec_from_loader("fleet", LOADER))
LOADER.exec_module(PROGRAM)
HOSTS = ["alpha", "beta", "gamma", "zeta"]  # on the shards 1, 0, 0, 1
DAY = "2026-01-02"
trapline, clickhouse, *recordings = sys.argv[1:]


def fleet(*arguments, status=0):
    done = subprocess.run([FLEET, *arguments], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == status, f"fleet {arguments}: status {done.returncode}: {done.stderr}{done.stdout}"
    return done


def free_port():
    """The first of the ports that two shards take: none of them is in use."""
    for port in range(21000 + os.getpid() % 400 * 20, 60000, 20):
        try:
            for one in (port + 10 * shard + i for shard in range(2) for i in range(3)):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", one))
            return port
        except OSError:
            continue
    raise RuntimeError("no ports are free")


class Cluster:
    def __init__(self, folder):
        self.folder, self.port, self.running = folder, free_port(), {}
        self.shards = ",".join(f"127.0.0.1:{self.port + 10 * i}" for i in range(2))
        self.at = ["--shards", self.shards, "--password-file", f"{folder}/password"]

    def start(self, shard):
        command = [FLEET, "serve", self.folder, "--port", str(self.port), "--only", str(shard), "--memory", "512",
                   "--server", f"{clickhouse}/bin/clickhouse-server"]
        self.running[shard] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = self.running[shard].stdout.readline()
        assert self.shards in said, f"shard {shard} does not start: {said}"

    def kill(self, shard):
        """The server, without a warning: its parent is fleet serve."""
        process = self.running.pop(shard)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
        os.kill(int(children.split()[0]), signal.SIGKILL)
        process.wait()

    def stop(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()

    def query(self, question, *settings):
        lines = fleet("query", question, "--tsv", *self.at, *settings).stdout.splitlines()
        return [line.split("\t") for line in lines]

    def ask(self, shard, sql):
        return PROGRAM.shards_of(argparse.Namespace(shards=self.shards, password_file=self.at[-1]))[shard].ask(sql)

    def rows(self):
        return int(self.ask(0, "SELECT count() FROM trapline.exits"))


def sums_of_reports():
    """Of the recordings together, by reason and device: [exits, total]."""
    sums = collections.defaultdict(lambda: [0, 0])
    for recording in recordings:
        report = json.loads(subprocess.run([trapline, "report", recording, "--format", "json", "--by", "reason,device"],
                                           capture_output=True, check=True).stdout)
        for row in report["groups"]["rows"]:
            sums[row["key"]][0] += row["count"]
            sums[row["key"]][1] += row["total_ns"] or 0
    return {key: tuple(value) for key, value in sums.items()}


def sums_of(table):
    head, *rows = table
    place = [head.index(name) for name in ("reason", "served_by", "exits", "ns")]
    return {f"{row[place[0]]} / {row[place[1]]}": (int(row[place[2]]), int(row[place[3]])) for row in rows}


def load(cluster, rows="exits", status=0, batch="500"):
    """Whether a shard did not answer: then the rest is left for the next load."""
    for host, recording in zip(HOSTS, recordings):
        arguments = ["load", *cluster.at, "--trapline", trapline, "--day", DAY, "--rows", rows, "--host", host,
                     "--session", recording, "--batch-rows", batch, recording]
        done = subprocess.run([FLEET, *arguments], capture_output=True, text=True, timeout=200, check=False)
        if done.returncode != 0:
            assert status == 1 and "does not answer" in done.stderr and "run the same command again" in done.stderr, done
            return True
    return False


def killed_while_loading(cluster, wanted):
    """Kills the second shard once some of its rows are there; the load notices."""
    noticed = []
    loading = threading.Thread(target=lambda: noticed.append(load(cluster, status=1)))
    loading.start()
    while int(cluster.ask(1, "SELECT count() FROM trapline.exits_local")) == 0 and loading.is_alive():
        time.sleep(0.01)
    cluster.kill(1)
    loading.join()
    assert noticed == [True], f"the load did not notice: {noticed}"
    assert int(cluster.ask(0, "SELECT count() FROM trapline.exits_local")) < wanted


def needs_the_password(cluster):
    for options in ([], ["--password-file", os.devnull]):
        told = fleet("query", "time", "--shards", cluster.shards, *options, status=1).stderr
        assert "password" in told.lower(), told
    for file in ("password", "shard0/config.xml", "shard0/users.xml"):
        mode = os.stat(os.path.join(cluster.folder, file)).st_mode & 0o777
        assert mode == 0o600, f"{file}: {mode:o}"


def refuses_rows_of_others(cluster, work):
    file = work / "others.jsonl"
    row = {"host": "alpha", "session": "s", "start_ns": 1}
    for other, why in ((dict(row, host="beta"), "is of host 'beta'"), (dict(row, session="t"), "session 't'"),
                       (dict(row, batch=7), "the columns batch or day"), ('{"host":"alpha","session":"s","session":"s"}', "twice"),
                       ({"session": "s"}, "without host")):
        lines = [json.dumps(row), other if isinstance(other, str) else json.dumps(other)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        told = fleet("load", *cluster.at, "--day", DAY, str(file), status=1).stderr
        assert why in told, f"{other}: {told}"
    # Begun as trapline export does, they are not looked at one by one.
    row = '{"rows_version":2,"host":"alpha","session":"s","start_ns":1'
    for other, why in ((row + ',"host":"beta"}', "twice"), (row + ',"h\\u006fst":"beta"}', "twice"),
                       (row + ',"batch":7}', "the columns batch or day"), (row + "} " + row.replace("alpha", "beta") + "}", "Extra data"),
                       (row + ',"x":', "Expecting value"), ("", "Expecting value"), (row.replace("alpha", "beta") + "}", "row 3 is of host 'beta'")):
        file.write_text("\n".join([row + "}", row + "}", other, row + "}"]) + "\n", encoding="utf-8")
        told = fleet("load", *cluster.at, "--day", DAY, str(file), status=1).stderr
        assert why in told, f"{other}: {told}"
    file.write_bytes(row.encode() + b',"reason":"\xff"}\n')
    assert "utf-8" in fleet("load", *cluster.at, "--day", DAY, str(file), status=1).stderr
    assert cluster.rows() == 0


def loads_every_batch_once(cluster, work):
    """Of days and texts of every kind, in a file whose last line does not end; what is there is not sent again."""
    file, midnight, reasons = work / "days.jsonl", 1793491200 * 10**9, ["io", "a{b}", "c\\d", '"', "é", "{{\x01"]
    rows = [{"rows_version": 2, "host": "h{", "session": "s", "start_ns": i, "reason": reasons[i // 100 % 6],
             "wall_ns": midnight + (i - 5000) * 10**6} for i in range(10000)]
    file.write_text("\n".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows), encoding="utf-8")
    for loaded, known in ((10000, 0), (0, 10000)):
        said = fleet("load", *cluster.at, "--batch-rows", "700", str(file), str(file)).stdout
        assert said.startswith(f"{loaded} rows loaded, {20000 - loaded} were there already, 2 of 2 whole"), said
    there = fleet_rows(cluster, "SELECT start_ns, reason, batch, day FROM trapline.exits WHERE host = 'h{' ORDER BY start_ns")
    for i, (start, reason, batch, day) in enumerate(there):
        wanted = (i // 700, "2026-10-31") if i < 5000 else (8 + (i - 5000) // 700, "2026-11-01")
        assert (int(start), reason, int(batch), day) == (i, rows[i]["reason"], *wanted), (i, reason, batch, day)
    assert len(there) == 10000
    for shard in range(2):
        cluster.ask(shard, "ALTER TABLE trapline.exits_local DROP PARTITION '2026-10-31'")
        cluster.ask(shard, "ALTER TABLE trapline.exits_local DROP PARTITION '2026-11-01'")


def fleet_rows(cluster, sql):
    return [list(json.loads(line).values()) for line in cluster.ask(0, sql + " FORMAT JSONEachRow").splitlines()]


def main():
    reports = sums_of_reports()
    wanted = sum(count for count, _ in reports.values())
    with tempfile.TemporaryDirectory() as work:
        cluster = Cluster(work)
        try:
            for shard in range(2):
                cluster.start(shard)
            fleet("schema", *cluster.at)
            needs_the_password(cluster)
            refuses_rows_of_others(cluster, pathlib.Path(work))
            loads_every_batch_once(cluster, pathlib.Path(work))
            killed_while_loading(cluster, wanted)
            cluster.start(1)
            print(f"killed at {cluster.rows()} of {wanted} rows")
            # What an insert that was cut short leaves is replaced.
            there = cluster.ask(1, "SELECT host, session FROM trapline.exits_local WHERE batch = 0 LIMIT 1").rstrip("\n")
            if there:
                cluster.ask(1, "ALTER TABLE trapline.exits_local DELETE WHERE batch = 0 AND start_ns % 2 = 0")
                while cluster.ask(1, "SELECT count() FROM trapline.exits_local WHERE batch = 0 AND start_ns % 2 = 0") != "0\n":
                    time.sleep(0.1)
            assert not load(cluster)
            assert cluster.rows() == wanted, f"{cluster.rows()} rows, the reports have {wanted}"
            assert not load(cluster)  # again: nothing is loaded twice
            assert cluster.rows() == wanted
            for shard in range(2):
                assert int(cluster.ask(shard, "SELECT count() FROM trapline.exits_local")) > 0, f"shard {shard} has no rows"
            found = sums_of(cluster.query("time", "--set", "limit=10000"))
            assert found == reports, f"time: {found}\nthe reports have {reports}"
            assert not load(cluster, "summary")
            summary = cluster.query("summary", "--set", "limit=10000")
            assert sums_of(summary) == reports, f"summary: {sums_of(summary)}\nthe reports have {reports}"
            in_files(cluster, summary, pathlib.Path(work))
        finally:
            cluster.stop()
    print(f"{wanted} rows of {len(recordings)} recordings")


def in_files(cluster, summary, work):
    files = {"exits": [], "summary": []}
    for rows, paths in files.items():
        for host, recording in zip(HOSTS, recordings):
            paths.append(str(work / f"{host}.{rows}.jsonl"))
            subprocess.run([trapline, "export", recording, "--format", "jsonl", "--rows", rows, "--host", host, "--session",
                            recording, "-o", paths[-1]], check=True)
    def of_files(question, rows, *settings):
        lines = fleet("query", question, "--tsv", *settings, "--files", *files[rows]).stdout.splitlines()
        return [line.split("\t") for line in lines]
    everything = ("--set", "limit=10000", "--set", "least=1", "--set", "factor=0")
    assert sums_of(of_files("time", "exits", *everything)) == sums_of(cluster.query("time", *everything))
    assert of_files("summary", "summary", *everything) == summary
    for question, keys in (("outliers", ("host", "served_by", "exits")), ("around", ("start_ns", "total_ns", "tid"))):
        settings = list(everything)
        if question == "around":
            with open(files["exits"][0], encoding="utf-8") as file:
                row = json.loads(file.readline())
            settings += [f"--set={key}={row[key]}" for key in ("host", "session", "start_ns")]
        tables = [of_files(question, "exits", *settings), cluster.query(question, *settings)]
        rows = [sorted(tuple(row[table[0].index(key)] for key in keys) for row in table[1:]) for table in tables]
        assert rows[0] and rows[0] == rows[1], f"{question}: {rows}"


if __name__ == "__main__":
    main()
