"""What a pod holds, as people see it: amounts of its cards, its neighbours, why it is there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingView:
    """A pod's part of one card: milli and bytes; `index` -1: not in the inventory."""

    uuid: str
    index: int = -1
    model: str = ""
    milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourView:
    """Another pod on the same cards, and its parts of them.

    `namespace` and `name` are "" for pods that the reader may not see.
    """

    namespace: str
    name: str
    holds: tuple[HoldingView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreView:
    """One plugin's score of a node for a pod; `points` are before the weight."""

    plugin: str
    weight: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedNode:
    """A node that fits, and its weighted sum of scores."""

    name: str
    score: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementView:
    """How a pod's node would rank if the pod were placed now, and its cards' other tenants.

    `rank` counts from 1 among the `fitting` nodes. It is 0, and `score` has no meaning, if the pod
    would no longer fit its own node, or if scores alone did not decide (gangs). `others` are the
    best of the other nodes. Normalised scores are left out.
    """

    rank: int = 0
    fitting: int = 0
    score: int = 0
    scores: tuple[ScoreView, ...] = ()
    others: tuple[RankedNode, ...] = ()
    neighbours: tuple[NeighbourView, ...] = ()
