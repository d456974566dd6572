"""audit_names.py TRACE FOLDER [--reads]: what `strace -f -y` saw root do by name in FOLDER, which others can write into.

Reads the system calls that open, make, change or remove a file, and which user's rights each thread had (setfsuid, setresuid).
Below FOLDER root may only go from a directory's descriptor, one name at a time or with openat2's RESOLVE_BENEATH and
RESOLVE_NO_SYMLINKS, and must open with O_NOFOLLOW, make with O_EXCL or a call that follows no link. Prints each call
that is not so, and fails; fails as well if nothing was done there at all, since then nothing was audited. With --reads root also
reads a recording there that it was told to: opening to read is allowed then."""
import os
import re
import sys

# Which of the arguments is a path, which (if any) is the descriptor that it is relative to.
CALLS = {
    "open": [(None, 0)], "creat": [(None, 0)], "openat": [(0, 1)], "openat2": [(0, 1)],
    "chown": [(None, 0)], "lchown": [(None, 0)], "fchownat": [(0, 1)],
    "chmod": [(None, 0)], "fchmodat": [(0, 1)], "truncate": [(None, 0)],
    "unlink": [(None, 0)], "rmdir": [(None, 0)], "unlinkat": [(0, 1)],
    "mkdir": [(None, 0)], "mkdirat": [(0, 1)], "mknod": [(None, 0)], "mknodat": [(0, 1)],
    "rename": [(None, 0), (None, 1)], "renameat": [(0, 1), (2, 3)], "renameat2": [(0, 1), (2, 3)],
    "link": [(None, 0), (None, 1)], "linkat": [(0, 1), (2, 3)], "symlink": [(None, 1)], "symlinkat": [(1, 2)],
    "setxattr": [(None, 0)], "utimensat": [(0, 1)],
}
LINE = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (?:-?\d+|\?)(?:<(.*?)(?:\(deleted\))?>)?")


def arguments(text):
    """Split at the commas that are in no string, bracket or descriptor's <path>."""
    parts, depth, quoted, part = [], 0, False, ""
    previous = ""
    for c in text:
        if c == '"' and previous != "\\":
            quoted = not quoted
        elif not quoted and c in "{[<":
            depth += 1
        elif not quoted and c in "}]>":
            depth -= 1
        if c == "," and depth == 0 and not quoted:
            parts.append(part.strip())
            part = ""
        else:
            part += c
        previous = c
    return parts + [part.strip()]


def string(text):
    return text[1:text.rindex('"')] if text.startswith('"') else None


def path_of(descriptor):
    match = re.search(r"<(.*?)(?:\(deleted\))?>$", descriptor)
    return match.group(1) if match else ""


def is_below(path, folder):
    path = os.path.normpath(path)
    return path == folder or path.startswith(folder + "/")


def is_roots_alone(folder):
    status = os.stat(folder)
    return status.st_uid == 0 and not status.st_mode & 0o022


def fault_of(call, args, descriptor, name, result):
    """Why root must not do this below the folder; nothing where it may."""
    if call == "openat2":
        return "" if "RESOLVE_NO_SYMLINKS" in args[2] and "RESOLVE_BENEATH" in args[2] else "follows links"
    through = re.match(r"/proc/self/fd/\d+(/.+)?$", name)
    if through and call == "openat" and (not through.group(1) or is_roots_alone(os.path.dirname(result))):
        return ""  # by a descriptor: itself, or below a folder that nobody else writes into
    if descriptor is None or args[descriptor].startswith("AT_FDCWD") and name.startswith("/"):
        return "by a path"
    if name.strip("/").count("/"):
        return "several names at once"
    if call == "openat":
        return "" if "O_NOFOLLOW" in args[2] or "O_EXCL" in args[2] or name == "." else "follows a link"
    if call == "linkat" and descriptor == 2:
        return ""  # a new name follows nothing; the flag is for the old one
    if call in ("fchmodat", "chmod"):
        return "follows a link"
    if call in ("fchownat", "utimensat", "linkat"):
        return "" if name == "" or "AT_SYMLINK_NOFOLLOW" in args[-1] else "follows a link"
    return ""


def only_reads(call, args):
    return call == "openat" and args[2].split("|")[0] == "O_RDONLY" and not re.search("O_(CREAT|TRUNC|PATH)", args[2])


def audit(lines, folder, reads=False):
    """(faults, how many calls of root's went below the folder, how many that it made as somebody else)"""
    acting, started, faults, seen, as_others = {}, {}, [], 0, 0
    for line in lines:
        unfinished = re.match(r"^(?:\[pid +)?(\d+)\]? +(.*) <unfinished \.\.\.>", line)
        if unfinished:
            started[unfinished.group(1)] = unfinished.group(2)
            continue
        resumed = re.match(r"^(?:\[pid +)?(\d+)\]? +<\.\.\. \w+ resumed>(.*)", line)
        if resumed:
            line = f"{resumed.group(1)} {started.pop(resumed.group(1), '')}{resumed.group(2)}"
        match = LINE.match(line)
        if not match:
            continue
        thread, call, text, result = match.groups()
        args = arguments(text)
        if call == "setresuid":
            acting[thread] = args[0] != "0"
        if call == "setfsuid" and args[0] not in ("-1", "4294967295"):
            acting[thread] = args[0] != "0"
        for descriptor, path in CALLS.get(call, []):
            name = string(args[path]) if path < len(args) else None
            if name is None:
                continue
            base = path_of(args[descriptor]) if descriptor is not None else os.getcwd()
            if not is_below(result if result and name.startswith("/proc/self/fd/") else os.path.join(base, name), folder):
                continue
            if acting.get(thread):
                as_others += 1
                continue
            if reads and only_reads(call, args):
                continue
            seen += 1
            fault = fault_of(call, args, descriptor, name, result)
            if fault:
                faults.append(f"{fault}: {line.strip()}")
    return faults, seen, as_others


def main():
    with open(sys.argv[1], errors="replace") as trace:
        faults, seen, as_others = audit(trace, os.path.realpath(sys.argv[2]), sys.argv[3:] == ["--reads"])
    print("\n".join(faults[:20]))
    if faults:
        sys.exit(f"{len(faults)} of root's {seen} file operations below {sys.argv[2]} can be led astray")
    if seen + as_others == 0:
        sys.exit(f"nothing was done below {sys.argv[2]}: nothing was audited")
    print(f"{seen} file operations of root's, none by a path or through a link; {as_others} as the folder's owner")


if __name__ == "__main__":
    main()
