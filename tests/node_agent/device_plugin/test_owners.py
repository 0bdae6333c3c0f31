"""Which container has devices, by kubelet's list of them."""

from collections.abc import Mapping

import pytest

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.node_agent.device_plugin.owners import (
    ContainerDevices,
    DeviceOwner,
    NoOwner,
    claim_name,
    owner_of,
)

A, B = PodKey("default", "a"), PodKey("default", "b")
MEM, CORE = "elasticgpu.io/gpu-memory", "elasticgpu.io/gpu-core"


def container(pod: PodKey, name: str, devices: Mapping[str, set[str]]) -> ContainerDevices:
    return ContainerDevices(pod, name, {key: frozenset(ids) for key, ids in devices.items()})


LISTED = [
    container(A, "one", {MEM: {"0-0", "0-1"}, CORE: {"0-0"}}),
    container(A, "two", {MEM: {"0-2", "0-3"}}),
    container(B, "one", {MEM: {"0-4", "0-5"}, CORE: {"0-1"}}),
]


def test_the_container_with_exactly_these_devices_has_them_g50() -> None:
    assert owner_of(MEM, ["0-3", "0-2"], LISTED) == DeviceOwner(A, "two")
    assert owner_of(MEM, ["0-4", "0-5"], LISTED) == DeviceOwner(B, "one")


def test_devices_of_two_resources_may_have_the_same_ids() -> None:
    assert owner_of(CORE, ["0-1"], LISTED) == DeviceOwner(B, "one")


def test_an_init_container_passed_its_devices_to_containers_of_its_pod() -> None:
    assert owner_of(MEM, ["0-0", "0-1", "0-2", "0-9"], LISTED) == DeviceOwner(A, "")


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        (["0-7"], "kubelet lists no pod with these 1 devices of elasticgpu.io/gpu-memory"),
        (["0-0", "0-4"], "kubelet lists default/a, default/b with these 2 devices"),
    ],
)
def test_devices_of_no_one_pod_have_no_owner(devices: list[str], text: str) -> None:
    with pytest.raises(NoOwner, match=text):
        owner_of(MEM, devices, LISTED)


def test_a_claims_name_is_that_of_its_devices_in_any_order() -> None:
    """gpushare-nano A2: an early agent took the order of kubelet's list, which changes."""
    assert claim_name(MEM, ["0-1", "0-0"]) == claim_name(MEM, ["0-0", "0-1"])
    assert claim_name(MEM, ["0-0"]) != claim_name(CORE, ["0-0"])
    assert claim_name(MEM, ["0-0", "0-1"]) != claim_name(MEM, ["0-01"])
