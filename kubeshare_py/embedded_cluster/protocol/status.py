"""Status bodies: a Kubernetes API server's refusals (and "Success").

Shapes and texts as measured on kube-apiserver 1.36.3. Request handlers raise `ApiRefusal`;
`apiserver.requests.ApiService.handle` turns it into a response in one place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

Json = dict[str, Any]

OK = 200

STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
NO_RESOURCE = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCause:
    """One invalid field of a 422: reason as in Kubernetes (`FieldValueRequired`, ...)."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiRefusal(Exception):
    """A request the API server answers with an error Status."""

    def __init__(self, status: Json, headers: dict[str, str] | None = None) -> None:
        super().__init__(status["message"])
        self.status = status
        self.headers = headers or {}

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return int(self.status["code"])


@dataclass(frozen=True, slots=True)
class StatusSubject:
    """The subject of an error: a plural resource (`pods`, `pods/binding`), its group, a name."""

    plural: str
    name: str = ""
    group: str = ""
    uid: str = field(default="")

    @property
    def qualified(self) -> str:
        """`pods` or `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self) -> Json:
        """The `details` object of a Status."""
        entries = {"name": self.name, "group": self.group, "kind": self.plural, "uid": self.uid}
        return {key: value for key, value in entries.items() if value}


def failure(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    """An error Status; an empty `reason` is left out, as by the real server."""
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    body["code"] = code
    return body


def success(code: int, details: Json | None = None) -> Json:
    """A Status of success."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code != OK:
        body["code"] = code
    return body


def not_found(what: StatusSubject) -> ApiRefusal:
    """404 for an object that does not exist."""
    message = f'{what.qualified} "{what.name}" not found'
    return ApiRefusal(failure(404, "NotFound", message, what.details()))


def no_such_resource() -> ApiRefusal:
    """404 for a resource, group or subresource that is not served."""
    return ApiRefusal(failure(404, "NotFound", NO_RESOURCE, {}))


def already_exists(what: StatusSubject, *, going: bool = False) -> ApiRefusal:
    """409 for a create of a used name; `going`: its object is being deleted."""
    message = f'{what.qualified} "{what.name}" already exists'
    if going:
        message = f"object is being deleted: {message}"
    return ApiRefusal(failure(409, "AlreadyExists", message, what.details()))


def conflict(what: StatusSubject, why: str = STALE) -> ApiRefusal:
    """409 for a stale resourceVersion, a failed precondition, or a state that forbids it."""
    message = f'Operation cannot be fulfilled on {what.qualified} "{what.name}": {why}'
    return ApiRefusal(failure(409, "Conflict", message, what.details()))


def forbidden(what: StatusSubject, why: str) -> ApiRefusal:
    """403 by admission or authorization."""
    message = f'{what.qualified} "{what.name}" is forbidden: {why}'
    return ApiRefusal(failure(403, "Forbidden", message, what.details()))


def invalid(kind: str, name: str, causes: Sequence[StatusCause], group: str = "") -> ApiRefusal:
    """422 with its causes."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    detail = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Json = {"name": name} if name else {}
    details |= {"group": group} if group else {}
    details |= {"kind": kind} if kind else {}
    details["causes"] = [
        {"reason": c.reason, "message": c.message, "field": c.field} for c in causes
    ]
    return ApiRefusal(
        failure(422, "Invalid", f'{qualified} "{name}" is invalid: {detail}', details)
    )


def bad_request(message: str) -> ApiRefusal:
    """400."""
    return ApiRefusal(failure(400, "BadRequest", message))


def expired(message: str) -> ApiRefusal:
    """410: a resourceVersion or continue token from before the last compaction."""
    return ApiRefusal(failure(410, "Expired", message))


def method_not_allowed() -> ApiRefusal:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return ApiRefusal(failure(405, "MethodNotAllowed", message, {}))


def unsupported_media_type(accepted: Sequence[str], hint: str = "") -> ApiRefusal:
    """415; `hint` tells people what to do instead."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiRefusal(
        failure(415, "UnsupportedMediaType", f"{message} ({hint})" if hint else message)
    )


def not_acceptable(accepted: Sequence[str]) -> ApiRefusal:
    """406."""
    message = "only the following media types are accepted: " + ", ".join(accepted)
    return ApiRefusal(failure(406, "NotAcceptable", message))


def required(field_path: str, text: str = "") -> StatusCause:
    """A field that must be there."""
    message = f"Required value: {text}" if text else "Required value"
    return StatusCause(field=field_path, message=message, reason="FieldValueRequired")


def wrong(field_path: str, value: object, text: str) -> StatusCause:
    """A field whose value is not allowed."""
    return StatusCause(field=field_path, message=f"Invalid value: {_shown(value)}: {text}")


def unsupported(field_path: str, value: object, supported: Sequence[str]) -> StatusCause:
    """A field whose value is not in a closed list."""
    listed = ", ".join(f'"{entry}"' for entry in supported)
    return StatusCause(
        field=field_path,
        message=f"Unsupported value: {_shown(value)}: supported values: {listed}",
        reason="FieldValueNotSupported",
    )


def not_allowed(field_path: str, text: str) -> StatusCause:
    """A field that may not be set or changed."""
    return StatusCause(field=field_path, message=f"Forbidden: {text}", reason="FieldValueForbidden")


def _shown(value: object) -> str:
    """The value as JSON, which is how Go quotes all but the oddest strings."""
    return msgspec.json.encode(value).decode()


def duplicate(field_path: str, value: object) -> StatusCause:
    """A list entry that occurs twice."""
    return StatusCause(
        field=field_path,
        message=f"Duplicate value: {_shown(value)}",
        reason="FieldValueDuplicate",
    )
