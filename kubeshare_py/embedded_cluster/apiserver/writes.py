"""POST, PUT, PATCH and DELETE of objects."""

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.apiserver.bodies import (
    NotDecodable,
    apply_defaults,
    bare,
    decode_body,
    decode_bytes,
    decode_object,
    media_type,
    prune_object,
)
from kubeshare_py.embedded_cluster.apiserver.reads import existing, selected, view_of
from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.fields import WrongType, prune
from kubeshare_py.embedded_cluster.protocol.merge import (
    PatchProblem,
    json_patch,
    merge_patch,
    strategic_merge,
)
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call, json_response
from kubeshare_py.embedded_cluster.protocol.names import (
    check_finalizers,
    check_metadata,
    generated_name,
)
from kubeshare_py.embedded_cluster.protocol.rendering import ListPage, list_body, object_body
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusSubject,
    already_exists,
    bad_request,
    conflict,
    failure,
    forbidden,
    invalid,
    not_found,
    required,
    success,
    unsupported_media_type,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

# POST of objects: the fields that a new object gets, and refusals.


Headers = Sequence[tuple[str, str]]

SERVER_OWNED = ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink")


def create(call: Call) -> ApiResponse:
    """POST to a collection."""
    obj, warnings = decode_object(call.request, call.resource)
    return create_object(call, obj, warnings)


def create_object(call: Call, body: Json, warnings: Headers) -> ApiResponse:
    """Create from a decoded and pruned body: names, identity, admission, defaults, checks."""
    resource, metadata = call.resource, body.setdefault("metadata", {})
    _check_new_metadata(call, metadata)
    generated = not metadata.get("name") and bool(metadata.get("generateName"))
    checked = Checked({"metadata": metadata})
    check_metadata(checked.at("metadata"), name_is_label=resource.name_is_label)
    if generated and not checked.causes:
        metadata["name"] = generated_name(metadata["generateName"], call.rng)
    metadata["uid"] = str(uuid.UUID(int=call.rng.getrandbits(128), version=4))
    metadata["creationTimestamp"] = timestamp(call.now)
    metadata.pop("generation", None)
    if resource.has_generation:
        metadata["generation"] = 1
    for name in SERVER_OWNED:
        metadata.pop(name, None)
    obj = resource.absorb(bare(body))
    if problem := resource.time_problem(obj):
        raise NotDecodable(resource.kind, resource.api_version, problem)
    _refuse_invalid(resource, metadata.get("name", ""), checked)
    if (resource.group, resource.kind) == ("", "Pod"):
        # Decoded again, as a real server does: an empty value of a variable is none.
        namespace = call.store.get("namespaces.", "", call.namespace)
        labels = namespace.object["metadata"].get("labels") if namespace else None
        obj, _ = resource.prune(call.mutation(obj, labels or {}))
    apply_defaults(resource, obj, call.admission())
    checked = Checked(obj)
    resource.check(checked)
    _refuse_invalid(resource, metadata["name"], checked)
    held = call.store.get(resource.store_bucket, call.namespace, metadata["name"])
    if held is not None:
        going = "deletionTimestamp" in held.object["metadata"]
        raise already_exists(resource.named(metadata["name"]), going=going)
    entry = StoredObject(obj) if is_dry_run(call) else call.store.put(resource.store_bucket, obj)
    return ApiResponse(status=201, body=object_body(view_of(call), entry), headers=warnings)


def _refuse_invalid(resource: Resource, name: str, checked: Checked) -> None:
    if checked.causes:
        raise invalid(resource.kind, name, checked.causes, resource.group)


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
        raise ApiRefusal(failure(500, "", message))
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
        raise not_found(StatusSubject("namespaces", call.namespace))
    if "deletionTimestamp" in namespace.object["metadata"]:
        why = (
            f"unable to create new content in namespace {call.namespace} because it is being "
            "terminated"
        )
        raise forbidden(resource.named(metadata.get("name", "")), why)


