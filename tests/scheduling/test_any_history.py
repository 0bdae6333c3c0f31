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

from tests.making import a_machine
from tests.making.world import ACTIONS, SHAPES, Step, World
from tests.scale import examples, scaled, seeds


def any_steps(actions: int, which: int, least: int = 15) -> st.SearchStrategy[list[Step]]:
    """At least so many steps of this many actions, about this many things."""
    one = st.tuples(st.integers(0, actions - 1), st.integers(0, which - 1), st.integers(0, 9))
    return st.lists(one, min_size=least, max_size=60)


STEPS = any_steps(ACTIONS, len(SHAPES))


@examples(350)
@given(STEPS)
def test_no_placement_takes_more_than_is_free_and_no_pod_waits_where_it_fits(
    steps: list[Step],
) -> None:
    assert World().run(steps).reference.forgotten() == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12))
def test_long_histories_are_neither_too_greedy_nor_forgetful(seed: int) -> None:
    # Hypothesis prefers short histories; full clusters and late answers need long ones.
    for number in range(30):
        world = World().run(some_steps(seed * 1000 + number, 80))
        assert world.reference.forgotten() == {}, f"number {number}"


@examples(100)
@given(STEPS)
def test_the_same_history_gives_the_same_effects_again(steps: list[Step]) -> None:
    world = World().run(steps)
    world.expect_same_effects(a_machine())


def some_steps(seed: int, count: int) -> list[Step]:
    numbers = random.Random(seed)
    return [
        (numbers.randrange(ACTIONS), numbers.randrange(len(SHAPES)), numbers.randrange(10))
        for _ in range(count)
    ]


def digest(seed: int) -> str:
    return digest_of(World().run(some_steps(seed, 400)))


def digest_of(world: World) -> str:
    effects = [entry[2] for entry in world.log]
    return hashlib.sha256(repr(effects).encode()).hexdigest()


def digests_under_hash_seeds(module: str, seed: int) -> set[str]:
    """What `digest` of a test module answers in processes that hash differently."""
    root = Path(__file__).parents[2]
    digests = set()
    for hash_seed in range(scaled(4, least=2)):
        run_once = f"from {module} import digest; print(digest({seed}))"
        path = os.pathsep.join(str(root / part) for part in ("", "plugins", "cmd"))
        answer = subprocess.run(
            [sys.executable, "-c", run_once],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(answer.stdout)
    return digests


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, first=1))
def test_effects_do_not_depend_on_the_hash_seed(seed: int) -> None:
    assert len(digests_under_hash_seeds("tests.scheduling.test_any_history", seed)) == 1
