"""A script of node that answers each line of its standard input with a line of JSON: started once for many files."""
import json
import subprocess
import sys


class NodeServer:
    def __init__(self, script, folder):
        """script: called with the folder of the tool that it loads."""
        self._process = subprocess.Popen(["node", str(script), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)

    def ask(self, line, what):
        """Returns the answer; ends the test where it is {"error": TEXT}, which `what` then begins."""
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        said = json.loads(answer) if answer else {"error": "node ended"}
        if "error" in said:
            sys.exit(f"{what}: {said['error']}")
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()