# DELETE: grace, finalizers, preconditions, and namespaces with their content.


NAMESPACES = "namespaces."
PODS = "pods."
_POLICIES = {"": "", "Background": "", "Orphan": "orphan", "Foreground": "foregroundDeletion"}
_COLLECTORS = {"orphan", "foregroundDeletion"}
_OVER = ("Succeeded", "Failed")


def delete(call: Call) -> ApiResponse:
    """DELETE of one object."""
    options = delete_options(call)
    entry = existing(call)
    gone = delete_entry(call, entry, options)
    if gone is None or call.resource.returns_deleted:
        kept = gone or call.store.get(call.resource.store_bucket, call.namespace, call.name)
        return ApiResponse(body=object_body(view_of(call), kept or entry))
    details = StatusSubject(
        call.resource.plural, call.name, call.resource.group, gone.object["metadata"]["uid"]
    )
    return json_response(success(200, details.details()))


def delete_collection(call: Call) -> ApiResponse:
    """DELETE of everything that the selectors match; answers with the deleted objects."""
    options = delete_options(call)
    found = selected(call)
    for entry in found:
        delete_entry(call, entry, options)
    return ApiResponse(body=list_body(view_of(call), found, ListPage(revision=call.store.revision)))


def delete_options(call: Call) -> Json:
    """DeleteOptions from body and query."""
    body = decode_body(call.request)
    if not isinstance(body, dict):
        raise bad_request("the body of the request is no DeleteOptions")
    try:
        options, _ = prune("DeleteOptions", body)
    except WrongType as error:
        raise NotDecodable("DeleteOptions", "v1", str(error)) from error
    if text := call.option("gracePeriodSeconds"):
        if not text.isdigit():
            raise bad_request(f"gracePeriodSeconds is no number: {text}")
        options.setdefault("gracePeriodSeconds", int(text))
    for name in ("propagationPolicy", "dryRun"):
        if call.option(name):
            options.setdefault(name, call.option(name))
    if options.get("propagationPolicy", "") not in _POLICIES:
        raise bad_request(f"invalid propagationPolicy: {options['propagationPolicy']}")
    return options


