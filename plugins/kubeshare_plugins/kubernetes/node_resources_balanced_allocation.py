"""Score: nodes on which the pod brings the used parts of resources closer to each other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.kubernetes.allocation_scores import (
    DEFAULT_RESOURCES,
    ResourceWeight,
    asked_amounts,
    levels,
)
from kubeshare_py.plugin import (
    MAX_SCORE,
    ArgumentError,
    BestCards,
    IntArray,
    Normaliser,
    Rows,
    RowScore,
    Shape,
    checked,
)

_Fractions = NDArray[np.float64]
#: The deviation of so many has a formula of its own, which rounds differently.
_PAIR = 2


class NodeResourcesBalancedAllocation:
    """50 to 100 points: 75 if the pod changes nothing, more if the node is better balanced with it.

    The balance is 100 minus the standard deviation, in percent, of the used parts of `resources`.
    Requests count as they are. Pods that ask for none of the resources have no say.
    """

    name = "NodeResourcesBalancedAllocation"
    normaliser: Normaliser | None = None

    def __init__(self, resources: Any = DEFAULT_RESOURCES) -> None:
        """Raises ArgumentError for a bad entry."""
        entries = checked(resources, tuple[ResourceWeight, ...], "resources")
        self._resources = entries or DEFAULT_RESOURCES
        seen = set()
        for at, one in enumerate(self._resources):
            if one.name in seen:
                raise ArgumentError(f"resources[{at}].name: {one.name} is there twice")
            if one.weight > 1:
                raise ArgumentError(f"resources[{at}].weight: must be 1")
            seen.add(one.name)

    def score(self, shape: Shape) -> RowScore | None:
        """The difference that the pod makes."""
        asked = asked_amounts(shape, self._resources, unrequested=False)
        if not any(one.amount for one in asked):
            return None

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            found = [*levels(rows, asked, unrequested=False)]
            nodes = len(rows.free)
            after = _balance(((one.offered, one.requested) for one in found), nodes)
            before = _balance(((one.offered, one.held) for one in found), nodes)
            better: IntArray = MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2
            return better

        return ask


def _balance(parts: Iterator[tuple[IntArray, IntArray]], nodes: int) -> IntArray:
    """100 minus the standard deviation of the used parts in percent, rounded down, (k,).

    In float64 and in kube-scheduler's order, so that results are the same to the last bit.
    """
    fractions: list[tuple[_Fractions, NDArray[np.bool_]]] = []
    for offered, used in parts:
        there = offered != 0
        fraction = np.minimum(used / np.maximum(offered, 1), 1.0) * there
        fractions.append((fraction, there))
    count, total, apart = np.zeros((3, nodes))
    for fraction, there in fractions:
        apart = np.where(there & (count == 1), apart - fraction, np.where(there, fraction, apart))
        total += fraction
        count += there
    mean = total / np.maximum(count, 1)
    squares = np.zeros(nodes)
    for fraction, there in fractions:
        squares += there * (fraction - mean) * (fraction - mean)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    deviation = np.where(count == _PAIR, np.abs(apart / 2), deviation)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)
