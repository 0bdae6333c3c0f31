"""Locks that HAMi's device plugins left behind are freed, by the watch of nodes and requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from kubeshare_py.dialects.cambricon import Cambricon
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.annotations import write_lock
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.storage import LockNode
from kubeshare_py.edges.inventory.hami_nodes import HamiLocks, HamiNodes, locks_of, plugins_of
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.serving.server import Fault
from kubeshare_py.manifests import node, watch
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.events import node_events, pod_events
from kubeshare_py.manifests.node import NodeFields, NodeStatus
from kubeshare_py.manifests.pods.pod_fields import PodFields
from tests.embedded_cluster.embedded import cluster
from tests.making import FREE, Driver
from tests.patience import PATIENCE_S

NOW = 1_700_000_000.0
KEY = "hami.io/mutex.lock"
NODE, PODS = "/api/v1/nodes/n1", "/api/v1/namespaces/default/pods"
P = PodKey("default", "p")


def locked(text: str, name: str = "n1") -> NodeFields:
    return NodeFields(metadata=ObjectMeta(name=name, annotations={KEY: text}))


async def a_locked_node(client: KubeClient, text: str) -> None:
    metadata = {"name": "n1", "annotations": {KEY: text}}
    await client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})


async def a_pod(client: KubeClient, phase: str, node: str | None = "n1") -> None:
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    metadata = {"name": "p", "annotations": {"hami.io/bind-phase": phase}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    await client.create(PODS, {**body, "spec": {**spec, **({"nodeName": node} if node else {})}})


async def lock_of(client: KubeClient) -> str | None:
    found = await client.get(NODE)
    text = (found["metadata"].get("annotations") or {}).get(KEY)
    assert text is None or isinstance(text, str)
    return text


@asynccontextmanager
async def kept(client: KubeClient, text: str, clock: list[float]) -> AsyncIterator[None]:
    """The locks are watched over, and one of this text was seen; `clock` has the time."""
    locks = HamiLocks(now_s=lambda: clock[0])
    locks.seen(locked(text))
    clock[0] += 1.0
    keeping = asyncio.create_task(locks.keep(client, lambda: True))
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def expect_free(client: KubeClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await lock_of(client) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize("text", ["garbage", write_lock(NOW, P), write_lock(NOW - 400, None)])
async def test_a_malformed_an_old_and_a_lock_without_its_pod_are_freed(
    tmp_path: Path, text: str
) -> None:
    async with cluster(tmp_path) as (_, client):
        await a_locked_node(client, text)
        async with kept(client, text, [NOW]):
            await expect_free(client)


async def test_a_lock_whose_plugin_has_answered_is_freed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        await a_locked_node(client, write_lock(NOW, P))
        await a_pod(client, "success")
        async with kept(client, write_lock(NOW, P), [NOW]):
            await expect_free(client)


async def test_a_lock_that_was_replaced_meanwhile_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the text that was seen is removed: another one by then stays."""
    async with cluster(tmp_path) as (served, client):
        await a_locked_node(client, write_lock(NOW + 1, P))
        async with kept(client, write_lock(NOW, P), [NOW]):
            async with asyncio.timeout(PATIENCE_S):
                while "unlock" not in caplog.messages[1:]:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        assert await lock_of(client) == write_lock(NOW + 1, P)
        assert served is not None


async def test_a_lock_whose_pod_is_on_its_way_is_kept_and_failures_are_tried_again(
    tmp_path: Path,
) -> None:
    clock = [NOW]
    async with cluster(tmp_path) as (served, client):
        await a_locked_node(client, write_lock(NOW, P))
        await a_pod(client, "allocating")
        served.faults.inject(Fault(method="GET", path="/pods/p$", status=503, times=1))
        locks = HamiLocks(now_s=lambda: clock[0])
        locks.seen(locked(write_lock(NOW, P)))
        for later in (1.0, 2.0, 3.0):
            clock[0] = NOW + later
            for lock in locks.ages.due(clock[0]):
                await locks.look(client, lock)
        assert await lock_of(client) == write_lock(NOW, P)
        clock[0] = NOW + 300.0
        for lock in locks.ages.due(clock[0]):
            await locks.look(client, lock)
        assert await lock_of(client) is None


def test_a_pod_with_a_part_of_an_mlu_is_bound_once_the_lock_of_its_plugin_is_taken() -> None:
    dialects = Dialects({"kubeshare-scheduler": (SHAREDGPU, Cambricon())})
    vcore, vmemory = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory"
    offered = {"cpu": "8", "memory": "64Gi", "pods": "110", vcore: "100", vmemory: "192"}
    shown = NodeFields(metadata=ObjectMeta(name="n1"), status=NodeStatus(allocatable={**offered}))
    mlus = HamiNodes(plugins_of("nvidia.com/gpu"), now_s=lambda: NOW)
    mlus.take(shown)
    limits = {"cambricon.com/vmlu": "1", vmemory: "4", vcore: "10"}
    container = {"name": "main", "resources": {"limits": limits}}
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"schedulerName": "kubeshare-scheduler", "containers": [container]},
    }
    driver = Driver({}, locks=(FREE,))
    seen = node_events(dialects, locks_of("nvidia.com/gpu")).event("ADDED", shown)
    asked = pod_events(dialects).event("ADDED", msgspec.convert(body, PodFields))
    assert seen is not None
    assert asked is not None
    driver.tell(seen, mlus.read(), asked)
    assert driver.decide() == []
    (write,) = driver.requested
    assert write == LockNode(
        node="n1", key="cambricon.com/dsmlu.lock", namespace="default", pod="p", names_owner=False
    )
    driver.wrote()
    assert [bind.key.name for bind in driver.decide()] == ["p"]


def test_nodes_that_are_gone_have_no_locks() -> None:
    locks = HamiLocks(now_s=lambda: NOW)
    for name in ("n1", "n2", "n3"):
        locks.seen(locked("garbage", name))
    items = [node.to_domain(locked("garbage", "n1"))]
    odd = watch.Problem(text="odd", name="n2")
    locks.changed(watch.ListResult(items=items, problems=[odd], asked_at=0.0))
    assert [one.node for one in locks.ages.due(NOW)] == ["n1", "n2"]
    gone = watch.WatchLine[NodeFields](type=watch.DELETED, problem=odd)
    free = watch.WatchLine(type=watch.MODIFIED, item=NodeFields(metadata=ObjectMeta(name="n1")))
    locks.changed(watch.Changes(changed=[gone, free]))
    assert locks.ages.due(NOW + 1000) == []
