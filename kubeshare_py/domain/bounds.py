"""The bounds of amounts: one for each, used by all readers and by the values themselves.

All are far above what exists, and so low that the sums and products used in decisions stay within
64 bits: 32,000 charges of a whole card's memory, or its memory in thousandths.
"""

from dataclasses import dataclass

_MAX_SHOWN = 10**24


@dataclass(frozen=True, slots=True)
class AmountRange:
    """An amount is within `least` and `most`, both included."""

    least: int
    most: int

    def allows(self, amount: int) -> bool:
        """Whether the amount is within."""
        return self.least <= amount <= self.most

    def problem(self, amount: int) -> str:
        """What is wrong with the amount, as words that follow its name; "" if nothing is."""
        if self.allows(amount):
            return ""
        is_shown = -_MAX_SHOWN < amount < _MAX_SHOWN
        shown = f"{amount}" if is_shown else "with more than 24 digits"
        return f"{shown} is not within {self.least}…{self.most}"


#: Memory of a card, and of one pod's part of it (bytes): 256 TiB.
CARD_BYTES = AmountRange(1, 2**48)
HELD_BYTES = AmountRange(0, CARD_BYTES.most)
#: A card's number on its node.
CARD_INDEX = AmountRange(0, 4095)
#: All cards of a node, instances included: sixteen cards of seven instances are 112. The tables
#: have as many columns as the node with the most cards, so one node's cards cost memory on all.
CARDS_OF_NODE = AmountRange(0, 128)
#: Resources that a node offers: each takes a column of all nodes' tables.
NODE_RESOURCES = AmountRange(0, 64)
#: Images in one node's status. A kubelet lists 50 by default (`nodeStatusMaxImages`).
NODE_IMAGES = AmountRange(0, 500)
#: Linux has 1024 at most.
NUMA_NODE = AmountRange(0, 4095)
#: MB/s, both directions summed: 1 PB/s.
LINK_SPEED = AmountRange(0, 10**9)
#: Pods on one card; 0 is no limit.
CARD_TENANTS = AmountRange(0, 1_000_000)
#: A card's capacity in thousandths of its own size: a thousandth of it to a hundredfold.
SCALING = AmountRange(1, 100_000)
#: One pod's share of a card, which may be a whole card with scaled cores.
HELD_MILLI = AmountRange(0, SCALING.most)
#: KubeShare documents 0…100.
CELL_PRIORITY = AmountRange(0, 1_000_000)
#: Cards that one pod may ask for: far above any node.
CLAIMED_CARDS = AmountRange(1, 1_000_000)
#: Claims of one pod: one for each of its containers that asks.
POD_CLAIMS = AmountRange(1, 32)
#: UUIDs that a claim names, and as many that it denies: all cards of a node.
CLAIMED_UUIDS = AmountRange(0, CARDS_OF_NODE.most)
#: Parts of models that a claim names, and as many that it denies; each part is compared with every
#: model of the cluster.
CLAIMED_MODELS = AmountRange(0, 256)
#: Tags of one claim.
CLAIM_TAGS = AmountRange(0, 8)
#: Pods of a group, and those that start together. Kubernetes' clusters have 150,000.
GROUP_MEMBERS = AmountRange(1, 1_000_000)
GROUP_MINIMUM = AmountRange(0, GROUP_MEMBERS.most)
#: Kubernetes' bound of a pod's priority and other counts.
INT32 = AmountRange(-(2**31), 2**31 - 1)
#: Characters of a card's uuid or model.
CARD_NAME = AmountRange(1, 253)
#: Nodes of a simulated cluster.
SIMULATED_NODES = AmountRange(0, 20_000)
