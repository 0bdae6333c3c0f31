"""What an allocation says of its claim."""

from kubeshare_py.devices.allocator import Chosen, allocation_of
from kubeshare_py.devices.device_pools import PooledDevice
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import (
    AllocatedDevice,
    DeviceClass,
    DeviceConfiguration,
    DeviceKey,
    DeviceNodes,
    DeviceToleration,
)
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.values import replace
from tests.making.devices import CLASSES, DRIVER, claim, device, on_node, request, sliced


def _chosen(nodes: DeviceNodes | None = None, *names: str) -> Chosen:
    found = on_node(sliced(device("a"), device("b"))).devices
    if nodes is not None:
        found = tuple(
            PooledDevice(one.key, one.device, replace(one.slice, nodes=nodes), one.position)
            for one in found
        )
    return tuple((request(name), one) for name, one in zip(names or ("r", "s"), found, strict=True))


def test_names_the_device_of_each_request() -> None:
    tolerant = replace(request(), tolerations=(DeviceToleration("broken", "Exists"),))
    ((_, candidate), _) = _chosen()

    found = allocation_of(claim(tolerant), ((tolerant, candidate),), CLASSES)

    assert found.devices == (
        AllocatedDevice("r", DeviceKey(DRIVER, "n1", "a"), tolerations=tolerant.tolerations),
    )


def test_binds_to_the_node_of_a_device() -> None:
    found = allocation_of(claim(request("r"), request("s")), _chosen(), CLASSES)

    assert found.terms == (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)


def test_binds_to_the_nodes_that_all_devices_may_be_used_from() -> None:
    rack = Requirement("rack", "In", ("r1",))
    nodes = DeviceNodes(terms=(NodeTerm((rack,)),))
    wanted = claim(request("r"), request("s"))

    assert allocation_of(wanted, _chosen(nodes), CLASSES).terms == (NodeTerm((rack,)),)
    everywhere = DeviceNodes(everywhere=True)
    assert allocation_of(wanted, _chosen(everywhere), CLASSES).terms is None


def test_repeats_the_parameters_of_classes_and_of_the_claim() -> None:
    classes = {
        "any": DeviceClass(
            name="any", configurations=(DeviceConfiguration("FromClass", (), "{1}"),)
        )
    }
    wanted = replace(
        claim(request("r"), (request("s/x"), request("s/y"))),
        configurations=(
            DeviceConfiguration("FromClaim", (), "{2}"),
            DeviceConfiguration("FromClaim", ("s",), "{3}"),
            DeviceConfiguration("FromClaim", ("s/x",), "{4}"),
            DeviceConfiguration("FromClaim", ("s/y",), "{5}"),
        ),
    )

    found = allocation_of(wanted, _chosen(None, "r", "s/y"), classes)

    assert found.configurations == (
        DeviceConfiguration("FromClass", ("r", "s/y"), "{1}"),
        DeviceConfiguration("FromClaim", (), "{2}"),
        DeviceConfiguration("FromClaim", ("s",), "{3}"),
        DeviceConfiguration("FromClaim", ("s/y",), "{5}"),
    )
