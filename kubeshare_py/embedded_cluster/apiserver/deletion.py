"""DELETE: grace, finalizers, preconditions, and namespaces with their content."""

from kubeshare_py.embedded_cluster.apiserver.bodies import NotDecodable, decode_body
from kubeshare_py.embedded_cluster.apiserver.reads import existing, selected, view_of
from kubeshare_py.embedded_cluster.protocol import pruning
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call, json_response
from kubeshare_py.embedded_cluster.protocol.rendering import ListPage, list_body, object_body
from kubeshare_py.embedded_cluster.protocol.resources import Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusSubject,
    bad_request,
    conflict,
    success,
)
from kubeshare_py.embedded_cluster.protocol.store import ApiStore, StoredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp
from kubeshare_py.views.ages import seconds

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
        options, _ = pruning.prune("DeleteOptions", body)
    except pruning.WrongType as error:
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
    _check_preconditions(call, old["metadata"], options.get("preconditions") or {})
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


def _check_preconditions(call: Call, metadata: Json, wanted: Json) -> None:
    for field, key, shown in (
        ("uid", "uid", "UID"),
        ("resourceVersion", "resourceVersion", "ResourceVersion"),
    ):
        if field in wanted and wanted[field] != metadata[key]:
            raise conflict(
                call.resource.named(metadata["name"]),
                f"Precondition failed: {shown} in precondition: {wanted[field]}, "
                f"{shown} in object meta: {metadata[key]}",
            )


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
