"""gpushare's ConfigMaps beside an inventory: followed, and joined with each reading."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.unhealthy_cards import UnhealthyCards
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.serving.server import Fault
from tests.embedded_cluster.embedded import cluster
from tests.making import some_gpus
from tests.patience import PATIENCE_S

MAPS = "/api/v1/namespaces/kube-system/configmaps"
N1, N2 = NodeName("n1"), NodeName("n2")


def read(*nodes: NodeName, more: bool = False) -> InventoryRead:
    return InventoryRead(tuple((one, some_gpus(one, 2)) for one in nodes), (N2,), more=more)


def healthy(event: InventoryRead) -> dict[str, list[bool]]:
    return {node: [card.healthy for card in cards] for node, cards in event.changed}


async def declare(client: KubeClient, node: str, gpus: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"unhealthy-gpu-{node}"}}
    await client.create(MAPS, {**body, "data": {"gpus": gpus}})


@asynccontextmanager
async def followed(
    client: KubeClient, cards: UnhealthyCards, pauses: list[float] | None = None
) -> AsyncIterator["asyncio.Queue[InventoryRead]"]:
    """What is taken in, in order, while they are followed."""
    taken: asyncio.Queue[InventoryRead] = asyncio.Queue()

    async def take(event: InventoryRead) -> None:
        await taken.put(cards.join(event))

    async def sleep(seconds: float) -> None:
        (pauses if pauses is not None else []).append(seconds)
        await asyncio.sleep(0)

    following = asyncio.create_task(cards.follow(client, asyncio.Lock(), take, sleep))
    try:
        await asyncio.wait_for(cards.known.wait(), PATIENCE_S)
        yield taken
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def test_a_reading_and_each_portion_of_it_has_what_is_declared(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        await declare(client, "n1", "1")
        cards = UnhealthyCards()
        async with followed(client, cards):
            assert healthy(cards.join(read(N1, more=True))) == {"n1": [True, False]}
            last = cards.join(read(N2))
            assert healthy(last) == {"n2": [True, True]}
            assert last.silent == (N2,)


async def test_a_change_brings_the_cards_of_that_node_alone(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        cards = UnhealthyCards()
        async with followed(client, cards) as taken:
            cards.join(read(N1, N2))
            await declare(client, "n1", "0,1")
            event = await asyncio.wait_for(taken.get(), PATIENCE_S)
            assert (healthy(event), event.silent) == ({"n1": [False, False]}, (N2,))
            await client.delete(f"{MAPS}/unhealthy-gpu-n1")
            assert healthy(await asyncio.wait_for(taken.get(), PATIENCE_S)) == {"n1": [True, True]}
            assert taken.empty()


async def test_a_config_map_that_went_while_nothing_was_watched_counts_no_more(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as (_, client):
        cards = UnhealthyCards()
        for node in (N1, N2):
            await declare(client, node, "0")
        async with followed(client, cards):
            assert healthy(cards.join(read(N1, N2)))["n1"] == [False, True]
        await client.delete(f"{MAPS}/unhealthy-gpu-n1")
        async with followed(client, cards) as taken:
            assert healthy(await asyncio.wait_for(taken.get(), PATIENCE_S)) == {"n1": [True, True]}


async def test_config_maps_that_may_never_be_read_hold_nothing_up(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client):
        server.faults.inject(Fault(method="GET", path="/configmaps", status=403, times=1_000_000))
        cards = UnhealthyCards()
        async with followed(client, cards):
            assert healthy(cards.join(read(N1))) == {"n1": [True, True]}


async def test_config_maps_that_may_not_be_read_are_asked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as (server, client):
        await declare(client, "n1", "1")
        server.faults.inject(Fault(method="GET", path="/configmaps", status=403, times=2))
        cards, pauses = UnhealthyCards(), list[float]()
        cards.join(read(N1))
        async with followed(client, cards, pauses) as taken:
            assert healthy(await asyncio.wait_for(taken.get(), PATIENCE_S)) == {"n1": [True, False]}
    assert pauses[0] == 60.0
    assert any("configmaps" in str(one.__dict__.get("fields")) for one in caplog.records)


async def test_an_odd_text_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path) as (_, client):
        await declare(client, "n1", "abc")
        cards = UnhealthyCards()
        async with followed(client, cards) as taken:
            cards.join(read(N1, N2))
            await declare(client, "n2", "0")
            await asyncio.wait_for(taken.get(), PATIENCE_S)
    said = [str(one.__dict__.get("fields")) for one in caplog.records]
    assert len([text for text in said if "unhealthy-gpu-n1: data.gpus: 'abc'" in text]) == 1
