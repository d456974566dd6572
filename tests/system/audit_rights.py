"""Reads what strace -f -y saw of one command that root started to read a recording.

usage: audit_rights.py TRACE INPUT

Fails unless root's rights go (capset to nothing, PR_SET_NO_NEW_PRIVS, and with SUDO_UID setresuid), and if before that
a byte of INPUT is read, or, once INPUT is open, a file opened for writing, a program executed or a socket connected.
"""
import re
import sys

CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
WRITES = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC)")
READS = {"read", "pread64", "readv", "preadv", "preadv2", "mmap", "sendfile", "copy_file_range", "splice"}


def main() -> int:
    trace, wanted = sys.argv[1:]
    is_open = is_sudo = False
    given_up, wrong, read = set(), [], False
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not (match := CALL.match(line)):
                continue
            call, arguments, result = match[2], match[3], int(match[4])
            if call == "execve" and "SUDO_UID" in line:
                is_sudo = True
            if result < 0:
                continue
            if call == "setresuid" and arguments == "65534, 65534, 65534":
                given_up.add("uid")
            elif call == "capset" and "effective=0, permitted=0, inheritable=0" in arguments:
                given_up.add("capabilities")
            elif call == "prctl" and arguments.startswith("PR_SET_NO_NEW_PRIVS, 1"):
                given_up.add("new privileges")
            is_given_up = {"capabilities", "new privileges"} <= given_up
            reads = call in READS and f"<{wanted}>" in arguments
            read |= reads
            if is_given_up:
                continue
            is_open |= call in {"openat", "openat2", "open"} and f"<{wanted}>" in line.rsplit("=", 1)[1]
            if reads or (is_open and (call in {"execve", "connect", "bind"} or
                                      (call.startswith("open") and WRITES.search(arguments)))):
                wrong.append(line.strip())
    if not {"capabilities", "new privileges"} <= given_up:
        wrong.append(f"root's rights are kept: only {sorted(given_up)} went")
    if is_sudo and "uid" not in given_up:
        wrong.append("it stays root")
    if not read:
        wrong.append(f"{wanted} is not read")
    print("\n".join(wrong[:10]))
    return 1 if wrong else 0


sys.exit(main())
