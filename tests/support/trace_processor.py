"""Perfetto's trace processor, started once for many traces: its WebAssembly takes a second to start."""
import json
import pathlib
import subprocess
import sys

SERVER = pathlib.Path(__file__).with_suffix(".js")


class TraceProcessor:
    def __init__(self, folder):
        """folder: with trace_processor.wasm, from scripts/fetch trace-processor."""
        self._process = subprocess.Popen(["node", str(SERVER), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)

    def rows(self, trace, queries):
        """queries: SQL by name. Returns the rows of each by its name, cells as text, NULL as "[NULL]"; ends the test
        where the trace cannot be read or a query is wrong."""
        print(json.dumps({"trace": str(trace), "queries": list(queries.values())}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        said = json.loads(line) if line else {"error": "it ended"}
        if "error" in said:
            sys.exit(f"{trace}: the trace processor failed: {said['error']}")
        return dict(zip(queries, said["answers"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()
