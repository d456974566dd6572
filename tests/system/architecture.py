"""Holds the source to the table "Folders" of docs/architecture.md.

usage: architecture.py SOURCE-TREE

Each row names a folder, the folders that it may include, and the libraries of others that it uses. The
rows stand in order: a folder includes only folders of rows above its own. A row must be exact: an include
that the row does not name fails, and so does a name that nothing needs. What a CMake library links is in
its row too. RULES has what is done or known in one place only. The rest: no `default:` takes what an enumeration does
not name, the zero of what claims are made of says that nothing is known, and no test has a folder of a fixed name.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(sys.argv[1])
PRODUCTS = ("backend_ftrace", "plugin", "merge")
SUFFIXES = {".h", ".hpp", ".cc", ".c"}

# CMake targets and the row that they belong to; trapline_NAME belongs to merge/NAME.
TARGETS = {
    "trapline_base": "backend_ftrace/base", "trapline_ftrace": "backend_ftrace",
    "trapline_trace_events": "backend_ftrace/tracetool", "trapline_simpletrace": "backend_ftrace/simpletrace",
    "trapline_event_client": "backend_ftrace/events", "trapline_format": "plugin/format",
    "trapline_confine": "merge/worker", "trapline_tracker": "plugin", "trapline_plugin": "plugin", "trapline": "merge/cli",
    "trapline_tracetool": "backend_ftrace/tracetool", "trapline_stap": "backend_ftrace/tracetool",
}
# No folders of code: compile options, all of merge, a C file of docs/examples; and what all may use.
IGNORED_LINKS = {"trapline_options", "trapline_merge", "trapline_sync_main", "Threads::Threads", "fmt::fmt",
                 "tl::expected", "${CMAKE_DL_LIBS}", "PUBLIC", "PRIVATE", "INTERFACE"}
# Headers and link names of other projects' libraries, by the name in the table.
LIBRARIES = {
    "Boost.Math": r"boost/math/|Boost::headers", "CLI11": r"CLI/|CLI11::", "nlohmann/json": r"nlohmann", "libtraceevent": r"event-parse\.h|trace-seq\.h|.*::traceevent",
    "libtracecmd": r"trace-cmd\.h|.*::tracecmd", "zlib": r"zlib\.h|ZLIB::ZLIB", "zstd": r"zstd\.h|.*::zstd", "protozero": r"protozero/",
    "libelf": r"gelf\.h|libelf\.h|.*::elf$", "libdw": r"elfutils/|dwarf\.h|.*::dw$",
    "libmicrohttpd": r"microhttpd\.h|.*::microhttpd", "libseccomp": r"seccomp\.h$|.*::seccomp", "libiberty": r"demangle\.h|.*LIBIBERTY", "GLib": r"glib", "libtracefs": r"tracefs\.h|.*::tracefs",
}
failures = []
linked = defaultdict(set)  # row: short names of what its targets link


def fail(text):
    failures.append(text)


def table():
    """{folder: (names it includes, libraries)} in the order of the rows."""
    rows = {}
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for line in text.split("## Folders", 1)[1].split("\n## ", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            names = [{name.strip() for name in cell.split(",")} - {"-"} for cell in cells[2:]]
            rows[cells[0].strip("`").rstrip("/")] = tuple(names)
    return rows


def row_of(path, rows):
    """The row whose folder holds `path`: the deepest one, None when there is none."""
    for folder in Path(path).parents:
        if str(folder) in rows:
            return str(folder)
    return None


def short(folder):
    return "ftrace" if folder == "backend_ftrace" else folder.split("/")[-1]


def sources():
    for product in PRODUCTS:
        for path in sorted((ROOT / product).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(ROOT)


def check_links(rows):
    for path in sorted(p for product in PRODUCTS for p in (ROOT / product).rglob("CMakeLists.txt")):
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
        for call in re.findall(r"\b(?:target_link_libraries|trapline_library)\(([^)]*)\)", text):
            target, *links = call.split()
            if "${" in target or target == "trapline_merge":
                continue
            row = TARGETS.get(target) or "merge/" + target.removeprefix("trapline_")
            if row not in rows:
                fail(f"{path.relative_to(ROOT)}: the table has no row for {target}")
                continue
            for link in set(links) - IGNORED_LINKS:
                if link.startswith("trapline_"):
                    other = TARGETS.get(link) or "merge/" + link.removeprefix("trapline_")
                    linked[row].add(short(other))
                    named = other == row or short(other) in rows[row][0]
                else:
                    named = any(re.match(LIBRARIES[name], link) for name in rows[row][1])
                if not named:
                    fail(f"{path.relative_to(ROOT)}: {target} links {link}, which the row of {row} does not name")


def included(path):
    """(name, in quotes) of each #include of a file; the public headers by their path."""
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if found:
            name = found.group(2)
            yield "backend_ftrace/include/" + name if name.startswith("trapline/") else name


