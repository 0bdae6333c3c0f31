"""Which devices a node may use."""

from kubeshare_py.devices.device_pools import DevicePools
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import DeviceKey, DeviceNodes, ResourceSlice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.values import replace
from tests.making.devices import DRIVER, device, on_node, sliced

_TERMS = (NodeTerm((Requirement("rack", "In", ("r1",)),)),)


def _names(*slices: ResourceSlice, node: str = "n1", hold: bool = False) -> list[str]:
    pools = DevicePools(slices)
    found = pools.on(NodeName(node), lambda terms: hold)
    return [one.device.name for one in found.devices]


def test_a_node_uses_its_own_devices_and_those_of_all_nodes() -> None:
    everywhere = replace(
        sliced(device("net"), name="net", pool="net"), nodes=DeviceNodes(everywhere=True)
    )
    slices = (sliced(device("a")), sliced(device("b"), node="n2"), everywhere)

    assert _names(*slices) == ["a", "net"]
    assert _names(*slices, node="n3") == ["net"]


def test_a_node_selector_decides() -> None:
    chosen = replace(sliced(device("a")), nodes=DeviceNodes(terms=_TERMS))

    assert _names(chosen, hold=True) == ["a"]
    assert _names(chosen) == []
    assert [*DevicePools([chosen]).selectors()] == [_TERMS]


def test_each_device_may_name_its_nodes() -> None:
    own = (
        replace(device("a"), nodes=DeviceNodes(NodeName("n1"))),
        replace(device("b"), nodes=DeviceNodes(NodeName("n2"))),
        replace(device("c"), nodes=DeviceNodes(everywhere=True)),
    )
    shared = replace(sliced(*own), nodes=None)

    assert _names(shared) == ["a", "c"]
    assert _names(shared, node="n2") == ["b", "c"]


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = sliced(device("old"), name="s1")
    new = replace(sliced(device("new"), name="s2"), generation=2)

    assert _names(old, new) == ["new"]
    pools = DevicePools([old, new])
    assert pools.found(DeviceKey(DRIVER, "n1", "new")) == (new, device("new"))
    assert pools.found(DeviceKey(DRIVER, "n1", "old")) is None
    assert pools.found(DeviceKey(DRIVER, "n2", "old")) is None


def test_an_old_generation_is_not_used_where_the_new_one_has_no_slice() -> None:
    old = sliced(device("old"), name="s1", pool="p")
    new = replace(sliced(device("new"), name="s2", pool="p", node="n2"), generation=2)

    assert on_node(old, new).devices == ()
    assert on_node(old, new).unusable == (
        "resource pool gpu.example.com/p is out of date by resourceslice s2 of node n2",
    )


def test_a_slice_with_the_name_of_another_nodes_pool_is_named() -> None:
    own = sliced(device("a"), name="s1")
    foreign = sliced(device("a"), name="s2", node="n2", pool="n1")
    why = "resource pool gpu.example.com/n1 is currently being updated"

    assert on_node(own, foreign).unusable == (f"{why}: resourceslice s2 of node n2 is in it too",)


def test_a_pool_waits_for_all_of_its_slices() -> None:
    half = replace(sliced(device("a"), pool="p"), slice_count=2)
    other = replace(sliced(device("b"), pool="p", node="n2"), slice_count=2)

    assert on_node(half).devices == ()
    assert on_node(half).unusable == ("resource pool gpu.example.com/p is currently being updated",)
    assert [one.device.name for one in on_node(half, other).devices] == ["a"]


def test_a_pool_with_a_slice_that_cannot_be_read_is_not_used() -> None:
    broken = replace(sliced(), problem="resourceslice n1: bad")

    assert on_node(broken).unusable == ("resourceslice n1: bad",)


def test_a_pool_with_two_devices_of_one_name_is_not_used() -> None:
    assert on_node(sliced(device("a"), device("a"))).unusable == (
        "resource pool gpu.example.com/n1 has two devices of one name",
    )
