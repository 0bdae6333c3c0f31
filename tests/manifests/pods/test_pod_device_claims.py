"""Which ResourceClaims a pod uses."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.domain.needs.device_claims import DeviceClaimName, DeviceClaims
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields


def _read(claims: Any, statuses: Any = None, node: str = "") -> Any:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"resourceClaims": claims, "nodeName": node},
        "status": {"resourceClaimStatuses": statuses},
    }
    return to_domain(msgspec.json.decode(msgspec.json.encode(body), type=PodFields))


def test_a_pod_names_claims_and_gets_those_of_templates() -> None:
    claims = [
        {"name": "a", "resourceClaimName": "one"},
        {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimTemplateName": "t"},
        {"name": "d", "resourceClaimTemplateName": "t"},
    ]
    pod = _read(claims, [{"name": "b", "resourceClaimName": "p-b-x"}, {"name": "d"}])

    assert pod.unsupported == ()
    assert pod.shape.is_cluster_wide
    assert pod.shape.device_claims == DeviceClaims(
        namespace="ns",
        pod="p",
        uid="u",
        names=(
            DeviceClaimName("a", "one"),
            DeviceClaimName("b", "p-b-x", generated=True),
            DeviceClaimName("c", "", generated=True),
        ),
    )
    assert pod.placed.device_claims == pod.shape.device_claims
    assert _read(claims, node="n").placed.device_claims is None


def test_a_pod_without_claims_has_none() -> None:
    assert _read(None).shape.device_claims is None
    assert _read([]).shape.device_claims is None


@pytest.mark.parametrize(
    ("claims", "named"),
    [
        ([{"name": "a"}], "spec.resourceClaims[a]"),
        ([{"name": "a", "resourceClaimName": "c", "novelty": 1}], "spec.resourceClaims"),
        ([{"name": f"c{n}", "resourceClaimName": "c"} for n in range(65)], "spec.resourceClaims"),
    ],
)
def test_names_what_is_not_understood(claims: Any, named: str) -> None:
    pod = _read(claims)

    assert pod.unsupported == (named,)
    assert pod.shape.device_claims is None
