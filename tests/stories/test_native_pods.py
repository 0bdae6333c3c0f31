"""Pods with nvidia.com/gpu under our schedulerName, on a node whose agent serves the name."""

import json

import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.nvidia_dialect import GPU, Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.inventory.synthetic_uuids import synthetic_uuid
from tests.stories.conftest import Json, Stage, gpu

DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Nvidia())})
WORDS = json.dumps({"v": 1, "plugins": [GPU]})


@pytest.fixture
def nodes() -> str:
    return """
nodes:
  - name: served
    gpus: [{model: A100, count: 4, memory: 40GiB}]
    allocatable: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4}
  - name: plain
    gpus: [{model: A100, count: 4, memory: 40GiB}]
    allocatable: {cpu: 8, memory: 16Gi, nvidia.com/gpu: 4}
"""


def a_container(name: str, count: int) -> Json:
    amounts = {GPU: str(count)}
    return {
        "name": name, "image": "busybox", "resources": {"limits": amounts, "requests": amounts}
    }  # fmt: skip


async def test_cards_are_chosen_card_by_card_beside_shares(empty_stage: Stage) -> None:
    annotated = {"metadata": {"annotations": {"kubeshare.io/node-agent": WORDS}}}
    async with empty_stage.scheduler(dialects=DIALECTS):
        await empty_stage.create("early", containers=[a_container("a", 1)])
        waits = await empty_stage.expect_waiting("early")
        assert "2 Insufficient nvidia.com/gpu of nvidia" in waits
        await empty_stage.patch_node("served", annotated)
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
