#!/usr/bin/env python3
"""The Python package as its users have it: options, errors, processes, the notebook, analyzers of simpletrace files.

  package.py TRAPLINE [--qemu]   with --qemu alone: QEMU's own simpletrace.py gives what ours gives (77: it is not there)
"""
import ast
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "merge/python"
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests/support")]
import simpletrace_file  # noqa: E402  pylint: disable=wrong-import-position
import trapline  # noqa: E402  pylint: disable=wrong-import-position
from trapline import simpletrace  # noqa: E402  pylint: disable=wrong-import-position

TWO_VMS = ROOT / "tests/data/box/two-vms.dat"
NOTEBOOK = ROOT / "docs/examples/python/three-questions.ipynb"

# runstate_set is the event in the examples of QEMU's simpletrace.py.
EVENTS = """# of QEMU

runstate_set(int current_state, const char *current_state_str, int new_state, const char *new_state_str) "%d (%s) %d (%s)"
vm_state_notify(int running, int reason, const char *reason_str) "running %d reason %d (%s)"
disable with_time(int64_t a) "a=%" PRId64
with_pid(void **a, char * s) "a %p s %s"
nothing(void) ""
"""
BY_NAME = """
import simpletrace
class ByName(simpletrace.Analyzer):
    def begin(self):
        print("begin")
    def runstate_set(self, current_state, current_state_str, new_state, new_state_str):
        print("states", current_state, current_state_str, new_state, new_state_str)
    def with_time(self, timestamp, a):
        print("at", timestamp, a)
    def with_pid(self, timestamp, pid, a, s):
        print("of", pid, "at", timestamp, a, s)
    def catchall(self, event, rec):
        print(event.name, event.args.names(), event.args.types(), rec)
    def end(self):
        print("end")
simpletrace.run(ByName())
"""
BY_KEYWORD = """
import simpletrace
class ByKeyword(simpletrace.Analyzer2):
    def runstate_set(self, current_state, current_state_str, new_state, new_state_str, *, timestamp_ns, pid, **kwargs):
        print("states", timestamp_ns, pid, current_state_str, new_state_str, sorted(kwargs))
    def catchall(self, *rec_args, event, timestamp_ns, pid, event_id):
        print(event.name, event_id, timestamp_ns, pid, list(event.args), rec_args)
    def end(self):
        print("end")
simpletrace.run(ByKeyword())
"""
PROCESS = """
import sys
import simpletrace
class Count(simpletrace.Analyzer):
    def __init__(self):
        self.seen = []
    def vm_state_notify(self, timestamp, running, reason, reason_str):
        self.seen.append((timestamp, running, reason_str))
count = Count()
simpletrace.process(sys.argv[1], sys.argv[2], count)
with open(sys.argv[1]) as events, open(sys.argv[2], "rb") as log:
    simpletrace.process(events, log, count)
print(count.seen)
"""


DECLARED = """
import sys
from tracetool import read_events
from tracetool.backend.simple import is_string
with open(sys.argv[1]) as file:
    for event in read_events(file, sys.argv[1]):
        print(event.name, event.properties, list(event.args), [is_string(kind) for kind in event.args.types()], event.fmt)
"""


