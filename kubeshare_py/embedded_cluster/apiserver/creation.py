"""POST of objects: the fields that a new object gets, and refusals."""

import uuid
from collections.abc import Sequence

from kubeshare_py.embedded_cluster.apiserver.bodies import (
    NotDecodable,
    apply_defaults,
    bare,
    decode_object,
)
from kubeshare_py.embedded_cluster.apiserver.reads import view_of
from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse, Call
from kubeshare_py.embedded_cluster.protocol.names import generated_name, metadata_causes
from kubeshare_py.embedded_cluster.protocol.rendering import object_body
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusSubject,
    already_exists,
    bad_request,
    failure,
    forbidden,
    invalid,
    not_found,
    wrong,
)
from kubeshare_py.embedded_cluster.protocol.store import StoredObject
from kubeshare_py.embedded_cluster.protocol.times import timestamp

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
    causes = metadata_causes(metadata, name_is_label=resource.name_is_label)
    if generated and not causes:
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
    if causes:
        raise invalid(resource.kind, metadata.get("name", ""), causes, resource.group)
    if (resource.group, resource.kind) == ("", "Pod"):
        # Decoded again, as a real server does: an empty value of a variable is none.
        namespace = call.store.get("namespaces.", "", call.namespace)
        labels = namespace.object["metadata"].get("labels") if namespace else None
        obj, _ = resource.prune(call.mutation(obj, labels or {}))
    apply_defaults(resource, obj, call.admission())
    causes = resource.causes(obj)
    if causes:
        raise invalid(resource.kind, metadata["name"], causes, resource.group)
    held = call.store.get(resource.store_bucket, call.namespace, metadata["name"])
    if held is not None:
        going = "deletionTimestamp" in held.object["metadata"]
        raise already_exists(resource.named(metadata["name"]), going=going)
    entry = StoredObject(obj) if is_dry_run(call) else call.store.put(resource.store_bucket, obj)
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
