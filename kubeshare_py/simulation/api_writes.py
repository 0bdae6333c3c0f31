"""POST, PUT and PATCH of objects."""

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from kubeshare_py.simulation.api_bodies import (
    NotDecodable,
    apply_defaults,
    decode_bytes,
    decode_object,
    media_type,
    prune_object,
)
from kubeshare_py.simulation.api_deletion import finish_if_done
from kubeshare_py.simulation.api_merge import (
    PatchProblem,
    json_patch,
    merge_patch,
    strategic_merge,
)
from kubeshare_py.simulation.api_messages import ApiResponse, Call
from kubeshare_py.simulation.api_names import finalizer_causes, generated_name, metadata_causes
from kubeshare_py.simulation.api_reads import view_of
from kubeshare_py.simulation.api_rendering import object_body
from kubeshare_py.simulation.api_resources import Resource
from kubeshare_py.simulation.api_status import (
    Cause,
    Json,
    Named,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    failure,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported_media_type,
    wrong,
)
from kubeshare_py.simulation.api_store import Entry
from kubeshare_py.simulation.api_times import timestamp

Headers = Sequence[tuple[str, str]]

_JSON_PATCH = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_PATCHES = (_JSON_PATCH, _MERGE, _STRATEGIC, _APPLY)
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
_SERVER_OWNED = ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink")


def create(call: Call) -> ApiResponse:
    """POST to a collection."""
    resource = call.resource
    obj, warnings = decode_object(
        call.request, resource.kind, resource.fields, resource.api_version
    )
    return _create(call, obj, warnings)


def update(call: Call) -> ApiResponse:
    """PUT to an object or its status."""
    resource = call.resource
    body, warnings = decode_object(
        call.request, resource.kind, resource.fields, resource.api_version
    )
    entry = call.store.get(resource.store_bucket, call.namespace, call.name)
    if entry is None:
        if resource.create_on_update and not call.subresource:
            return _create(call, body, warnings)
        raise not_found(resource.named(call.name))
    return _replace(call, entry, resource.absorb(_bare(body)), warnings)


def patch(call: Call) -> ApiResponse:
    """PATCH of an object or its status, in any of the four formats."""
    resource = call.resource
    kind = media_type(call.request.content_type)
    if kind not in _PATCHES:
        raise unsupported_media_type(_PATCHES)
    document = decode_bytes(call.request.body, is_yaml=kind == _APPLY)
    if kind == _APPLY and not call.option("fieldManager"):
        problem = required("fieldManager", "is required for apply patch")
        raise invalid("PatchOptions", "", [problem], "meta.k8s.io")
    entry = call.store.get(resource.store_bucket, call.namespace, call.name)
    if entry is None:
        if kind != _APPLY or call.subresource:
            raise not_found(resource.named(call.name))
        return _create(call, _prune(call, document)[0], ())
    original = resource.present(msgspec.json.decode(entry.body()))
    patched = _patched(kind, resource, original, document)
    if not isinstance(patched, dict):
        raise bad_request("a patch must leave an object")
    try:
        body, warnings = _prune(call, patched)
        return _replace(call, entry, resource.absorb(_bare(body)), warnings)
    except NotDecodable as problem:
        shown = msgspec.json.encode(document).decode()
        raise invalid("", "", [wrong("patch", shown, str(problem))]) from problem


def _prune(call: Call, body: Any) -> tuple[Json, Headers]:
    resource = call.resource
    if not isinstance(body, dict):
        raise bad_request(f"the body of the request is no {resource.kind}")
    validation = call.option("fieldValidation")
    return prune_object(body, resource.kind, resource.fields, resource.api_version, validation)


def _patched(kind: str, resource: Resource, original: Json, document: Any) -> Any:
    try:
        if kind == _JSON_PATCH:
            return json_patch(original, document)
        if not isinstance(document, dict):
            raise bad_request("the patch is no JSON object")
        if kind == _MERGE:
            return merge_patch(original, document)
        return strategic_merge(original, document, resource.merge_keys)
    except PatchProblem as error:
        message = "the server rejected our request due to an error in our request"
        if kind == _JSON_PATCH:
            raise Refusal(failure(422, "Invalid", message, {})) from error
        raise bad_request(str(error)) from error


def _bare(body: Json) -> Json:
    """Without kind and apiVersion, as the store keeps objects."""
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}


