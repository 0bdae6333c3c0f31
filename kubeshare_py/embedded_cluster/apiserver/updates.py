"""PUT and PATCH of objects and their status."""

from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.apiserver.bodies import (
    NotDecodable,
    apply_defaults,
    bare,
    decode_bytes,
    decode_object,
    media_type,
    prune_object,
)
from kubeshare_py.embedded_cluster.apiserver.creation import (
    SERVER_OWNED,
    Headers,
    create_object,
    is_dry_run,
)
from kubeshare_py.embedded_cluster.apiserver.deletion import finish_if_done
from kubeshare_py.embedded_cluster.apiserver.reads import view_of
from kubeshare_py.embedded_cluster.protocol.merge import (
    PatchProblem,
    json_patch,
    merge_patch,
    strategic_merge,
)
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call
from kubeshare_py.embedded_cluster.protocol.names import finalizer_causes, metadata_causes
from kubeshare_py.embedded_cluster.protocol.rendering import object_body
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusCause,
    bad_request,
    conflict,
    failure,
    invalid,
    not_found,
    required,
    unsupported_media_type,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import StoredObject

_JSON_PATCH = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_PATCHES = (_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY)
_CUSTOM_PATCHES = (_JSON_PATCH, _MERGE, _APPLY)
_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "generateName",
    "resourceVersion",
)


def update(call: Call) -> ApiResponse:
    """PUT to an object or its status."""
    resource = call.resource
    body, warnings = decode_object(call.request, resource)
    entry = call.store.get(resource.store_bucket, call.namespace, call.name)
    if entry is None:
        if resource.create_on_update and not call.subresource:
            return create_object(call, body, warnings)
        raise not_found(resource.named(call.name))
    if not resource.unconditional_update and not body.get("metadata", {}).get("resourceVersion"):
        problem = wrong("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.plural, call.name, [problem], resource.group)
    return _replace(call, entry, resource.absorb(bare(body)), warnings)


def patch(call: Call) -> ApiResponse:
    """PATCH of an object or its status, in any of the four formats."""
    resource = call.resource
    kind = media_type(call.request.content_type)
    accepted = _CUSTOM_PATCHES if resource.definition else _PATCHES
    if kind not in accepted:
        raise unsupported_media_type(accepted)
    document = decode_bytes(call.request.body, is_yaml=kind == _APPLY)
    if kind == _APPLY and not call.option("fieldManager"):
        problem = required("fieldManager", "is required for apply patch")
        raise invalid("PatchOptions", "", [problem], "meta.k8s.io")
    entry = call.store.get(resource.store_bucket, call.namespace, call.name)
    if entry is None and (kind != _APPLY or call.subresource):
        raise not_found(resource.named(call.name))
    original = resource.present(msgspec.json.decode(entry.body())) if entry else {}
    patched = _patched(kind, resource, original, document)
    if not isinstance(patched, dict):
        raise bad_request("a patch must leave an object")
    if entry is None:
        return create_object(call, _prune(call, patched)[0], ())
    try:
        body, warnings = _prune(call, patched)
        return _replace(call, entry, resource.absorb(bare(body)), warnings)
    except NotDecodable as problem:
        shown, text = document, str(problem)
        if resource.definition:
            shown, text = {**resource.head(), **patched}, text.partition(": ")[2]
        shown = msgspec.json.encode(shown).decode()
        raise invalid("", "", [wrong("patch", shown, text)]) from problem


def _prune(call: Call, body: Any) -> tuple[Json, Headers]:
    resource = call.resource
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request is no {resource.kind}")
    return prune_object(body, resource, call.option("fieldValidation"))


def _patched(kind: str, resource: Resource, original: Json, document: Any) -> Any:
    try:
        if kind == _JSON_PATCH:
            return json_patch(original, document)
        if not isinstance(document, dict):
            raise bad_request("the patch is no JSON object")
        if kind == _MERGE:
            return merge_patch(original, document)
        if kind == _APPLY and resource.apply is not None:
            return resource.apply(original, document)
        if not original:
            return document
        return strategic_merge(original, document, resource.merge_keys)
    except PatchProblem as error:
        message = "the server rejected our request due to an error in our request"
        if kind == _JSON_PATCH:
            raise ApiRefusal(failure(422, "Invalid", message, {})) from error
        raise bad_request(str(error)) from error


def _replace(call: Call, entry: StoredObject, body: Json, warnings: Headers) -> ApiResponse:
    stored = change(call, entry, body)
    return ApiResponse(body=object_body(view_of(call), stored), headers=warnings)


def change(call: Call, entry: StoredObject, body: Json) -> StoredObject:
    """Store what this URL may change of an object, checked; `body` is changed too."""
    resource = call.resource
    # Custom objects are read as their definition is now, whatever it was when they were stored.
    old = resource.present(entry.object) if resource.definition else entry.object
    metadata = body.setdefault("metadata", {})
    _check_identity(call, old["metadata"], metadata)
    if problem := resource.time_problem(body):
        raise NotDecodable(resource.kind, resource.api_version, problem)
    new = _merged(call, old, body)
    apply_defaults(resource, new)
    causes = _update_causes(call, new, old)
    if causes:
        raise invalid(resource.kind, call.name, causes, resource.group)
    counts = resource.has_generation and call.subresource != "status"
    if counts and resource.counted(new) != resource.counted(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return _stored(call, entry, new)


def _check_identity(call: Call, old: Json, metadata: Json) -> None:
    """The body must be about this very object, at this version if it names one."""
    name = metadata.setdefault("name", call.name)
    if name != call.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    if metadata.get("namespace", call.namespace) != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    subject = call.resource.named(call.name)
    uid = metadata.get("uid", old["uid"])
    if uid != old["uid"] and call.request.method == "PATCH":
        resource, problem = call.resource, wrong("metadata.uid", uid, "field is immutable")
        raise invalid(resource.kind, call.name, [problem], resource.group)
    if uid != old["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}"
        raise conflict(subject, why)
    if metadata.get("resourceVersion", old["resourceVersion"]) != old["resourceVersion"]:
        raise conflict(subject)


def _merged(call: Call, old: Json, body: Json) -> Json:
    """The body's part that this URL may change, over the rest of the old object."""
    metadata = body["metadata"]
    for name in SERVER_OWNED:
        metadata.pop(name, None)
    for name in _KEPT:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    if call.subresource == "status":
        if call.resource.definition:
            metadata = dict(old["metadata"])
        metadata.pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
        status = {"status": body["status"]} if "status" in body else {}
        kept = {key: value for key, value in old.items() if key not in ("metadata", "status")}
        return {"metadata": metadata, **kept, **status}
    if call.resource.has_status:
        body.pop("status", None)
        if "status" in old:
            body["status"] = old["status"]
    return body


def _update_causes(call: Call, new: Json, old: Json) -> list[StatusCause]:
    resource = call.resource
    causes = metadata_causes(new["metadata"], name_is_label=resource.name_is_label)
    causes += finalizer_causes(old["metadata"], new["metadata"])
    if call.subresource == "status":
        return causes + resource.status_causes(new, old)
    if resource.changed_causes is not None:
        return causes + resource.changed_causes(new, old)
    causes += resource.causes(new)
    return causes or resource.update_causes(new, old)


def _stored(call: Call, entry: StoredObject, new: Json) -> StoredObject:
    """Store what changed; a patch without effect keeps the resourceVersion."""
    if new == entry.object:
        return entry
    if is_dry_run(call):
        return StoredObject(new)
    changed = StoredObject(new)
    if finish_if_done(call.store, call.resource, changed):
        return changed
    return call.store.put(call.resource.store_bucket, new)
