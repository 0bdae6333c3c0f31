"""Pods whose claims are not ready do not start."""

from typing import Any

from kubeshare_py.embedded_cluster.controllers.unstructured import (
    CLAIMS,
    DEVICE_CLAIMS,
    Owner,
    UnstructuredMetadata,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.nodes.kubelet import ClaimReadiness


def found(name: str, namespace: str = "ns", **fields: Any) -> UnstructuredObject:
    owner = fields.pop("owner", None)
    metadata = UnstructuredMetadata(
        name=name,
        namespace=namespace,
        uid=fields.pop("uid", f"uid-{name}"),
        ownerReferences=[Owner(uid=owner)] if owner else None,
    )
    return UnstructuredObject(metadata=metadata, **fields)


def bound(name: str, **fields: Any) -> UnstructuredObject:
    return found(name, status={"phase": "Bound"}, **fields)


def reserved(name: str, *uids: str) -> UnstructuredObject:
    consumers = [{"resource": "pods", "uid": uid} for uid in uids]
    return found(name, status={"allocation": {}, "reservedFor": consumers})


MOUNTING = found(
    "p",
    spec={
        "volumes": [
            {"name": "token", "projected": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "scratch", "ephemeral": {}},
        ]
    },
)
USING = found(
    "q",
    spec={
        "resourceClaims": [
            {"name": "shared", "resourceClaimName": "s"},
            {"name": "own", "resourceClaimTemplateName": "t"},
        ]
    },
    status={"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "q-own-x"}]},
)


def test_volumes_are_missing_until_their_claims_are_bound() -> None:
    claims = ClaimReadiness()
    assert claims.missing(MOUNTING) == ["data", "scratch"]
    claims.listed(CLAIMS, [bound("c", namespace="other"), found("c", status={"phase": "Pending"})])
    assert claims.missing(MOUNTING) == ["data", "scratch"]
    claims.seen(CLAIMS, bound("c"))
    claims.seen(CLAIMS, bound("p-scratch", owner="uid-p"))
    assert claims.missing(MOUNTING) == []
    claims.gone(CLAIMS, "uid-c")
    assert claims.missing(MOUNTING) == ["data"]


def test_the_claim_of_an_ephemeral_volume_is_the_pods_own() -> None:
    claims = ClaimReadiness()
    claims.seen(CLAIMS, bound("p-scratch", owner="uid-other"))
    assert claims.missing(MOUNTING) == ["data", "scratch"]


def test_devices_are_missing_until_they_are_reserved_for_the_pod() -> None:
    claims = ClaimReadiness()
    claims.seen(DEVICE_CLAIMS, reserved("s", "uid-other"))
    claims.seen(DEVICE_CLAIMS, reserved("q-own-x", "uid-q"))
    assert claims.missing(USING) == ["shared"]
    claims.seen(DEVICE_CLAIMS, reserved("s", "uid-other", "uid-q"))
    assert claims.missing(USING) == []


def test_a_later_claim_of_a_name_stays_when_the_earlier_one_goes() -> None:
    claims = ClaimReadiness()
    claims.seen(CLAIMS, bound("c", uid="first"))
    claims.seen(CLAIMS, bound("c", uid="second"))
    claims.gone(CLAIMS, "first")
    assert claims.missing(MOUNTING) == ["scratch"]
    claims.listed(CLAIMS, [])
    assert claims.missing(MOUNTING) == ["data", "scratch"]
