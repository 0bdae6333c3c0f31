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
class ContainerView:
    """What one container asks for and holds; `container` is `container-0`, `init-0` and so on.

    The number is the container's index in spec.containers or spec.initContainers. It asks for
    `count` cards of `milli` each, none if `count` is 0; the fields are those of a `PodView`. With
    `exclusive` the cards are for it alone. `holds` are its cards, in the order in which it sees
    them.
    """

    container: str
    count: int = 0
    milli: int = 0
    memory_bytes: int | None = None
    memory_milli: int | None = None
    models: tuple[str, ...] = ()
    share_of: str = ""
    exclusive: bool = False
    holds: tuple[HoldingView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPartView:
    """The part of one card that one container of its tenant holds: milli and bytes."""

    container: str
    milli: int
    memory_bytes: int


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
    best of the other nodes. Scores that are relative to all nodes that fit count as in a decision.
    """

    rank: int = 0
    fitting: int = 0
    score: int = 0
    scores: tuple[ScoreView, ...] = ()
    others: tuple[RankedNode, ...] = ()
    neighbours: tuple[NeighbourView, ...] = ()


def container_words(container: str) -> str:
    """A container in a sentence: `container-0` is `container 0`, `init-0` is `init container 0`."""
    kind, _, index = container.rpartition("-")
    return f"{'init ' if kind == 'init' else ''}container {index}"