def delete_entry(call: Call, entry: StoredObject, options: Json) -> StoredObject | None:
    """Delete or begin to; the last state if it is gone, None if it remains for now."""
    resource, store, old = call.resource, call.store, entry.object
    check_preconditions(call, old["metadata"], options.get("preconditions") or {})
    if options.get("dryRun"):
        return entry
    metadata = _marked(resource, old, options)
    grace = _pod_grace(old, options) if resource.store_bucket == PODS else 0
    if "deletionTimestamp" in old["metadata"]:
        _shorten(metadata, old["metadata"], grace, options)
    elif metadata.get("finalizers") or resource.ending or resource.store_bucket == PODS:
        metadata["deletionTimestamp"] = timestamp(call.now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata and resource.ending is None:
            metadata["generation"] += 1
    else:
        gone = store.remove(resource.store_bucket, namespace_of(old), metadata["name"])
        _after_removal(store, namespace_of(old))
        return gone
    return _keep_or_finish(call, entry, metadata)


def namespace_of(obj: Json) -> str:
    """The namespace an object is stored under."""
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace


def finish_if_done(store: ApiStore, resource: Resource, entry: StoredObject) -> bool:
    """Remove an object being deleted once nothing holds it any more."""
    metadata = entry.object["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or held:
        return False
    if resource.store_bucket == NAMESPACES and not store.is_empty(metadata["name"]):
        return False
    namespace = namespace_of(entry.object)
    if store.get(resource.store_bucket, namespace, metadata["name"]) is not None:
        store.remove(resource.store_bucket, namespace, metadata["name"])
        _after_removal(store, namespace)
    return True


def _keep_or_finish(call: Call, entry: StoredObject, metadata: Json) -> StoredObject | None:
    resource, store = call.resource, call.store
    obj = {**entry.object, "metadata": metadata}
    if resource.ending is not None and "deletionTimestamp" not in entry.object["metadata"]:
        resource.ending(obj, call.now)
    if obj == entry.object:
        return None
    entry = store.put(resource.store_bucket, obj)
    if resource.store_bucket == NAMESPACES:
        _delete_content(call, metadata["name"])
    return entry if finish_if_done(store, resource, entry) else None


def check_preconditions(call: Call, metadata: Json, wanted: Json) -> None:
    """Refuse with 409 what is meant for another object, or another version of it."""
    for key, shown in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if key in wanted and wanted[key] != metadata[key]:
            why = (
                f"Precondition failed: {shown} in precondition: {wanted[key]}, "
                f"{shown} in object meta: {metadata[key]}"
            )
            raise conflict(call.resource.named(metadata["name"]), why)


def _marked(resource: Resource, old: Json, options: Json) -> Json:
    """The metadata with the finalizer that the propagation policy asks for."""
    metadata = dict(old["metadata"])
    held = metadata.get("finalizers") or []
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents"):
        policy = "Orphan"
    if policy is None:
        if _COLLECTORS & {*held}:
            return metadata
        policy = resource.default_policy
    others = [name for name in held if name not in _COLLECTORS]
    wanted = [*others, _POLICIES[policy]] if _POLICIES[policy] else others
    metadata.pop("finalizers", None)
    if wanted:
        metadata["finalizers"] = wanted
    return metadata


def _pod_grace(pod: Json, options: Json) -> int:
    """Seconds; 0 for a pod that never ran or has ended."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in _OVER:
        return 0
    default = pod["spec"].get("terminationGracePeriodSeconds", 30)
    grace: int = options.get("gracePeriodSeconds", default)
    return 1 if grace < 0 else grace


def _shorten(metadata: Json, old: Json, grace: int, options: Json) -> None:
    """Shorten the grace period of an object already being deleted; it cannot grow."""
    held = old.get("deletionGracePeriodSeconds") or 0
    if "gracePeriodSeconds" not in options or grace >= held:
        return
    metadata["deletionTimestamp"] = timestamp(seconds(old["deletionTimestamp"]) - held + grace)
    metadata["deletionGracePeriodSeconds"] = grace


def _delete_content(call: Call, namespace: str) -> None:
    """What the namespace controller does: delete everything inside, with grace."""
    for bucket in call.store.buckets_in(namespace):
        row = next(row for row in call.kinds if row.store_bucket == bucket)
        inner = Call(
            request=call.request,
            resource=row,
            store=call.store,
            rng=call.rng,
            now=call.now,
            kinds=call.kinds,
            namespace=namespace,
        )
        for entry in list(call.store.entries(bucket, namespace)):
            delete_entry(inner, entry, {"propagationPolicy": "Background"})


def _after_removal(store: ApiStore, namespace: str) -> None:
    """Remove a terminating namespace with its last object."""
    held = store.get(NAMESPACES, "", namespace) if namespace else None
    if held is None or "deletionTimestamp" not in held.object["metadata"]:
        return
    if store.is_empty(namespace) and not held.object["metadata"].get("finalizers"):
        store.remove(NAMESPACES, "", namespace)


# PUT and PATCH of objects and their status.


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
    _refuse_invalid(resource, call.name, _checked_update(call, new, old))
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
    check_preconditions(call, old, {"uid": uid})
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


def _checked_update(call: Call, new: Json, old: Json) -> Checked:
    resource, checked = call.resource, Checked(new)
    metadata = checked.at("metadata")
    check_metadata(metadata, name_is_label=resource.name_is_label)
    check_finalizers(metadata, old["metadata"])
    if call.subresource == "status":
        resource.check_status(checked, old)
    elif resource.check_changed is not None:
        resource.check_changed(checked, old)
    else:
        resource.check(checked)
        if not checked.causes:
            resource.check_update(checked, old)
    return checked


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
