"""The collector writes its node's cards on the Node, of an embedded API server."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.inventory.node_annotations import ANNOTATION, read_annotation
from tests.collector.collectors import collector, run
from tests.collector.conftest import NewBoard
from tests.embedded_cluster.embedded import cluster
from tests.patience import PATIENCE_S

NODE = "/api/v1/nodes/n1"
SLOW = "nvmlDeviceGetPowerUsage"


async def expect_eventually(
    client: KubeClient, wanted: Callable[[tuple[Gpu, ...]], object]
) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            told = ((await client.get(NODE))["metadata"].get("annotations") or {}).get(ANNOTATION)
            if told is not None and wanted(read_annotation(told).cards):
                return
            await asyncio.sleep(0.05)


async def create_node(client: KubeClient) -> None:
    await client.create(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    )


@pytest.mark.slow
async def test_the_node_tells_of_its_cards_and_how_they_are(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board = new_board("hgx-h100-mig")
    async with cluster(tmp_path) as (_, client):
        environment = {**board.environment, "KUBECONFIG": str(tmp_path / "kubeconfig")}
        async with collector(environment, 0.1, 30.0, "--annotate-node") as found:
            # The Node is not there yet: it is tried again.
            await found.expect_eventually(
                lambda _: any(line["event"] == "annotation" for line in found.log)
            )
            await create_node(client)
            await expect_eventually(client, lambda cards: len(cards) > 8)
            version = (await client.get(NODE))["metadata"]["resourceVersion"]
            page = await found.page()
            readings = page["kubeshare_collector_readings_total{read}"]
            await found.expect_eventually(
                lambda page: page["kubeshare_collector_readings_total{read}"] > readings + 3
            )
            assert (await client.get(NODE))["metadata"]["resourceVersion"] == version
            board.error(3, 79)
            await expect_eventually(
                client,
                lambda cards: [one.uuid for one in cards if not one.healthy] == [board.uuid(3)],
            )


@pytest.mark.slow
async def test_the_cards_of_a_driver_that_hangs_are_not_told_to_be_well(
    new_board: NewBoard, tmp_path: Path
) -> None:
    board = new_board("t4-box")
    async with cluster(tmp_path) as (_, client):
        await create_node(client)
        environment = {**board.environment, "KUBECONFIG": str(tmp_path / "kubeconfig")}
        async with collector(environment, 0.1, 1.0, "--annotate-node"):
            await expect_eventually(client, lambda cards: all(card.healthy for card in cards))
            board.hang(SLOW)
            await expect_eventually(
                client, lambda cards: cards and not any(card.healthy for card in cards)
            )


async def test_without_credentials_it_does_not_start(new_board: NewBoard, tmp_path: Path) -> None:
    environment = {**new_board("t4-box").environment, "KUBECONFIG": str(tmp_path / "none")}
    code, _, errors = await run(environment, "--annotate-node", "--port", "0")
    assert code == 3
    assert "no such file" in errors
