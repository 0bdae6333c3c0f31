"""ResourceSlices are read, or say what cannot be read."""

from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceNodes,
    DeviceTaint,
)
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.pod import NodeTerm
from tests.manifests.devices_written import slice_of

D = "gpu.example.com"


def test_reads_a_slice() -> None:
    found = slice_of(
        devices=[
            {
                "name": "gpu-0",
                "attributes": {
                    "uuid": {"string": "GPU-1"},
                    "index": {"int": 3},
                    "healthy": {"bool": False},
                    "other.example.com/firmware": {"version": "1.2.3"},
                },
                "capacity": {"memory": {"value": "40Gi"}},
                "taints": [{"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01"}],
            }
        ]
    )

    assert (found.driver, found.pool, found.generation, found.slice_count) == (D, "n1", 2, 1)
    assert found.nodes == DeviceNodes(NodeName("n1"))
    assert found.devices == (
        Device(
            name="gpu-0",
            attributes=(
                DeviceAttribute(D, "healthy", flag=False),
                DeviceAttribute(D, "index", 3),
                DeviceAttribute("other.example.com", "firmware", version="1.2.3"),
                DeviceAttribute(D, "uuid", text="GPU-1"),
            ),
            capacity=(DeviceCapacity(D, "memory", "40Gi"),),
            taints=(DeviceTaint("broken", "", "NoSchedule"),),
        ),
    )
    assert [*found.devices[0].cards()] == [GpuUuid("GPU-1")]


def test_reads_from_which_nodes_devices_may_be_used() -> None:
    selector = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
        ]
    }
    terms = (NodeTerm((Requirement("rack", "In", ("r1",)),)),)

    assert slice_of(nodeName="", allNodes=True).nodes == DeviceNodes(everywhere=True)
    assert slice_of(nodeName="", nodeSelector=selector).nodes == DeviceNodes(terms=terms)
    own = slice_of(
        nodeName="",
        perDeviceNodeSelection=True,
        devices=[{"name": "a", "nodeName": "n2"}, {"name": "b", "nodeSelector": selector}],
    )
    assert own.nodes is None
    assert [one.nodes for one in own.devices] == [
        DeviceNodes(NodeName("n2")),
        DeviceNodes(terms=terms),
    ]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"consumesCounters": [{"counterSet": "a"}]}, "consumesCounters"),
        ({"bindingConditions": ["Ready"]}, "bindingConditions"),
        ({"bindsToNode": True}, "bindsToNode"),
        ({"allowMultipleAllocations": True}, "allowMultipleAllocations"),
        ({"nodeAllocatableResourceMappings": {"a": {}}}, "nodeAllocatableResourceMappings"),
    ],
)
def test_names_what_is_not_supported_of_a_device(fields: dict[str, Any], named: str) -> None:
    found = slice_of(devices=[{"name": "a", **fields}])

    assert found.devices[0].unsupported == (named,)


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        (
            [{"name": "a", "novelty": 1}],
            "Object contains unknown field `novelty` - at `$.devices[0]`",
        ),
        (
            [{"name": "a", "attributes": {"x": {"strings": ["a"]}}}],
            "Object contains unknown field `strings` - at `$.devices[0].attributes[...]`",
        ),
        (
            [{"name": f"d{number}"} for number in range(129)],
            "Expected `array` of length <= 128 - at `$.devices`",
        ),
        (
            [{"name": "a", "attributes": {f"a{number}": {"int": 1} for number in range(33)}}],
            "Expected `object` of length <= 32 - at `$.devices[0].attributes`",
        ),
        (
            [{"name": "a", "attributes": {"x": {}}}],
            "attribute x has 0 values instead of one",
        ),
        (
            [{"name": "a", "attributes": {"x": {"int": 1, "bool": True}}}],
            "attribute x has 2 values instead of one",
        ),
        (
            [{"name": "a", "capacity": {"memory": {"value": "much"}}}],
            "capacity memory is not a quantity",
        ),
        ("x", "Expected `array | null`, got `str` - at `$.devices`"),
    ],
)
def test_says_where_a_slice_cannot_be_read(devices: Any, problem: str) -> None:
    found = slice_of(devices=devices)

    assert found.problem == f"resourceslice s: {problem}"
    assert (found.driver, found.pool, found.generation) == (D, "n1", 2)
    assert found.devices == ()


def test_a_slice_without_a_pool_is_of_no_pool() -> None:
    assert slice_of(pool=3).problem.startswith("resourceslice s: Expected `object`")
    assert slice_of(pool=3).pool == ""
