"""Perfetto's trace processor, started once for many traces: its WebAssembly takes a second to start."""
import json
import pathlib

from node_server import NodeServer


class TraceProcessor(NodeServer):
    def __init__(self, folder):
        """folder: with trace_processor.wasm, from scripts/fetch trace-processor."""
        super().__init__(pathlib.Path(__file__).with_suffix(".js"), folder)

    def rows(self, trace, queries):
        """queries: SQL by name. Returns the rows of each by its name, cells as text, NULL as "[NULL]"; ends the test
        where the trace cannot be read or a query is wrong."""
        said = self.ask(json.dumps({"trace": str(trace), "queries": list(queries.values())}),
                        f"{trace}: the trace processor failed")
        return dict(zip(queries, said["answers"]))
