"""The worst samples of a cyclictest in a guest, and what the host did meanwhile.

The folder holds host.dat, guest.dat, sync.txt and samples.txt. samples.txt is what cyclictest printed, guest.dat has its markers. Each of the 20 worst samples must be
explained: its causes add up to the latency that cyclictest measured, the parts are those that the host's
recording gives for that time (guest_span_oracle.py's accounting of trace-cmd's text), and the planted hog is
named where the vCPU was preempted.
"""
import collections
import re

import guest_span_oracle
import oracle
import tables

SPEC, WORST = "marker:hit latency threshold", 20
BREAK = re.compile(r"^# Break value: (\d+)$", re.MULTILINE)
MARKER = re.compile(r"hit latency threshold \((\d+) > \d+\)")
BOUND = re.compile(r": aligned to ± (\d+(?:\.\d+)? .?s)")


def check(trapline, folder):
    """Differences as sentences."""
    files = [f"{folder}/{name}" for name in ("host.dat", "guest.dat", "sync.txt")]
    with open(f"{folder}/samples.txt", encoding="utf-8") as file:
        samples = [int(us) for us in BREAK.findall(file.read())]
    markers = [int(match[1]) for event in oracle.read(files[1])[0] if event.name == "print"
               for match in [MARKER.search(event.fields["buf"])] if match]
    got = tables.document(trapline, "explain", *files, "--guest-span", SPEC, "--worst", WORST)
    worst = [(row["start_ns"], row["tree"]["rows"][0]) for row in got["tables"]["worst"]["rows"]]
    threads = {f"vCPU {vcpu['vcpu']}": vcpu["tid"] for vcpu in tables.of(trapline, "report", *files)["vcpus"]["rows"]}
    pieces = guest_span_oracle.pieces_of(files[0])
    wrong, parts, culprits = [], collections.Counter(), collections.Counter()
    if sorted(markers) != sorted(samples) or len(samples) < WORST:
        wrong.append(f"{len(markers)} markers, {len(samples)} samples")
    latencies = sorted((us * 1000 for us in samples), reverse=True)[:WORST]
    if [tree["ns"] for _, tree in worst] != latencies:
        wrong.append(f"latencies {[tree['ns'] for _, tree in worst]}, cyclictest's {latencies}")
    for begin, tree in worst:
        want = guest_span_oracle.cut(pieces[threads[tree["text"]]], begin, begin + tree["ns"])
        mine = {child["text"]: child["ns"] for child in tree["children"]["rows"]}
        if not guest_span_oracle.adds_up(tree) or mine != want:
            wrong.append(f"at {begin}: trapline {mine}, oracle {want}")
        parts.update(mine)
        for child in tree["children"]["rows"]:
            for culprit in guest_span_oracle.children(child):
                culprits[culprit["text"]] += culprit["ns"]
    if not any(text.startswith("plant-hog") for text in culprits):
        wrong.append(f"the hog is not among the culprits: {dict(culprits)}")
    if parts["not recorded"]:
        wrong.append(f"{parts['not recorded']} ns were not recorded")
    bound = BOUND.search(got["head"]["clocks"][0])
    if not bound:
        wrong.append(f"no bound of the clock: {got['head']['clocks']}")
    if not wrong:
        print(f"{folder}: {WORST} worst of {len(samples)} samples, {latencies[-1]} to {latencies[0]} ns, add up; "
              f"clock ± {bound[1]}; {dict(parts)}; {culprits.most_common(3)}")
    return wrong
