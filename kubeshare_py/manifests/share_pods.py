"""KubeShare 1.0's SharePods as JSON: read, and written as pods, status and patches."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeshare_py.dialects import results
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.sharepod import VIRTUAL_GPU, SharePods
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.manifests.api_paths import CORE, collection_path, object_path
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.decoding import MAX_DEPTH, UNDECODABLE
from kubeshare_py.manifests.shallow_json import shallow
from kubeshare_py.sharepods.share_pod import (
    ConditionType,
    FieldHashes,
    PodBehind,
    PodMirror,
    SharePod,
    SharePodCondition,
    SharePodStatus,
    SharePodTemplate,
    SharePodUid,
)

# JSON in one form, so that equal values are equal bytes: sorted names, no nulls.
#
# Users write SharePods without a schema for their specs, nested as deep as kube-apiserver accepts.


def bounded(raw: bytes | msgspec.Raw) -> bytes:
    """The JSON with null for what is more than MAX_DEPTH levels deep; `{}` for none.

    What is decoded from it can be walked and encoded without running out of stack.
    """
    text = bytes(raw) or b"{}"
    may_be_deep = text.count(b"{") + text.count(b"[") > MAX_DEPTH
    return shallow(text) if may_be_deep else text


def canonical(value: object) -> bytes:
    """A value of `bounded` JSON with sorted names, without fields that are null."""
    return msgspec.json.encode(_without_nulls(value), order="sorted")


def decoded_object(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """A `bounded` JSON object; {} if it is none."""
    try:
        found = msgspec.json.decode(bounded(raw))
    except UNDECODABLE:
        return {}
    return found if isinstance(found, dict) else {}


def hash_of(value: object) -> str:
    """Eight hexadecimal digits that change with the value."""
    return f"{zlib.crc32(canonical(value)):08x}"


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


# Where SharePods are in the API, and the annotations of theirs that this controller writes.


GROUP, VERSION, KIND, PLURAL = "kubeshare.nthu", "v1", "SharePod", "sharepods"
API_VERSION = f"{GROUP}/{VERSION}"
_API = f"/apis/{API_VERSION}"
SHARE_PODS = collection_path(_API, PLURAL)
PODS = "/api/v1/pods"

#: On a pod: the hashes of the fields of the template that it was made from, as JSON.
MADE_FROM = "kubeshare.io/sharepod"
#: On a SharePod: the virtual GPU that the scheduler named, also in `kubeshare/GPUID`. Without it,
#: or with another one, the user chose the name.
ASSIGNED_CARD_NAME = "kubeshare.io/assigned-gpuid"


def share_pod_path(key: PodKey) -> str:
    """The path of a SharePod."""
    return object_path(_API, PLURAL, key.name, key.namespace)


def pods_path(namespace: str) -> str:
    """The path at which the pods of a namespace are created."""
    return collection_path(CORE, "pods", namespace)


# A v1 Pod in the fields that the controller of SharePods needs, and shows.


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
    status = _pod_status(fields.status)
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


def _pod_status(raw: msgspec.Raw) -> dict[str, Any]:
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


# The pod that a SharePod describes: its spec as template, its labels and annotations.
#
# As KubeShare 1.0 makes it (newPod in pkg/devicemanager/controller.go of release-1.0), except that
# the scheduler decides: `spec.nodeName` becomes a required node affinity. What containers need of
# their card comes with the pod's annotations, and not from here.


#: Of `kubectl apply`, about the SharePod itself.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OURS = frozenset({LAST_APPLIED, ASSIGNED_CARD_NAME, MADE_FROM})
#: Beginning of the annotations of which an edit matters.
_KUBESHARE = "kubeshare/"
_NO_SCHEDULER = ("", "default-scheduler")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def owner_reference(metadata: ObjectMeta) -> dict[str, Any]:
    """The reference that makes this SharePod the controller of a pod."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_annotations(metadata: ObjectMeta) -> dict[str, str]:
    """Those for the pod: without results, which are the scheduler's, and the name that it chose."""
    annotations = metadata.annotations or {}
    assigned = annotations.get(ASSIGNED_CARD_NAME)
    return {
        key: value
        for key, value in annotations.items()
        if not (
            key in _OURS or results.is_result(key) or (key == VIRTUAL_GPU and value == assigned)
        )
    }


def pod_template(
    metadata: ObjectMeta, spec: dict[str, Any], scheduler_name: str
) -> SharePodTemplate:
    """The pod of a SharePod; one that names no scheduler gets `scheduler_name`."""
    labels = metadata.labels or {}
    annotations = template_annotations(metadata)
    field_hashes = tuple(sorted(_hashes(spec, labels, annotations).items()))
    made_from = msgspec.json.encode(dict(field_hashes)).decode()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": {**annotations, MADE_FROM: made_from},
            "ownerReferences": [owner_reference(metadata)],
        },
        "spec": _scheduled(spec, scheduler_name),
    }
    return SharePodTemplate(manifest=msgspec.json.encode(pod), field_hashes=field_hashes)


