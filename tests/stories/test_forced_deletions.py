"""Deletion by force: the API server forgets a pod at once, a kubelet may not.

The kubelets here are those of a cluster without GPUs; what they do with real containers is in
`manifests.pods.pod`.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.controllers.unstructured import Json
from kubeshare_py.scheduling.explain.explanation import cluster_view
from kubeshare_py.scheduling.machine import Machine
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import PODS, Stage, gpu

LONG_S, SHORT_S = 600, 3.0
CLUSTER = "nodes: [{name: n1, gpus: [{model: V100, count: 1, memory: 32GiB}]}]"


def settings(held_s: float) -> Json:
    inventory, alone = {"intervalSeconds": 0.1}, {"leaderElect": False}
    return {"inventory": inventory, "leaderElection": alone, "forcedDeleteHoldSeconds": held_s}


@pytest.fixture
async def machine(empty_stage: Stage) -> AsyncIterator[Machine]:
    async with empty_stage.scheduler(settings(LONG_S)) as machine:
        await empty_stage.warm_up()
        yield machine


@pytest.fixture
def stage(empty_stage: Stage, machine: Machine) -> Stage:
    """A scheduler that holds cards for longer than any test takes."""
    return empty_stage


@asynccontextmanager
async def unwatched(stage: Stage) -> AsyncIterator[None]:
    """What is done meanwhile no watch shows, only the next list."""
    stage.cluster.server.cut_watches()
    yield
    stage.cluster.server.compact()


async def one_runs_and_one_waits(stage: Stage) -> None:
    await stage.create("first", gpu("0.7"), terminationGracePeriodSeconds=LONG_S)
    await stage.expect_running("first")
    await stage.create("next", gpu("0.6"))
    await stage.expect_waiting("next")


async def expect_card_held(stage: Stage, machine: Machine) -> None:
    """A later pod that fits beside `first` is bound, which says that the deletion was heard."""
    await stage.create("beside", gpu("0.1"))
    await stage.expect_running("beside")
    assert machine.ledger.lingering
    assert "nodeName" not in (await stage.pod("next"))["spec"]


@pytest.mark.slow
async def test_a_card_is_held_after_a_forced_deletion(empty_stage: Stage) -> None:
    stage, loop = empty_stage, asyncio.get_running_loop()
    async with stage.scheduler(settings(SHORT_S)) as machine:
        await stage.warm_up()
        await one_runs_and_one_waits(stage)
        began = loop.time()
        await stage.client.delete(f"{PODS}/first", grace_period_s=0)
        await stage.expect_running("next")
        assert loop.time() - began >= SHORT_S
        (card,) = cluster_view(machine).nodes[0].cards
        assert card.lingering == ()


@pytest.mark.slow
async def test_people_see_that_a_card_is_held_and_why_a_pod_waits(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler(settings(LONG_S)):
        await stage.warm_up()
        await one_runs_and_one_waits(stage)
        await stage.cluster.state_served()
        await stage.client.delete(f"{PODS}/first", grace_period_s=0)
        # A small pod that fits beside it says that the deletion was heard.
        await stage.create("beside", gpu("0.1"))
        await stage.expect_running("beside")
        kubeconfig = stage.cluster.kubeconfig
        code, cards, said = await kubectl_kubeshare(kubeconfig, "gpus")
        assert code == 0, said
        held = re.search(
            r"0\.8/1\.0 +- +0\.7 held for (\d+) s after the forced deletion of (\S+)", cards
        )
        assert held, cards
        assert (int(held[1]) > LONG_S / 2, held[2]) == (True, "default/first")
        _, told, _ = await kubectl_kubeshare(kubeconfig, "why", "next")
        assert "s more after the forced deletion of pod default/first" in told
        _, plain, _ = await kubectl_kubeshare(kubeconfig, "gpus", output="json")
        (card,) = json.loads(plain)["nodes"][0]["cards"]
        assert [one["name"] for one in card["lingering"]] == ["first"]


async def test_what_a_kubelet_ends_is_not_held(stage: Stage, machine: Machine) -> None:
    await one_runs_and_one_waits(stage)
    await stage.delete("first")
    await stage.expect_running("next")
    assert not machine.ledger.lingering


async def test_a_forced_deletion_cuts_a_graceful_one_short_but_not_what_is_held(
    stage: Stage, machine: Machine
) -> None:
    await one_runs_and_one_waits(stage)
    await stage.cluster.kubelets.lose_node(NodeName("n1"))
    await stage.delete("first")
    await stage.expect_eventually("first", lambda pod: "deletionTimestamp" in pod["metadata"])
    await stage.client.delete(f"{PODS}/first", grace_period_s=0)
    await stage.cluster.kubelets.return_node(NodeName("n1"))
    await expect_card_held(stage, machine)


@pytest.mark.slow
async def test_what_goes_while_nobody_watches_is_held_from_the_next_list_on(
    stage: Stage, machine: Machine
) -> None:
    await one_runs_and_one_waits(stage)
    async with unwatched(stage):
        await stage.client.delete(f"{PODS}/first", grace_period_s=0)
    await expect_card_held(stage, machine)


@pytest.mark.slow
async def test_what_finishes_while_nobody_watches_is_free_with_the_next_list(
    stage: Stage, machine: Machine
) -> None:
    await one_runs_and_one_waits(stage)
    async with unwatched(stage):
        status: Json = {"status": {"phase": "Succeeded"}}
        await stage.client.strategic_patch(f"{PODS}/first/status", status)
    await stage.expect_running("next")
    assert not machine.ledger.lingering
