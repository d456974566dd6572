"""Each test has exactly one of the labels that say where it runs: unit, golden, smoke (./scripts/test), ci (.ci/run,
which runs those as well) or nightly (scripts/nightly). At most 15 have the label machine beside it, whose failures may be
repeated.

usage: labels.py BUILD
"""

import json
import subprocess
import sys

STEPS = {"unit", "golden", "smoke", "ci", "nightly"}
MOST_OF_THE_MACHINE = 15


def main():
    listing = subprocess.run(["ctest", "--test-dir", sys.argv[1], "--show-only=json-v1"], check=True,
                             capture_output=True, text=True).stdout
    wrong, of_the_machine = 0, 0
    tests = json.loads(listing)["tests"]
    for test in tests:
        if test["name"].endswith("_NOT_BUILT"):
            continue  # a program of the label ci, which scripts/test --ci builds
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        of_the_machine += "machine" in labels
        if len(STEPS.intersection(labels)) != 1:
            wrong += 1
            print(f"{test['name']} has the labels {labels}; give it one of {sorted(STEPS)}")
    if of_the_machine > MOST_OF_THE_MACHINE:
        wrong += 1
        print(f"{of_the_machine} tests have the label machine, {MOST_OF_THE_MACHINE} may")
    if not tests:
        print("ctest lists no test")
    return 1 if wrong or not tests else 0


sys.exit(main())
