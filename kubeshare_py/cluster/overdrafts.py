"""Nodes on which pods may hold more than there is, or what is another's, for the reports of that.

Nearly always there are none, so looking must cost nothing then: the ledger names a node when it is
overdrawn, and from then on whenever one of its cards changes, until somebody says that it is well.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kubeshare_py.domain.identity import NodeName


class Overdrafts:
    """Nodes to be looked at; false while there are none."""

    __slots__ = ("_ill", "_is_trial", "_news")

    def __init__(self) -> None:
        self._ill: set[NodeName] = set()
        self._news: set[NodeName] = set()
        self._is_trial = False

    def __bool__(self) -> bool:
        return bool(self._news)

    def suspect(self, node: NodeName) -> None:
        """Something of this node is overdrawn, or is to be looked at anyhow."""
        if not self._is_trial:
            self._ill.add(node)
            self._news.add(node)

    @property
    def watches(self) -> bool:
        """Whether changes of cards are of interest at all."""
        return bool(self._ill)

    def touched(self, node: NodeName) -> None:
        """Cards of this node changed, for better or worse."""
        if node in self._ill and not self._is_trial:
            self._news.add(node)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What changes meanwhile does so only for a while, or is nobody's yet: it is no news."""
        self._is_trial = True
        try:
            yield
        finally:
            self._is_trial = False

    def is_well(self, node: NodeName) -> None:
        """Nothing of this node is overdrawn any more."""
        self._ill.discard(node)

    def take(self, most: int) -> list[NodeName]:
        """At most so many nodes that changed since they were taken last, by name."""
        nodes = sorted(self._news)[:most]
        self._news.difference_update(nodes)
        return nodes
