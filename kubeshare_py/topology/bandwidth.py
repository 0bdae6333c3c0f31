"""What a link between two cards is worth, from its word in `nvidia-smi topo -m` and its speed.

Bandwidths are in MB/s, both directions summed.
"""

import re

from kubeshare_py.domain.gpu import PeerLink

#: What is between two cards beside NVLink, from near to far, and how much of the bus's bandwidth
#: counts. Only the order is a fact: drivers say the speed of the bus, which is the same however
#: many bridges are in between, and nearer cards must come first.
BUS_PERCENT = {"PIX": 100, "PXB": 90, "PHB": 75, "NODE": 65, "SYS": 50}

#: Where a driver does not say how fast: PCIe 3.0 with 16 lanes, and a link of NVLink 2 to 4.
BUS_SPEED = 32_000
NVLINK_SPEED = 50_000

#: No bandwidths, but a way to keep together what is near where nothing else is known: two instances
#: of one card, so that other cards can still be divided anew, and cards of one NUMA node.
SAME_CARD = 2
SAME_NUMA_NODE = 1

#: More NVLinks than any card has: then peers are behind a switch, and share the links to it.
MOST_NVLINKS = 18

_NVLINKS = re.compile(r"NV(\d{1,3})")


def nvlinks(kind: str) -> int:
    """How many NVLinks: 12 for NV12, 0 for other words."""
    found = _NVLINKS.fullmatch(kind)
    return int(found[1]) if found else 0


def speed(link: PeerLink) -> int:
    """Bandwidth of the link itself, before what is lost on the way; 0 for unknown words."""
    count = nvlinks(link.kind)
    if count:
        return link.speed or count * NVLINK_SPEED
    return (link.speed or BUS_SPEED) if link.kind in BUS_PERCENT else 0
