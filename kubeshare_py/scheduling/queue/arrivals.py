"""The order in which pods arrive, which decides between pods that were created in the same second.

creationTimestamp has whole seconds, and uids are random. A watch brings pods in the order in which
the API server stored them. A list has no such order, so its pods count as arriving in the order of
their namespaces and names.
"""

from collections.abc import Iterable
from itertools import count

from kubeshare_py.domain.pod import Pod


class Arrivals:
    """Numbers pods from 1 in order of arrival."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def next(self) -> int:
        """The number of a pod that arrives now."""
        return next(self._numbers)


def in_order_of_arrival(listed: Iterable[Pod]) -> list[Pod]:
    """The pods of a list, by namespace and name."""
    return sorted(listed, key=_place)


def _place(pod: Pod) -> tuple[str, str]:
    return pod.key.namespace, pod.key.name
