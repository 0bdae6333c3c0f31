"""The inventory from the source that the configuration names, with the cells of a topology file."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory import collector_scrape, inventory_file, prometheus
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets
from kubeshare_py.edges.inventory.inventory_child import Heard, OnUsed, unseen
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.edges.process.run_until_signal import StartModule, module_process
from kubeshare_py.topology.cells import (
    Cells,
    CellsError,
    Leaves,
    leaves_by_node,
    read_cells,
    with_cells,
)

# KubeShare's topology file beside an inventory: the cells of the cards.
#
# The file is read again when it changes. What it lists and the cluster lacks is logged once, and
# everything else counts; a file with an error is reported, and the last good one stays.


INTERVAL_S = 2.0

_NodeCards = tuple[Gpu, ...]


@dataclass(slots=True)
class CellsInventory:
    """Adds cells to an inventory's cards; without a path it changes nothing."""

    path: str = ""
    interval_s: float = INTERVAL_S
    #: Held while cards are joined and taken in, so that readings are taken in in order.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _leaves: Leaves = field(default_factory=dict)
    _notes: tuple[str, ...] = ()
    #: The cards of all nodes, as the inventory reported them.
    _cards: dict[NodeName, _NodeCards] = field(default_factory=dict)
    _of_nodes: dict[NodeName, tuple[str, ...]] = field(default_factory=dict)
    _silent: tuple[NodeName, ...] = ()
    _has_read: bool = False
    _logged: frozenset[str] = frozenset()
    _stamp: tuple[int, int, int] | None = None
    _failure: str = ""

    def join(self, read: InventoryRead) -> InventoryRead:
        """The reading, a portion or all, with the cells of its cards: 0.1 ms per node."""
        if not self.path:
            return read
        self._cards.update(read.changed)
        joined = tuple((node, self._joined(node, cards)) for node, cards in read.changed)
        if not read.more:
            self._silent, self._has_read = read.silent, True
            self._log_notes()
        return InventoryRead(joined, read.silent, more=read.more)

    async def follow(self, take: Callable[[InventoryRead], Awaitable[None]]) -> None:
        """Watch the file for ever; when it changes, `take` gets the result of `again`."""
        while True:
            if await self.load() and self._has_read:
                async with self.lock:
                    await take(self.again())
            await asyncio.sleep(self.interval_s)

    def again(self) -> InventoryRead:
        """The cards of nodes that the file names or named, as the inventory reported them."""
        nodes = (self._leaves.keys() | self._of_nodes.keys()) & self._cards.keys()
        return InventoryRead(
            tuple((node, self._cards[node]) for node in sorted(nodes)), self._silent
        )

    async def load(self) -> bool:
        """Read the file if it changed; whether it could be used."""
        try:
            stamp = await asyncio.to_thread(_stamp, self.path)
            if stamp == self._stamp:
                return False
            cells = await asyncio.to_thread(_read, self.path)
        except (OSError, DocumentProblem, CellsError) as error:
            # Read again the next time, whatever its stamp: it may have been half written.
            self._stamp = None
            message = str(error) if isinstance(error, DocumentProblem) else f"{self.path}: {error}"
            if message != self._failure:
                self._failure = message
                decision_log.warn("cells", message=message)
            return False
        self._stamp, self._failure = stamp, ""
        self._leaves, self._notes = leaves_by_node(cells), cells.notes
        return True

    def _joined(self, node: NodeName, cards: _NodeCards) -> _NodeCards:
        if node not in self._leaves:
            self._of_nodes.pop(node, None)
            return cards
        found = with_cells(self._leaves, node, cards)
        self._of_nodes[node] = found.notes
        return found.cards

    def _log_notes(self) -> None:
        """Log the file's oddities, each once while it lasts."""
        unknown = [
            f"{leaves[0].cell.field.rpartition('.cellChildren')[0]}: node {node} is not known, or "
            "has no cards"
            for node, leaves in self._leaves.items()
            if not self._cards.get(node)
        ]
        there = (notes for node, notes in self._of_nodes.items() if self._cards.get(node))
        found = frozenset((*self._notes, *unknown, *(note for notes in there for note in notes)))
        for note in sorted(found - self._logged):
            decision_log.warn("cells", message=note)
        self._logged = found


def _stamp(path: str) -> tuple[int, int, int]:
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: str) -> Cells:
    return read_cells(read_yaml(read_bytes(path), path))


# The inventory from the source that the configuration names.


#: Sources whose readings depend on the set of nodes.
OF_NODES = frozenset({"file", "annotation", "hami"})
#: Sources that need the collectors' addresses.
OF_TARGETS = frozenset({"auto", "scrape"})


def readings(
    settings: Inventory,
    nodes: Callable[[], Iterable[NodeName]],
    targets: CollectorTargets,
    on_reading: Callable[[], None] = lambda: None,
    on_used: OnUsed = unseen,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    start: StartModule = module_process,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """The inventory, then only changes and failures, for ever; close it with `aclosing`.

    `targets` are for the source `scrape`, `nodes` for `file`. `on_reading` is called for each
    successful reading, `on_used` for what is used of cards, if the source says so. `sleep` may end
    early when `nodes` have changed. `start` starts the process that asks Prometheus.
    """
    if settings.source == "file":
        return inventory_file.readings(
            settings.path,
            nodes,
            interval_s=settings.interval_seconds,
            sleep=sleep,
            on_reading=on_reading,
        )
    heard = Heard(on_reading, on_used)
    access = ScrapeAccess(
        token_file=settings.bearer_token_file,
        ca_file=settings.ca_file,
        server_name=settings.server_name,
    )
    if settings.source == "scrape":
        return collector_scrape.readings(
            targets,
            scheme=settings.scheme,
            port=settings.port,
            interval_s=settings.interval_seconds,
            access=access,
            heard=heard,
        )
    return prometheus.readings(
        settings.prometheus_url,
        selector=settings.selector,
        interval_s=settings.interval_seconds,
        access=access,
        heard=heard,
        start=start,
    )
