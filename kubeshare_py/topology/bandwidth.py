"""The bandwidth of a link between two cards, from its word in `nvidia-smi topo -m` and its speed.

Bandwidths are in MB/s, both directions summed.
"""

import re

from kubeshare_py.domain.gpu import PeerLink

#: The ways over the bus, from near to far, and the percentage of the bus's bandwidth that counts.
#: Only the order is a fact: drivers report the speed of the bus, which is the same with any number
#: of bridges in between, and nearer cards must come first.
BUS_PERCENT = {"PIX": 100, "PXB": 90, "PHB": 75, "NODE": 65, "SYS": 50}

#: Speeds that a driver does not report: PCIe 3.0 with 16 lanes, and one link of NVLink 2 to 4.
BUS_SPEED = 32_000
NVLINK_SPEED = 50_000

#: Not bandwidths, but an order where nothing else is known: instances of one card first, so that
#: other cards can still be divided, then cards of one NUMA node.
SAME_CARD = 2
SAME_NUMA_NODE = 1

#: The most NVLinks of one card. A card with more shares them with its peers through a switch.
MAX_NVLINKS = 18

_NVLINKS = re.compile(r"NV(\d{1,3})")


def nvlinks(kind: str) -> int:
    """The number of NVLinks: 12 for NV12, 0 for other words."""
    found = _NVLINKS.fullmatch(kind)
    return int(found[1]) if found else 0


def speed(link: PeerLink) -> int:
    """The bandwidth of the link itself in MB/s, before losses on the way; 0 for unknown words."""
    count = nvlinks(link.kind)
    if count:
        return link.speed or count * NVLINK_SPEED
    return (link.speed or BUS_SPEED) if link.kind in BUS_PERCENT else 0
