"""SharePods as their controller reads them, and pods of their names."""

import json
from random import Random

import msgspec

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.manifests.share_pods import (
    ASSIGNED_CARD_NAME,
    MADE_FROM,
    PodBehindFields,
    SharePodFields,
    pod_behind,
    share_pod,
    value_problem,
)
from kubeshare_py.manifests.watch import Codec
from kubeshare_py.sharepods.effects import CreatePod, PodsBehindListed, SharePodsListed
from kubeshare_py.sharepods.reconciler import Reconciler
from kubeshare_py.sharepods.share_pod import SharePod
from tests.fuzz.family import Family, said
from tests.fuzz.objects import judged_object, odd_object
from tests.valid_objects import POD

_SHARE_PODS, _PODS = Codec(SharePodFields), Codec(PodBehindFields)
_OURS = "kubeshare-scheduler"


def _made(name: str, **fields: object) -> dict[str, object]:
    annotations = {
        "kubeshare/gpu_request": "0.5",
        "kubeshare/gpu_limit": "1.0",
        "kubeshare/gpu_mem": "1073741824",
        "kubeshare/GPUID": "abcde",
        ASSIGNED_CARD_NAME: "abcde",
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {
        "metadata": {**metadata, "annotations": annotations, "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "image": "b"}], "nodeName": "n1"},
        **fields,
    }


_STATUS = {
    "PodStatus": {"phase": "Running"},
    "PodObjectMeta": {"uid": "p1"},
    "BoundDeviceID": "GPU-1",
    "PodManagerPort": 50051,
    "NodeName": "n1",
    "conditions": [
        {"type": "Synced", "status": "True", "reason": "Synced", "message": "m"},
    ],
}
_TEXTS = [json.dumps(_made("odd")), json.dumps(_made("odd", status=_STATUS))]
_GOOD = json.dumps(_made("good")).encode()
_GOOD_FIELDS = msgspec.json.decode(_GOOD, type=SharePodFields)
_OWNER = {"kind": "SharePod", "name": "odd", "uid": "uid-odd", "controller": True}
_POD_TEXTS = [
    json.dumps(POD),
    json.dumps(
        {
            **POD,
            "metadata": {
                **POD["metadata"],
                "annotations": {MADE_FROM: '{"spec.containers":"x"}'},
                "ownerReferences": [_OWNER],
            },
        }
    ),
]


def _share_pod(fields: SharePodFields) -> SharePod:
    """As it is read; one that is good beside it gets its pod, whatever this one is."""
    found = share_pod(fields, _OURS, value_problem)
    if found.problem:
        said(found.problem, "kubeshare/")
    good = share_pod(_GOOD_FIELDS, _OURS, value_problem)
    reconciler = Reconciler()
    effects = reconciler.handle(PodsBehindListed(pods=(), asked_at=0.0), 0.0)
    effects += reconciler.handle(SharePodsListed((found, good)), 0.0)
    made = {one.share_pod.key for one in effects if isinstance(one, CreatePod)}
    assert found.key == good.key or PodKey("default", "good") in made
    return found


def _odd_share_pod(rng: Random) -> bytes:
    return odd_object(rng, _TEXTS)


def _odd_pod(rng: Random) -> bytes:
    return odd_object(rng, _POD_TEXTS)


FAMILIES = (
    Family(
        name="sharepod-objects",
        make=_odd_share_pod,
        judge=judged_object(_SHARE_PODS, _share_pod, _GOOD),
        share=2,
    ),
    Family(
        name="sharepod-pods",
        make=_odd_pod,
        judge=judged_object(_PODS, pod_behind, json.dumps(POD).encode()),
        share=1,
    ),
)
