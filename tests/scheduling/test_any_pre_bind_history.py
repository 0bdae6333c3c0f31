"""Any history with PreBinds: each charge ends, none is too large, and no pod is forgotten."""

import pytest
from hypothesis import given

from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making.pre_bind_world import (
    PRE_BIND_ACTIONS,
    Bookkeeper,
    PreBindWorld,
    a_provisioning_machine,
)
from tests.making.world import Step
from tests.scale import examples, seeds
from tests.scheduling.test_any_history import (
    any_steps,
    digest_of,
    digests_under_hash_seeds,
    some_steps,
)

STEPS = any_steps(PRE_BIND_ACTIONS, 13)


def expect_nothing_left(world: PreBindWorld) -> None:
    """Each charge is that of a bound pod, and pods without a place have none."""
    machine, books = world.machine, world.reference
    assert books.problems == []
    assert len(machine.pre_binds) == 0
    assert books.pending() == []
    charged = {uid for uid in world.stored if machine.ledger.charge_of(uid) is not None}
    assert charged == {uid for uid, pod in world.stored.items() if pod.node_name is not None}
    states = {record.state for record in machine.records.values()}
    assert PodState.PREBINDING not in states
    alone = [pod for pod in books.waiting() if not pod.group and not pod.group_reference]
    assert books.forgotten(alone) == {}


@pytest.mark.slow
@examples(200)
@given(STEPS)
def test_every_charge_ends(steps: list[Step]) -> None:
    expect_nothing_left(PreBindWorld().run(steps))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10))
def test_long_histories_leave_nothing(seed: int) -> None:
    waited = 0
    for number in range(12):
        world = PreBindWorld().run(some_pre_bind_steps(seed * 1000 + number, 90))
        expect_nothing_left(world)
        waited += world.writes
    assert waited, "claims are written in some of these histories"


@pytest.mark.slow
@examples(60)
@given(STEPS)
def test_the_same_history_gives_the_same_effects_again(steps: list[Step]) -> None:
    world = PreBindWorld().run(steps)
    world.expect_same_effects(a_provisioning_machine(_Silent(), world.machine.name))


class _Silent(Bookkeeper):
    """Keeps no books."""

    def reserve(self, *_: object) -> None:
        return None

    def unreserve(self, *_: object) -> None:
        return None


def digest(seed: int) -> str:
    return digest_of(PreBindWorld().run(some_pre_bind_steps(seed, 150)))


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, first=1))
def test_effects_do_not_depend_on_the_hash_seed(seed: int) -> None:
    assert len(digests_under_hash_seeds("tests.scheduling.test_any_pre_bind_history", seed)) == 1


def some_pre_bind_steps(seed: int, count: int) -> list[Step]:
    """A third of them about claims."""
    return [
        (
            PRE_BIND_ACTIONS - 1 - action % 9 if number % 3 == 0 else action + which % 2 * 15,
            which,
            how,
        )
        for number, (action, which, how) in enumerate(some_steps(seed, count))
    ]
