"""kube-scheduler itself, with this scheduler as its extender, on a real control plane."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.controlplane.running import ControlPlane, free_ports
from tests.stories.conftest import PODS, Json, Stage, bound, card, gpu, scheduled_condition
from tests.stories.kube_schedulers import kube_scheduler
from tests.stories.test_extender import OWN, THEIRS, document, warm_up

pytestmark = pytest.mark.real_only("it needs kube-scheduler, which make e2e builds")

HALVES = 16
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 8, memory: 16GiB}]}]"


def configuration(port: int, *, caches_nodes: bool) -> Json:
    """kube-scheduler's default plugins, and an extender at this port for every pod."""
    extender = {
        "urlPrefix": f"https://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": {"insecure": True},
        "nodeCacheCapable": caches_nodes,
        "httpTimeout": "30s",
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": THEIRS}],
        "extenders": [extender],
    }


@asynccontextmanager
async def both(
    stage: Stage, plane: ControlPlane | None, *, caches_nodes: bool = True
) -> AsyncIterator[None]:
    """This scheduler, and kube-scheduler with it as its extender."""
    assert plane is not None
    [port] = free_ports(1)
    async with stage.scheduler(document(port)):
        await warm_up(stage)
        settings = configuration(port, caches_nodes=caches_nodes)
        with kube_scheduler(plane, stage.folder, settings):
            await theirs(stage, "first", "0.001")
            await stage.expect_running("first")
            await stage.expect_deleted("first")
            yield


async def theirs(stage: Stage, name: str, request: str = "0.5") -> None:
    await stage.create(name, gpu(request), schedulerName=THEIRS)


async def burst(stage: Stage, count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(theirs(stage, f"half-{number}"))


def per_card(pods: list[Json]) -> list[int]:
    """How many pods each card has."""
    return sorted(Counter(card(pod) for pod in pods if card(pod)).values())


async def expect_filled_without_one_too_many(stage: Stage) -> None:
    """More halves than fit: all cards are full, and the rest is told why it waits."""
    began = asyncio.get_running_loop().time()
    await burst(stage, HALVES + 2)
    pods = await stage.expect_all(lambda found: len(bound(found)) == HALVES)
    took_s = asyncio.get_running_loop().time() - began
    assert per_card(pods) == [2] * (HALVES // 2)
    waiting = sorted({pod["metadata"]["name"] for pod in pods} - {*bound(pods)})
    for name in waiting:
        told = await stage.expect_eventually(
            name, lambda pod: "Insufficient GPU" in scheduled_condition(pod).get("message", "")
        )
        assert scheduled_condition(told)["reason"] == "Unschedulable"
    print(f"{HALVES} halves bound by kube-scheduler and its extender in {took_s:.2f} s")
    await stage.expect_deleted(bound(pods)[0])
    after = await stage.expect_all(lambda found: len(bound(found)) == HALVES)
    assert per_card(after) == [2] * (HALVES // 2)


@pytest.mark.parametrize("caches_nodes", [True, False], ids=["names", "objects"])
async def test_a_burst_on_one_node_of_eight_cards_fills_it_and_no_more(
    empty_stage: Stage, plane: ControlPlane | None, *, caches_nodes: bool
) -> None:
    async with both(empty_stage, plane, caches_nodes=caches_nodes):
        await expect_filled_without_one_too_many(empty_stage)


class TestEightNodesOfOneCard:
    CLUSTER = 'nodes: [{name: "n{n}", count: 8, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'

    async def test_a_burst_fills_them_and_no_more(
        self, empty_stage: Stage, plane: ControlPlane | None
    ) -> None:
        async with both(empty_stage, plane):
            await expect_filled_without_one_too_many(empty_stage)


async def test_pods_of_both_schedulers_share_the_same_cards_at_the_same_time(
    empty_stage: Stage, plane: ControlPlane | None
) -> None:
    async with both(empty_stage, plane):
        async with asyncio.TaskGroup() as group:
            for number in range(HALVES):
                name = THEIRS if number % 2 else OWN
                group.create_task(
                    empty_stage.create(f"half-{number}", gpu("0.5"), schedulerName=name)
                )
        pods = await empty_stage.expect_all(lambda found: len(bound(found)) == HALVES)
        assert per_card(pods) == [2] * (HALVES // 2)


async def test_pods_without_gpus_are_bound_through_the_extender_too(
    empty_stage: Stage, plane: ControlPlane | None
) -> None:
    async with both(empty_stage, plane):
        await empty_stage.create("plain", schedulerName=THEIRS)
        pod = await empty_stage.expect_running("plain")
        assert card(pod) == ""
        assert await empty_stage.client.list_all(PODS)
