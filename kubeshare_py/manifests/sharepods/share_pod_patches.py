"""Writes to SharePods and their pods, as request bodies; each is about one object by its uid."""

from typing import Any

import msgspec

from kubeshare_py.dialects.sharepod.keys import VIRTUAL_GPU
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.manifests.sharepods.share_pod_api import ASSIGNED_CARD_NAME
from kubeshare_py.sharepods.share_pod import SharePod, SharePodCondition, SharePodStatus

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
        "conditions": [_condition(one, share.status, now) for one in status.conditions],
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


def _condition(one: SharePodCondition, shown: SharePodStatus, now: str) -> dict[str, str]:
    before = shown.condition(one.type)
    is_same = before is not None and before.is_true == one.is_true
    return {
        "type": one.type.value,
        "status": "True" if one.is_true else "False",
        "reason": one.reason,
        "message": one.message,
        "lastTransitionTime": (before.since if before is not None and is_same else "") or now,
    }
