"""Capacity is not kept for ever for somebody for whom none becomes free."""

import pytest

from kubeshare_py.domain.pod import Pod
from tests.making import (
    Driver,
    a_cluster,
    a_group,
    a_machine,
    a_share,
    members,
    names,
)
from tests.scheduling.test_reservations import no_reservations, small

AFTER_S, PATIENCE_S = 60.0, 600.0


def a_driver(cards: dict[str, int], patience_s: float = PATIENCE_S) -> Driver:
    driver = Driver({})
    driver.machine = a_machine(reservation_after_s=AFTER_S, reservation_patience_s=patience_s)
    driver.tell(*a_cluster(cards))
    return driver


def tenants(driver: Driver, count: int) -> list[Pod]:
    """So many pods that hold a card's share each."""
    pods = [a_share(f"t{number}") for number in range(count)]
    driver.bound(driver.show(*pods), *pods)
    return pods


def a_gang_that_waits(driver: Driver, size: int, name: str = "g", created: str = "1") -> None:
    driver.show(*members(a_group(size, name=name), size, created=created))
    driver.later(AFTER_S)


def test_nothing_is_kept_for_ever_for_whom_nothing_becomes_free() -> None:
    driver = a_driver({"n1": 2})
    tenants(driver, 1)
    a_gang_that_waits(driver, 2)
    assert driver.show(small(1)) == []
    assert driver.later(PATIENCE_S - 1) == []
    assert names(driver.later(1)) == ["s1"]
    assert no_reservations(driver)


def test_it_gets_reservations_again_after_as_long_and_then_after_twice_as_long() -> None:
    driver = a_driver({"n1": 2})
    tenants(driver, 1)
    a_gang_that_waits(driver, 2)
    for rest_s in (PATIENCE_S, 2 * PATIENCE_S, 4 * PATIENCE_S):
        assert not no_reservations(driver)
        driver.later(PATIENCE_S)
        assert no_reservations(driver)
        driver.later(rest_s - 1)
        assert no_reservations(driver)
        driver.later(1)


def test_who_has_none_for_the_time_is_placed_as_soon_as_it_fits() -> None:
    driver = a_driver({"n1": 2})
    (tenant,) = tenants(driver, 1)
    a_gang_that_waits(driver, 2)
    driver.later(PATIENCE_S)
    assert names(driver.gone(tenant)) == ["g-0", "g-1"]


def test_as_long_as_places_become_free_they_are_kept() -> None:
    driver = a_driver({"n1": 4})
    holders = tenants(driver, 3)
    a_gang_that_waits(driver, 4)
    for holder in holders[:2]:
        driver.later(PATIENCE_S - 1)
        assert driver.gone(holder) == []
        driver.later(1)
        assert not no_reservations(driver)
    assert driver.show(small(1)) == []
    assert driver.later(PATIENCE_S - 1) == []
    assert names(driver.later(1)) == ["s1"]


def test_the_next_that_waits_gets_them() -> None:
    driver = a_driver({"n1": 2, "n2": 1})
    tenants(driver, 3)
    a_gang_that_waits(driver, 3)
    a_gang_that_waits(driver, 2, name="h", created="2")
    driver.later(PATIENCE_S)
    starving = driver.machine.reservations.starving()
    assert starving is not None
    assert starving.name == 'pod group "default/h"'


@pytest.mark.slow
def test_without_an_end_they_are_kept() -> None:
    driver = a_driver({"n1": 2}, patience_s=0)
    tenants(driver, 1)
    a_gang_that_waits(driver, 2)
    driver.show(small(1))
    assert driver.later(10 * 3600.0) == []
    assert not no_reservations(driver)