def _hashes(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, str]:
    """Each field of the template with a hash of its value, by the name that users know."""
    found = {f"spec.{name}": hash_of(value) for name, value in spec.items() if value is not None}
    if labels:
        found["metadata.labels"] = hash_of(labels)
    asked = {key: value for key, value in annotations.items() if key.startswith(_KUBESHARE)}
    return found | {f"metadata.annotations[{key}]": hash_of(value) for key, value in asked.items()}


def _scheduled(spec: Mapping[str, Any], scheduler_name: str) -> dict[str, Any]:
    found = dict(spec)
    if found.get("schedulerName", "") in _NO_SCHEDULER:
        found["schedulerName"] = scheduler_name
    node = found.get("nodeName")
    if isinstance(node, str):
        found.pop("nodeName")
        if node:
            found["affinity"] = _on_node(found.get("affinity"), node)
    return found


def _on_node(affinity: Any, node: str) -> Any:
    """The affinity with this node as a requirement; unchanged if the API server will refuse it."""
    affinity = {} if affinity is None else affinity
    if not isinstance(affinity, dict):
        return affinity
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {} if isinstance(of_nodes, dict) else None
    terms = required.get("nodeSelectorTerms") or [{}] if isinstance(required, dict) else None
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        return affinity
    # Terms are alternatives: each must name the node, as for pods of a DaemonSet.
    line = {"key": "metadata.name", "operator": "In", "values": [node]}
    bound = [{**term, "matchFields": [*(term.get("matchFields") or ()), line]} for term in terms]
    of_nodes = {**of_nodes, _REQUIRED: {"nodeSelectorTerms": bound}}
    return {**affinity, "nodeAffinity": of_nodes}


# A SharePod of kubeshare.nthu/v1, as KubeShare 1.0 defined it.
#
# `spec` is a PodSpec that is not looked into, except for what the controller changes. `status` has
# Go's names of its fields: https://github.com/NTHU-LSALab/KubeShare, pkg/apis/kubeshare/v1/types.go
# of release-1.0. NodeName and the conditions are this controller's.


#: The most bytes of a SharePod's spec, labels and annotations together. They are kept for as long
#: as it is there, and take several times as much while they are read.
MOST_BYTES = 128 << 10
#: No status of this controller is longer: the two parts of a pod's, and conditions.
_MOST_STATUS_BYTES = 2 * SHOWN_BYTES + (64 << 10)
_TYPES = {one.value: one for one in ConditionType}

#: What is wrong with the values of a SharePod's annotations, "" if nothing is.
ValueCheck = Callable[[Mapping[str, str]], str]