def _create(call: Call, body: Json, warnings: Headers) -> ApiResponse:
    resource, metadata = call.resource, body.setdefault("metadata", {})
    _check_new_metadata(call, metadata)
    generated = not metadata.get("name") and bool(metadata.get("generateName"))
    causes = metadata_causes(metadata, name_is_label=resource.name_is_label)
    if generated and not causes:
        metadata["name"] = generated_name(metadata["generateName"], call.rng)
    metadata["uid"] = str(uuid.UUID(int=call.rng.getrandbits(128), version=4))
    metadata["creationTimestamp"] = timestamp(call.now)
    metadata.pop("generation", None)
    if resource.has_generation:
        metadata["generation"] = 1
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
    obj = resource.absorb(_bare(body))
    if problem := resource.time_problem(obj):
        raise NotDecodable(resource.kind, resource.api_version, problem)
    if causes:
        raise invalid(resource.kind, metadata.get("name", ""), causes, resource.group)
    apply_defaults(resource, obj, call.admission())
    causes = resource.causes(obj)
    if causes:
        raise invalid(resource.kind, metadata["name"], causes, resource.group)
    if call.store.get(resource.store_bucket, call.namespace, metadata["name"]) is not None:
        raise already_exists(resource.named(metadata["name"]))
    entry = Entry(obj) if is_dry_run(call) else call.store.put(resource.store_bucket, obj)
    return ApiResponse(status=201, body=object_body(view_of(call), entry), headers=warnings)


def is_dry_run(call: Call) -> bool:
    """`dryRun=All`; anything else there is a 422."""
    value = call.option("dryRun")
    if value not in ("", "All"):
        raise invalid("CreateOptions", "", [wrong("dryRun", value, "must be All")], "meta.k8s.io")
    return value == "All"


def _check_new_metadata(call: Call, metadata: Json) -> None:
    resource = call.resource
    if metadata.pop("resourceVersion", ""):
        message = "resourceVersion should not be set on objects to be created"
        raise Refusal(failure(500, "", message))
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", call.namespace) != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = call.namespace
    namespace = call.store.get("namespaces.", "", call.namespace)
    if namespace is None:
        raise not_found(Named("namespaces", call.namespace))
    if "deletionTimestamp" in namespace.object["metadata"]:
        why = (
            f"unable to create new content in namespace {call.namespace} because it is being "
            "terminated"
        )
        raise forbidden(resource.named(metadata.get("name", "")), why)


def _replace(call: Call, entry: Entry, body: Json, warnings: Headers) -> ApiResponse:
    resource, old = call.resource, entry.object
    metadata = body.setdefault("metadata", {})
    _check_identity(call, old["metadata"], metadata)
    if problem := resource.time_problem(body):
        raise NotDecodable(resource.kind, resource.api_version, problem)
    new = _merged(call, old, body)
    if call.subresource != "status":
        apply_defaults(resource, new)
    causes = _update_causes(call, new, old)
    if causes:
        raise invalid(resource.kind, call.name, causes, resource.group)
    if resource.has_generation and new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    entry = _stored(call, entry, new)
    return ApiResponse(body=object_body(view_of(call), entry), headers=warnings)


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
    if uid != old["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}"
        raise conflict(subject, why)
    if metadata.get("resourceVersion", old["resourceVersion"]) != old["resourceVersion"]:
        raise conflict(subject)


def _merged(call: Call, old: Json, body: Json) -> Json:
    """The body's part that this URL may change, over the rest of the old object."""
    metadata = body["metadata"]
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
    for name in _KEPT:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    if call.subresource == "status":
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


def _update_causes(call: Call, new: Json, old: Json) -> list[Cause]:
    resource = call.resource
    causes = metadata_causes(new["metadata"], name_is_label=resource.name_is_label)
    causes += finalizer_causes(old["metadata"], new["metadata"])
    if call.subresource != "status":
        causes += resource.causes(new)
        if not causes:
            causes = resource.update_causes(new, old)
    return causes


def _stored(call: Call, entry: Entry, new: Json) -> Entry:
    """Store what changed; a patch without effect keeps the resourceVersion."""
    if new == entry.object:
        return entry
    if is_dry_run(call):
        return Entry(new)
    stored = call.store.put(call.resource.store_bucket, new)
    finish_if_done(call.store, call.resource, stored)
    return stored
