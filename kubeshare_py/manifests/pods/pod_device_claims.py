"""The ResourceClaims that a pod uses: spec.resourceClaims, and the names that its status gives.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#resources
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from kubeshare_py.domain.needs.device_claims import DeviceClaimName, DeviceClaims
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.undecodable import UNDECODABLE

#: More claims are not read; Kubernetes has no bound of its own.
MAX_CLAIMS = 64


class _PodClaimFields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _ClaimStatusFields(msgspec.Struct, frozen=True, rename="camel"):
    """`resource_claim_name` None: the pod turned out to need no claim."""

    name: str
    resource_claim_name: str | None = None


_ClaimEntries = Annotated[tuple[_PodClaimFields, ...], Meta(max_length=MAX_CLAIMS)]


def pod_device_claims(
    meta: ObjectMeta, entries: Sequence[msgspec.Raw] | None, statuses: Sequence[msgspec.Raw] | None
) -> DeviceClaims | None:
    """The claims of a pod; None for nearly all pods, and if `unreadable_claims` names a field."""
    if not entries or unreadable_claims(entries):
        return None
    made = {one.name: one.resource_claim_name for one in _statuses(statuses)}
    names = []
    for one in _read(entries):
        if one.resource_claim_name is not None:
            names.append(DeviceClaimName(one.name, one.resource_claim_name))
        elif one.name not in made:
            names.append(DeviceClaimName(one.name, "", generated=True))
        else:
            claim = made[one.name]
            if claim is not None:
                names.append(DeviceClaimName(one.name, claim, generated=True))
    if not names:
        return None
    return DeviceClaims(namespace=meta.namespace, pod=meta.name, uid=meta.uid, names=tuple(names))


def unreadable_claims(entries: Sequence[msgspec.Raw]) -> tuple[str, ...]:
    """The field, if what it has is not understood."""
    try:
        found = _read(entries)
    except UNDECODABLE:
        return ("spec.resourceClaims",)
    return tuple(
        f"spec.resourceClaims[{one.name}]"
        for one in found
        if (one.resource_claim_name is None) == (one.resource_claim_template_name is None)
    )


def _read(entries: Sequence[msgspec.Raw]) -> _ClaimEntries:
    return msgspec.json.decode(_list(entries), type=_ClaimEntries)


def _statuses(statuses: Sequence[msgspec.Raw] | None) -> tuple[_ClaimStatusFields, ...]:
    try:
        return msgspec.json.decode(_list(statuses or ()), type=tuple[_ClaimStatusFields, ...])
    except UNDECODABLE:
        return ()


def _list(entries: Sequence[msgspec.Raw]) -> bytes:
    return b"[" + b",".join(bytes(one) for one in entries) + b"]"
