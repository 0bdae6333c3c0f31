"""Profiles without the plugins that look at what is free, and ones with a plugin that errs.

Nothing is ever over-committed by a decision of ours, nobody is forgotten, and nothing is tried in
vain for ever.
"""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.points import CardPredicate, Depends, Ground, RowFilter
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.reservations import Reservation, ReservationCause
from tests.making import Driver, a_cluster, a_group, members, some_gpus
from tests.making.world import GangWorld, Step, World
from tests.scale import examples, seeds
from tests.scheduling.pod_groups import test_any_gang_history as gangs
from tests.scheduling.preemption.test_any_preemption_history import PreemptionWorld
from tests.scheduling.test_any_history import STEPS, some_steps

FILTERS = ("NodeUnschedulable", "TaintToleration", "NodeResourcesFit")
CARD_FILTERS = ("GpuFit", "GpuModel", "OneModel", "NumaBinding")


def lax(without: Sequence[str], **points: object) -> object:
    """A configuration without these plugins."""
    of = {"filter": FILTERS, "cardFilter": CARD_FILTERS}
    plugins = {
        point: {"disabled": [{"name": name} for name in names if name in without]}
        for point, names in of.items()
    }
    return {"profiles": [{"plugins": {**plugins, **points}}]}


NO_POST_FILTER = {"disabled": [{"name": "*"}]}
SUBSETS = st.lists(st.sampled_from((*FILTERS, *CARD_FILTERS)), unique=True, min_size=1)


class Careless:
    """Lets every node and every card through, and says that it looked."""

    name = "Careless"
    depends = Depends.ROW

    def __init__(self, guards: Ground) -> None:
        self.guards = guards

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        return None

    def card_filter(self, shape: Shape, reasons: ReasonTable) -> CardPredicate | None:
        def lacks(rows: Rows) -> IntArray:
            return rows.flags * 0

        return CardPredicate(lambda rows: lacks(rows) == 0, lacks)


def lax_world(without: Sequence[str]) -> World:
    world = World(lax(without, postFilter=NO_POST_FILTER))
    loosen(world, without)
    return world


def loosen(world: World, without: Sequence[str]) -> None:
    world.reference.minds_models = "GpuModel" not in without
    world.reference.minds_cordons = "NodeUnschedulable" not in without


def expect_right_to_the_end(world: World, steps: Sequence[Step]) -> None:
    """The books check each Bind when it is decided; at the end nobody waits where it fits."""
    assert world.run(steps).reference.forgotten() == {}


def expect_settled(world: PreemptionWorld) -> None:
    """The reference model checks each Bind; all that is under way must come to an end."""
    world.settle()


@examples(60)
@given(SUBSETS, STEPS)
def test_without_plugins_nothing_is_over_committed_and_nobody_forgotten(
    without: list[str], steps: list[Step]
) -> None:
    expect_right_to_the_end(lax_world(without), steps)


@pytest.mark.parametrize("seed", seeds(4))
def test_without_plugins_full_clusters_are_not_over_committed(seed: int) -> None:
    for number in range(6):
        numbers = random.Random(seed * 100 + number)
        names = (*FILTERS, *CARD_FILTERS)
        without = ["GpuFit", *numbers.sample(names, numbers.randrange(len(names)))]
        expect_right_to_the_end(lax_world(without), some_steps(seed * 1000 + number, 80))


@pytest.mark.parametrize("seed", seeds(4))
def test_a_plugin_that_errs_over_commits_nothing(seed: int) -> None:
    factories = {
        **IN_TREE,
        "AnyNode": lambda: Careless(Ground.NODE),
        "AnyCard": lambda: Careless(Ground.CARDS),
    }
    document = lax(
        ["TaintToleration"],
        filter={"disabled": [{"name": "NodeResourcesFit"}], "enabled": [{"name": "AnyNode"}]},
        cardFilter={"disabled": [{"name": "*"}], "enabled": [{"name": "AnyCard"}]},
        postFilter=NO_POST_FILTER,
    )
    for number in range(6):
        world = World()
        world.machine = Machine(profiles(read(document), factories), "test")
        loosen(world, ["GpuModel"])
        expect_right_to_the_end(world, some_steps(seed * 1000 + number, 80))


def test_a_plugin_that_errs_over_commits_no_reserved_card_that_a_gang_may_take() -> None:
    factories = {**IN_TREE, "AnyCard": lambda: Careless(Ground.CARDS)}
    plugins = {"disabled": [{"name": "*"}], "enabled": [{"name": "AnyCard"}]}
    document = lax([], cardFilter=plugins, postFilter=NO_POST_FILTER)
    driver = Driver({})
    driver.machine = Machine(profiles(read(document), factories), "test")
    driver.tell(*a_cluster({"n1": 1}))
    cards = (CardCharge(some_gpus("n1", 1)[0].uuid, 1000, 0),)
    place = Charge(NodeName("n1"), (), Allocation(token=DecisionToken(""), cards=cards))
    later = PodUid("later")
    holder = Reservation(later, ((10**9,), 9), "pod default/later", ReservationCause.STARVES, 0.0)
    driver.machine.reservations.hold(holder, {later: place}, 0.0)
    assert driver.show(*members(a_group(2), 2)) == []
    assert driver.told["g-1"].endswith("the ledger refuses: GPU GPU-n1-0 has too little share left")
    assert not [*driver.machine.ledger.overcommitted()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3))
def test_gangs_are_not_over_committed_either(seed: int) -> None:
    for number in range(4):
        world = GangWorld(lax(["GpuFit", "NodeResourcesFit"], postFilter=NO_POST_FILTER))
        gangs.expect_nothing_left_undone(world.run(gangs.some_gang_steps(seed * 1000 + number, 60)))


@pytest.mark.parametrize("seed", seeds(4))
def test_preemption_makes_no_room_that_is_not_there(seed: int) -> None:
    for number in range(3):
        world = PreemptionWorld(seed * 100 + number, lax(["GpuFit", "NodeResourcesFit"]))
        expect_settled(world.follow(some_steps(seed * 1000 + number, 60)))
