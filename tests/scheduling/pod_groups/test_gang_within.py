"""Gangs that must be in one place: they wait rather than be apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_claim, a_group, a_pod, a_shape, members, names
from tests.scale import examples
from tests.scheduling.pod_groups.test_gang_places import (
    RACK,
    SCORES_ALONE,
    SITES,
    ZONE,
    Site,
    cluster,
    four_racks,
    nodes_of,
)


def within(label: str, least: int, count: int, start: int = 0, headcount: int = 0) -> list[Pod]:
    """Members that must share a value of this label."""
    group = replace(a_group(least, headcount=headcount or least), within=label)
    return members(group, count, start=start)


@pytest.mark.parametrize("document", [None, SCORES_ALONE])
def test_a_gang_that_no_place_holds_waits_for_one(document: object) -> None:
    driver = four_racks(document=document)
    # A place is a value of the label: two racks of one name are one, as for Kubernetes.
    assert {node[1] for node in nodes_of(driver.show(*within(RACK, 5, 5)))} in ({"0"}, {"1"})
    driver = four_racks(document=document)
    assert driver.show(*within(ZONE, 9, 9)) == []
    assert driver.told["g-0"].startswith(
        f'pod group "g" needs 9 pods to start together in one {ZONE}; room for 8 of them; '
        f"impossible: they ask for 9 GPUs in all; the largest {ZONE} has 8. "
    )


def test_nodes_without_the_label_are_no_place() -> None:
    driver = cluster({"x1": ("", "", 4), "a1": ("a", "", 2)})
    assert nodes_of(driver.show(*within(ZONE, 2, 2))) == {"a1"}
    assert driver.show(*members(replace(a_group(3, "h"), within=ZONE), 3)) == []


def test_no_place_at_all_is_told_too() -> None:
    driver = Driver({"n1": 4})
    assert driver.show(*within("example.com/row", 2, 2)) == []
    assert driver.told["g-0"] == (
        'pod group "g" needs 2 pods to start together in one example.com/row; '
        "no node has this label"
    )


def test_a_narrower_place_within_is_still_preferred() -> None:
    driver = cluster({"a1": ("a", "r", 1), "a2": ("a", "s", 2), "a3": ("a", "r", 1)})
    assert nodes_of(driver.show(*within(ZONE, 2, 2))) == {"a2"}


def test_one_gang_that_must_be_in_one_place_does_not_keep_out_others_of_its_shapes() -> None:
    driver = cluster({"a1": ("a", "r", 1), "b1": ("b", "r", 1)})
    assert driver.show(*within(ZONE, 2, 2)) == []
    assert names(driver.show(*members(a_group(2, "h"), 2))) == ["h-0", "h-1"]


def test_members_that_each_go_alone_must_be_in_one_place_too() -> None:
    driver = cluster({"a0": ("", "", 1), "a1": ("a", "", 2), "b1": ("b", "", 2)})
    # Where cards are in use already, scores would put them.
    driver.show(a_pod("s", a_shape(a_claim(100), node_selector=())))
    pods = members(replace(a_group(1, headcount=2), within=ZONE), 2, a_claim(500))
    assert nodes_of(driver.show(*pods)) in ({"a1"}, {"b1"})


def test_later_members_must_be_there_as_well() -> None:
    driver = cluster({"a1": ("a", "r", 2), "b1": ("b", "r", 4)})
    pods = within(ZONE, 2, 2, headcount=3)
    binds = driver.show(*pods)
    assert nodes_of(binds) == {"a1"}
    driver.bound(binds, *pods)
    assert driver.show(*within(ZONE, 2, 1, start=2, headcount=3)) == []
    assert driver.told["g-2"] == f"no room where its group must be: in one {ZONE}"
    assert nodes_of(driver.gone(pods[0])) == {"a1"}


def test_the_rest_of_an_interrupted_start_must_be_where_the_others_are() -> None:
    driver = cluster({"a1": ("a", "r", 4), "b1": ("b", "r", 8)})
    pods = within(ZONE, 8, 8)
    binds = driver.show(*pods)
    assert nodes_of(binds) == {"b1"}
    driver.bound(binds[:7], *pods)
    driver.gone(pods[7])
    filler = a_pod("s", a_shape(a_claim(1000), node_selector=((ZONE, "b"),)))
    driver.bound(driver.show(filler), filler)
    assert driver.show(*within(ZONE, 8, 1, start=8)) == []
    assert nodes_of(driver.gone(filler)) == {"b1"}


def test_members_that_want_no_card_must_be_in_one_place_too() -> None:
    driver = cluster({"a1": ("a", "r", 0), "b1": ("b", "r", 0), "x1": ("", "", 0)})
    group = replace(a_group(2), within=ZONE)
    pods = [a_pod(f"c{number}", a_shape(cpu=40_000), group=group) for number in range(2)]
    assert driver.show(*pods) == []
    small = [a_pod(f"d{n}", a_shape(), group=replace(group, name="h")) for n in range(2)]
    assert len(nodes_of(driver.show(*small))) == 1


@examples(100)
@given(SITES, st.integers(2, 8))
def test_it_starts_in_one_place_exactly_if_one_has_room(sites: list[Site], count: int) -> None:
    named = {f"n{number}": site for number, site in enumerate(sites)}
    driver = cluster({name: (one.zone, one.rack, one.cards) for name, one in named.items()})
    binds = driver.show(*within(ZONE, count, count))
    room = {zone: sum(one.cards for one in sites if one.zone == zone) for zone in ("a", "b")}
    assert len(binds) == (count if max(room.values()) >= count else 0)
    assert len({named[str(bind.node)].zone for bind in binds}) <= 1
