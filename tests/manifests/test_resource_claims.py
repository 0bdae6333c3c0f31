"""ResourceClaims and DeviceClasses as they are read, and what is written to claims."""

import json
from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import (
    AllocatedDevice,
    AllocationMode,
    ClaimAllocation,
    DeviceClass,
    DeviceConfiguration,
    DeviceKey,
    DeviceNodes,
    DeviceRequest,
    DeviceToleration,
    MatchAttribute,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.storage import ReserveDevices
from kubeshare_py.manifests.resource_claims import (
    ConfigurationFields,
    NodeSelection,
    claim_patches,
    claim_path,
    configuration,
    device_nodes,
    is_set,
    node_terms,
    version_in,
)
from tests.manifests.devices_written import claim_of, class_of, exactly

# --- ResourceClaims and DeviceClasses are read, or say what cannot be read ------------------------


_CEL = [{"cel": {"expression": "true"}}]


def test_reads_what_a_claim_asks_for() -> None:
    found = claim_of(
        {
            "requests": [
                exactly(
                    selectors=_CEL,
                    allocationMode="ExactCount",
                    count=2,
                    tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
                ),
                {
                    "name": "s",
                    "firstAvailable": [
                        {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
                        {"name": "one", "deviceClassName": "tpu"},
                    ],
                },
            ],
            "constraints": [{"requests": ["r"], "matchAttribute": "gpu.example.com/root"}],
            "config": [
                {"requests": ["r"], "opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}
            ],
        },
        resourceVersion="7",
        ownerReferences=[{"uid": "pod", "controller": True}],
    )

    assert found.requests == (
        (
            DeviceRequest(
                name="r",
                device_class="gpu",
                count=2,
                selectors=("true",),
                tolerations=(DeviceToleration("a", "Exists"),),
            ),
        ),
        (
            DeviceRequest(name="s/all", device_class="gpu", mode=AllocationMode.ALL),
            DeviceRequest(name="s/one", device_class="tpu"),
        ),
    )
    assert found.constraints == (MatchAttribute("gpu.example.com", "root", ("r",)),)
    assert found.configurations == (
        DeviceConfiguration(
            "FromClaim", ("r",), '{"opaque":{"driver":"gpu.example.com","parameters":{"a":1}}}'
        ),
    )
    assert (found.resource_version, found.owner, found.allocation) == ("7", "pod", None)
    assert (found.unsupported, found.problem) == ((), "")


def test_reads_what_a_claim_holds() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "a"}
    found = claim_of(
        {},
        {
            "allocation": {
                "devices": {"results": [result, {**result, "device": "b", "adminAccess": True}]},
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                            ]
                        }
                    ]
                },
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod"}],
        },
        deletionTimestamp="2026-01-01T00:00:00Z",
    )

    assert found.allocation == ClaimAllocation(
        devices=(
            AllocatedDevice("r", DeviceKey("d", "p", "a")),
            AllocatedDevice("r", DeviceKey("d", "p", "b"), admin=True),
        ),
        terms=(NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),),
    )
    assert [*found.held_devices()] == [DeviceKey("d", "p", "a")]
    assert found.reserved_for == {"pod"}
    assert found.deleting


def test_an_empty_allocation_is_one() -> None:
    assert claim_of({}, {"allocation": {}}).allocation == ClaimAllocation(())
    assert claim_of({}, {"allocation": None}).allocation is None


def test_an_allocation_that_cannot_be_read_is_one() -> None:
    found = claim_of({}, {"allocation": {"devices": 3}}).allocation

    assert found is not None
    assert found.unsupported == (
        "status.allocation: Expected `object`, got `int` - at `$.devices`",
    )


def test_an_allocation_with_conditions_is_not_supported() -> None:
    result = {"driver": "d", "pool": "p", "device": "a", "bindingConditions": ["Ready"]}
    found = claim_of({}, {"allocation": {"devices": {"results": [result]}}}).allocation

    assert found is not None
    assert found.unsupported == ("bindingConditions",)


@pytest.mark.parametrize(
    ("devices", "named"),
    [
        ({"requests": [exactly(adminAccess=True)]}, "adminAccess"),
        ({"requests": [exactly(capacity={"requests": {"memory": "1Gi"}})]}, "capacity"),
        ({"constraints": [{"distinctAttribute": "a/b"}]}, "distinctAttribute"),
    ],
)
def test_names_what_is_not_supported(devices: Any, named: str) -> None:
    assert claim_of(devices).unsupported == (named,)


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        ({"novelty": 1}, "spec: Object contains unknown field `novelty` - at `$.devices`"),
        ({"requests": [{"name": "r"}]}, "request r must have one of exactly and firstAvailable"),
        (
            {"requests": [exactly(allocationMode="Some")]},
            "spec: request r has the unknown allocationMode Some",
        ),
        (
            {"requests": [exactly(f"r{number}") for number in range(33)]},
            "spec: Expected `array` of length <= 32 - at `$.devices.requests`",
        ),
        (
            {"requests": [exactly(selectors=[{"cel": {"expression": "x" * 10241}}])]},
            "spec: Expected `str` of length <= 10240 - at "
            "`$.devices.requests[0].exactly.selectors[0].cel.expression`",
        ),
        (
            {"config": [{"opaque": {"driver": "d", "parameters": "x" * 20000}}]},
            "spec: the parameters for d have 20002 bytes; at most 10240 are read",
        ),
    ],
)
def test_says_where_a_claim_cannot_be_read(devices: Any, problem: str) -> None:
    assert problem in claim_of(devices).problem


