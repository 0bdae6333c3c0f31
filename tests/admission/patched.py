"""Pods of AdmissionReviews, and what becomes of them."""

import base64
import json
from typing import Any

import jsonpatch

from kubeshare_py.admission.review import Rules, answer
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.values import replace

Json = dict[str, Any]

#: Every back-end, and what is asked is not looked at.
ALL = Rules(
    choices={"kubeshare-scheduler": IsolationChoice(tuple(IsolationBackend))},
    validates=False,
)
#: Labels of a pod with a share.
SHARE = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}


def a_pod(labels: Json | None = None, *env: Json, **spec: Any) -> Json:
    """A pod of ours with one container."""
    container = {"name": "main", "image": "x", **({"env": list(env)} if env else {})}
    fields = {"schedulerName": "kubeshare-scheduler", "containers": [container], **spec}
    return {"metadata": {"name": "p", "labels": labels or {}}, "spec": fields}


def review(pod: object, **request: Any) -> bytes:
    """What an API server asks when it is created."""
    asked = {"uid": "u", "operation": "CREATE", "object": pod, **request}
    return json.dumps({"kind": "AdmissionReview", "request": asked}).encode()


def answered(body: bytes, rules: Rules = ALL) -> Json:
    """The response of the webhook."""
    found = answer(body, rules)
    assert found is not None
    response: Json = json.loads(found)["response"]
    assert response["uid"] == "u"
    return response


def patched(pod: Json, *, runtime_class: str = "", **request: Any) -> Json:
    """What becomes of the pod."""
    response = answered(review(pod, **request), replace(ALL, runtime_class=runtime_class))
    assert response["allowed"]
    assert "warnings" not in response
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    changed: Json = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    return changed


def env_of(pod: Json, kind: str = "containers", index: int = 0) -> dict[str, str]:
    """The environment as name to value, or to path of a field; the last of a name wins."""
    return {
        one["name"]: one.get("value")
        or one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        for one in pod["spec"][kind][index].get("env", ())
    }
