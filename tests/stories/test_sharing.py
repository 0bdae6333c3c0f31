"""Pods share GPUs: from the label to the container's environment."""

import json

import pytest

from tests.stories.conftest import Stage, annotations, card, gpu


async def test_two_halves_share_one_card(stage: Stage) -> None:
    await stage.create("a", gpu("0.5"))
    await stage.create("b", gpu("0.5"))
    assert await stage.place("a") == await stage.place("b")


async def test_the_container_sees_the_card_that_was_chosen(stage: Stage) -> None:
    await stage.create("a", gpu("0.3"))
    pod = await stage.expect_eventually("a", lambda pod: "kubeshare.sim/env" in annotations(pod))
    environment = json.loads(annotations(pod)["kubeshare.sim/env"])
    assert environment["main"]["NVIDIA_VISIBLE_DEVICES"] == card(pod) != ""


async def test_the_binding_writes_all_result_annotations(stage: Stage) -> None:
    await stage.create("a", gpu("0.1"))
    written = annotations(await stage.expect_running("a"))
    assert written["sharedgpu/gpu_mem"] == str((40 << 30) // 10)
    assert written["sharedgpu/gpu_model"] == "A100"
    assert (
        written["sharedgpu/gpu_manager_port"] == "50052"
    )  # the first one went to the pod of the warm-up
    allocation = json.loads(written["sharedgpu/allocation"])
    assert allocation["v"] == 1
    assert allocation["dialect"] == "sharedgpu"


async def test_eight_tenths_and_two_tenths_fit_on_one_card(stage: Stage) -> None:
    await stage.create("a", gpu("0.8"))
    await stage.create("b", gpu("0.2"))
    assert await stage.place("a") == await stage.place("b")


@pytest.mark.slow
async def test_whole_cards_are_idle_ones(stage: Stage) -> None:
    await stage.create("share", gpu("0.1"))
    node, _ = await stage.place("share")
    await stage.create("whole", gpu("2", "2"))
    other, cards = await stage.place("whole")
    assert other != node
    assert len(cards.split(",")) == 2


async def test_a_pod_without_gpus_is_placed_too(stage: Stage) -> None:
    await stage.create("web")
    pod = await stage.expect_running("web")
    assert "sharedgpu/gpu_uuid" not in annotations(pod)


async def test_a_forged_result_annotation_is_overwritten(stage: Stage) -> None:
    await stage.create("thief", annotations={"sharedgpu/gpu_uuid": "GPU-of-somebody"})
    pod = await stage.expect_running("thief")
    assert card(pod) == ""


@pytest.mark.slow
async def test_a_card_for_one_pod_alone_is_idle_and_takes_no_guest(stage: Stage) -> None:
    await stage.create("share", gpu("0.1"))
    shared = await stage.place("share")
    await stage.create("alone", {"sharedgpu/gpu_exclusive": "true"})
    alone = await stage.place("alone")
    assert "," not in alone[1]
    assert alone != shared
    await stage.create("guest", {"sharedgpu/gpu_limit": "1.0"})
    assert await stage.place("guest") != alone
