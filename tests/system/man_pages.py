"""Holds each man page to the --help of its command.

usage: man_pages.py SOURCE_DIR TRAPLINE TRACETOOL STAP

Every option of --help is in OPTIONS of the page and the other way round; the page has the sections in
SECTIONS; groff has nothing to say of it; its examples use only options that exist; its SEE ALSO names
pages that exist; every command has a page, and trapline.1 names it. The help of a command fits a screen
(LINES of COLUMNS) and has the page's first three examples.
"""
import re
import shlex
import subprocess
import sys
from pathlib import Path

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES",
            "SEE ALSO"]
FUNCTION_SECTIONS = ["RETURN VALUE" if name == "EXIT STATUS" else name for name in SECTIONS if name != "OPTIONS"]
LINES, COLUMNS = 50, 80
OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
failures: list[str] = []


def check(condition: bool, text: str) -> None:
    if not condition:
        failures.append(text)


def help_of(command: list[str], option: str = "--help") -> str:
    return subprocess.run([*command, option], capture_output=True, text=True, check=True).stdout


def whole_help_of(command: list[str]) -> str:
    """With the options that --help leaves to --help-all."""
    text = help_of(command)
    if "--help-all" not in text:
        return text
    whole = help_of(command, "--help-all")
    check(options_of_help(text) <= options_of_help(whole), f"{command}: --help-all lacks options of --help")
    return whole


def options_of_help(text: str) -> set[str]:
    """The names at the start of a line, before the option's argument."""
    found: set[str] = set()
    for line in re.findall(r"^  (-[^ ]*)", text, re.M):
        found |= set(OPTION.findall(re.sub(r"\{[^}]*\}", "", line).replace(",", " ")))
    return found


def plain(text: str) -> str:
    text = re.sub(r"\\f.", "", text).replace(r"\-", "-")
    return text.replace('"', "")


def sections_of(page: Path) -> dict[str, str]:
    parts = re.split(r"^\.SH (.*)\n", page.read_text(encoding="utf-8"), flags=re.M)
    names, texts = parts[1::2], parts[2::2]
    wanted = FUNCTION_SECTIONS if page.suffix == ".3" else SECTIONS
    check(names == wanted, f"{page.name}: its sections are {names}, not {wanted}")
    for name, text in zip(names, texts):
        check(text.strip() != "", f"{page.name}: {name} is empty")
    return dict(zip(names, texts))


def options_of_page(text: str) -> set[str]:
    found: set[str] = set()
    for tag in re.findall(r"^\.TP\n(.*)\n", text, re.M):
        words = plain(re.sub(r"^\.\w+ ", "", tag)).split()
        # "-o , --output FILE": everything that begins with a dash, until the argument.
        found |= {word.strip(",") for word in words if word.startswith("-")}
    return found


def check_groff(page: Path) -> None:
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", "-rLL=100n", page], capture_output=True, text=True)
    check(done.returncode == 0 and done.stderr == "", f"{page.name}: groff says {done.stderr}")


def check_references(page: Path, text: str, pages: Path) -> None:
    for name, section in re.findall(r"(trapline[\w-]*) \((\d)\)", plain(text)):
        check((pages / f"{name}.{section}").is_file(), f"{page.name}: SEE ALSO {name}({section}) is no page of ours")
    for document in re.findall(r"docs/[\w/.-]+\.md", text):
        check((pages.parents[1] / document).is_file(), f"{page.name}: {document} does not exist")


def check_help(page: Path, text: str) -> None:
    lines = text.splitlines()
    check(len(lines) <= LINES, f"{page.name}: --help has {len(lines)} lines, more than a screen of {LINES}")
    wide = [line for line in lines if len(line) > COLUMNS]
    check(not wide, f"{page.name}: --help is wider than {COLUMNS} columns: {wide}")
    shown = text.partition("\nExamples:\n")[2].splitlines()
    check(len(shown) >= 3, f"{page.name}: --help has {len(shown)} examples, not 3: those that EXAMPLES begins with")


def check_examples(page: Path, text: str, known: dict[str, set[str]]) -> None:
    for line in plain(text).splitlines():
        words = shlex.split(line, comments=False) if line and not line.startswith(".") else []
        command = " ".join(words[:2]) if words[:1] == ["trapline"] else "".join(words[:1])
        check(command in known or not command.startswith("trapline"), f"{page.name}: example '{line}': no such command")
        if command not in known:
            continue
        ours = words[:words.index("--")] if "--" in words else words
        for word in ours:
            option = word.split("=")[0]
            # A word with a blank is the argument of one: --a "-cpu host".
            check(not option.startswith("-") or " " in word or option in known[command], f"{page.name}: example '{line}': no {option}")


def main() -> None:
    source, trapline, tracetool, stap = sys.argv[1:]
    pages = Path(source) / "docs/man"
    subcommands = re.findall(r"^  ([a-z]+) ", help_of([trapline]).split("Record:")[1].split("trapline COMMAND")[0], re.M)
    commands = {"trapline.1": [[trapline]], "trapline-tracetool.1": [[tracetool]],
                "trapline-stap.1": [[stap], [stap, "list"], [stap, "run"]],
                "trapline-demo.1": [[str(Path(source) / "scripts/demo")]]}
    for name in subcommands:
        commands[f"trapline-{name}.1"] = [[trapline, name]]
    known: dict[str, set[str]] = {}
    for page, calls in commands.items():
        for call in calls:
            title = "trapline" if call[0] == trapline else Path(page).stem if page == "trapline-demo.1" else Path(call[0]).name
            known.setdefault(" ".join([title, *call[1:]]) if title == "trapline" else title, set()).update(
                options_of_help(whole_help_of(call)))
    named = plain((pages / "trapline.1").read_text(encoding="utf-8"))
    for name in subcommands:
        check(f"trapline-{name} (1)" in named, f"trapline.1: DESCRIPTION lacks trapline-{name}(1)")
    present = {page.name for page in pages.iterdir()}
    for page in sorted(set(commands) - present):
        failures.append(f"docs/man/{page} is missing")
    for page in sorted(pages.iterdir()):
        texts = sections_of(page)
        check_groff(page)
        check_references(page, texts.get("SEE ALSO", ""), pages)
        check_examples(page, texts.get("EXAMPLES", ""), known)
        documented = options_of_page(texts.get("OPTIONS", ""))
        if page.name in commands:
            first = commands[page.name][0]
            if first[0] == trapline:
                check_help(page, help_of(first))
            offered = set().union(*(options_of_help(whole_help_of(call)) for call in commands[page.name]))
            if page.name == "trapline-sync.1":  # the short ones are those of the static program
                documented = {option for option in documented if option.startswith("--") or option == "-h"}
            check(not offered - documented, f"{page.name} lacks {sorted(offered - documented)}")
            check(not documented - offered, f"{page.name} has {sorted(documented - offered)}, which --help has not")
        elif page.name == "trapline-plugin.7":
            tags = set(re.findall(r"^\.TP\n\.BR ([\w\\-]+) =", texts["OPTIONS"], re.M))
            tags = {plain(tag) for tag in tags}
            declared = set(re.findall(r'Option\{"([\w-]+)"', (Path(source) / "plugin/options.cc").read_text()))
            check(tags == declared, f"{page.name}: options differ from plugin/options.cc: {sorted(tags ^ declared)}")
        else:
            check(page.name == "trapline-ftrace.3", f"{page.name}: there is no such command")
    print(f"{len(present)} pages, {len(failures)} failures")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(bool(failures))


main()
