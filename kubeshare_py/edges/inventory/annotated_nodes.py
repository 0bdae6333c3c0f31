"""The inventory from annotations of Nodes, read from the scheduler's own watch of nodes."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.edges.process import decision_log
from kubeshare_py.inventory.node_annotations import ANNOTATION, NodeAnnotations
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.watch import DELETED, Changes, ListResult

# Books of nodes, which are kept by the scheduler's own watch of nodes.


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


class CardReports(Protocol):
    """What Nodes report of their cards, from one reading to the next."""

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """What is odd, as sentences that name the node, as `read` found it."""
        ...

    def take(self, node: NodeFields) -> bool:
        """A node is there; whether what it reports is new."""
        ...

    def gone(self, name: NodeName) -> None:
        """A node is gone; its cards may be in another one."""
        ...

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        ...

    def read(self) -> InventoryRead:
        """What changed since it was last called."""
        ...

    def left_s(self) -> float:
        """In how many seconds time alone changes something; infinity if it does not."""
        ...


class CollectorReports:
    """The annotations that collectors write."""

    def __init__(self) -> None:
        self._found = NodeAnnotations()
        self.gone, self.only, self.read = self._found.gone, self._found.only, self._found.read

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """See `CardReports`, as all others."""
        return self._found.diagnostics

    def take(self, node: NodeFields) -> bool:
        """The node's annotation."""
        text = (node.metadata.annotations or {}).get(ANNOTATION, "")
        return self._found.take(NodeName(node.metadata.name), text)

    def left_s(self) -> float:
        """Time alone changes nothing."""
        return math.inf


@dataclass(slots=True)
class AnnotatedNodes:
    """Reads what nodes report as it changes."""

    reported: CardReports
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, node: NodeFields) -> None:
        """Take a node, from a list or a change."""
        if self.reported.take(node):
            self._changed.set()

    def gone(self, name: NodeName) -> None:
        """Forget a node."""
        self.reported.gone(name)
        self._changed.set()

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        self.reported.only(names)
        self._changed.set()

    def changed(self, update: ListResult[Node] | Changes[NodeFields]) -> None:
        """Take a list, whose nodes were all seen, or changes: see `take_update`."""
        take_update(self, update)

    async def readings(
        self, on_reading: Callable[[], None], interval_s: float
    ) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
        """Yield all cards now, then only changes; problems are logged once.

        `on_reading` is called with each reading, and at least once per interval.
        """
        logged: tuple[str, ...] = ()
        while True:
            self._changed.clear()
            read = self.reported.read()
            for line in self.reported.diagnostics:
                if line not in logged:
                    decision_log.warn("inventory", message=line)
            logged = self.reported.diagnostics
            on_reading()
            yield read
            while not self._changed.is_set() and (left_s := self.reported.left_s()) > 0:
                on_reading()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(interval_s, left_s)):
                        await self._changed.wait()
