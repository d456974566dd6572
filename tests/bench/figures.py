"""The lines by which a benchmark tells scripts/bench its figures, among those that it prints for people.

  figure <tab> NAME <tab> VALUE <tab> UNIT <tab> RATIO <tab> PEER

RATIO is VALUE over the peer's. A figure without a peer has - for both; scripts/bench compares it only where UNIT is
instructions, since times depend on the machine. Less is better.
"""


def figure(name, value, unit, ratio=None, peer="-"):
    print("figure", name, f"{value:.4g}", unit, "-" if ratio is None else f"{ratio:.4g}", peer, sep="\t", flush=True)
