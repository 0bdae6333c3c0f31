"""A v1 Pod in the fields that the controller of SharePods needs, and shows."""

from typing import Any

import msgspec

from kubeshare_py.dialects import results
from kubeshare_py.dialects.sharepod.keys import VIRTUAL_GPU
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.manifests.sharepods.canonical_json import bounded, canonical, decoded_object
from kubeshare_py.manifests.sharepods.share_pod_api import GROUP, KIND, MADE_FROM
from kubeshare_py.manifests.undecodable import UNDECODABLE
from kubeshare_py.sharepods.pod_behind import FieldHashes, PodBehind, PodMirror, SharePodUid

_ABSENT = msgspec.Raw()
#: The most bytes of a pod's status, and of its metadata, that a SharePod shows: both are kept for
#: as long as it is there, and a tenant chooses how many SharePods there are.
SHOWN_BYTES = 64 << 10


class ShownOwner(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An owner reference, whole."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ShownMeta(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """All metadata of a pod but `managedFields`."""

    name: str = ""
    generate_name: str | None = None
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[ShownOwner, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class _PhaseField(msgspec.Struct, frozen=True, gc=False):
    """The phase of a status whose other fields are not read."""

    phase: str = ""


_PHASE = msgspec.json.Decoder(_PhaseField)


class NodeNameField(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Its node, "" before it is bound."""

    node_name: str = ""


class PodBehindFields(msgspec.Struct, frozen=True, gc=False):
    """A pod."""

    metadata: ShownMeta = ShownMeta()
    spec: NodeNameField = NodeNameField()
    status: msgspec.Raw = _ABSENT


def pod_behind(fields: PodBehindFields) -> PodBehind:
    """The pod. Of one that no SharePod controls, nothing is kept but its identity. Never raises."""
    meta = fields.metadata
    annotations = meta.annotations or {}
    controller = next((one for one in meta.owner_references or () if one.controller), None)
    is_owned = controller is not None and _is_share_pod(controller)
    return PodBehind(
        key=PodKey(meta.namespace, meta.name),
        uid=PodUid(meta.uid),
        version=meta.resource_version,
        owner=SharePodUid(controller.uid if controller is not None and is_owned else ""),
        has_controller=controller is not None,
        is_marked=MADE_FROM in annotations,
        is_deleting=meta.deletion_timestamp is not None,
        field_hashes=_field_hashes(annotations.get(MADE_FROM, "")) if is_owned else (),
        card_name=annotations.get(VIRTUAL_GPU, "") if is_owned else "",
        mirror=_mirror(fields) if is_owned else PodMirror(),
    )


def _is_share_pod(owner: ShownOwner) -> bool:
    return owner.kind == KIND and owner.api_version.partition("/")[0] == GROUP


def _mirror(fields: PodBehindFields) -> PodMirror:
    annotations = fields.metadata.annotations or {}
    status = _status(fields.status)
    shown_status = canonical(status)
    metadata = msgspec.json.encode(fields.metadata, order="sorted")
    if is_long := len(metadata) > SHOWN_BYTES:
        metadata = msgspec.json.encode(_identity(fields.metadata), order="sorted")
    port = annotations.get(results.MANAGER_PORT, "")
    return PodMirror(
        pod_uid=PodUid(fields.metadata.uid),
        phase=str(status.get("phase", "")),
        status=shown_status,
        metadata=metadata,
        device=annotations.get(results.GPU_UUID, ""),
        port=int(port) if port.isascii() and port.isdecimal() and len(port) <= len("65535") else 0,
        node=fields.spec.node_name,
        is_cut=is_long or _is_long(fields.status),
    )


def _status(raw: msgspec.Raw) -> dict[str, Any]:
    """The status; only its phase if it is too long to be shown."""
    if not _is_long(raw):
        return decoded_object(raw)
    try:
        return {"phase": _PHASE.decode(bounded(raw)).phase}
    except UNDECODABLE:
        return {}


def _is_long(raw: msgspec.Raw) -> bool:
    return memoryview(raw).nbytes > SHOWN_BYTES


def _identity(meta: ShownMeta) -> ShownMeta:
    """The metadata without what may be of any length."""
    return msgspec.structs.replace(
        meta, labels=None, annotations=None, owner_references=None, finalizers=None
    )


def _field_hashes(text: str) -> FieldHashes:
    """The pairs that MADE_FROM says; empty if it says nothing that can be read."""
    found = decoded_object(text.encode())
    return tuple(sorted((name, value) for name, value in found.items() if isinstance(value, str)))
