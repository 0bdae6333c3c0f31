"""What a pod holds, as people look at it: amounts of its cards, its neighbours, why it is there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingView:
    """A pod's part of one card: thousandths and bytes; `index` -1: not in the inventory."""

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
    """What one plugin gives a node for a pod; `points` are before the weight."""

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
    """What speaks for a pod's node if the pod were placed now, and who shares its cards.

    `rank` counts from 1 among the `fitting` nodes; it is 0, and `score` means nothing, where the
    pod would not fit its own node any more or where scores alone did not decide (gangs).
    `others` are the best of the other nodes. Scores that are normalised are left out.
    """

    rank: int = 0
    fitting: int = 0
    score: int = 0
    scores: tuple[ScoreView, ...] = ()
    others: tuple[RankedNode, ...] = ()
    neighbours: tuple[NeighbourView, ...] = ()
