"""Reservations of gangs whose cards must be of one model, or whose members must be in one place."""

from collections.abc import Callable

import pytest

from kubeshare_py.domain.events import InventoryRead, NodesListed
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import (
    Driver,
    a_claim,
    a_cluster,
    a_gpu,
    a_group,
    a_machine,
    a_node,
    a_pod,
    a_shape,
    members,
    names,
)

AFTER_S = 60.0
LABEL = "topology.kubernetes.io/zone"


def a_driver(**cards: str) -> Driver:
    """For each letter a node of that zone with a card of that model, by part of a name."""
    driver = Driver({})
    driver.machine = a_machine(reservation_after_s=AFTER_S)
    named = {f"{part}{at}": one for part, row in cards.items() for at, one in enumerate(row)}
    nodes = [a_node(name, labels={LABEL: letter}) for name, letter in named.items()]
    gpus = [(NodeName(name), (a_gpu(f"{name}-0", model=letter),)) for name, letter in named.items()]
    driver.tell(*a_cluster({}), NodesListed(tuple(nodes)), InventoryRead(tuple(gpus)))
    return driver


def of_one_model(count: int) -> list[Pod]:
    return members(a_group(count), count, a_claim(1000, one_model=True), created="1")


def in_one_zone(count: int) -> list[Pod]:
    return members(replace(a_group(count), within=LABEL), count, created="1")


Ask = Callable[[int], list[Pod]]
either = pytest.mark.parametrize("ask", [of_one_model, in_one_zone])


def on(letter: str, name: str) -> Pod:
    """A later pod for a card of this letter."""
    return a_pod(name, a_shape(a_claim(1000, models=(letter,))), created="9")


def fill(driver: Driver, letters: str) -> list[Pod]:
    """Tenants on cards of these letters."""
    tenants = [on(letter, f"t{at}") for at, letter in enumerate(letters)]
    driver.bound(driver.show(*tenants), *tenants)
    return tenants


def reserved(driver: Driver) -> str:
    """The letters of cards with reservations, sorted."""
    charges = driver.machine.ledger.reservations.values()
    allocations = [charge.allocation for charge in charges]
    cards = [card for allocation in allocations if allocation for card in allocation.cards]
    return "".join(sorted(card.model for card in cards))


@either
def test_they_are_all_where_the_gang_can_use_them_together(ask: Ask) -> None:
    driver = a_driver(n="aabb")
    tenants = fill(driver, "ab")
    driver.show(*ask(2))
    driver.later(AFTER_S)
    letter = reserved(driver)[0]
    assert reserved(driver) == 2 * letter
    other = "ab".replace(letter, "")
    assert names(driver.show(on("a", "late-a"), on("b", "late-b"))) == [f"late-{other}"]
    assert names(driver.gone(tenants["ab".index(letter)])) == ["g-0", "g-1"]
    assert not driver.machine.ledger.reservations


@either
@pytest.mark.parametrize("letters", ["aab", "bba"])
def test_they_are_where_most_fit_already(ask: Ask, letters: str) -> None:
    driver = a_driver(n="aaabbb")
    fill(driver, letters)
    driver.show(*ask(3))
    driver.later(AFTER_S)
    assert reserved(driver) == 3 * letters[2]


@either
@pytest.mark.parametrize("few", ["a", "b"])
def test_they_are_not_where_all_would_never_fit(ask: Ask, few: str) -> None:
    many = "ab".replace(few, "")
    driver = a_driver(n=2 * few + 3 * many)
    fill(driver, 3 * many)
    driver.show(*ask(3))
    driver.later(AFTER_S)
    assert reserved(driver) == 3 * many
    assert names(driver.show(on(few, "late"))) == ["late"]


@either
def test_who_could_never_be_together_keeps_nothing_from_others(ask: Ask) -> None:
    driver = a_driver(n="aabb")
    driver.show(*ask(3))
    driver.later(10 * AFTER_S)
    assert reserved(driver) == ""
    assert len(driver.show(on("a", "late-a"), on("b", "late-b"))) == 2


@either
@pytest.mark.parametrize("letters", ["aab", "bba"])
def test_they_stay_while_no_other_place_is_better(ask: Ask, letters: str) -> None:
    driver = a_driver(n="aaabbb")
    tenants = fill(driver, letters)
    driver.show(*ask(3))
    driver.later(AFTER_S)
    driver.now += 10
    assert driver.gone(tenants[0]) == []
    assert reserved(driver) == 3 * letters[2]


@either
def test_they_go_where_more_fit(ask: Ask) -> None:
    driver = a_driver(n="aaaabbbb")
    tenants = fill(driver, "aaabb")
    driver.show(*ask(4))
    driver.later(AFTER_S)
    assert reserved(driver) == "bbbb"
    driver.now += 10
    assert driver.gone(*tenants[:2]) == []
    assert reserved(driver) == "aaaa"


def test_those_of_a_gang_for_one_model_in_one_zone_are_both() -> None:
    driver = a_driver(n="aab")
    driver.tell(
        NodesListed(
            tuple(a_node(f"n{at}", labels={LABEL: zone}) for at, zone in enumerate("xyxy"))
        ),
        InventoryRead(((NodeName("n3"), (a_gpu("n3-0", model="a"),)),)),
    )
    tenants = fill(driver, "aa")
    driver.show(*(replace(pod, group=replace(a_group(2), within=LABEL)) for pod in of_one_model(2)))
    driver.later(AFTER_S)
    nodes = {charge.node for charge in driver.machine.ledger.reservations.values()}
    assert nodes == {NodeName("n1"), NodeName("n3")}
    driver.gone(*tenants)
