"""Each test has exactly one of the labels that say where it runs: unit, golden, smoke (./scripts/test), ci (.ci/run,
which runs those as well) or nightly (scripts/nightly).

usage: labels.py BUILD
"""

import json
import subprocess
import sys

STEPS = {"unit", "golden", "smoke", "ci", "nightly"}


def main():
    listing = subprocess.run(["ctest", "--test-dir", sys.argv[1], "--show-only=json-v1"], check=True,
                             capture_output=True, text=True).stdout
    wrong = 0
    tests = json.loads(listing)["tests"]
    for test in tests:
        if test["name"].endswith("_NOT_BUILT"):
            continue  # a program of the label ci, which scripts/test --ci builds
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        if len(STEPS.intersection(labels)) != 1:
            wrong += 1
            print(f"{test['name']} has the labels {labels}; give it one of {sorted(STEPS)}")
    if not tests:
        print("ctest lists no test")
    return 1 if wrong or not tests else 0


sys.exit(main())
