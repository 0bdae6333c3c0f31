"""Books of nodes, which are kept by the scheduler's own watch of nodes."""

from collections.abc import Iterable
from typing import Protocol

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.watch import DELETED, Changes, ListResult


class NodeBook(Protocol):
    """What is remembered of each node."""

    def seen(self, node: NodeFields) -> None:
        """Take a node, from a list or a change."""
        ...

    def gone(self, name: NodeName) -> None:
        """Forget a node."""
        ...

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        ...


def take_update(book: NodeBook, update: ListResult[Node] | Changes[NodeFields]) -> None:
    """Put a list, whose nodes were all `seen`, or changes into a book.

    A node that cannot be decoded stays as it is known until it is deleted.
    """
    if isinstance(update, ListResult):
        unreadable = (NodeName(problem.name) for problem in update.problems)
        book.only((*(node.name for node in update.items), *unreadable))
        return
    for line in update.changed:
        if line.type == DELETED:
            found = line.item.metadata if line.item is not None else line.problem
            if found is not None:
                book.gone(NodeName(found.name))
        elif line.item is not None:
            book.seen(line.item)
