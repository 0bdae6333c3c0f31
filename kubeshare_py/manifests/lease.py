"""The scheduler's Lease in Kubernetes' JSON: who leads.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kubeshare_py.domain.bounds import INT32
from kubeshare_py.domain.lease import Lease, LeaseClaim

_Int32 = Annotated[int, Meta(ge=INT32.least, le=INT32.most)]


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: _Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: _Int32 | None = None


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec | None = None


def read_lease(found: Mapping[str, Any]) -> Lease:
    """Read a Lease; raises msgspec.ValidationError for what an API server would not store."""
    lease = msgspec.convert(found, _Lease)
    spec = lease.spec or _Spec()
    return Lease(
        version=lease.metadata.resource_version,
        holder=spec.holder_identity or "",
        transitions=spec.lease_transitions or 0,
        duration_s=spec.lease_duration_seconds or 0,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
    )


def lease_body(
    found: Mapping[str, Any] | None, name: str, claim: LeaseClaim, now: datetime.datetime
) -> dict[str, Any]:
    """Write a claim over the Lease as found, keeping what others wrote on it.

    `now` is the time of this process's clock, for people: no scheduler computes with it. Without
    micro seconds the API server refuses it.
    """
    time = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    old = dict(found or {})
    spec = dict(old.get("spec") or {})
    if claim.acquires:
        spec["acquireTime"] = time
    spec |= {
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": claim.duration_s,
        "leaseTransitions": claim.transitions,
        "renewTime": time,
    }
    metadata = {**(old.get("metadata") or {}), "name": name}
    metadata.pop("resourceVersion", None)
    if claim.version:
        metadata["resourceVersion"] = claim.version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }
