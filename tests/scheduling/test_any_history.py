"""Any history of pods, nodes, cards and answers: never too much, never forgotten, same again."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_machine
from tests.scale import examples, seeds
from tests.scheduling.world import ACTIONS, SHAPES, Step, World


def any_steps(actions: int, which: int, least: int = 15) -> st.SearchStrategy[list[Step]]:
    """At least so many steps of this many actions, about this many things."""
    one = st.tuples(st.integers(0, actions - 1), st.integers(0, which - 1), st.integers(0, 9))
    return st.lists(one, min_size=least, max_size=60)


STEPS = any_steps(ACTIONS, len(SHAPES))


def run(steps: list[Step]) -> World:
    world = World()
    world.start()
    for step in steps:
        world.step(step)
    world.settle()
    return world


def expect_valid_binds(steps: list[Step]) -> None:
    """The reference model checks each Bind when it is decided."""
    run(steps)


@examples(250)
@given(STEPS)
def test_no_placement_takes_more_than_is_free(steps: list[Step]) -> None:
    expect_valid_binds(steps)


@examples(250)
@given(STEPS)
def test_no_pod_is_left_waiting_where_it_fits(steps: list[Step]) -> None:
    world = run(steps)
    left = {pod.key.name: world.reference.fits_somewhere(pod) for pod in world.reference.waiting()}
    assert {name: node for name, node in left.items() if node} == {}


@pytest.mark.parametrize("seed", seeds(12))
def test_long_histories_are_neither_too_greedy_nor_forgetful(seed: int) -> None:
    # Hypothesis prefers short histories; full clusters and late answers need long ones.
    for number in range(30):
        world = run(some_steps(seed * 1000 + number, 80))
        left = {
            pod.key.name: world.reference.fits_somewhere(pod) for pod in world.reference.waiting()
        }
        assert {name: node for name, node in left.items() if node} == {}, f"number {number}"


@examples(100)
@given(STEPS)
def test_the_same_history_gives_the_same_effects_again(steps: list[Step]) -> None:
    world = run(steps)
    again = a_machine()
    for event, now, effects in world.log:
        assert tuple(again.handle(event, now)) == effects


def some_steps(seed: int, count: int) -> list[Step]:
    numbers = random.Random(seed)
    return [
        (numbers.randrange(ACTIONS), numbers.randrange(len(SHAPES)), numbers.randrange(10))
        for _ in range(count)
    ]


def digest(seed: int) -> str:
    return digest_of(run(some_steps(seed, 400)))


def digest_of(world: World) -> str:
    effects = [entry[2] for entry in world.log]
    return hashlib.sha256(repr(effects).encode()).hexdigest()


def digests_under_hash_seeds(module: str, seed: int) -> set[str]:
    """What `digest` of a test module answers in processes that hash differently."""
    root = Path(__file__).parents[2]
    digests = set()
    for hash_seed in ("0", "1", "2", "3"):
        run_once = f"from {module} import digest; print(digest({seed}))"
        path = os.pathsep.join(str(root / part) for part in ("", "plugins", "cmd"))
        answer = subprocess.run(
            [sys.executable, "-c", run_once],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(answer.stdout)
    return digests


@pytest.mark.parametrize("seed", seeds(2, first=1))
def test_effects_do_not_depend_on_the_hash_seed(seed: int) -> None:
    assert len(digests_under_hash_seeds("tests.scheduling.test_any_history", seed)) == 1
