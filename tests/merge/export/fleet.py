#!/usr/bin/env python3
"""fleet.py TRAPLINE CLICKHOUSE_FOLDER RECORDING...: a cluster of two shards on the loopback, as docs/examples/fleet makes it,
returns through its Distributed tables what the reports of the recordings have, summed; a shard that is killed while
rows are loaded costs none and doubles none; DuckDB answers the same questions alike on the files."""
import argparse
import collections
import importlib.machinery
import importlib.util
import io
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tables  # noqa: E402

sys.dont_write_bytecode = True
FLEET = pathlib.Path(os.environ["TRAPLINE_SOURCE_DIR"]) / "docs/examples/fleet/fleet"
LOADER = importlib.machinery.SourceFileLoader("fleet", str(FLEET))
PROGRAM = importlib.util.module_from_spec(importlib.util.spec_from_loader("fleet", LOADER))
LOADER.exec_module(PROGRAM)
HOSTS = ["alpha", "beta", "gamma", "zeta"]  # on the shards 1, 0, 0, 1; a kill of 1 brings back what was dropped there
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
        for key, row in tables.by_key(tables.of(trapline, "report", recording, "--by", "reason,device")).items():
            sums[key][0] += row["count"]
            sums[key][1] += row["total_ns"] or 0
    return {key: tuple(value) for key, value in sums.items()}


def sums_of(table):
    head, *rows = table
    place = [head.index(name) for name in ("reason", "served_by", "exits", "ns")]
    return {f"{row[place[0]]} / {row[place[1]]}": (int(row[place[2]]), int(row[place[3]])) for row in rows}


