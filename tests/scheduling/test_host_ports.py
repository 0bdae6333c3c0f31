"""Host ports of pods that are planned together, evicted, or wait for each other."""

from typing import Any

import pytest

from kubeshare_py.domain.pod import HostPort, Pod
from kubeshare_py.domain.values import replace
from tests.making import PREEMPTION, Driver, a_claim, a_group, a_pod, a_shape, members

HTTP = (HostPort(80),)
CLUSTER = {"n1": 8, "n2": 8}
TAKEN = "node(s) didn't have free ports for the requested pod ports"


def gang(count: int, with_gpus: bool, **fields: Any) -> list[Pod]:
    claim = a_claim(100) if with_gpus else None
    shape = a_shape(claim, host_ports=HTTP)
    group = a_group(count)
    return [replace(one, shape=shape) for one in members(group, count, **fields)]


def server(name: str, **fields: Any) -> Pod:
    return a_pod(name, a_shape(host_ports=HTTP), **fields)


@pytest.mark.parametrize("with_gpus", [True, False])
def test_members_with_one_port_go_to_different_nodes(with_gpus: bool) -> None:
    driver = Driver(CLUSTER)
    binds = driver.show(*gang(2, with_gpus))
    assert sorted(bind.node for bind in binds) == ["n1", "n2"]


@pytest.mark.parametrize("with_gpus", [True, False])
def test_a_gang_with_more_members_than_nodes_waits_as_a_whole(with_gpus: bool) -> None:
    driver = Driver(CLUSTER)
    assert driver.show(*gang(3, with_gpus)) == []


def test_members_beside_a_pod_with_the_port_wait_until_it_is_gone() -> None:
    driver = Driver(CLUSTER)
    first = server("first")
    driver.bound(driver.show(first), first)
    assert driver.show(*gang(2, True)) == []
    binds = driver.gone(first)
    assert sorted(bind.node for bind in binds) == ["n1", "n2"]


def test_a_pod_waits_for_a_port_and_is_woken_when_it_is_free() -> None:
    driver = Driver({"n1": 1})
    first, second = server("first"), server("second")
    driver.bound(driver.show(first), first)
    assert driver.show(second) == []
    assert TAKEN in driver.told["second"]
    assert [bind.uid for bind in driver.gone(first)] == [second.uid]


def test_pods_of_one_turn_do_not_get_one_port() -> None:
    driver = Driver(CLUSTER)
    binds = driver.show(*(server(f"p{number}") for number in range(5)))
    assert sorted(bind.node for bind in binds) == ["n1", "n2"]


def test_a_pod_is_evicted_for_its_port() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    low = server("low", priority=1)
    beside = a_pod("beside", a_shape(host_ports=(HostPort(81),)), priority=1)
    driver.fill(low, beside)
    driver.show(server("urgent", priority=9))
    assert driver.evicted == ["low"]


def test_pods_are_evicted_for_the_ports_of_a_gang() -> None:
    driver = Driver(CLUSTER, PREEMPTION)
    pods = [server(f"low-{number}", priority=1) for number in range(2)]
    driver.fill(*pods)
    driver.show(*gang(2, True, priority=9))
    assert sorted(driver.evicted) == ["low-0", "low-1"]


def test_a_more_important_pod_keeps_its_port() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(server("high", priority=9))
    driver.show(server("urgent", priority=5))
    assert driver.evicted == []
