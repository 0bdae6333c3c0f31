"""Request bodies: media types, decoding, unknown fields (`fieldValidation`)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from kubeshare_py.simulation import api_fields
from kubeshare_py.simulation.api_messages import JSON, ApiRequest
from kubeshare_py.simulation.api_protobuf import NotReadable, decode_protobuf
from kubeshare_py.simulation.api_quantities import BadQuantity
from kubeshare_py.simulation.api_resources import Admission, Resource
from kubeshare_py.simulation.api_status import Json, Refusal, bad_request, unsupported_media_type

YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_HINT = (
    "this protobuf body is not decoded here: "
    "use --dry-run=client -o yaml | kubectl create -f - instead"
)


class NotDecodable(Refusal):
    """The body is not such an object: 400, or 422 where a patch made it so."""

    def __init__(self, kind: str, api_version: str, why: str) -> None:
        version = api_version.rpartition("/")[2]
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
        super().__init__(bad_request(message).status)


def media_type(content_type: str) -> str:
    """Without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def decode_body(request: ApiRequest) -> Any:
    """The JSON or YAML value of a POST, PUT or DELETE body; {} when there is none."""
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
        return yaml.safe_load(body) if is_yaml else msgspec.json.decode(body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def decode_object(
    request: ApiRequest, kind: str, fields: str, api_version: str
) -> tuple[Json, list[tuple[str, str]]]:
    """A body of the given kind, pruned, and the Warning headers for unknown fields."""
    body = decode_body(request)
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    check_kind(body, kind, api_version)
    return prune_object(body, kind, fields, api_version, request.query.get("fieldValidation", ""))


def check_kind(body: Json, kind: str, api_version: str) -> None:
    """A body may leave out its kind, but not name another one."""
    if body.get("kind", kind) != kind or body.get("apiVersion", api_version) != api_version:
        sent, version = body.get("kind", kind), body.get("apiVersion", api_version)
        raise bad_request(
            f'{sent} in version "{version}" cannot be handled as a {kind}: unknown conversion'
        )


def prune_object(
    body: Json, kind: str, fields: str, api_version: str, validation: str
) -> tuple[Json, list[tuple[str, str]]]:
    """Only known fields; Strict refuses unknown ones, Warn (the default) reports them."""
    try:
        pruned, unknown = api_fields.prune(fields, body)
    except api_fields.WrongType as error:
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
    """Without kind and apiVersion, as the store keeps objects."""
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
