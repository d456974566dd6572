"""The stalls of a recording once more, from the text of `trace-cmd report`: beside `trapline stalls FILE --min 1ms`.

The exits come from oracle.py; docs/formats/stalls.md is what both follow. Of a whole VM it is checked that none of its
vCPUs was in the guest, that two or more were stopped, and that what it stands for lies in it.
"""
import bisect
import collections

import memory_oracle
import oracle
import tables

LEAST, BETWEEN, SHARE = 1_000_000, 100_000, 100
STOPPED = ("kernel", "user", "preempted", "blocked", "paused")
FOUND = []  # how many stalls each recording has
CAUSES = {"page": "blocked", "signal": "paused"}


class Unit:
    """An exit, or what of it comes after a halt."""

    def __init__(self, pieces, rip, address):
        self.begin, self.end, self.rip, self.address = pieces[0][0], pieces[-1][1], rip, address
        self.sums = collections.Counter()
        for begin, end, state in pieces:
            self.sums[state] += end - begin
        self.exits, self.vain, self.same = 1, [], int(address is not None)
        awake = {state for _, _, state in pieces} <= {"kernel", "preempted"}
        self.last = (self.begin, self.end, awake and address is not None)

    @property
    def length(self):
        return self.end - self.begin


def recorded_pieces(model):
    """By thread: (begin, end, state, the exit's span) in order; spans that ended and what became none."""
    pieces = collections.defaultdict(list)
    for tid, vcpu in model.vcpus.items():
        pieces[tid] += vcpu.spanless
    for span in model.spans:
        pieces[span.tid] += [(*piece, span) for piece in span.awake_pieces]
    for tid in pieces:
        pieces[tid].sort(key=lambda piece: piece[:2])
    return pieces


def waits_for_page(span, x86):
    detail = span.detail()
    return bool(x86 and span.is_halt and not span.by_reason and detail and detail[1] == "page-fault")


def is_interrupt(reason):
    """Of the host: the instruction there was not carried out."""
    return reason in ("interrupt", "nmi", "EXTERNAL_INTERRUPT", "PREEMPTION_TIMER") or reason.startswith("IRQ")


def units_of(pieces, rips):
    """Lists of units and of guest's runs, (begin, end), that follow each other without a gap."""
    rows, row, open_, until, of = [], [], [], None, None

    def end_unit():
        if open_:
            detail = of.detail() if of else None
            address = detail[2] if detail and detail[1] == "page-fault" else None
            stays = of and (address is not None or is_interrupt(of.reason))
            row.append(Unit(list(open_), rips.get(of.start) if stays else None, address))
        open_.clear()

    def end_row():
        if row:
            rows.append(list(row))
        row.clear()

    for begin, end, state, span in pieces:
        if begin == end:
            continue
        if begin != until:
            end_unit()
            end_row()
        elif span is not of or state == "guest":
            end_unit()
        of, until = span, end
        if state == "guest":
            row.append((begin, end))
        elif state in STOPPED or state == "halted" and span and waits_for_page(span, True):
            open_.append((begin, end, state))
        else:
            open_.clear() if state == "halted" else end_unit()
            end_row()
    end_unit()
    end_row()
    return rows


def chains_of(row):
    """Those units that are one stall."""
    chains, chain, between = [], None, []

    def close():
        if chain is not None:
            chains.append(chain)
        between.clear()

    for one in row:
        if isinstance(one, tuple):
            if chain is not None:
                between.append(one)
                if one[1] - chain.end > BETWEEN:
                    close()
                    chain = None
            continue
        if chain is not None:
            apart = one.begin - chain.end
            addresses = {unit.address for unit in (chain, one)} - {None}
            again = one.rip and one.rip == chain.rip and len(addresses) == 1
            if apart <= BETWEEN and (again or apart * SHARE <= min(chain.length, one.length)):
                for inner in between:
                    if isinstance(inner, tuple):
                        chain.sums["guest"] += inner[1] - inner[0]
                    else:
                        chain.sums += inner.sums
                        chain.exits += 1
                chain.sums += one.sums
                chain.exits += 1
                if again and chain.last[2] and chain.same > 1:
                    chain.vain.append(chain.last[:2])
                chain.same = (chain.same if again else 0) + (one.address is not None)
                chain.last = one.last
                if again or one.address is not None:
                    chain.address = one.address or chain.address
                else:
                    chain.address = None
                chain.end, chain.rip = one.end, one.rip
                between.clear()
                continue
            if one.length <= chain.length and one.end - chain.end <= BETWEEN:
                between.append(one)
                continue
        close()
        chain = one
    close()
    return chains


def stalls_of(model):
    events, pieces = model.events, recorded_pieces(model)
    # A switch in the guest begins the exit that the next kvm_exit names.
    rips, left = {}, {}
    for event in events:
        if event.name == "sched_switch":
            left.setdefault(oracle.number(event.fields, "prev_pid"), event.at)
        elif event.name == "kvm_entry":
            left.pop(event.tid, None)
        elif event.name == "kvm_exit":
            rip = int(event.fields.get("guest_rip", "0"), 16)
            rips[event.at] = rip
            if event.tid in left:
                rips[left[event.tid]] = rip
            left.setdefault(event.tid, event.at)
    found = []
    for tid, of_thread in pieces.items():
        for row in units_of(of_thread, rips):
            found += [(chain.begin, tid, chain) for chain in chains_of(row) if chain.length >= LEAST]
    return sorted(found, key=lambda one: one[:2]), pieces


