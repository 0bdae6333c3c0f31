"""Init containers that use cards which the pod has anyway."""

import pytest

from kubeshare_py.domain.request import ContainerRef, GuestContainer
from tests.dialects.hami.pods import CORES, GPU, MEM, PERCENT, request

INIT, APP = ContainerRef(True, 0), ContainerRef(False, 0)
WHOLE = {GPU: 1}


@pytest.mark.parametrize(
    ("init", "app", "is_guest"),
    [
        (WHOLE, WHOLE, True),
        ({GPU: 1, MEM: 100}, {GPU: 1, MEM: 100}, True),
        ({GPU: 1, MEM: 100, CORES: 10}, {GPU: 2, MEM: 300, CORES: 30}, True),
        ({GPU: 1, PERCENT: 30}, {GPU: 1, PERCENT: 50}, True),
        ({GPU: 1, PERCENT: 30, CORES: 0}, WHOLE, True),
        ({GPU: 1, MEM: 101}, {GPU: 1, MEM: 100}, False),
        ({GPU: 1, MEM: 1, CORES: 31}, {GPU: 1, MEM: 100, CORES: 30}, False),
        ({GPU: 2, MEM: 1}, {GPU: 1, MEM: 100}, False),
        ({GPU: 1, PERCENT: 1}, {GPU: 1, MEM: 100}, False),
        ({GPU: 1, MEM: 100}, WHOLE, False),
        (WHOLE, {GPU: 1, MEM: 100}, False),
    ],
)
def test_it_does_if_a_later_container_asks_for_as_much(
    init: dict[str, int], app: dict[str, int], is_guest: bool
) -> None:
    """They do not run at the same time: a card holds the larger of both parts."""
    found = request(app, inits=(init,))
    count = init[GPU]
    assert found.guests == ((GuestContainer(INIT, APP, count),) if is_guest else ())
    assert len(found.claims) == (1 if is_guest else 2)
    assert [note for note, text in found.notes if text] == ["init-0", "container-0"]


def test_a_sidecar_is_no_guest_of_containers_that_run_with_it() -> None:
    """A sidecar with 4000 MiB and a container with 4000 MiB hold 8000 MiB."""
    ask = {GPU: 1, MEM: 4000}
    assert request(ask, inits=(ask,), sidecars=1).guests == ()


def test_an_init_container_is_no_guest_of_a_sidecar_before_it() -> None:
    large, small = {GPU: 1, MEM: 400}, {GPU: 1, MEM: 100}
    assert request({}, inits=(large, small), sidecars=1).guests == ()


def test_init_containers_without_others_share_the_largest_part() -> None:
    small, large = {GPU: 1, MEM: 100}, {GPU: 1, MEM: 200}
    found = request({}, inits=(small, large, small))
    assert [(one.container, one.host) for one in found.guests] == [
        (ContainerRef(True, 0), ContainerRef(True, 1)),
        (ContainerRef(True, 2), ContainerRef(True, 1)),
    ]
    [claim] = found.claims
    assert claim.container == ContainerRef(True, 1)


def test_equal_init_containers_are_guests_of_one_of_them() -> None:
    found = request({}, inits=(WHOLE, WHOLE, WHOLE))
    assert len(found.claims) == 1
    hosts = {one.host for one in found.guests}
    assert hosts == {one.container for one in found.claims}


def test_the_one_that_asks_for_most_is_the_host() -> None:
    sizes = tuple({GPU: 1, MEM: mib} for mib in (100, 200, 300))
    found = request({}, inits=sizes)
    assert [claim.container for claim in found.claims] == [ContainerRef(True, 2)]
