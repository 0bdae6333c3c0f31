"""Request bodies: media types, decoding, unknown fields (`fieldValidation`)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml
from kubeshare_py.domain.quantity import BadQuantity
from kubeshare_py.embedded_cluster.protocol.fields import (
    NotReadable,
    WrongType,
    decode_protobuf,
    prune,
)
from kubeshare_py.embedded_cluster.protocol.messages import JSON, ApiRequest
from kubeshare_py.embedded_cluster.protocol.resources import Admission, Pruned, Resource
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    bad_request,
    invalid,
    unsupported_media_type,
    wrong,
)

Decoded = tuple[Json, list[tuple[str, str]]]
"""An object with only known fields, and the Warning headers for the unknown ones."""

YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_HINT = (
    "this protobuf body is not decoded here: "
    "use --dry-run=client -o yaml | kubectl create -f - instead"
)


class NotDecodable(ApiRefusal):
    """The body is no such object: 400, or 422 if a patch made it so."""

    def __init__(self, kind: str, api_version: str, why: str) -> None:
        version = api_version.rpartition("/")[2]
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
        super().__init__(bad_request(message).status)


def media_type(content_type: str) -> str:
    """The media type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def decode_body(request: ApiRequest) -> Any:
    """The JSON or YAML value of a POST, PUT or DELETE body; {} if there is none."""
    if not request.body:
        return {}
    kind = media_type(request.content_type) or JSON
    if kind == PROTOBUF:
        return _decode_protobuf(request.body)
    if kind not in (JSON, YAML, "*/*"):
        raise unsupported_media_type((JSON, YAML, PROTOBUF))
    return decode_bytes(request.body, is_yaml=kind == YAML)


def decode_bytes(body: bytes, *, is_yaml: bool = False) -> Any:
    """JSON, or YAML (of which JSON is a part); refuses anything else with 400."""
    try:
        return read_yaml(body, "") if is_yaml else msgspec.json.decode(body)
    except (msgspec.DecodeError, DocumentProblem, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def decode_object(request: ApiRequest, resource: Resource) -> Decoded:
    """A body of the given kind, pruned, and the Warning headers for unknown fields."""
    body = _decode_dict(request, resource.kind)
    if resource.definition:
        check_custom_kind(body, resource)
    else:
        check_kind(body, resource.kind, resource.api_version)
    return prune_object(body, resource, request.query.get("fieldValidation", ""))


def decode_part(request: ApiRequest, kind: str, api_version: str) -> Decoded:
    """The same for bodies of subresources; `kind` is also their name in `fields`."""
    body = _decode_dict(request, kind)
    check_kind(body, kind, api_version)
    return prune_part(body, kind, api_version, request.query.get("fieldValidation", ""))


def check_kind(body: Json, kind: str, api_version: str) -> None:
    """A body may leave out its kind, but not name another one."""
    _check_version(body.get("apiVersion", api_version), api_version)
    sent = body.get("kind", kind)
    if sent != kind:
        raise bad_request(
            f'{sent} in version "{api_version}" cannot be handled as a {kind}: unknown conversion'
        )


def _check_version(version: object, expected: str) -> None:
    if version != expected:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({expected})"
        )


def check_custom_kind(body: Json, resource: Resource) -> None:
    """A custom object must name its kind, in the version of the URL."""
    kind = body.get("kind")
    if not isinstance(kind, str) or not kind:
        shown = msgspec.json.encode(body).decode()
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object 'Kind' is missing in '{shown}'"
        )
    _check_version(body.get("apiVersion", ""), resource.api_version)
    if kind != resource.kind:
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise invalid(kind, name, [wrong("kind", kind, f"must be {resource.kind}")], resource.group)


def prune_object(body: Json, resource: Resource, validation: str) -> Decoded:
    """Only known fields; Strict refuses unknown ones, Warn (the default) reports them."""
    return _pruned(body, resource.kind, resource.api_version, resource.prune, validation)


def prune_part(body: Json, kind: str, api_version: str, validation: str) -> Decoded:
    """The same for bodies of subresources."""
    return _pruned(body, kind, api_version, partial(prune, kind), validation)


def _decode_dict(request: ApiRequest, kind: str) -> Json:
    body = decode_body(request)
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return body


def _pruned(
    body: Json,
    kind: str,
    api_version: str,
    prune: Callable[[Json], Pruned],
    validation: str,
) -> Decoded:
    try:
        pruned, unknown = prune(body)
    except WrongType as error:
        raise NotDecodable(kind, api_version, str(error)) from error
    if validation not in ("", "Strict", "Warn", "Ignore"):
        raise bad_request(f'invalid fieldValidation "{validation}"')
    texts = [f'unknown field "{path}"' for path in unknown]
    if texts and validation == "Strict":
        raise NotDecodable(kind, api_version, "strict decoding error: " + ", ".join(texts))
    if validation == "Ignore":
        return pruned, []
    return pruned, _warnings(texts)


def bare(body: Json) -> Json:
    """The object without kind and apiVersion, as the store keeps it."""
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}


def apply_defaults(resource: Resource, obj: Json, admission: Admission | None = None) -> None:
    """Admission of a new object, then defaults, in place; a bad quantity is a 400."""
    try:
        if admission is not None:
            resource.prepare(obj, admission)
        resource.default(obj)
    except BadQuantity as error:
        raise NotDecodable(resource.kind, resource.api_version, str(error)) from error


def _decode_protobuf(body: bytes) -> Json:
    try:
        return decode_protobuf(body)
    except NotReadable as error:
        raise unsupported_media_type((JSON, YAML), _HINT) from error


def _warnings(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("Warning", '299 - "' + text.replace('"', '\\"') + '"') for text in texts]
