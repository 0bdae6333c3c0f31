"""Cards that HAMi's device plugins register, read from the scheduler's own watch of nodes."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from kubeshare_py.dialects.hami.annotations import RegisteredCard, write_json
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.annotated_nodes import AnnotatedNodes
from kubeshare_py.edges.inventory.hami_nodes import HamiNodes, plugin_node, plugins_of
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.serving.server import Fault
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.node import NodeFields, NodeStatus
from tests.embedded_cluster.embedded import cluster

NOW = 1_700_000_000.0
NODES = "/api/v1/nodes"
GPU = "nvidia.com/gpu"
CARD = RegisteredCard(
    uuid="GPU-a", count=10, memory_mib=1024, cores=100, type="NVIDIA T4", health=True
)
REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"


def a_node(name: str, **annotations: str) -> NodeFields:
    return NodeFields(
        metadata=ObjectMeta(name=name, annotations={REGISTER: write_json([CARD]), **annotations}),
        status=NodeStatus(allocatable={GPU: "10"}),
    )


def nodes() -> HamiNodes:
    found = HamiNodes(plugins_of(GPU), now_s=lambda: NOW)
    for name in ("n1", "n2"):
        found.take(a_node(name))
    assert counts(found) == [("n1", 1), ("n2", 1)]
    return found


def counts(found: HamiNodes) -> list[tuple[str, int]]:
    """The nodes whose cards changed, with their number."""
    return [(name, len(cards)) for name, cards in found.read().changed]


def test_nodes_come_and_go() -> None:
    found = nodes()
    assert not found.take(a_node("n1"))
    found.only([NodeName("n1")])
    assert counts(found) == [("n2", 0)]
    assert found.take(a_node("n2"))
    found.gone(NodeName("n1"))
    assert counts(found) == [("n1", 0), ("n2", 1)]


def test_what_counts_of_a_node() -> None:
    annotations = {
        "hami.io/mutex.lock": "2023-11-14T22:13:20Z,default,p",
        "other": "text",
    }
    shown = plugin_node(a_node("n1", **annotations), plugins_of(GPU))
    assert shown.offered == {GPU: 10}
    assert shown.lock == "2023-11-14T22:13:20Z,default,p"
    assert [*shown.annotations] == [REGISTER]


@pytest.mark.parametrize("amount", ["many", "-1", ""])
def test_an_amount_that_is_none_counts_as_0(amount: str) -> None:
    odd = NodeFields(status=NodeStatus(allocatable={GPU: amount}))
    assert plugin_node(odd, plugins_of(GPU)).offered == {GPU: 0}


async def test_readings_come_with_changes_and_when_a_minute_is_over() -> None:
    clock = [NOW]
    found = AnnotatedNodes(HamiNodes(plugins_of(GPU), now_s=lambda: clock[0]))
    again = asyncio.Event()
    # Its plugin registered, and the kubelet has not advertised it yet.
    found.seen(NodeFields(metadata=a_node("n1").metadata))
    async with aclosing(found.readings(again.set, 0.01)) as stream:
        first = await anext(stream)
        assert [one.healthy for one in dict(first.changed)[NodeName("n1")]] == [True]  # type: ignore[union-attr]
        clock[0] += 60
        second = await anext(stream)
        assert [one.healthy for one in dict(second.changed)[NodeName("n1")]] == [False]  # type: ignore[union-attr]
        waiting = asyncio.ensure_future(anext(stream))
        again.clear()
        await again.wait()  # a reading is as new as the watch, though nothing changes
        found.seen(a_node("n2"))
        third = await waiting
        assert [name for name, _ in third.changed] == ["n2"]  # type: ignore[union-attr]


async def with_a_node(client: KubeClient) -> None:
    metadata = {"name": "n1", "annotations": {REGISTER: write_json([CARD])}}
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})


async def handshake(client: KubeClient) -> str | None:
    found = await client.get(f"{NODES}/n1")
    text = found["metadata"]["annotations"].get(HANDSHAKE)
    assert text is None or isinstance(text, str)
    return text


async def test_a_silent_plugin_is_asked_once_a_minute(tmp_path: Path) -> None:
    clock = [NOW]
    async with cluster(tmp_path) as (_, client):
        await with_a_node(client)
        found = HamiNodes(plugins_of(GPU), now_s=lambda: clock[0])
        found.take(a_node("n1"))
        found.read()
        await found.ask(client)
        assert await handshake(client) == "Requesting_2023-11-14 22:13:20"
        clock[0] += 59  # the watch has not shown it yet
        await found.ask(client)
        assert await handshake(client) == "Requesting_2023-11-14 22:13:20"
        clock[0] += 1
        await found.ask(client)
        assert await handshake(client) == "Requesting_2023-11-14 22:14:20"


async def test_a_refusal_is_logged_and_others_are_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as (served, client):
        await with_a_node(client)
        found = nodes()
        served.faults.inject(Fault(method="PATCH", path="/n1$", status=403))
        await found.ask(client)
        assert caplog.messages == ["handshake", "handshake"]  # n2 is not even there
        assert await handshake(client) is None


async def test_only_the_leader_asks(tmp_path: Path) -> None:
    leads = [False, True]
    async with cluster(tmp_path) as (_, client):
        await with_a_node(client)
        found = HamiNodes(plugins_of(GPU), now_s=lambda: NOW)
        found.take(a_node("n1"))
        found.read()
        seen: list[str | None] = []

        async def sleep(seconds: float) -> None:
            seen.append(await handshake(client))
            if len(seen) > 2:
                raise EndOfTest

        with pytest.raises(EndOfTest):
            await found.ask_for_ever(client, lambda: leads.pop(0), sleep)
    assert seen == [None, None, "Requesting_2023-11-14 22:13:20"]


class EndOfTest(Exception):
    """The test has seen enough."""


def test_mlus_are_registered_by_the_ancestors_plugin_or_advertised_by_cambricons() -> None:
    text = "MLU-1,10,23308,0,MLU-MLU370-X4,0,true:MLU-2,10,23308,0,MLU-MLU370-X4,0,false:"
    registered = NodeFields(
        metadata=ObjectMeta(name="n1", annotations={"4pd.io/node-mlu-register": text}),
        status=NodeStatus(allocatable={"cambricon.com/mlunum": "20"}),
    )
    offered = {"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "192"}
    advertised = NodeFields(
        metadata=ObjectMeta(name="n2"), status=NodeStatus(allocatable=dict(offered))
    )
    found = HamiNodes(plugins_of(GPU), now_s=lambda: NOW)
    for one in (registered, advertised):
        found.take(one)
    cards = dict(found.read().changed)
    first, second = cards[NodeName("n1")]
    assert (first.uuid, first.model, first.vendor) == ("MLU-1", "MLU-MLU370-X4", "MLU")
    assert (first.healthy, second.healthy, first.capacity_milli) == (True, False, 1000)
    assert [one.uuid for one in cards[NodeName("n2")]] == [
        "n2-cambricon-mlu-0",
        "n2-cambricon-mlu-1",
    ]
    assert {one.memory_bytes for one in cards[NodeName("n2")]} == {96 * 256 * 2**20}
    # Only the ancestor's plugin is asked for signs of life.
    assert [*found.plugins.silent] == [("n1", "4pd.io/node-handshake-mlu")]
