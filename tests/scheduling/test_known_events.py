"""A machine that is told what another one knows knows the same cluster."""

import pytest

from kubeshare_py.domain.events import BindSlotsFree, PodSeen
from kubeshare_py.scheduling.machine import Machine, known_events
from tests.making import Driver, a_share
from tests.making.busy_world import a_busy_machine, run
from tests.scale import seeds


def held(machine: Machine) -> object:
    """Which pods there are and what each holds, the nodes, and the cards that each lists."""
    charges = {uid: machine.ledger.charge_of(uid) for uid in machine.records}
    nodes = {node.name: node for node in machine.ledger.columns.nodes if node is not None}
    cards = dict(machine.ledger.claims.as_listed)
    return charges, nodes, cards, machine.ready, machine.inventory_read, machine.silent_nodes


@pytest.mark.parametrize("seed", seeds(20))
def test_nodes_cards_and_charges_are_the_same(seed: int) -> None:
    world = run(seed)
    machine = world.machine
    again = a_busy_machine("again")
    for event in known_events(machine, world.now):
        again.handle(event, world.now)
    assert held(again) == held(machine)


def test_a_placement_under_way_is_shown_as_bound() -> None:
    driver = Driver({"n1": 1})
    (bind,) = driver.seen(a_share("a", 500))
    again = a_busy_machine("again")
    for event in known_events(driver.machine, 0.0):
        again.handle(event, 0.0)
    charge = again.ledger.charge_of(bind.uid)
    assert charge is not None
    assert charge.allocation == bind.allocation


def test_before_the_first_lists_nothing_is_known() -> None:
    again = a_busy_machine("again")
    for event in known_events(a_busy_machine("empty"), 0.0):
        again.handle(event, 0.0)
    again.handle(PodSeen(a_share("a", 500)), 0.0)
    assert not again.ready
    assert again.handle(BindSlotsFree(9), 0.0) == []