def fetched(name):
    done = subprocess.run([ROOT / "scripts/fetch", name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"skipped: scripts/fetch {name} failed")
        sys.exit(1 if os.environ.get("TRAPLINE_REQUIRE_SYSTEM") == "1" else 77)
    return pathlib.Path(done.stdout.strip())


def record(order, event, time, pid, *arguments, version=4):
    payload = b"".join(struct.pack(order + "Q", each % 2**64) if isinstance(each, int) else
                       struct.pack(order + "L", len(each)) + each for each in arguments)
    return simpletrace_file.record(event, time, payload, pid, order, version)


def trace(order="<", version=4):
    """A file of the simple backend: ids from 7 with their names, or those of the declarations."""
    first = 7 if version == 4 else 0
    names = ("runstate_set", "vm_state_notify", "with_time", "with_pid", "nothing")
    records = [(first, 1000, 42, 6, b"prelaunch", 9, b"running"), (first + 1, 1500, 42, 1, 9, b"running"),
               (first + 2, 2000, 42, -5), (first + 3, 2500, 43, 0x7F00, b"\xffx"), (first + 4, 2600, 43),
               (2**64 - 2, 2700, 0, 17), (first + 1, 3000, 42, 0, 4, b"")]
    return simpletrace_file.file(names, b"".join(record(order, *each, version=version) for each in records), order, version, first)


def run_script(text, *words, path=PACKAGE):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", text, *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}, check=False)


def ours(text):
    return text.replace("import simpletrace", "from trapline import simpletrace")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.events = self.folder / "trace-events-all"
        self.events.write_text(EVENTS, encoding="utf-8")

    def file(self, data):
        path = self.folder / "trace-1"
        path.write_bytes(data)
        return path


class Rows(Files):
    def test_keyword_arguments_are_the_commands_options(self):
        some = list(trapline.exits(TWO_VMS, vm="230", from_="+3s", reason="cpuid", host="db7", verbose=None, events=False))
        self.assertTrue(some)
        self.assertEqual({(row["vm"], row["reason"], row["host"]) for row in some}, {(230, "cpuid", "db7")})
        document = trapline.report(str(TWO_VMS), by="vm,reason", waits=True)
        self.assertEqual(document["tables"]["groups"]["by"], "vm,reason")
        self.assertIn("preempted", document["tables"])

    def test_a_list_repeats_the_option_or_names_several_recordings(self):
        host, guest = (ROOT / "tests/merge/trace-cmd-pair" / name for name in ("host.dat", "guest.dat"))
        sources = trapline.report([host, guest])["tables"]["sources"]["rows"]
        self.assertEqual([row["path"] for row in sources], [str(host), str(guest)])
        with self.assertRaisesRegex(trapline.Error, "second"):
            trapline.report(TWO_VMS, symbols=[ROOT / "tests/data/box/demo-guest.elf", "second"])

    def test_a_name_with_a_dash_is_no_option(self):
        path = self.folder / "-v"
        path.write_bytes(TWO_VMS.read_bytes())
        here = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        self.assertEqual(sum(1 for _ in trapline.exits("-v")), 9351)

    def test_errors_say_what_the_command_says(self):
        for options, status, text in (({}, 1, "/none: cannot open: No such file or directory"),
                                      ({"nope": 1}, 2, "there is no option --nope")):
            with self.assertRaises(trapline.Error) as raised:
                next(trapline.exits("/none", **options))
            self.assertEqual(raised.exception.status, status)
            self.assertIn(text, str(raised.exception))
            self.assertFalse(str(raised.exception).startswith("trapline: "))
            other = pickle.loads(pickle.dumps(raised.exception))  # as it comes from a process of multiprocessing
            self.assertEqual((str(other), other.status), (str(raised.exception), status))

    def test_what_a_damaged_recording_has_comes_before_the_error(self):
        path = self.file((ROOT / "tests/data/box/demo-v6.dat").read_bytes()[:-100_000])
        for name, read in (("rows", trapline.exits), ("document", trapline.report)):
            with self.subTest(name):
                got = []
                with self.assertRaises(trapline.Error) as raised:
                    got.extend(read(path))
                self.assertEqual(raised.exception.status, 3)
                self.assertTrue(got or raised.exception.report["tables"]["groups"]["rows"])

    def in_path(self, text=None):
        """Another `trapline` than the command comes first in PATH, or none."""
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = str(self.folder)
        if text:
            program = self.folder / "trapline"
            program.write_text("#!/bin/sh\n" + text, encoding="utf-8")
            program.chmod(0o755)
            os.environ["PATH"] += ":" + path

    def test_a_command_that_is_not_there_is_named(self):
        self.in_path()
        with self.assertRaisesRegex(trapline.Error, "trapline is not in PATH"):
            trapline.report(TWO_VMS)

    def test_what_the_command_notes_is_on_standard_error(self):
        self.in_path("echo 'trapline: 34 events were lost' >&2; echo '[\"a\"]'; echo '[1]'\n")
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(list(trapline.exits(TWO_VMS)), [{"a": 1}])
        self.assertEqual(said.getvalue(), "trapline: 34 events were lost\n")

    def test_a_killed_command_is_an_error(self):
        self.in_path("echo '[\"a\"]'; echo '[1]'; printf '[1'; kill -9 $$\n")
        rows = trapline.exits(TWO_VMS)
        self.assertEqual(next(rows), {"a": 1})
        with self.assertRaisesRegex(trapline.Error, "trapline export was killed by signal 9"):
            next(rows)

    def test_a_closed_iterator_ends_its_process(self):
        self.in_path("echo '[\"pid\"]'; echo \"[$$]\"; exec sleep 1000\n")
        rows = trapline.exits(TWO_VMS)
        process = next(rows)["pid"]
        os.kill(process, 0)
        rows.close()
        with self.assertRaises(ProcessLookupError):
            os.kill(process, 0)

    def test_the_notebook_is_valid_and_answers(self):
        notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        self.assertEqual(notebook["nbformat"], 4)
        names, printed = {}, []
        here = os.getcwd()
        os.chdir(NOTEBOOK.parent)
        self.addCleanup(os.chdir, here)
        for cell in notebook["cells"]:
            self.assertIn("metadata", cell)
            self.assertTrue(all(line.endswith("\n") for line in cell["source"][:-1]), cell["source"])
            if cell["cell_type"] == "markdown":
                continue
            self.assertEqual(cell["cell_type"], "code")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec("".join(cell["source"]), names)  # pylint: disable=exec-used
            stored = "".join(text for each in cell["outputs"] for text in each["text"])
            self.assertEqual(output.getvalue(), stored)
            printed.append(stored)
        self.assertEqual(sum(bool(text) for text in printed), 3)

    def test_the_examples_of_the_document_run(self):
        text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        here = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, here)
        examples = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        self.assertGreaterEqual(len(examples), 6)
        for example in examples:
            missing = [name for name in re.findall(r"^import (\w+)", example, re.M) if not importlib.util.find_spec(name)]
            if not missing:
                done = run_script("import trapline\n" + example, self.events, self.file(trace()))
                self.assertEqual(done.returncode, 0, example + done.stderr)
                printed = "frame =" in example or "rows.extend" in example or done.stdout
                self.assertTrue(printed, example)

    def test_the_sources_are_of_python_3_9(self):
        for path in (PACKAGE / "trapline").glob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