def test_a_huge_count_is_more_than_a_claim_may_have() -> None:
    assert claim_of({"requests": [exactly(count=2**62)]}).requests[0][0].count == 33


def test_reads_a_class() -> None:
    found = class_of(
        selectors=_CEL,
        config=[{"opaque": {"driver": "d", "parameters": {}}}],
        extendedResourceName="example.com/gpu",
    )

    assert found == DeviceClass(
        name="gpu",
        selectors=("true",),
        configurations=(
            DeviceConfiguration("FromClass", (), '{"opaque":{"driver":"d","parameters":{}}}'),
        ),
    )
    assert class_of(novelty=1).problem == "spec: Object contains unknown field `novelty`"


# --- What is written to ResourceClaims ------------------------------------------------------------


PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"
ALLOCATION = ClaimAllocation(
    devices=(
        AllocatedDevice("r", DeviceKey("d", "p", "a"), False, (DeviceToleration("k", "Exists"),)),
    ),
    terms=(
        NodeTerm((Requirement("zone", "Exists"),), (Requirement("metadata.name", "In", ("n",)),)),
    ),
    configurations=(
        DeviceConfiguration("FromClass", ("r",), '{"opaque":{"driver":"d","parameters":{"a":1}}}'),
    ),
)


def _write(**fields: Any) -> ReserveDevices:
    return ReserveDevices(
        namespace="ns", device_claim="c", uid="u", version="1", pod="p", pod_uid="pu", **fields
    )


def test_an_allocation_is_written_behind_the_finalizer() -> None:
    first, second = claim_patches(_write(allocation=ALLOCATION))

    assert (first.path, second.path) == (PATH, f"{PATH}/status")
    assert json.loads(first.body("u", "1")) == {
        "metadata": {
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "uid": "u",
            "resourceVersion": "1",
        }
    }
    assert json.loads(second.body("u", "2")) == {
        "metadata": {"uid": "u", "resourceVersion": "2"},
        "status": {
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}],
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "request": "r",
                            "driver": "d",
                            "pool": "p",
                            "device": "a",
                            "tolerations": [{"key": "k", "operator": "Exists"}],
                        }
                    ],
                    "config": [
                        {
                            "source": "FromClass",
                            "requests": ["r"],
                            "opaque": {"driver": "d", "parameters": {"a": 1}},
                        }
                    ],
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "Exists"}],
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n"]}
                            ],
                        }
                    ]
                },
            },
        },
    }


def test_a_protected_claim_needs_no_finalizer() -> None:
    assert len([*claim_patches(_write(allocation=ALLOCATION, is_protected=True))]) == 1


def test_an_allocated_claim_is_only_reserved() -> None:
    (patch,) = claim_patches(_write())

    assert json.loads(patch.body("u", "1"))["status"] == {
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"}]
    }


def test_reads_the_version_in_an_answer() -> None:
    assert version_in(b'{"metadata":{"resourceVersion":"7"}}') == "7"
    assert version_in(b"x") == ""
    assert claim_path(_write()) == PATH


# --- What slices, claims and classes have in common -----------------------------------------------


_SELECTOR = b'{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]},{}]}'


def test_reads_the_terms_of_a_node_selector() -> None:
    fields = msgspec.json.decode(_SELECTOR, type=NodeSelection)

    assert node_terms(fields) == (NodeTerm((Requirement("a", "Exists"),)), NodeTerm())
    assert node_terms(None) is None
    assert device_nodes("n1", False, None) == DeviceNodes(NodeName("n1"))


def test_keeps_parameters_as_they_are() -> None:
    raw = b'{"requests":["r"],"opaque":{"driver":"d","parameters":{"b": 1,"a":[]}}}'
    fields = msgspec.json.decode(raw, type=ConfigurationFields)

    assert configuration(fields, "FromClaim") == DeviceConfiguration(
        "FromClaim", ("r",), '{"opaque":{"driver":"d","parameters":{"b": 1,"a":[]}}}'
    )
    assert configuration(ConfigurationFields(), "FromClass").content == "{}"


@pytest.mark.parametrize(("raw", "wanted"), [(b"", False), (b"null", False), (b"[1]", True)])
def test_knows_whether_a_field_is_set(raw: bytes, wanted: bool) -> None:
    assert is_set(msgspec.Raw(raw)) is wanted
