"""Nodes on which pods may hold more than there is, or another pod's cards; for the reports of that.

Nearly always there are none, so looking must then cost nothing. The ledger names a node when it is
overdrawn, and again whenever one of its cards changes, until `is_well` is called.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kubeshare_py.domain.identity import NodeName


class Overdrafts:
    """The nodes to be checked; false while there are none."""

    __slots__ = ("_ill", "_is_trial", "_news")

    def __init__(self) -> None:
        self._ill: set[NodeName] = set()
        self._news: set[NodeName] = set()
        self._is_trial = False

    def __bool__(self) -> bool:
        return bool(self._news)

    def suspect(self, node: NodeName) -> None:
        """Have this node checked."""
        if not self._is_trial:
            self._ill.add(node)
            self._news.add(node)

    @property
    def watches(self) -> bool:
        """Whether any node is overdrawn, so that changes of cards matter."""
        return bool(self._ill)

    def touched(self, node: NodeName) -> None:
        """Cards of this node changed: have it checked again if it was overdrawn."""
        if node in self._ill and not self._is_trial:
            self._news.add(node)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Ignore changes within: they are tentative, or concern reservations only."""
        self._is_trial = True
        try:
            yield
        finally:
            self._is_trial = False

    def is_well(self, node: NodeName) -> None:
        """Nothing of this node is overdrawn any more."""
        self._ill.discard(node)

    def take(self, most: int) -> list[NodeName]:
        """At most `most` of the nodes to be checked, by name; they are then no longer listed."""
        nodes = sorted(self._news)[:most]
        self._news.difference_update(nodes)
        return nodes