def check_includes(rows):
    order = list(rows)
    used, libraries, inner = defaultdict(set), defaultdict(set), defaultdict(set)
    for path in sources():
        row = row_of(path, rows)
        if row is None:
            fail(f"{path}: no row of the table holds its folder")
            continue
        for name in included(path):
            libraries[row].update(lib for lib, pattern in LIBRARIES.items() if re.match(pattern, name))
            if name.startswith(("tests/", "docs/", "scripts/")):
                fail(f"{path} includes {name}, which is no part of the product")
            if not name.startswith(tuple(product + "/" for product in PRODUCTS)):
                continue
            other = row_of(name, rows)
            if other == row:
                if Path(name).parent != path.parent:
                    inner[str(path.parent)].add(str(Path(name).parent))
            elif other is None:
                fail(f"{path} includes {name}: no row of the table holds its folder")
            else:
                used[row].add(short(other))
                if order.index(other) > order.index(row):
                    fail(f"{path} includes {name}: {other} stands below {row} in the table")
                elif short(other) not in rows[row][0]:
                    fail(f"{path} includes {name}: the row of {row} does not name {short(other)}")
    for row, (includes, named) in rows.items():
        for name in sorted(includes - used[row] - linked[row]):
            fail(f"the row of {row} names {name}, which nothing in it includes or links")
        for name in sorted(libraries[row] - named):
            fail(f"{row} includes headers of {name}, which its row does not name")
        for name in sorted(named - libraries[row]):
            fail(f"the row of {row} names {name}, which nothing in it includes")
    check_cycles(inner)


def check_cycles(inner):
    """The folders inside one row form no cycle either."""
    arrows = {a: set(inner[a]) for a in inner}
    while True:  # takes folders away that include no other one: a cycle stays
        ends = [a for a in arrows if not any(b in arrows for b in arrows[a])]
        if not ends:
            break
        for folder in ends:
            del arrows[folder]
    if arrows:
        fail("these folders include each other in a cycle: " + ", ".join(sorted(arrows)))


NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|\'(?:\\.|[^\'\\\n])\'|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|^#include[^\n]*', re.DOTALL | re.MULTILINE)
# (what code below the first folders must not hold, where it may, what to do in place of it)
RULES = (
    # The knowledge of each VMM, the recorder that starts one, the reader of QEMU's log, the options of the command, and
    # session.json with its keys. All others ask vmms.h.
    (r"(?i)\w*(?:qemu|firecracker|crosvm|kvmtool)\w*", ("merge/",),
     ("merge/analyze/vmm/", "merge/record/", "merge/source/qemu_log/", "merge/cli/", "merge/session/"),
     "names a VMM: what is known of one is in merge/analyze/vmm"),
    # merge/pass, for every command, and the recorder's trigger.
    (r"(?<!unique_ptr<)\bPipeline(>| \w+\s*[;({=]|\s*[({])", PRODUCTS,
     ("merge/analyze/pipeline", "merge/pass/", "merge/record/trigger_matcher."),
     "makes a Pipeline: let Pass (merge/pass/pass.h) read the recording"),
    # Threads reads the scheduler's events for all: others take its ThreadChanges. Sources make the events, and
    # ThreadLives puts into them which of the threads with one id they are about.
    (r"\b(SchedSwitch|SchedWakeup|kMigrate)\b", PRODUCTS,
     ("merge/source/", "merge/model/", "merge/analyze/threads.", "merge/analyze/thread_lives."),
     "reads the scheduler: let Threads (merge/analyze/threads.h) do that"),
    # A loss of the host's events is a ThreadChange too. These see the Lost itself: Pipeline, which knows whose loss it is
    # and hands it to sinks, and what follows the records of guests, whose losses hide no thread of the host.
    (r"\bLost\b", ("merge/analyze/",),
     ("merge/analyze/threads.", "merge/analyze/pipeline.", "merge/analyze/span_sink.h", "merge/analyze/guest_stacks.",
      "merge/analyze/guest_intervals."),
     "reads losses: let Threads (merge/analyze/threads.h) do that"),
    # Pages are read by PageReader, kept by PageRing, handed on by page_round(), and the recorder has one loop.
    (r"(deque|vector|list)<(record::)?KeptPage>", ("merge/record/", "merge/live/"), ("merge/record/page_ring.h",),
     "keeps pages: let PageRing do that"),
    (r"\bsplice\(.*nullptr|SPLICE_F_", ("merge/record/", "merge/live/"), ("merge/record/page_reader.cc",),
     "reads pages: let PageReader do that"),
    (r"(\.|->)drained\(", ("merge/record/", "merge/live/"), ("merge/record/page_reader.cc",),
     "is a round of pages: use page_round()"),
    (r"\bpollfd>", ("merge/record/", "merge/live/"), ("merge/record/recording_run.cc", "merge/live/top.cc"),
     "is a loop: that of RecordingRun takes more files"),
)


