"""`/scale`: the replicas of an object seen as an autoscaling/v1 Scale."""

import msgspec

from kubeshare_py.embedded_cluster.apiserver.bodies import (
    NotDecodable,
    decode_bytes,
    decode_part,
    media_type,
    prune_part,
)
from kubeshare_py.embedded_cluster.apiserver.reads import existing
from kubeshare_py.embedded_cluster.apiserver.updates import change
from kubeshare_py.embedded_cluster.protocol.list_selectors import value_at
from kubeshare_py.embedded_cluster.protocol.merge import PatchProblem, json_patch, merge_patch
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call, json_response
from kubeshare_py.embedded_cluster.protocol.resources import Scale
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    bad_request,
    failure,
    invalid,
    not_found,
    unsupported_media_type,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import StoredObject

KIND, API_VERSION = "Scale", "autoscaling/v1"
_JSON_PATCH = "application/json-patch+json"
#: A Scale has no lists, so both kinds of merging are equal.
_MERGES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get(call: Call) -> ApiResponse:
    """The Scale of an object; 500 if a custom object has no replicas."""
    return json_response(_scale_of(call, existing(call)))


def update(call: Call) -> ApiResponse:
    """PUT: only spec.replicas counts."""
    body, _ = decode_part(call.request, KIND, API_VERSION)
    return _change(call, existing(call), body)


def patch(call: Call) -> ApiResponse:
    """PATCH: the patch is one of the Scale, not of the object. Raises ApiRefusal."""
    kind = media_type(call.request.content_type)
    merges = _MERGES[:1] if call.resource.definition else _MERGES
    if kind not in (_JSON_PATCH, *merges):
        raise unsupported_media_type((_JSON_PATCH, *merges))
    document = decode_bytes(call.request.body)
    entry = existing(call)
    original = _scale_of(call, entry, missing=0)
    try:
        patched = (json_patch if kind == _JSON_PATCH else merge_patch)(original, document)
    except PatchProblem as error:
        message = "the server rejected our request due to an error in our request"
        raise ApiRefusal(failure(422, "Invalid", message, {})) from error
    if not isinstance(patched, dict):
        raise bad_request("a patch must leave an object")
    try:
        body, _ = prune_part(patched, KIND, API_VERSION, call.option("fieldValidation"))
    except NotDecodable as problem:
        shown = msgspec.json.encode(patched).decode()
        raise invalid("", "", [wrong("patch", shown, str(problem))]) from problem
    return _change(call, entry, body)


def _scale_of(call: Call, entry: StoredObject, missing: int | None = None) -> Json:
    scale, obj = _paths(call), call.resource.present(entry.object)
    replicas = value_at(obj, scale.wanted)
    if replicas is None:
        replicas = missing
    if replicas is None:
        message = f'the spec replicas field ".{".".join(scale.wanted)}" does not exist'
        details = {"causes": [{"message": message}]}
        text = f"Internal error occurred: {message}"
        raise ApiRefusal(failure(500, "InternalError", text, details))
    metadata = obj["metadata"]
    status: Json = {"replicas": value_at(obj, scale.present) or 0}
    if selector := scale.selector(obj):
        status["selector"] = selector
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _change(call: Call, entry: StoredObject, wanted: Json) -> ApiResponse:
    body = call.resource.present(msgspec.json.decode(entry.body()))
    holder = body
    *outer, last = _paths(call).wanted
    for step in outer:
        holder = holder.setdefault(step, {})
    replicas = wanted.get("spec", {}).get("replicas", 0)
    if replicas < 0 and not call.resource.definition:
        problem = wrong("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(KIND, call.name, [problem], "autoscaling")
    holder[last] = replicas
    sent = wanted.get("metadata", {})
    body["metadata"] = {
        **body["metadata"],
        **{name: sent[name] for name in _IDENTITY if name in sent},
    }
    return json_response(_scale_of(call, change(call, entry, body)))


def _paths(call: Call) -> Scale:
    if call.resource.scale is None:
        raise not_found(call.resource.named(call.name))
    return call.resource.scale
