"""A SharePod of kubeshare.nthu/v1, as KubeShare 1.0 defined it.

`spec` is a PodSpec that is not looked into, except for what the controller changes. `status` has
Go's names of its fields: https://github.com/NTHU-LSALab/KubeShare, pkg/apis/kubeshare/v1/types.go
of release-1.0. NodeName and the conditions are this controller's.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeshare_py.dialects.sharepod.keys import VIRTUAL_GPU
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.manifests.metadata import ObjectMeta
from kubeshare_py.manifests.sharepods.canonical_json import bounded, canonical, decoded_object
from kubeshare_py.manifests.sharepods.pod_behind_fields import SHOWN_BYTES
from kubeshare_py.manifests.sharepods.pod_template import pod_template, template_annotations
from kubeshare_py.manifests.sharepods.share_pod_api import ASSIGNED_CARD_NAME
from kubeshare_py.manifests.undecodable import UNDECODABLE
from kubeshare_py.sharepods.pod_behind import PodMirror, SharePodUid
from kubeshare_py.sharepods.share_pod import (
    ConditionType,
    SharePod,
    SharePodCondition,
    SharePodStatus,
    SharePodTemplate,
)

_ABSENT = msgspec.Raw()
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
