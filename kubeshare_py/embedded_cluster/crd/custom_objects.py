"""The behaviour of one served version of a CustomResourceDefinition.

Fields follow its structural schema: unknown ones are pruned, defaults set, values validated. With
the conversion strategy None, objects of all versions are stored alike; each version shows the
fields it has.
"""

from dataclasses import dataclass
from typing import Any

from kubeshare_py.embedded_cluster.protocol import pruning
from kubeshare_py.embedded_cluster.protocol.list_selectors import FieldPath, value_at
from kubeshare_py.embedded_cluster.protocol.resources import Admission, Pruned
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusCause,
    StatusSubject,
    bad_request,
    failure,
    forbidden,
    wrong,
)
from kubeshare_py.embedded_cluster.schemas.schema_checks import duplicates, violations
from kubeshare_py.embedded_cluster.schemas.schema_values import (
    EMBEDDED,
    META,
    applied,
    defaulted,
    pruned,
    whole,
    without_nulls,
)

_MAX_REPLICAS = (1 << 31) - 1
_GO_TYPES = {str: "string", bool: "bool", float: "float64", int: "int64", list: "[]interface {}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """The paths of replicas and selector in a definition; `selector` may be empty."""

    wanted: FieldPath
    present: FieldPath
    selector: FieldPath = ()

    def selector_of(self, obj: Json) -> str:
        """The selector in its text form, "" without one."""
        found = value_at(obj, self.selector) if self.selector else ""
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomObjects:
    """The objects of one kind in one version; its methods are the hooks of a Resource.

    `schema` is that version's, `stored` that of the storage version.
    """

    plural: str
    kind: str
    group: str
    version: str
    schema: Json
    stored: Json
    has_status: bool = False
    scale: ScalePaths | None = None
    terminating: bool = False

    @property
    def head(self) -> Json:
        """The fields that bodies have and stored objects lack."""
        return {"kind": self.kind, "apiVersion": f"{self.group}/{self.version}"}

    def prune(self, body: Json) -> Pruned:
        """Remove unknown fields. Raises pruning.WrongType for malformed metadata."""
        metadata, unknown = pruning.prune("Meta", body.get("metadata") or {})
        unknown = [f"metadata.{path}" for path in unknown]
        others: list[str] = []
        kept = pruned(whole(body), {**self.schema, EMBEDDED: True}, others)
        kept = without_nulls(kept, self.schema)
        return {**kept, "metadata": metadata}, unknown + sorted(others)

    def prepare(self, obj: Json, admission: Admission) -> None:
        """Drop the status on creation. Raises ApiRefusal while the definition is being deleted."""
        del admission
        if self.terminating:
            name = obj["metadata"].get("name", "")
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(StatusSubject(self.plural, name, self.group), why)
        if self.has_status:
            obj.pop("status", None)

    def default(self, obj: Json) -> None:
        """Set defaults, in place."""
        obj.update(_without_meta(defaulted(obj, self.schema)))

    def causes(self, obj: Json) -> list[StatusCause]:
        """Everything wrong with a new object."""
        found = violations({**self.head, **obj}, self.schema)
        return found + self._scale_causes(obj) + duplicates(obj, self.schema)

    def changed_causes(self, new: Json, old: Json) -> list[StatusCause]:
        """Everything wrong that an update introduces."""
        head = self.head
        found = violations({**head, **new}, self.schema, "", {**head, **old})
        found += self._scale_causes(new)
        return found + self._new_duplicates(new, old)

    def status_causes(self, new: Json, old: Json) -> list[StatusCause]:
        """The same for an update of the status; its messages begin there."""
        schema = self.schema.get("properties", {}).get("status")
        found: list[StatusCause] = []
        if schema is not None and "status" in new:
            inner = violations(new["status"], schema, "", old.get("status"))
            found = [_below_status(cause) for cause in inner]
        found += self._scale_causes(new, status_only=True)
        return found + self._new_duplicates(new, old)

    def apply(self, original: Json, document: Json) -> Json:
        """Server-side apply. Raises ApiRefusal for fields that are not in the schema."""
        head = {key: document.get(key, "") for key in ("kind", "apiVersion")}
        if head != self.head:
            group, _, version = head["apiVersion"].rpartition("/")
            raise bad_request(f"invalid object type: {group}/{version}, Kind={head['kind']}")
        unknown = self.prune(document)[1]
        if unknown:
            name = document.get("metadata", {}).get("name", "")
            about = f"(/{name}; {head['apiVersion']}, Kind={self.kind})"
            fields = "\n".join(f".{path}: field not declared in schema" for path in unknown)
            message = f"failed to create typed patch object {about}: {fields}"
            raise ApiRefusal(failure(500, "", message))
        merged: Json = applied(original, document, self.schema)
        return merged

    def present(self, obj: Json) -> Json:
        """A stored object as this version shows it; the same object if nothing differs."""
        shown = defaulted(obj, self.stored)
        for schema in (self.stored, self.schema):
            shown = pruned(shown, {**schema, EMBEDDED: True}, [])
        return obj if shown == obj else shown

    def _new_duplicates(self, new: Json, old: Json) -> list[StatusCause]:
        return [] if duplicates(old, self.schema) else duplicates(new, self.schema)

    def _scale_causes(self, obj: Json, *, status_only: bool = False) -> list[StatusCause]:
        if self.scale is None:
            return []
        found = [] if status_only else _replica_causes(obj, self.scale.wanted)
        return found + _replica_causes(obj, self.scale.present)


def _no_access(field: str, found: Any, wanted: str) -> StatusCause:
    kind = _GO_TYPES.get(type(found), "map[string]interface {}")
    text = f"{field} accessor error: {found} is of the type {kind}, expected {wanted}"
    return wrong(field, 0, text)


def _without_meta(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in META}


def _below_status(cause: StatusCause) -> StatusCause:
    field = f"status.{cause.field}" if cause.field[0] != "<" else "status"
    return StatusCause(field=field, message=cause.message, reason=cause.reason)


def _replica_causes(obj: Json, path: FieldPath) -> list[StatusCause]:
    found: Any = obj
    field = "." + ".".join(path)
    for step in path:
        if found is None:
            return []
        if not isinstance(found, dict):
            return [_no_access(field, found, "map[string]interface{}")]
        found = found.get(step)
    if found is None or (type(found) is int and 0 <= found <= _MAX_REPLICAS):
        return []
    if type(found) is not int:
        return [_no_access(field, found, "int64")]
    limit = f"less than or equal to {_MAX_REPLICAS}" if found > 0 else "a non-negative integer"
    return [wrong(field, found, f"should be {limit}")]