class Phases:
    """What memory had to do with each time of a vCPU."""

    def __init__(self, events, pieces):
        self.works = memory_oracle.memory_works(events)
        self.pieces = {tid: sorted(of_thread, key=lambda piece: piece[:2]) for tid, of_thread in pieces.items()}
        self.begins = {tid: [piece[0] for piece in of_thread] for tid, of_thread in self.pieces.items()}
        self.logged = memory_oracle.logged_writes(events)
        self.collapses = memory_oracle.collapse_waits(events)

    def of(self, tid, begin, end, vain):
        sums = collections.Counter()
        first = max(bisect.bisect_right(self.begins[tid], begin) - 1, 0)
        for a, b, state, span in self.pieces[tid][first:bisect.bisect_left(self.begins[tid], end)]:
            a, b = max(a, begin), min(b, end)
            if b <= a or state in ("guest", "paused"):
                continue
            rest = [(a, b)]
            for one, until, what in self.works[tid]:
                sums[what] += sum(overlap(x, y, one, until) for x, y in rest)
                rest = [piece for x, y in rest for piece in ((x, min(y, one)), (max(x, until), y)) if piece[1] > piece[0]]
            for x, y in rest:
                sums[self.of_rest(tid, x, y, state, span, vain)] += y - x
                if state == "blocked":
                    collapsed = sum(overlap(x, y, *wait) for wait in self.collapses[tid])
                    sums["collapse"] += collapsed
        del sums[None]
        return +sums

    def of_rest(self, tid, begin, end, state, span, vain):
        if state == "kernel" and span and any(span.start <= at <= span.end for at in self.logged[tid]):
            return "dirty-logging"
        return "mmu-notifier" if any(a <= begin and end <= b for a, b in vain) else None


def overlap(a, b, begin, end):
    return max(0, min(b, end) - max(a, begin))


def check_phases(row, phases, vain):
    told = collections.Counter()
    for cause in row["causes"]["rows"]:
        told[cause["phase"]] += cause["ns"]
    known = phases.of(row["tid"], row["begin_ns"], row["begin_ns"] + row["ns"], vain)
    del told[None]
    if told != known:
        yield f"{row['begin_ns']}: {dict(told)}, oracle {dict(known)}"


def sums_of(row):
    sums = collections.Counter()
    for cause in row["causes"]["rows"]:
        sums[CAUSES.get(cause["cause"], cause["cause"])] += cause["ns"]
    return sums


def check_whole(row, pieces, model):
    """A whole VM's stall."""
    begin, end = row["begin_ns"], row["begin_ns"] + row["ns"]
    process = model.process_of(row["tid"])
    stopped = 0
    for tid, of_thread in pieces.items():
        if model.process_of(tid) != process:
            continue
        inside = [(min(b, end) - max(a, begin), state) for a, b, state, _ in of_thread if min(b, end) > max(a, begin)]
        if any(state == "guest" for _, state in inside):
            yield f"{begin}: tid {tid} was in the guest"
        stopped += sum(ns for ns, state in inside if state in STOPPED) * 10 >= row["ns"] * 9
    if stopped < 2 or stopped != row["vcpus_stopped"]:
        yield f"{begin}: {stopped} vCPUs were stopped, not {row['vcpus_stopped']}"


def check(trapline, path):
    """Differences as sentences."""
    status, document, complaint = tables.asked(trapline, "stalls", path, "--min", "1ms", "--top", "0")
    model = oracle.model_of(path)
    ours, pieces = stalls_of(model)
    if status == 1 and not model.vcpus:
        return []
    if status == 2 and (not model.spans or model.user_end == "none" or "cycles" in complaint):
        return []
    if status != 0:
        return [f"exit status {status}: {complaint}"]
    got = document["tables"]["stalls"]["rows"]
    wrong = []
    theirs = {(row["begin_ns"], row["tid"]): row for row in got if row["vcpus"] is None}
    phases, unmaps = Phases(model.events, pieces), memory_oracle.Unmaps(model.events)
    vain = {(begin, tid): [span for span in chain.vain if unmaps.any(*span)] for begin, tid, chain in ours}
    for key, row in theirs.items():
        wrong += check_phases(row, phases, vain.get(key, ()))
    whole = [row for row in got if row["vcpus"] is not None]
    for row in got:
        if sum(cause["ns"] for cause in row["causes"]["rows"]) != row["ns"]:
            wrong.append(f"{row['begin_ns']}: the causes do not add up")
    for row in whole:
        wrong += check_whole(row, pieces, model)
    for begin, tid, chain in ours:
        row = theirs.pop((begin, tid), None)
        if row is None:
            told = any(model.process_of(tid) == model.process_of(one["tid"]) and
                       10 * (min(chain.end, one["begin_ns"] + one["ns"]) - max(begin, one["begin_ns"])) >= 9 * chain.length
                       for one in whole)
            if not told:
                wrong.append(f"{begin}: tid {tid} was stopped for {chain.length} ns, which is not told")
            continue
        sums = chain.sums + collections.Counter()
        sums["kernel"] += sums.pop("halted", 0) if "halted" in sums else 0
        if row["ns"] != chain.length:
            wrong.append(f"{begin}: {row['ns']} ns, oracle {chain.length}")
        elif row["exits"] != chain.exits:
            wrong.append(f"{begin}: {row['exits']} exits, oracle {chain.exits}")
        elif "halted" not in chain.sums and sums_of(row) != +sums:
            wrong.append(f"{begin}: {dict(sums_of(row))}, oracle {dict(+sums)}")
    wrong += [f"{begin}: tid {tid}, {row['ns']} ns: the oracle has none" for (begin, tid), row in theirs.items()]
    FOUND.append(len(ours))
    print(f"{path}: {len(ours)} stalls")
    return wrong
