"""Who goes first when there is not enough for all."""

from collections.abc import AsyncIterator

import pytest

from tests.making import NO_PREEMPTION
from tests.stories.conftest import PODS, Stage, bound, gpu

CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


@pytest.fixture
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """Nobody is evicted: who comes first is a matter of the queue alone."""
    async with empty_stage.scheduler(NO_PREEMPTION):
        await empty_stage.warm_up()
        yield empty_stage


EIGHT = "nodes: [{name: n1, gpus: [{model: T4, count: 8, memory: 16GiB}]}]"


async def placed_in_turn(stage: Stage, names: list[str]) -> list[str]:
    """Whole-card pods one after the other: whenever one is bound it is deleted."""
    order = []
    for _ in names:
        pods = await stage.expect_all(lambda pods: bool(bound(pods)))
        [name] = bound(pods)
        order.append(name)
        await stage.expect_deleted(name)
    return order


@pytest.mark.slow
async def test_pod_priority_goes_before_label_priority_and_that_before_age(stage: Stage) -> None:
    for name, value in (("low", 10), ("high", 1000)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        await stage.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    await stage.create("holder", gpu("1"))
    await stage.expect_running("holder")
    await stage.create("old", gpu("1"))
    await stage.create("label", gpu("1", priority="100"))
    await stage.create("low", gpu("1"), priorityClassName="low")
    await stage.create("high", gpu("1"), priorityClassName="high")
    await stage.create("both", gpu("1", priority="1"), priorityClassName="high")
    for name in ("old", "label", "low", "high", "both"):
        await stage.expect_waiting(name)
    await stage.expect_deleted("holder")
    order = await placed_in_turn(stage, ["old", "label", "low", "high", "both"])
    assert order == ["both", "high", "low", "label", "old"]


async def test_a_freed_card_goes_to_the_most_important_one_that_waits(stage: Stage) -> None:
    await stage.create("holder", gpu("0.6"))
    await stage.expect_running("holder")
    for number in range(3):
        await stage.create(f"small-{number}", gpu("0.5", priority="1"))
        await stage.expect_waiting(f"small-{number}")
    await stage.create("urgent", gpu("0.9", priority="50"))
    await stage.expect_waiting("urgent")
    await stage.expect_deleted("holder")
    await stage.expect_running("urgent")
    assert bound(await stage.all_pods()) == ["urgent"]


async def test_a_small_pod_may_pass_a_large_one_that_does_not_fit(stage: Stage) -> None:
    await stage.create("holder", gpu("0.6"))
    await stage.expect_running("holder")
    await stage.create("large", gpu("0.9", priority="100"))
    await stage.expect_waiting("large")
    await stage.create("small", gpu("0.3"))
    await stage.expect_running("small")


@pytest.mark.slow
async def test_a_changed_label_moves_a_waiting_pod_to_the_front(stage: Stage) -> None:
    await stage.create("holder", gpu("1"))
    await stage.expect_running("holder")
    await stage.create("first", gpu("1", priority="10"))
    await stage.create("second", gpu("1"))
    await stage.expect_waiting("first")
    await stage.expect_waiting("second")
    labels = {"metadata": {"labels": {"sharedgpu/priority": "20"}}}
    await stage.client.merge_patch(f"{PODS}/second", labels)
    await stage.create("small", gpu("0.1", priority="5"))
    await stage.expect_waiting("small")
    await stage.expect_deleted("holder")
    assert (await placed_in_turn(stage, ["first"])) == ["second"]


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [EIGHT])
async def test_of_24_pods_created_one_after_another_for_8_cards_the_first_eight_start(
    stage: Stage,
) -> None:
    await stage.create("holder", gpu("8", "8"))
    await stage.expect_running("holder")
    # Neither the names nor, on any server, the uids are in this order.
    names = [f"p{number * 7 % 24:02d}" for number in range(24)]
    for name in names:
        await stage.create(name, gpu("1"))
    for name in names:
        await stage.expect_waiting(name)
    await stage.expect_deleted("holder")
    assert sorted(await stage.expect_bound(8)) == sorted(names[:8])


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [EIGHT])
async def test_pods_that_a_list_finds_start_by_second_and_then_by_name(
    empty_stage: Stage,
) -> None:
    made = [await empty_stage.create(f"p{number * 7 % 24:02d}", gpu("1")) for number in range(24)]
    age = [(pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]) for pod in made]
    async with empty_stage.scheduler(NO_PREEMPTION):
        first = await empty_stage.expect_bound(8)
    assert sorted(first) == sorted(name for _, name in sorted(age)[:8])