def load(cluster, status=0, batch="500"):
    """Whether a shard did not answer: then the rest is left for the next load."""
    for host, recording in zip(HOSTS, recordings):
        arguments = ["load", *cluster.at, "--trapline", trapline, "--day", DAY, "--host", host,
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
        assert why in told and f"{file}: row 2" in told and str(file) not in told.split(": row 2")[1], f"{other}: {told}"
    # Begun as trapline export does, they are not looked at one by one.
    row = '{"rows_version":2,"host":"alpha","session":"s","start_ns":1'
    for other, why in ((row + ',"host":"beta"}', "twice"), (row + ',"h\\u006fst":"beta"}', "twice"),
                       (row + ',"batch":7}', "the columns batch or day"),
                       (row + "} " + row.replace("alpha", "beta") + "}", "Extra data"),
                       (row + ',"x":', "Expecting value: character"), ("", "Expecting value: character 1\n"),
                       (row.replace("alpha", "beta") + "}", "row 3 is of host 'beta'"),
                       (row + ',"extra":{"a":1}}', "an object in a column"), (row + ',"extra":[{}]}', "an object in a column"),
                       (row + ',"x":' + "[" * 5000 + "}", "recursion")):
        file.write_text("\n".join([row + "}", row + "}", other, row + "}"]) + "\n", encoding="utf-8")
        told = fleet("load", *cluster.at, "--day", DAY, str(file), status=1).stderr
        assert why in told and f"{file}: row 3" in told, f"{other}: {told}"
    # As many lines, begins and braces as rows, but one object goes on over lines: in a column that the tables lack.
    for lines in (["}", ',"zzz":[', "}]}", "}"], ["}", ',"zzz":', "}}", "}"]):
        file.write_text("".join(row + end + "\n" for end in lines), encoding="utf-8")
        told = fleet("load", *cluster.at, "--day", DAY, str(file), status=1).stderr
        assert f"{file}: row 2: Expecting value" in told, told
    file.write_bytes(row.encode() + b'}\n' + row.encode() + b',"reason":"\xff"}\n')
    told = fleet("load", *cluster.at, "--day", DAY, str(file), status=1).stderr
    assert "row 2" in told and "utf-8" in told, told
    assert cluster.rows() == 0


def refuses_days_that_no_table_has(cluster, work):
    """And loads the other files all the same."""
    names = [str(work / f"wall{i}.jsonl") for i in range(3)]
    for wall in ("1" * 30, str(4291747200 * 10**9)):
        for name, ns in zip(names, (wall, "1793491200000000000", "4291747199999999999")):
            row = f'{{"rows_version":2,"host":"beta","session":"{name}","start_ns":1,"wall_ns":{ns}}}\n'
            pathlib.Path(name).write_text(row, encoding="utf-8")
        done = fleet("load", *cluster.at, *names, status=1)
        assert done.stderr.startswith(f"fleet: {names[0]}: a row has wall_ns {wall}, which"), done
        assert "2 of 3 whole" in done.stdout, done
    days = fleet_rows(cluster, "SELECT day FROM trapline.exits ORDER BY day")
    assert days == [["2026-11-01"], ["2105-12-31"]], days
    for shard in range(2):
        for (day,) in days:
            cluster.ask(shard, f"ALTER TABLE trapline.exits_local DROP PARTITION '{day}'")


class Parts(io.BytesIO):
    """A stream that comes in parts of one size, however much is asked for."""

    def __init__(self, text, part):
        super().__init__(text)
        self.part = part

    def read(self, _=-1):
        return super().read(self.part)


def ends_batches_by_bytes(cluster):
    """At the same rows, however the stream comes in parts: so nothing is loaded twice."""
    shards = PROGRAM.shards_of(argparse.Namespace(shards=cluster.shards, password_file=cluster.at[-1]))
    rows = [b'{"rows_version":2,"host":"beta","session":"bytes","start_ns":%d,"rip":"%s"}\n' % (i, b"r" * (i * 37 % 400))
            for i in range(400)]
    wanted, size = [0], 0
    for i, row in enumerate(rows):
        if size >= 5000 or i - wanted[-1] == 30:
            wanted.append(i)
            size = 0
        size += len(row)
    usual, PROGRAM.BATCH_BYTES = PROGRAM.BATCH_BYTES, 5000
    try:
        for part, loaded in ((1 << 20, 400), (333, 0), (5000, 0), (20001, 0)):
            loader = PROGRAM.Loader(shards)
            loader.load(Parts(b"".join(rows), part), 30, DAY)
            assert (loader.rows, loader.known) == (loaded, 400 - loaded), f"{part}: {loader.rows} {loader.known}"
    finally:
        PROGRAM.BATCH_BYTES = usual
    there = fleet_rows(cluster, "SELECT toString(min(start_ns)) FROM trapline.exits GROUP BY batch ORDER BY batch")
    assert [int(first) for first, in there] == wanted and len(wanted) > 400 // 30 + 1, f"{there}, not {wanted}"
    for shard in range(2):
        cluster.ask(shard, f"ALTER TABLE trapline.exits_local DROP PARTITION '{DAY}'")


class Waiting:
    """A server that answers no insert until it may."""

    def __init__(self):
        self.may, self.asked = threading.Event(), threading.Semaphore(0)

    def rows(self, _):
        return []

    def ask(self, sql, *_, **__):
        if sql.startswith("INSERT"):
            self.asked.release()
            assert self.may.wait(60)
        return "0\n"


def reads_no_more_than_it_has_room_for():
    server, row = Waiting(), b'{"rows_version":2,"host":"alpha","session":"s","start_ns":1}\n'
    stream = Parts(row * 20, len(row))
    loader = PROGRAM.Loader([server])
    loading = threading.Thread(target=lambda: loader.load(stream, 1, DAY))
    loading.start()
    for _ in range(PROGRAM.IN_FLIGHT):
        assert server.asked.acquire(timeout=60)
    time.sleep(0.3)
    read = stream.tell() // len(row)
    server.may.set()
    loading.join()
    assert read == PROGRAM.IN_FLIGHT and loader.rows == 20, f"{read} batches read, {loader.rows} rows loaded"


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
            reads_no_more_than_it_has_room_for()
            refuses_rows_of_others(cluster, pathlib.Path(work))
            refuses_days_that_no_table_has(cluster, pathlib.Path(work))
            ends_batches_by_bytes(cluster)
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
            in_files(cluster, pathlib.Path(work))
        finally:
            cluster.stop()
    print(f"{wanted} rows of {len(recordings)} recordings")


def in_files(cluster, work):
    files = []
    for host, recording in zip(HOSTS, recordings):
        files.append(str(work / f"{host}.jsonl"))
        subprocess.run([trapline, "export", recording, "--format", "jsonl", "--host", host, "--session", recording, "-o",
                        files[-1]], check=True)
    def of_files(question, *settings):
        lines = fleet("query", question, "--tsv", *settings, "--files", *files).stdout.splitlines()
        return [line.split("\t") for line in lines]
    everything = ("--set", "limit=10000", "--set", "least=1", "--set", "factor=0")
    assert sums_of(of_files("time", *everything)) == sums_of(cluster.query("time", *everything))
    for question, keys in (("outliers", ("host", "served_by", "exits")), ("around", ("start_ns", "total_ns", "tid"))):
        settings = list(everything)
        if question == "around":
            with open(files[0], encoding="utf-8") as file:
                row = json.loads(file.readline())
            settings += [f"--set={key}={row[key]}" for key in ("host", "session", "start_ns")]
        both = [of_files(question, *settings), cluster.query(question, *settings)]
        rows = [sorted(tuple(row[table[0].index(key)] for key in keys) for row in table[1:]) for table in both]
        assert rows[0] and rows[0] == rows[1], f"{question}: {rows}"


if __name__ == "__main__":
    main()
