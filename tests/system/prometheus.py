#!/usr/bin/env python3
"""A real Prometheus scrapes `trapline top --listen`, and answers what docs/examples/prometheus asks.

usage: prometheus.py EXAMPLES WORK ADDRESS EXITS COMMAND...: the command starts a replay at ADDRESS with so many exits

Each query of the dashboard and each alert's expression is answered without an error; a query, and an alert without its
threshold, with a result.
"""
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

PORT = 19466
SECONDS = 120  # a busy machine


def ask(query: str) -> list[dict]:
    url = f"http://127.0.0.1:{PORT}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        if error.code == 503:  # it starts
            return []
        sys.exit(f"{query}: {error.read().decode()}")
    except OSError:  # it starts
        return []


def total(query: str) -> float:
    return sum(float(row["value"][1]) for row in ask(query))


def questions(dashboard: dict, rules: list[dict]) -> dict[str, str]:
    """The dashboard's queries, and the alerts without their thresholds, by name."""
    found = {}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            found[panel["title"]] = target["expr"].replace("$__rate_interval", "2m").replace("$instance", ".*").replace(
                "$vm", ".*")
    for rule in rules:
        ask(rule["query"])  # is there an error?
        left, compared = re.subn(r" (>|==) [0-9.]+$", "", rule["query"])
        assert compared, f"{rule['name']}: no threshold"
        found[rule["name"]] = left
    return found


def main() -> None:
    examples, work, address, exits = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    until = time.monotonic() + SECONDS
    config = (examples / "prometheus.yml").read_text()
    assert '"localhost:9464"' in config, config
    (work / "prometheus.yml").write_text("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n" +
                                         config.replace("localhost:9464", address))
    (work / "alerts.yml").write_text((examples / "alerts.yml").read_text())
    with open(work / "prometheus.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(["prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/tsdb",
                                   f"--web.listen-address=127.0.0.1:{PORT}"], stdout=log, stderr=log)
    try:
        while not ask("vector(1)"):
            assert time.monotonic() < until, "Prometheus does not start"
            time.sleep(0.1)
        subprocess.run(sys.argv[5:], check=True)
        while (seen := total("sum(trapline_exits_total)")) != exits:
            assert time.monotonic() < until, f"Prometheus has {seen:.0f} of {exits} exits"
            time.sleep(0.2)
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/v1/rules", timeout=10) as answer:
            rules = [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
        for name, query in questions(json.loads((examples / "dashboard.json").read_text()), rules).items():
            while not (rows := ask(query)):  # a rate is of two scrapes
                assert time.monotonic() < until, f"{name}: no result of {query}"
                time.sleep(0.2)
            print(f"{name}: {len(rows)} rows, the first {rows[0]['metric']} {rows[0]['value'][1]}")
        for name in "exits_total", "exit_seconds_total", "exit_duration_seconds_bucket", "vcpu_seconds_total":
            assert total(f"sum(resets(trapline_{name}[5m]))") == 0, f"{name} fell"
    finally:
        server.terminate()
        server.wait()


main()