class Analyzers(Files):
    def test_methods_get_the_event_and_what_they_ask_for(self):
        done = run_script(ours(BY_NAME), self.events, self.file(trace()))
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.splitlines(), [
            "begin",
            "states 6 b'prelaunch' 9 b'running'",
            "vm_state_notify ['running', 'reason', 'reason_str'] ['int', 'int', 'const char *'] "
            "('vm_state_notify', 1500, 42, 1, 9, b'running')",
            f"at 2000 {2**64 - 5}",
            "of 43 at 2500 32512 b'\\xffx'",
            "nothing [] [] ('nothing', 2600, 43)",
            "Dropped_Event ['num_events_dropped'] ['uint64_t'] ('dropped', 2700, 0, 17)",
            "vm_state_notify ['running', 'reason', 'reason_str'] ['int', 'int', 'const char *'] "
            "('vm_state_notify', 3000, 42, 0, 4, b'')",
            "end"])

    def test_every_version_and_byte_order_gives_the_same(self):
        want = run_script(ours(BY_KEYWORD), self.events, self.file(trace())).stdout
        self.assertEqual(len(want.splitlines()), 8)
        for version in (2, 3, 4):
            for order in "<>":
                done = run_script(ours(BY_KEYWORD), self.events, self.file(trace(order, version)))
                self.assertEqual((done.stdout, done.stderr), (want, ""), (version, order))

    def test_events_of_older_qemus_have_their_cpu_and_two_forms(self):
        self.events.write_text('vcpu tcg mem(TCGv vaddr, uint16_t info) "i=%d", "v=%d i=%d"\n', encoding="utf-8")
        header = trace(version=3)[:24]
        path = self.file(header + record("<", 0, 1, 2, 3, 4, version=3) + record("<", 1, 5, 6, 7, 8, 9, version=3))
        done = run_script(ours(BY_KEYWORD), self.events, path)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.splitlines(), [
            "mem_trans mem_trans 1 2 [('void *', '__cpu'), ('uint16_t', 'info')] (3, 4)",
            "mem_exec mem_exec 5 6 [('void *', '__cpu'), ('TCGv', 'vaddr'), ('uint16_t', 'info')] (7, 8, 9)", "end"])

    def test_a_cut_file_is_analysed_up_to_there(self):
        done = run_script(ours(BY_NAME), self.events, self.file(trace()[:-3]))
        self.assertIn("at 2000", done.stdout)
        self.assertTrue(done.stdout.endswith("end\n"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the file ends inside a record", done.stderr.splitlines()[-1])

    def test_wrong_files_are_told_and_what_to_do(self):
        for data, text in ((trace(version=5), "version 5 of simpletrace is not known"),
                           (trace() + struct.pack("<QQQLL", 1, 7, 1, 2**32 - 1, 1), "impossible length"),
                           (trace() + struct.pack("<QQQLL", 1, 7, 1, 3, 1), "impossible length"),
                           (trace() + struct.pack("<QQL", 0, 1, 2**32 - 1), "impossible length"),
                           (trace() + record("<", 99, 1, 1), "the event number 99 is not in the trace events"),
                           (trace() + record("<", 9, 1, 1, 2, 3), "the event with_time is not in the trace events, or"),
                           (trace() + record("<", 10, 1, 1, 2), "the event with_pid is not in the trace events, or")):
            self.expect_refused(text, self.events, self.file(data))
        good = self.file(trace())
        self.expect_refused("usage: ", self.events)
        self.expect_refused("usage: ", "--header", self.events, good)
        self.expect_refused("declares no event; give the trace-events-all", good, self.events)
        self.expect_refused("did not write this file", self.events, self.events)

    def expect_refused(self, text, *words):
        said = run_script(ours(BY_KEYWORD), *words).stderr.splitlines()[-1]
        self.assertIn(text, said)
        self.assertTrue(said.startswith("trapline.simpletrace.SimpleException: "), said)

    def test_process_takes_paths_files_and_declarations(self):
        done = run_script(ours(PROCESS), self.events, self.file(trace()))
        self.assertEqual(done.stdout, str(2 * [(1500, 1, b"running"), (3000, 0, b"")]) + "\n", done.stderr)
        with open(self.events, encoding="utf-8") as events:
            declared = simpletrace._declarations(events)  # pylint: disable=protected-access
        seen = []

        class Count(simpletrace.Analyzer2):
            def catchall(self, *rec_args, event, **kwargs):
                seen.append(event.name)

        simpletrace.process(declared, str(self.file(trace()[24:])), Count(), read_header=False)
        self.assertEqual(len(seen), 7)


class UnderBoth(Files):
    def test_qemus_module_gives_the_same(self):
        path = self.file(trace())
        for script in (BY_NAME, BY_KEYWORD, PROCESS):
            theirs = run_script(script, self.events, path, path=QEMU / "scripts")
            own = run_script(ours(script), self.events, path)
            self.assertTrue(theirs.stdout)
            self.assertEqual((own.stdout, own.stderr), (theirs.stdout, theirs.stderr))

    def test_qemus_module_reads_the_same_declarations(self):
        theirs = run_script(DECLARED, ALL_EVENTS, path=QEMU / "scripts").stdout.splitlines()
        # pylint: disable=protected-access
        own = []
        for event in simpletrace._declarations(str(ALL_EVENTS)):
            strings = [bool(simpletrace._STRING.fullmatch(kind)) for kind in event.args.types()]
            own.append(f"{event.name} {event.properties} {list(event.args)} {strings} {event.fmt}")
        self.assertGreater(len(own), 5000)
        self.assertEqual(own, theirs)


os.environ["PATH"] = os.path.dirname(os.path.abspath(sys.argv[1])) + ":" + os.environ["PATH"]
arguments = [sys.argv[0], "Rows", "Analyzers"]
if sys.argv[2:] == ["--qemu"]:
    arguments = [sys.argv[0], "UnderBoth"]
    QEMU = fetched("qemu10-scripts")
    ALL_EVENTS = fetched("qemu10") / "root/usr/share/qemu/trace-events-all"
unittest.main(argv=arguments)
