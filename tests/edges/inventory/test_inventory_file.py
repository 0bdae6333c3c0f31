"""Cards by hand, from a file that changes."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.inventory_file import readings
from tests.documents.unreadable import UNREADABLE
from tests.patience import PATIENCE_S

A, B = NodeName("a"), NodeName("b")


def write(file: Path, text: str) -> None:
    """Write with a new time of change, however coarse the file system's clock is."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))


def group(names: str, count: int) -> str:
    return f"{{names: [{names}], cards: [{{model: T4, memory: 1GiB, count: {count}}}]}}"


def counts(read: InventoryRead | InventoryFailed) -> dict[str, int]:
    assert isinstance(read, InventoryRead)
    return {node: len(cards) for node, cards in read.changed}


async def following(
    inventory: AsyncGenerator[InventoryRead | InventoryFailed, None],
) -> InventoryRead | InventoryFailed:
    """What comes next; a test that waits in vain shall fail, not hang."""
    async with asyncio.timeout(PATIENCE_S):
        return await anext(inventory)


async def turn(_seconds: float) -> None:
    """Instead of sleeping: let the others run."""
    await asyncio.sleep(0)


async def test_changes_of_the_file_and_of_the_nodes_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    write(file, "nodes: [{names: ['*'], cards: [{model: T4, memory: 1GiB, count: 2}]}]")
    nodes = [A]
    async with aclosing(readings(str(file), lambda: nodes, sleep=turn)) as inventory:
        assert counts(await following(inventory)) == {"a": 2}
        nodes.append(B)
        assert counts(await following(inventory)) == {"b": 2}
        write(file, f"nodes: [{group('b', 3)}]")
        assert counts(await following(inventory)) == {"a": 0, "b": 3}


async def test_a_mistake_is_reported_once_and_the_last_good_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    async with aclosing(readings(str(file), lambda: [A], sleep=turn)) as inventory:
        missing = await following(inventory)
        assert isinstance(missing, InventoryFailed)
        assert "No such file" in missing.message
        write(file, f"nodes: [{group('a', 1)}]")
        assert counts(await following(inventory)) == {"a": 1}
        write(file, "nodes: [{names: [a], cards: 5}]")
        failed = await following(inventory)
        assert failed == InventoryFailed(f"{file}: nodes[0].cards: Expected `array`, got `int`")
        write(file, f"nodes: [{group('a', 1)}]")
        assert await following(inventory) == InventoryRead(())


@pytest.mark.parametrize(("text", "said"), UNREADABLE.items())
async def test_no_text_ends_the_reading(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "inventory.yaml"
    write(file, f"nodes: [{group('a', 1)}]")
    async with aclosing(readings(str(file), lambda: [A], sleep=turn)) as inventory:
        assert counts(await following(inventory)) == {"a": 1}
        write(file, text)
        failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        assert said in failed.message
        write(file, f"nodes: [{group('a', 2)}]")
        assert counts(await following(inventory)) == {"a": 2}


async def test_an_empty_file_is_an_inventory_too(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    write(file, "nodes: []")

    async def first() -> AsyncIterator[InventoryRead | InventoryFailed]:
        async with aclosing(readings(str(file), tuple, sleep=turn)) as inventory:
            yield await following(inventory)

    assert [read async for read in first()] == [InventoryRead(())]
