"""Cards of several models, and pods that say which of them they want."""

import pytest

from tests.stories.conftest import PODS, Stage, annotations, gpu

H100, A100, T4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
CLUSTER = f"""
nodes:
  - {{name: h, gpus: [{{model: {H100}, count: 1, memory: 80GiB}}]}}
  - name: mixed
    gpus:
      - {{model: {A100}, count: 2, memory: 40GiB}}
      - {{model: {T4}, count: 2, memory: 15GiB}}
  - {{name: t, gpus: [{{model: {T4}, count: 3, memory: 15GiB}}]}}
"""


def models(**said: str) -> dict[str, str]:
    """Annotations."""
    return {f"sharedgpu/{name}": value for name, value in said.items()}


async def model_of(stage: Stage, name: str) -> str:
    """The models of the pod's cards, once it runs."""
    return annotations(await stage.expect_running(name))["sharedgpu/gpu_model"]


async def test_pods_get_the_first_model_that_has_room(stage: Stage) -> None:
    wish = models(gpu_models="H100 > A100 > *")
    for number in range(4):
        await stage.create(f"p{number}", gpu("1.0"), annotations=wish)
        await stage.expect_running(f"p{number}")
    got = [await model_of(stage, f"p{number}") for number in range(4)]
    assert got == [H100, A100, A100, T4]


async def test_a_denied_model_is_never_taken_and_the_reason_names_it(stage: Stage) -> None:
    said = models(gpu_models_denied="T4, H100")
    for number in range(3):
        await stage.create(f"p{number}", gpu("1.0"), annotations=said)
    await stage.expect_bound(2)
    [waits] = [pod for pod in await stage.all_pods() if not pod["spec"].get("nodeName")]
    text = await stage.expect_reasons(waits["metadata"]["name"])
    assert text == (
        "0/3 nodes are available: 1 Insufficient GPU, 2 GPU of a denied model (T4, H100)."
    )


async def test_a_list_that_cannot_be_understood_is_told_and_can_be_edited(stage: Stage) -> None:
    await stage.create("p", gpu("0.5"), annotations=models(gpu_models="A100 >"))
    text = await stage.expect_waiting("p")
    assert text.startswith('sharedgpu/gpu_models="A100 >": must be names of GPU models')
    change = {"metadata": {"annotations": models(gpu_models="A100")}}
    await stage.client.merge_patch(f"{PODS}/p", change)
    assert await model_of(stage, "p") == A100


async def test_two_cards_of_a_mixed_node_are_of_one_model(stage: Stage) -> None:
    await stage.create("two", gpu("2", "2"), annotations=models(gpu_models="A100 > T4"))
    assert len({*(await model_of(stage, "two")).split(",")}) == 1
    # Three of one model are on `t`; four are nowhere, though `mixed` has four cards.
    same = models(gpu_models="T4 > *", gpu_model_mix="same")
    await stage.create("three", gpu("3", "3"), annotations=same)
    assert await model_of(stage, "three") == ",".join([T4] * 3)
    await stage.create("four", gpu("4", "4"), annotations=same)
    await stage.expect_waiting("four")


@pytest.mark.slow
async def test_a_gang_starts_on_one_model_and_keeps_to_it(stage: Stage) -> None:
    group = {"group_name": "g", "group_headcount": "4", "group_threshold": "0.75"}
    said = models(gpu_models="H100 > A100 > T4", gpu_model_mix="same")
    for number in range(3):
        await stage.create(f"g{number}", gpu("0.9", **group), annotations=said)
    await stage.expect_bound(3)
    assert {await model_of(stage, f"g{number}") for number in range(3)} == {T4}
    # It has room on the better models, but its others run on T4, which the fillers make full.
    for number in range(2):
        await stage.create(f"f{number}", gpu("0.9", gpu_model=T4))
        await stage.expect_running(f"f{number}")
    await stage.create("g3", gpu("0.9", **group), annotations=said)
    text = await stage.expect_reasons("g3")
    assert text == f"0/3 nodes are available: 1 no GPU of model {T4}, 2 Insufficient GPU."
    await stage.expect_deleted("f0")
    assert await model_of(stage, "g3") == T4


async def test_a_gang_for_which_no_model_has_enough_is_told_what_each_has(stage: Stage) -> None:
    group = {"group_name": "g", "group_headcount": "6", "group_threshold": "1"}
    for number in range(6):
        await stage.create(
            f"g{number}", gpu("1.0", **group), annotations=models(gpu_model_mix="same")
        )
    text = await stage.expect_waiting("g5", "all on GPUs of one model")
    counts = f"room for 5 of them on {T4} and 2 of them on {A100} and 1 of them on {H100}"
    assert f"{counts}; impossible: they ask for 6 GPUs in all; the cluster has at most 5" in text


@pytest.mark.slow
async def test_a_restarted_scheduler_goes_on_with_the_gangs_model(empty_stage: Stage) -> None:
    stage = empty_stage
    group = {"group_name": "g", "group_headcount": "3", "group_threshold": "0.67"}
    said = models(gpu_models="A100 > H100 > T4", gpu_model_mix="same")
    async with stage.scheduler():
        await stage.warm_up()
        for number in range(2):
            await stage.create(f"g{number}", gpu("1.0", **group), annotations=said)
        await stage.expect_bound(2)
    async with stage.scheduler():
        await stage.create("g2", gpu("1.0", **group), annotations=said)
        text = await stage.expect_waiting("g2", "Insufficient GPU")
        assert f"2 no GPU of model {A100}" in text
