"""Any history with gangs: none decided in part, out of turn, left in part, or forgotten."""

import pytest
from hypothesis import given

from tests.making import a_machine
from tests.making.world import ACTIONS, GANG_ACTIONS, GangWorld, Step
from tests.scale import examples, scaled, seeds
from tests.scheduling.test_any_history import (
    any_steps,
    digest_of,
    digests_under_hash_seeds,
    some_steps,
)

STEPS = any_steps(GANG_ACTIONS, 13, least=10)


def expect_nothing_left_undone(world: GangWorld) -> None:
    """Nothing is left undone at the end."""
    reference = world.reference
    for name in reference.names():
        placed, need = len(reference.placed(name)), reference.need(name)
        assert not (placed and need), f"{name} was left with {placed} members, {need} too few"
        assert not reference.fits(name), f"{name} fits and waits"
        told = [pod.key.name for pod in reference.candidates(name) if pod.uid not in reference.told]
        assert not told, f"nobody told {told} of {name}"
    apart = [
        pod
        for pod in reference.waiting()
        if pod.group is None or not reference.need(pod.group.name)
    ]
    assert reference.forgotten(apart) == {}


@pytest.mark.slow
@examples(200)
@given(STEPS)
def test_gangs_are_decided_whole_in_their_turn_and_repaired(steps: list[Step]) -> None:
    expect_nothing_left_undone(GangWorld().run(steps))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10))
def test_long_histories_leave_no_gang_in_part(seed: int) -> None:
    for number in range(scaled(20, least=5)):
        steps = some_gang_steps(seed * 1000 + number, 80)
        expect_nothing_left_undone(GangWorld().run(steps))


@examples(60)
@given(STEPS)
def test_the_same_history_gives_the_same_effects_again(steps: list[Step]) -> None:
    world = GangWorld().run(steps)
    world.expect_same_effects(a_machine(name=world.machine.name))


def digest(seed: int) -> str:
    return digest_of(GangWorld().run(some_gang_steps(seed, 60)))


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(2, first=1))
def test_effects_do_not_depend_on_the_hash_seed(seed: int) -> None:
    assert (
        len(digests_under_hash_seeds("tests.scheduling.pod_groups.test_any_gang_history", seed))
        == 1
    )


def some_gang_steps(seed: int, count: int) -> list[Step]:
    """Half of them about gangs."""
    steps = some_steps(seed, count)
    return [
        (ACTIONS + action % (GANG_ACTIONS - ACTIONS), which, how) if number % 2 else step
        for number, step in enumerate(steps)
        for action, which, how in [step]
    ]