def check_rules():
    for path in sources():
        code = NO_CODE.sub(lambda found: "\n" * found[0].count("\n"), (ROOT / path).read_text(encoding="utf-8"))
        for pattern, folders, allowed, text in RULES:
            if str(path).startswith(folders) and not str(path).startswith(allowed):
                for number, line in enumerate(code.splitlines(), 1):
                    if found := re.search(pattern, line):
                        fail(f"{path}:{number}: `{found[0]}` {text}")


# Switches over numbers and characters of files, registers and other programs. Where one of our own enumerations is told
# apart, every kind is named, so that a new one is not taken for another.
HAVE_DEFAULTS = {
    "merge/model/event.h": 2, "merge/analyze/wake_cause.cc": 1, "merge/source/uftrace/values.cc": 1,
    "merge/source/kernel_events/formats.h": 1, "merge/source/trace_dat/layout.cc": 1, "merge/source/perf_data/layout.cc": 1,
    "merge/source/perf_data/perf_data_source.cc": 1, "merge/source/perf_data/record_reader.cc": 1,
    "plugin/arch/x86_64.cc": 1, "backend_ftrace/tracetool/c_format.cc": 1,
    "backend_ftrace/format_text.cc": 1, "backend_ftrace/base/worker.cc": 1,
}


# What a claim is made of is not known until an event says it: the zero of these says so.
CLAIMS = {"CulpritKind", "FaultAccess", "FaultCause", "FaultHow", "FaultLack", "HandlerKind", "HostRole", "InterruptLevel",
          "MemoryWork", "Missing", "RunState", "StallCause", "WakeContext", "Where"}


def check_zeros():
    found = {}
    for path in sources():
        text = re.sub(r"//[^\n]*", "", (ROOT / path).read_text(encoding="utf-8"))
        found |= {name: (path, zero) for name, zero in re.findall(r"enum class (\w+)[^{;]*\{\s*(\w+)", text)}
    for name in sorted(CLAIMS):
        path, zero = found.get(name, ("", "no such enumeration"))
        if zero not in ("kNone", "kNotKnown", "kUnknown"):
            fail(f"{path}: the zero of {name} is {zero}: it must say that nothing is known")


def check_defaults():
    for path in sources():
        defaults = re.findall(r"^\s*default\s*:", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        allowed = HAVE_DEFAULTS.get(str(path), 0)
        if len(defaults) != allowed:
            fail(f"{path}: {len(defaults)} of `default:`, {allowed} of numbers are known: name the enumeration's kinds")


def check_temporary_folders():
    for path in (ROOT / "tests").rglob("*.[ch]*"):
        # Fuzz targets are no GoogleTest programs and have a folder of their own kind.
        if path.name in ("temporary_folder.h", "input_files.cc") or path.suffix not in SUFFIXES:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\bTempDir\(|temp_directory_path|mkdtemp", line):
                fail(f"{path.relative_to(ROOT)}:{number}: a test that runs beside itself meets itself in this "
                     "folder: use tests/support/temporary_folder.h")


def main():
    rows = table()
    if len(rows) < 15:
        fail(f"only {len(rows)} rows found in docs/architecture.md, \"Folders\"")
    check_links(rows)
    check_includes(rows)
    check_rules()
    check_defaults()
    check_zeros()
    check_temporary_folders()
    for text in failures:
        print(f"FAILED: {text}")
    sys.exit(bool(failures))


main()
