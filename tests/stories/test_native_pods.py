"""Pods with nvidia.com/gpu under our schedulerName, on a node whose agent serves the name."""

import json
from typing import Any

import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.nvidia_dialect import GPU, Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.inventory.card_file import synthetic_uuid
from tests.stories.conftest import Json, Stage, annotations, bound, gpu
from tests.stories.gang_pods import LABEL, define_pod_groups, pod_group
from tests.stories.test_preemption import make_classes

PROFILE = "1g.5gb"
INSTANCE = f"nvidia.com/mig-{PROFILE}"
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Nvidia([PROFILE]))})
WORDS = json.dumps({"v": 1, "plugins": [GPU, INSTANCE]})
SERVED = {"metadata": {"annotations": {"kubeshare.io/node-agent": WORDS}}}
CLUSTER = """
nodes:
  - name: served
    gpus: [{model: A100, count: 4, memory: 40GiB}]
    allocatable: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4}
    topology: |
        GPU0 GPU1 GPU2 GPU3
        GPU0  X   NV4  SYS  SYS
        GPU1  NV4  X   SYS  SYS
        GPU2  SYS  SYS  X   NV4
        GPU3  SYS  SYS  NV4  X
  - name: plain
    gpus: [{model: A100, count: 4, memory: 40GiB}]
    allocatable: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4}
  - name: divided
    gpus: [{model: A100-MIG-1g.5gb, count: 2, memory: 4864MiB}]
    allocatable: {cpu: 8, memory: 16Gi, nvidia.com/mig-1g.5gb: 2}
"""


def a_container(name: str, count: int, resource: str = GPU) -> Json:
    amounts = {resource: str(count)}
    return {
        "name": name, "image": "busybox", "resources": {"limits": amounts, "requests": amounts}
    }  # fmt: skip


async def test_cards_are_chosen_card_by_card_beside_shares(empty_stage: Stage) -> None:
    async with empty_stage.scheduler(dialects=DIALECTS):
        await empty_stage.create("early", containers=[a_container("a", 1)])
        waits = await empty_stage.expect_waiting("early")
        assert "3 Insufficient nvidia.com/gpu of nvidia" in waits
        await empty_stage.patch_node("served", SERVED)
        assert (await empty_stage.place("early"))[0] == "served"
        here = {"nodeSelector": {"kubernetes.io/hostname": "served"}}
        await empty_stage.create("share", gpu("0.5"), **here)
        share = (await empty_stage.place("share"))[1]
        both = [a_container("a", 1), a_container("b", 1)]
        await empty_stage.create("both", containers=both)
        pod = await empty_stage.expect_running("both")
        told = pod["metadata"]["annotations"]
        cards = [told[f"sharedgpu/container-{at}.gpu_uuid"] for at in range(2)]
        early = (await empty_stage.place("early"))[1]
        assert {*cards, share, early} == {synthetic_uuid("served", at) for at in range(4)}
        await empty_stage.create("late", containers=[a_container("a", 1)])
        await empty_stage.expect_waiting("late")
        await empty_stage.expect_deleted("early")
        assert await empty_stage.place("late") == ("served", early)


async def native(stage: Stage, name: str, count: int, **spec: Any) -> Json:
    """A pod with so many cards, on the node whose agent serves the name."""
    return await stage.create(name, containers=[a_container("a", count)], **spec)


async def cards_of(stage: Stage, name: str) -> list[str]:
    """The cards of its first container, once it runs."""
    told = annotations(await stage.expect_running(name))
    return told["sharedgpu/container-0.gpu_uuid"].split(",")


async def test_two_cards_are_two_that_are_linked(empty_stage: Stage) -> None:
    async with empty_stage.scheduler(dialects=DIALECTS):
        await empty_stage.patch_node("served", SERVED)
        here = {"nodeSelector": {"kubernetes.io/hostname": "served"}}
        await empty_stage.create("share", gpu("0.5"), **here)
        at = [synthetic_uuid("served", index) for index in range(4)].index
        taken = at((await empty_stage.place("share"))[1])
        await native(empty_stage, "pair", 2)
        found = {at(card) for card in await cards_of(empty_stage, "pair")}
        assert found == ({2, 3} if taken < 2 else {0, 1})


async def test_the_members_of_a_gang_start_together_or_not_at_all(empty_stage: Stage) -> None:
    await define_pod_groups(empty_stage)
    await pod_group(empty_stage, "train", 3)
    async with empty_stage.scheduler(dialects=DIALECTS):
        await empty_stage.patch_node("served", SERVED)
        for number in range(3):
            member = [a_container("a", 2)]
            await empty_stage.create(f"m{number}", {LABEL: "train"}, containers=member)
        waits = await empty_stage.expect_waiting("m0", "needs 3 pods to start together")
        assert "room for 2 of them" in waits
        assert bound(await empty_stage.all_pods()) == []
        await empty_stage.patch_node("plain", SERVED)
        await empty_stage.expect_bound(3)


@pytest.mark.slow
async def test_an_urgent_pod_takes_the_place_of_another(empty_stage: Stage) -> None:
    await make_classes(empty_stage)
    async with empty_stage.scheduler(dialects=DIALECTS):
        await empty_stage.patch_node("served", SERVED)
        soon = {"terminationGracePeriodSeconds": 0}
        await native(empty_stage, "batch", 4, priorityClassName="low", **soon)
        every = await cards_of(empty_stage, "batch")
        await native(empty_stage, "urgent", 2, priorityClassName="high", **soon)
        assert {*await cards_of(empty_stage, "urgent")} < {*every}
        assert "batch" not in {pod["metadata"]["name"] for pod in await empty_stage.all_pods()}


async def test_instances_are_chosen_by_profile_and_by_model(empty_stage: Stage) -> None:
    """By the two dialects that can name them; an instance is nobody's twice."""
    async with empty_stage.scheduler(dialects=DIALECTS):
        await empty_stage.patch_node("divided", SERVED)
        await empty_stage.create("profile", containers=[a_container("a", 1, INSTANCE)])
        [one] = await cards_of(empty_stage, "profile")
        await empty_stage.create("model", gpu("0.5", gpu_model="A100-MIG-1g.5gb"))
        node, other = await empty_stage.place("model")
        assert node == "divided"
        assert {one, other} == {synthetic_uuid("divided", index) for index in range(2)}
        await empty_stage.create("late", containers=[a_container("a", 1, INSTANCE)])
        await empty_stage.expect_waiting("late")
