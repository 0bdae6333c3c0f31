"""A collector on a node with RDMA devices: a fake driver's cards, and a tree like sysfs."""

from pathlib import Path

import pytest

from tests.collector.collectors import collector
from tests.collector.conftest import NewBoard
from tests.edges.node.sysfs import put_card, put_rdma

#: The buses of the first two cards of a fake board.
FIRST, SECOND = "0000:07:00.0", "0000:0f:00.0"
SWITCH = "pci0000:00/0000:00:01.0/0000:01:00.0"


@pytest.mark.slow
async def test_devices_are_reported_and_how_near_each_card_is(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board = new_board("t4-box")
    put_card(tmp_path, f"{SWITCH}/0000:02:00.0/{FIRST}")
    put_card(tmp_path, f"pci0000:80/0000:80:01.0/{SECOND}")
    put_rdma(tmp_path, "mlx5_0", f"{SWITCH}/0000:02:04.0/0000:04:00.0", numa=0)
    environment = {**board.environment}
    async with collector(environment, 0.1, 30.0, "--root", str(tmp_path)) as found:
        page = await found.expect_eventually(
            lambda page: "kubeshare_rdma_device{0000:04:00.0,mlx5_0,0000:01:00.0}" in page
        )
    assert page["kubeshare_rdma_numa_node{mlx5_0}"] == 0
    assert page[f"kubeshare_gpu_rdma{{mlx5_0,PIX,{board.uuid(0)}}}"] == 1
    others = [
        name for name in page if name.startswith("kubeshare_gpu_rdma") and board.uuid(1) in name
    ]
    assert len(others) == 1
    assert others[0].split(",")[1] in ("NODE", "SYS")
