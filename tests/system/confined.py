#!/usr/bin/env python3
"""Runs a command as a systemd unit's [Service] would confine it, where systemd itself does not run.

usage: unshare -m confined.py UNIT STATE COMMAND...

Applies CapabilityBoundingSet, NoNewPrivileges, SystemCallFilter (a call that it lacks kills, where systemd would fail
it), ProtectSystem=strict with ReadWritePaths, and STATE for StateDirectory. Needs root and a mount namespace of its own.
"""
import ctypes
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 24, 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
libc = ctypes.CDLL(None, use_errno=True)


def settings(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in Path(unit).read_text().splitlines():
        if match := re.match(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).extend(match[2].split())
    return found


def protect_files(writable: list[str]) -> None:
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for path in writable:
        if not os.path.ismount(path):
            subprocess.run(["mount", "--bind", path, path], check=True)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = line.split()[4].encode().decode("unicode_escape")
        if place in writable or place == "/dev" or place.startswith(("/proc", "/dev/")):
            continue  # systemd leaves /proc and gives a /dev of its own
        subprocess.run(["mount", "-o", "remount,bind,ro", place], stderr=subprocess.DEVNULL, check=False)


def drop_capabilities(kept: list[str]) -> None:
    text = subprocess.run(["cc", "-E", "-dM", "-include", "linux/capability.h", "-x", "c", "/dev/null"],
                          capture_output=True, text=True, check=True).stdout
    numbers = {name: int(number) for name, number in re.findall(r"#define (CAP_[A-Z_]+) (\d+)\n", text)}
    for number in range(64):
        if number not in {numbers[name] for name in kept}:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)


def calls_of(group: str, seen: set[str]) -> set[str]:
    if not group.startswith("@"):
        return {group}
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", group], capture_output=True, text=True,
                          check=True).stdout
    calls = set()
    for word in text.split("\n", 2)[-1].split():
        if word.startswith("@") and word not in seen:
            seen.add(word)
            calls |= calls_of(word, seen)
        elif not word.startswith(("@", "#")):
            calls.add(word)
    return calls


def filter_calls(groups: list[str]) -> None:
    text = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
                          capture_output=True, text=True, check=True).stdout
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", text)}
    allowed = sorted({numbers[call] for group in groups for call in calls_of(group, {group}) if call in numbers})
    code = struct.pack("HBBI", LOAD, 0, 0, 0)
    for number in allowed:
        code += struct.pack("HBBI", JUMP_EQUAL, 0, 1, number) + struct.pack("HBBI", RETURN, 0, 0, ALLOW)
    code += struct.pack("HBBI", RETURN, 0, 0, KILL)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def main() -> None:
    unit, state, *command = sys.argv[1:]
    asked = settings(unit)
    assert asked["ProtectSystem"] == ["strict"] and asked["NoNewPrivileges"] == ["yes"], "not confined"
    protect_files(asked.get("ReadWritePaths", []) + ([os.path.realpath(state)] if state else []))
    drop_capabilities(asked["CapabilityBoundingSet"])
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filter_calls(asked["SystemCallFilter"])
    os.execv(command[0], command)


main()
