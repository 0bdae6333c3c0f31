"""What is written to ResourceClaims."""

import json
from typing import Any

from kubeshare_py.domain.devices.device import DeviceKey, DeviceToleration
from kubeshare_py.domain.devices.resource_claim import (
    AllocatedDevice,
    ClaimAllocation,
    DeviceConfiguration,
)
from kubeshare_py.domain.label_selector import Requirement
from kubeshare_py.domain.needs.object_writes import ReserveDevices
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.manifests.devices.claim_writes import claim_patches, claim_path, version_in

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
