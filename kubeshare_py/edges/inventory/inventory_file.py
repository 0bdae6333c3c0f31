"""Inventory source `file`: cards by hand, read again when the file or the set of nodes changes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.documents.yaml_text import DocumentProblem
from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.inventory.card_file import CardGroup, cards_by_node, read_card_file

INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """The file's stamp and the nodes of the last good inventory."""

    stamp: tuple[int, int]
    nodes: frozenset[NodeName]


async def readings(
    path: str,
    nodes: Callable[[], Iterable[NodeName]],
    *,
    interval_s: float = INTERVAL_S,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    on_reading: Callable[[], None] = lambda: None,
) -> AsyncGenerator[InventoryRead | InventoryFailed, None]:
    """Yield the inventory, then only changes and failures, for ever; close it with `aclosing`.

    `nodes` gives the nodes known now, for the file's patterns. A file that cannot be read or has an
    error is reported, and the last good one stays. `on_reading` is called for each good reading.
    """
    file = Path(path)
    seen: _Seen | None = None
    groups: tuple[CardGroup, ...] = ()
    cards: dict[NodeName, tuple[Gpu, ...]] = {}
    failure: str | None = None
    logged: frozenset[str] = frozenset()
    while True:
        try:
            now = _Seen(await asyncio.to_thread(_stamp, file), frozenset(nodes()))
            if seen is None or now.stamp != seen.stamp:
                groups = await asyncio.to_thread(_read, path)
        except (OSError, DocumentProblem) as problem:
            # Read again the next time, whatever its stamp: it may have been half written.
            seen = None
            if str(problem) != failure:
                failure = str(problem)
                yield InventoryFailed(failure)
        else:
            on_reading()
            problems = frozenset(line for group in groups for line in group.problems)
            for line in sorted(problems - logged):
                decision_log.warn("inventory", message=line)
            logged = problems
            if now != seen:
                # In a thread: the cards of 5,000 nodes take a third of a second.
                found = dict(await asyncio.to_thread(cards_by_node, groups, now.nodes))
                changed = _changed(cards, found)
                is_new = bool(changed) or seen is None
                seen, cards, failure = now, found, None
                if is_new:
                    yield InventoryRead(changed)
        await sleep(interval_s)


def _read(path: str) -> tuple[CardGroup, ...]:
    return read_card_file(read_bytes(path), path)


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _changed(
    old: dict[NodeName, tuple[Gpu, ...]], new: dict[NodeName, tuple[Gpu, ...]]
) -> tuple[tuple[NodeName, tuple[Gpu, ...]], ...]:
    """The nodes whose cards differ; a node that is gone has none."""
    return tuple(
        (node, new.get(node, ()))
        for node in sorted(old.keys() | new.keys())
        if node not in old or new.get(node, ()) != old[node]
    )
