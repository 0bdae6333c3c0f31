"""The inventory from the annotations that collectors write on their Nodes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.edges.process import decision_log
from kubeshare_py.inventory.card_annotation import ANNOTATION
from kubeshare_py.inventory.node_annotations import NodeAnnotations
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.watch import DELETED, Changes, ListResult


@dataclass(slots=True)
class AnnotatedNodes:
    """Reads the annotations from the scheduler's own watch of nodes."""

    reported: NodeAnnotations = field(default_factory=NodeAnnotations)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, node: NodeFields) -> None:
        """Take a node, from a list or a change."""
        name = NodeName(node.metadata.name)
        if self.reported.take(name, (node.metadata.annotations or {}).get(ANNOTATION, "")):
            self._changed.set()

    def changed(self, update: ListResult[Node] | Changes[NodeFields]) -> None:
        """Take a list, whose nodes were all seen, or changes.

        A node that cannot be decoded keeps its cards until it is deleted.
        """
        if isinstance(update, ListResult):
            unreadable = (NodeName(problem.name) for problem in update.problems)
            self.reported.only((*(node.name for node in update.items), *unreadable))
            self._changed.set()
            return
        for line in update.changed:
            if line.type == DELETED:
                found = line.item.metadata if line.item is not None else line.problem
                if found is not None:
                    self.reported.gone(NodeName(found.name))
                    self._changed.set()
            elif line.item is not None:
                self.seen(line.item)

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
            while not self._changed.is_set():
                on_reading()
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_s):
                        await self._changed.wait()
