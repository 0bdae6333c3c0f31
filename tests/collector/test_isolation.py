"""Which isolation back-ends have what they need, from a node's folders and driver to a scrape."""

import re
from pathlib import Path

import pytest

from kubeshare_py.edges.node.card_child import CDI, MPS
from kubeshare_py.edges.process.liveness import shown
from tests.collector.collectors import collector
from tests.collector.conftest import NewBoard
from tests.edges.node.test_node_probe import NEW, OLD, put

NODE, CARD = "kubeshare_collector_isolation", "kubeshare_gpu_isolation"


@pytest.mark.slow
async def test_a_node_tells_what_it_has_while_it_changes(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board, root = new_board("dgx-a100"), tmp_path / "node"
    put(root, "sys/fs/cgroup/cgroup.controllers")
    specification = put(root, f"{CDI[0]}/nvidia.yaml", OLD)
    (root / MPS).mkdir(parents=True)
    options = ("--root", str(root))
    async with collector(board.environment, 0.1, 30.0, *options) as found:
        # In alphabetical order of the labels: driver, gemini, hami_core, mps.
        page = await found.expect_eventually(
            lambda page: page.get(f"{NODE}{{old-driver,,,no-daemon}}") == 8
        )
        assert not any(name.startswith(CARD) for name in page)
        board.set({"driver": "615.36.01"})
        await found.expect_eventually(lambda page: page.get(f"{NODE}{{no-hook,,,no-daemon}}") == 8)
        specification.write_text(NEW)
        await found.expect_eventually(lambda page: page.get(f"{NODE}{{ready,,,no-daemon}}") == 8)
        with shown(root / MPS / board.uuid(2)):
            page = await found.expect_eventually(
                lambda page: page.get(f"{NODE}{{ready,,,no-daemon}}") == 7
            )
            assert page[f"{CARD}{{ready,,,ready,{board.uuid(2)}}}"] == 1
        page = await found.expect_eventually(
            lambda page: page.get(f"{NODE}{{ready,,,no-daemon}}") == 8
        )
        assert not any(name.startswith(CARD) for name in page)
    said = [line for line in found.log if line["event"] == "isolation"]
    assert [line for line in said if "mps" in line] == [
        {**line, "card": board.uuid(2), "mps": state}
        for line, state in zip(said[-2:], ("ready", "no-daemon"), strict=True)
    ]


@pytest.mark.slow
async def test_instances_are_told_apart_from_whole_cards(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board = new_board("hgx-h100-mig")
    async with collector(board.environment, 0.1, 30.0, "--root", str(tmp_path)) as found:
        page = await found.expect_eventually(lambda page: page.get(f"{NODE}{{old-driver,,,}}") == 6)
    named = {name for name in page if name.startswith(CARD)}
    instances = [value for key, value in board.lines.items() if re.search(r"[.]mig.*uuid$", key)]
    assert named == {f"{CARD}{{mig,,,,{uuid}}}" for uuid in instances}


@pytest.mark.slow
async def test_nothing_in_a_nodes_folders_keeps_the_collector_from_telling_of_cards(
    new_board: NewBoard, tmp_path: Path
) -> None:
    for folder in ("run", "sys", "var", "etc", "kubeshare"):
        (tmp_path / folder).touch()
    board = new_board("dgx-a100")
    async with collector(board.environment, 0.1, 30.0, "--root", str(tmp_path)) as found:
        page = await found.expect_eventually(lambda page: page["kubeshare_collector_cards{}"] == 8)
        assert page[f"{NODE}{{old-driver,,,}}"] == 8
