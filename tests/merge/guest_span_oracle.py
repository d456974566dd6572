"""What a host did in the intervals that its guest recorded, once more from the text of trace-cmd: beside `trapline explain
--guest-span` on a folder's recordings.

The intervals are the times that the guest's tasks ran: sched_switch:next_pid..sched_switch:prev_pid. How
many there are is counted from guest.dat; what the host did in the longest of them, at the times that
trapline prints, is cut out of the host's exits (oracle.py) and guest runs.
"""
import collections

import oracle
import tables

number = oracle.number
SPEC = "sched_switch:next_pid..sched_switch:prev_pid"
WORST = 50
PARTS = ("guest", "kernel", "user", "preempted", "blocked", "halted", "not recorded")


def pieces_of(path):
    """(begin, end, what) of each thread that runs a vCPU."""
    model = oracle.model_of(path)
    pieces = collections.defaultdict(list)
    for span in model.spans:
        pieces[span.tid] += span.pieces
    entered = {}
    for event in model.events:
        if event.name == "kvm_entry":
            entered[event.tid] = event.at
        elif event.name == "kvm_exit" and event.tid in entered:
            pieces[event.tid].append((entered.pop(event.tid), event.at, "guest"))
    return pieces


def intervals_in(path):
    """How many times each task came to a CPU and left one; thread 0 is the idle one of each CPU."""
    running, count = set(), collections.Counter()
    for event in oracle.read(path)[0]:
        if event.name != "sched_switch":
            continue
        left, came = (number(event.fields, key) for key in ("prev_pid", "next_pid"))
        of = {pid: (pid, event.cpu if pid == 0 else None) for pid in (left, came)}
        count[left] += of[left] in running
        running.discard(of[left])
        running.add(of[came])
    return count


def cut(pieces, begin, end):
    sums = collections.Counter()
    for first, last, what in pieces:
        if min(last, end) > max(first, begin):
            sums[what] += min(last, end) - max(first, begin)
    rest = end - begin - sum(sums.values())
    if rest:
        sums["not recorded"] = rest
    return dict(sums)


def children(node):
    return node.get("children", {"rows": []})["rows"]


def adds_up(node):
    below = children(node)
    return (not below or sum(child["ns"] for child in below) == node["ns"]) and all(map(adds_up, below))


def differences(table, got, counted):
    """`report --by guest-span` against the sum of all in the tables of `explain`, and the counts of the guest's recording."""
    wrong = []
    keys = [f"{part.replace(' ', '_')}_ns" for part in PARTS]
    for part, key in zip(PARTS, keys, strict=True):
        all_of_it = sum(node["ns"] for node in got["tree"]["rows"][0]["children"]["rows"] if node["text"] == part)
        if sum(row[key] for row in table["rows"]) != all_of_it:
            wrong.append(f"rows of {part} do not sum to {all_of_it}")
    for row in table["rows"]:
        if sum(row[key] for key in keys) != row["total_ns"]:
            wrong.append(f"{row['key']}: the parts do not sum to {row['total_ns']}")
        if sum(c["ns"] for c in row["culprits"]["rows"]) != row["preempted_ns"] + row["blocked_ns"]:
            wrong.append(f"{row['key']}: the culprits do not sum to its waits")
        pid = int(row["key"].split("=")[1].split(" ")[0])
        counted[pid] -= row["count"]
    if sum(counted.values()) != got["counters"]["unplaced"] or min(counted.values()) < 0:
        wrong.append(f"intervals by task: {dict(counted)} are left")
    return wrong


def check(trapline, folder):
    """Differences as sentences."""
    files = [f"{folder}/{name}" for name in ("host.dat", "guest.dat", "sync.txt")]
    explained = tables.document(trapline, "explain", *files, "--guest-span", SPEC, "--worst", WORST)
    head, got = explained["head"], explained["tables"]
    tree = got["tree"]["rows"][0]
    threads = {f"vCPU {vcpu['vcpu']}": vcpu["tid"] for vcpu in tables.of(trapline, "report", *files)["vcpus"]["rows"]}
    pieces = pieces_of(files[0])
    wrong = [] if adds_up(tree) and tree["ns"] == head["total_ns"] else ["the sum of all"]
    every = head["count"] + got["counters"]["unplaced"]
    counted = intervals_in(files[1])
    if every != sum(counted.values()):
        wrong.append(f"{every} intervals, the guest's recording has {sum(counted.values())}")
    wrong += differences(tables.of(trapline, "report", *files, "--by", "guest-span", "--guest-span", SPEC)["spans"], got, counted)
    for span in got["worst"]["rows"]:
        tree, begin = span["tree"]["rows"][0], span["start_ns"]
        want = cut(pieces[threads[tree["text"].split(",")[0]]], begin, begin + tree["ns"])
        mine = {child["text"]: child["ns"] for child in children(tree)}
        if not adds_up(tree) or mine != want:
            wrong.append(f"{tree['text']} at {begin}: trapline {mine}, oracle {want}")
    if len(got["worst"]["rows"]) != min(WORST, head["count"]) or not head["clocks"]:
        wrong.append("the longest, or the clock's bound, are not there")
    if not wrong:
        print(f"{folder}: {len(got['worst']['rows'])} of {head['count']} intervals agree, {head['clocks'][0]}")
    return wrong