class SharePodFields(msgspec.Struct, frozen=True, gc=False):
    """A SharePod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = _ABSENT
    status: msgspec.Raw = _ABSENT


class _ShownCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _ShownStatus(msgspec.Struct, frozen=True, gc=False):
    PodStatus: dict[str, Any] | None = None
    PodObjectMeta: dict[str, Any] | None = None
    bound_card: str | None = msgspec.field(default=None, name="BoundDeviceID")
    PodManagerPort: int | None = None
    NodeName: str | None = None
    conditions: tuple[_ShownCondition, ...] | None = None


_STATUS = msgspec.json.Decoder(_ShownStatus)


def share_pod(fields: SharePodFields, scheduler_name: str, check: ValueCheck) -> SharePod:
    """The SharePod, whose pod gets this scheduler unless it names one. Never raises."""
    meta = fields.metadata
    annotations = meta.annotations or {}
    size = _size(fields)
    if size > MOST_BYTES:
        return _too_long(fields, size)
    spec = decoded_object(fields.spec)
    restarts = spec.get("restartPolicy")
    return SharePod(
        key=PodKey(meta.namespace, meta.name),
        uid=SharePodUid(meta.uid),
        version=meta.resource_version,
        template=pod_template(meta, spec, scheduler_name),
        is_deleting=meta.deletion_timestamp is not None,
        problem=check(annotations),
        restart_policy=restarts if isinstance(restarts, str) and restarts else "Always",
        card_name=annotations.get(VIRTUAL_GPU, ""),
        assigned_card_name=annotations.get(ASSIGNED_CARD_NAME, ""),
        status=_status(fields.status),
    )


def _size(fields: SharePodFields) -> int:
    """The bytes of what the pod would be made from, as they are in JSON but for signs between."""
    meta = fields.metadata
    texts = [*(meta.labels or {}).items(), *template_annotations(meta).items()]
    return memoryview(fields.spec).nbytes + sum(len(part.encode()) for one in texts for part in one)


def _too_long(fields: SharePodFields, size: int) -> SharePod:
    """The SharePod with what identifies it, and says what it shows."""
    meta = fields.metadata
    return SharePod(
        key=PodKey(meta.namespace, meta.name),
        uid=SharePodUid(meta.uid),
        version=meta.resource_version,
        template=SharePodTemplate(manifest=b"", field_hashes=()),
        is_deleting=meta.deletion_timestamp is not None,
        problem=f"its spec, labels and annotations have {size} bytes, and no pod is made from more "
        f"than {MOST_BYTES}",
        status=_status(fields.status),
    )


def _status(raw: msgspec.Raw) -> SharePodStatus:
    """The status that is shown; an empty one if it cannot be read: it is replaced then."""
    if memoryview(raw).nbytes > _MOST_STATUS_BYTES:
        return SharePodStatus()
    try:
        shown = _STATUS.decode(bounded(raw))
    except UNDECODABLE:
        return SharePodStatus()
    pod_status, pod_meta = shown.PodStatus or {}, shown.PodObjectMeta or {}
    mirror = PodMirror(
        pod_uid=PodUid(str(pod_meta.get("uid", ""))),
        phase=str(pod_status.get("phase", "")),
        status=canonical(pod_status) if pod_status else b"",
        metadata=canonical(pod_meta) if pod_meta else b"",
        device=shown.bound_card or "",
        port=shown.PodManagerPort or 0,
        node=shown.NodeName or "",
    )
    conditions = (_condition(one) for one in shown.conditions or ())
    return SharePodStatus(mirror=mirror, conditions=tuple(one for one in conditions if one))


def _condition(shown: _ShownCondition) -> SharePodCondition | None:
    kind = _TYPES.get(shown.type)
    if kind is None:
        return None
    return SharePodCondition(
        type=kind,
        is_true=shown.status == "True",
        reason=shown.reason,
        message=shown.message,
        since=shown.last_transition_time,
    )


# Writes to SharePods and their pods, as request bodies; each is about one object by its uid.


#: On a SharePod, written together.
_NAMES = (VIRTUAL_GPU, ASSIGNED_CARD_NAME)


def status_patch(share: SharePod, status: SharePodStatus, now: str) -> list[dict[str, Any]]:
    """A JSON patch (RFC 6902) for sharepods/status: the whole status, or nothing.

    `now` is a Time for conditions that become true or false.
    """
    mirror = status.mirror
    value: dict[str, Any] = {
        "BoundDeviceID": mirror.device,
        "PodManagerPort": mirror.port,
        "NodeName": mirror.node,
        "conditions": [_written_condition(one, share.status, now) for one in status.conditions],
    }
    for name, shown in (("PodStatus", mirror.status), ("PodObjectMeta", mirror.metadata)):
        if shown:
            value[name] = msgspec.Raw(shown)
    return [
        {"op": "test", "path": "/metadata/uid", "value": share.uid},
        {"op": "add", "path": "/status", "value": value},
    ]


def card_name_patch(share: SharePod, card_name: str) -> dict[str, Any]:
    """A merge patch that shows which virtual GPU the scheduler chose; "" takes the name away."""
    shown = card_name or None
    return {"metadata": {"uid": share.uid, "annotations": dict.fromkeys(_NAMES, shown)}}


def adoption_patch(share: SharePod, uid: PodUid) -> dict[str, Any]:
    """A strategic merge patch for a pod: this SharePod becomes its controller."""
    made = msgspec.json.decode(share.template.manifest)
    return {"metadata": {"uid": uid, "ownerReferences": made["metadata"]["ownerReferences"]}}


def delete_options(uid: PodUid, version: str) -> dict[str, Any]:
    """The body of a DELETE of this pod, in this version unless it is ""."""
    wanted = {"uid": uid} | ({"resourceVersion": version} if version else {})
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": wanted}


def _written_condition(one: SharePodCondition, shown: SharePodStatus, now: str) -> dict[str, str]:
    before = shown.condition(one.type)
    is_same = before is not None and before.is_true == one.is_true
    return {
        "type": one.type.value,
        "status": "True" if one.is_true else "False",
        "reason": one.reason,
        "message": one.message,
        "lastTransitionTime": (before.since if before is not None and is_same else "") or now,
    }


# What is wrong with the values of a SharePod, by the dialect that its pod asks in.


_DIALECT = SharePods()


def value_problem(annotations: Mapping[str, str]) -> str:
    """The field that cannot be understood, its value and the rule; "" if all can."""
    asked = {key: value for key, value in annotations.items() if key in _DIALECT.owns.annotations}
    if not asked:
        return ""
    found = _DIALECT.read(PodAsk(labels={}, annotations=asked))
    return str(found) if isinstance(found, InvalidRequest) else ""
