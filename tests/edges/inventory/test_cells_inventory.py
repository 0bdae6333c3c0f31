"""KubeShare's topology file beside an inventory: read, watched, and what is wrong with it said."""

import asyncio
from pathlib import Path

import pytest

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.inventory_source import CellsInventory
from tests.documents.unreadable import UNREADABLE
from tests.making import a_gpu
from tests.patience import PATIENCE_S

FILE = """
cellTypes:
  PAIR: {childCellType: Tesla T4, childCellNumber: 2, childCellPriority: 11, isNodeLevel: true}
  RACK: {childCellType: PAIR, childCellNumber: 2}
cells:
- cellType: RACK
  cellChildren: [{cellId: juno}, {cellId: apple}]
"""
JUNO, APPLE, PEAR = NodeName("juno"), NodeName("apple"), NodeName("pear")


def cards(node: str, model: str = "Tesla-T4") -> tuple[Gpu, ...]:
    return tuple(a_gpu(f"{node}-{index}", index=index, model=model) for index in range(2))


def told(read: InventoryRead) -> dict[str, list[tuple[str, int]]]:
    return {
        node: [(card.cell_id, card.cell_priority) for card in there] for node, there in read.changed
    }


def read(*nodes: str, silent: tuple[NodeName, ...] = ()) -> InventoryRead:
    return InventoryRead(tuple((NodeName(node), cards(node)) for node in nodes), silent)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kubeshare-config.yaml"
    path.write_text(FILE)
    return path


def write(file: Path, text: str) -> None:
    """As a ConfigMap changes: another file in its place."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    move(fresh, file)


def move(file: Path, target: Path) -> None:
    file.replace(target)


def said(log: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since it was last asked."""
    found = [record.__dict__["fields"]["message"] for record in log.records]
    log.clear()
    return found


async def loaded(path: Path) -> CellsInventory:
    inventory = CellsInventory(str(path), interval_s=0.01)
    await inventory.load()
    return inventory


async def test_cards_of_all_hosts_of_a_cell_know_their_cells(file: Path) -> None:
    inventory = await loaded(file)
    joined = inventory.join(read("apple", "juno", "pear", silent=(PEAR,)))
    assert joined.silent == (PEAR,)
    assert told(joined) == {
        "apple": [("1/apple/4", 11), ("1/apple/3", 11)],
        "juno": [("1/juno/2", 11), ("1/juno/1", 11)],
        "pear": [("", 0), ("", 0)],
    }


async def test_without_a_file_nothing_changes() -> None:
    given = read("apple")
    assert CellsInventory().join(given) is given


async def test_a_file_that_changes_is_read_again_and_cards_are_joined_anew(file: Path) -> None:
    inventory = await loaded(file)
    inventory.join(read("apple", "juno", "pear"))
    taken: asyncio.Queue[InventoryRead] = asyncio.Queue()
    write(file, FILE.replace("cellId: juno", "cellId: pear").replace("11", "12"))
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        following = group.create_task(inventory.follow(taken.put))
        joined = told(inventory.join(await taken.get()))
        following.cancel()
    assert joined["juno"] == [("", 0), ("", 0)]
    assert joined["pear"] == [("1/pear/2", 12), ("1/pear/1", 12)]


async def test_a_file_with_a_mistake_is_reported_and_the_last_good_one_stays(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inventory = await loaded(file)
    write(file, FILE.replace("isNodeLevel: true", "isNodeLevel: maybe"))
    assert not await inventory.load()
    assert not await inventory.load()
    (mistake,) = said(caplog)
    assert "kubeshare-config.yaml: cellTypes.PAIR.isNodeLevel: Expected `bool`" in mistake
    assert told(inventory.join(read("juno")))["juno"] == [("1/juno/2", 11), ("1/juno/1", 11)]
    move(file, file.with_suffix(".gone"))
    assert not await inventory.load()
    assert "No such file" in said(caplog)[-1]
    write(file, FILE)
    assert await inventory.load()


@pytest.mark.parametrize(("text", "why"), UNREADABLE.items())
async def test_no_text_ends_the_reading(
    file: Path, caplog: pytest.LogCaptureFixture, text: str, why: str
) -> None:
    inventory = await loaded(file)
    write(file, text)
    assert not await inventory.load()
    assert not await inventory.load()
    (mistake,) = said(caplog)
    assert mistake.startswith(f"{file}: line ")
    assert why in mistake
    assert told(inventory.join(read("juno")))["juno"] == [("1/juno/2", 11), ("1/juno/1", 11)]


async def test_what_is_not_there_is_said_once_and_the_rest_counts(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inventory = await loaded(file)
    apple = InventoryRead(((APPLE, cards("apple", "Tesla-T4-16GB")),))
    inventory.join(InventoryRead(((PEAR, cards("pear")),), more=True))
    assert said(caplog) == []
    inventory.join(apple)
    inventory.join(apple)
    assert said(caplog) == [
        "cells[0].cellChildren[0]: node juno is not known, or has no cards",
        "cells[0].cellChildren[1]: apple-0, apple-1 are in no cell",
        "cells[0].cellChildren[1]: node apple has 0 of 2 Tesla-T4; is it Tesla-T4-16GB?",
    ]
    assert told(inventory.join(read("juno")))["juno"] == [("1/juno/2", 11), ("1/juno/1", 11)]
