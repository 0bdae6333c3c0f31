"""Nodes on which pods may hold more than there is, or another pod's cards; for the reports of that.

Nearly always there are none, so looking must then cost nothing. The ledger names a node when it is
overdrawn, and again whenever one of its cards changes, until `is_covered` is called.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kubeshare_py.domain.identity import NodeName


class Overdrafts:
    """The nodes to be checked; false while there are none."""

    __slots__ = ("_ignores", "_overdrawn", "_unchecked")

    def __init__(self) -> None:
        self._overdrawn: set[NodeName] = set()
        self._unchecked: set[NodeName] = set()
        self._ignores = False

    def __bool__(self) -> bool:
        return bool(self._unchecked)

    def suspect(self, node: NodeName) -> None:
        """Have this node checked."""
        if not self._ignores:
            self._overdrawn.add(node)
            self._unchecked.add(node)

    @property
    def watches(self) -> bool:
        """Whether any node is overdrawn, so that changes of cards matter."""
        return bool(self._overdrawn)

    def touched(self, node: NodeName) -> None:
        """Cards of this node changed: have it checked again if it was overdrawn."""
        if node in self._overdrawn and not self._ignores:
            self._unchecked.add(node)

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Ignore changes within: they concern reservations only."""
        self._ignores = True
        try:
            yield
        finally:
            self._ignores = False

    def is_covered(self, node: NodeName) -> None:
        """Nothing of this node is overdrawn any more."""
        self._overdrawn.discard(node)

    def take(self, most: int) -> list[NodeName]:
        """At most `most` of the nodes to be checked, by name; they are then no longer listed."""
        nodes = sorted(self._unchecked)[:most]
        self._unchecked.difference_update(nodes)
        return nodes
