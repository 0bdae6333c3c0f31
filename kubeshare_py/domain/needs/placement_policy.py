"""How a pod wishes its node and cards to be chosen, in place of its profile's policies."""

from dataclasses import dataclass
from enum import StrEnum


class Order(StrEnum):
    """What comes first. NUMA nodes by their number; a card without one comes last."""

    FULLEST = "fullest"
    EMPTIEST = "emptiest"
    HIGH_NUMA = "high NUMA"
    LOW_NUMA = "low NUMA"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPolicy:
    """The orders of nodes and of cards; of cards the first one counts, then the next.

    How full a card or node is, is the sum of three parts that are taken: of the pods that it may
    have, of its share, and of its memory. For cards `weights` count them, in this order. With
    `idle` only cards without pods are taken, which others may share later. With `joined` several
    cards are those that are joined best, and one is the card that others miss least.

    Invariants, else ValueError: `node` is FULLEST or EMPTIEST; weights are not negative, and one is
    above 0.
    """

    node: Order = Order.FULLEST
    cards: tuple[Order, ...] = (Order.EMPTIEST, Order.HIGH_NUMA)
    weights: tuple[int, int, int] = (1, 1, 1)
    idle: bool = False
    joined: bool = False

    def __post_init__(self) -> None:
        if self.node not in (Order.FULLEST, Order.EMPTIEST):
            raise ValueError(f"node: {self.node} is no order of nodes")
        if min(self.weights) < 0 or not any(self.weights):
            raise ValueError(f"weights {self.weights} must not be negative, and one be above 0")
