"""The scheduler's Lease in Kubernetes' JSON: which process leads.

Fields: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
"""

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from kubeshare_py.domain.lease import LONGEST_LEASE_S, TERMS, Lease, LeaseClaim

_SHOWN = 40


class _LeaseMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


def read_lease(found: Mapping[str, Any]) -> Lease:
    """Read a Lease; implausible fields are in `problems`, and are no reason not to lead.

    Raises msgspec.ValidationError without a resourceVersion, which every stored Lease has.
    """
    metadata = msgspec.convert(found.get("metadata"), _LeaseMetadata)
    spec = _LeaseSpec(found.get("spec"))
    return Lease(
        version=metadata.resource_version,
        holder=spec.text("holderIdentity"),
        transitions=spec.number("leaseTransitions", 0, TERMS - 1, otherwise=0),
        duration_s=spec.number(
            "leaseDurationSeconds", 0, LONGEST_LEASE_S, otherwise=LONGEST_LEASE_S
        ),
        acquired=spec.text("acquireTime"),
        renewed=spec.text("renewTime"),
        problems=tuple(spec.problems),
    )


class _LeaseSpec:
    """A Lease's spec with arbitrary content; `problems` are those of the fields that were read."""

    def __init__(self, found: object) -> None:
        self.problems: list[str] = []
        self._fields: Mapping[str, object] = {}
        if isinstance(found, Mapping):
            self._fields = found
        elif found is not None:
            self.problems.append(f"spec: must be an object, not {_shown(found)}")

    def text(self, name: str) -> str:
        """A string, "" if it is missing; anything else as JSON, so that a change is seen."""
        found = self._fields.get(name)
        if found is None or isinstance(found, str):
            return found or ""
        self.problems.append(f"spec.{name}: must be a string, not {_shown(found)}")
        return msgspec.json.encode(found).decode()

    def number(self, name: str, least: int, most: int, otherwise: int) -> int:
        """A whole number within these bounds; 0 if it is missing, `otherwise` if it is bad."""
        found = self._fields.get(name)
        if found is None:
            return 0
        if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
            return found
        self.problems.append(
            f"spec.{name}: must be a whole number from {least} to {most}, not {_shown(found)};"
            f" taken as {otherwise}"
        )
        return otherwise


def _shown(found: object) -> str:
    text = msgspec.json.encode(found).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def lease_body(
    found: Mapping[str, Any] | None, name: str, claim: LeaseClaim, now: datetime.datetime
) -> dict[str, Any]:
    """Write a claim over the Lease as found, keeping fields of others.

    `now` is this process's clock, for people: no scheduler computes with it. The API server refuses
    times without microseconds.
    """
    time = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    old = dict(found or {})
    there = old.get("spec")
    spec = dict(there) if isinstance(there, Mapping) else {}
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
