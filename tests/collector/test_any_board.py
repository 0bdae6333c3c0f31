"""What holds for every board: those of the fake driver, and this machine's cards if it has any.

A machine with libnvidia-ml.so.1 is asked as it is; nothing on it is changed.
"""

import asyncio
import ctypes
import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from kubeshare_py.exporters.collector_metrics import CATALOGUE
from kubeshare_py.inventory.series import CardOfNode, read_series
from tests.collector.collectors import EACH_BOARD, PIPE, Page, capacity, run, series
from tests.collector.conftest import NewBoard

REAL = "this-machine"
METRICS = {one.name for one in CATALOGUE}
WORDS = {"PIX", "PXB", "PHB", "NODE", "SYS"}


def has_driver() -> bool:
    """Not only the library, which images without a card have too."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    is_usable: bool = library.nvmlInit_v2() == 0
    if is_usable:
        library.nvmlShutdown()
    return is_usable


@pytest.fixture(params=[*EACH_BOARD, REAL])
def environment(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """Of a process that finds the board."""
    if request.param != REAL:
        new_board: NewBoard = request.getfixturevalue("new_board")
        return new_board(request.param).environment
    if not has_driver():
        pytest.skip("no NVIDIA driver on this machine")
    return os.environ


async def document(environment: Mapping[str, str]) -> Any:
    code, text, errors = await run(environment, "--once", "-o", "json", "--node-name", "n1")
    assert (code, errors) == (0, "")
    return json.loads(text)


async def page(environment: Mapping[str, str]) -> tuple[Page, str]:
    code, text, errors = await run(environment, "--once", "-o", "prometheus", "--node-name", "n1")
    assert (code, errors) == (0, "")
    return series(text), text


@pytest.mark.slow
async def test_cards_make_sense(environment: Mapping[str, str]) -> None:
    found = await document(environment)
    readings = {card["reading"]["uuid"]: card["reading"] for card in found["cards"]}
    assert len(readings) == len(found["cards"]) > 0
    for uuid, card in readings.items():
        assert uuid.startswith(("GPU-", "MIG-"))
        assert card["model"]
        assert (card["used_bytes"] or 0) + (card["reserved_bytes"] or 0) <= (
            card["memory_bytes"] or 2**50
        )
        assert card["parent"] is None or readings[card["parent"]]["divided"]
        assert {word for _, word in card["paths"]} <= WORDS
        assert {peer for peer, _ in card["paths"]} <= readings.keys() - {uuid}
        assert 0 <= (card["busy_percent"] or 0) <= 100
        assert 0 <= (card["temperature_celsius"] or 0) < 150
        assert 0 <= (card["power_milliwatts"] or 0) < 3_000_000


@pytest.mark.slow
async def test_links_go_both_ways(environment: Mapping[str, str]) -> None:
    found = await document(environment)
    links = {(link["uuid"], link["peer"]): link for link in found["links"]}
    assert len(links) == len(found["links"])
    for (one, other), link in links.items():
        back = links[other, one]
        assert (link["kind"], link["speed"]) == (back["kind"], back["speed"])
        assert link["kind"] in WORDS or link["kind"].startswith("NV")


@pytest.mark.slow
async def test_the_page_has_what_the_catalogue_has(environment: Mapping[str, str]) -> None:
    found, text = await page(environment)
    own = {name.partition("{")[0] for name in found if not name.startswith(("process_", "python_"))}
    assert {name.replace("gpu_capacity_total", "gpu_capacity") for name in own} <= METRICS
    cards = [read_series(labels) for labels in capacity(text)]
    assert all(isinstance(card, CardOfNode) for card in cards)
    assert len(cards) == found["kubeshare_collector_cards{}"]
    ratios = [value for name, value in found.items() if "_ratio" in name]
    assert all(0 <= value <= 1 for value in ratios)


async def test_nvidia_smi_agrees_where_there_is_one() -> None:
    program = shutil.which("nvidia-smi")
    if program is None or not has_driver():
        pytest.skip("no nvidia-smi on this machine")
    asked = "uuid,index,name,pci.bus_id,memory.total,mig.mode.current"
    smi = await asyncio.create_subprocess_exec(
        program, f"--query-gpu={asked}", "--format=csv,noheader,nounits", stdout=PIPE
    )
    answer, _ = await smi.communicate()
    found = await document(os.environ)
    whole = [card["reading"] for card in found["cards"] if not card["reading"]["parent"]]
    said = [[cell.strip() for cell in line.split(",")] for line in answer.decode().splitlines()]
    assert [[card["uuid"], str(card["index"]), card["model"]] for card in whole] == [
        row[:3] for row in said
    ]
    for card, row in zip(whole, said, strict=True):
        assert row[3].lower().endswith(card["bus"])
        assert int(row[4]) == card["memory_bytes"] // 2**20
        assert (row[5] == "Enabled") == bool(card["divided"])
