"""The kinds that a CustomResourceDefinition defines, one a version: rows, behaviour, cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.kinds.definitions import is_true
from kubeshare_py.embedded_cluster.kinds.schemas import (
    EMBEDDED,
    META,
    applied,
    defaulted,
    duplicates,
    pruned,
    violations,
    whole,
    without_nulls,
)
from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.fields import prune
from kubeshare_py.embedded_cluster.protocol.resources import (
    ALL_VERBS,
    SCALE,
    STATUS,
    Admission,
    PrinterColumn,
    Pruned,
    Resource,
    Scale,
    Subresource,
    TableCells,
    by_rank,
)
from kubeshare_py.embedded_cluster.protocol.selectors import FieldPath, value_at
from kubeshare_py.embedded_cluster.protocol.status import (
    ApiRefusal,
    Json,
    StatusCause,
    StatusSubject,
    bad_request,
    failure,
    forbidden,
)
from kubeshare_py.manifests.json_paths import BadPath, found_at
from kubeshare_py.views.ages import age

# Rows of `kubectl get` for custom objects, by their definition's additionalPrinterColumns.


_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def printed(columns: Sequence[Json]) -> Sequence[Json]:
    """The columns as declared, or the age alone."""
    return columns or [_AGE]


def custom_columns(columns: Sequence[Json]) -> tuple[PrinterColumn, ...]:
    """The headers; those of one version of a definition."""
    return tuple(
        PrinterColumn(
            name=column["name"],
            type=column["type"],
            priority=column.get("priority", 0),
            format=column.get("format", ""),
            description=column.get("description", "")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        )
        for column in columns
    )


def custom_cells(columns: Sequence[Json]) -> TableCells:
    """The cells below them; what is missing is null, and a null text `<no value>`."""

    def cells(obj: Json, now: float) -> list[object]:
        return [_cell(column, obj, now) for column in columns]

    return cells


def _cell(column: Json, obj: Json, now: float) -> object:
    try:
        found = found_at(column["jsonPath"], obj)
    except BadPath:
        return None
    if not found:
        return None
    if found[0] is None:
        return "<no value>" if column["type"] == "string" else None
    return _shown(column["type"], found[0], now)


def _shown(kind: str, value: Any, now: float) -> object:
    if kind == "string":
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _age(value: str, now: float) -> str:
    try:
        return age(value, now)
    except ValueError:
        return "<invalid>"


# The behaviour of one served version of a CustomResourceDefinition.
#
# Fields follow its structural schema: unknown ones are pruned, defaults set, values validated. With
# the conversion strategy None, objects of all versions are stored alike; each version shows the
# fields it has.


#: `replicas` of the scale subresource is an int32.
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
        """Remove unknown fields. Raises WrongType for malformed metadata."""
        metadata, unknown = prune("Meta", body.get("metadata") or {})
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

    def check(self, new: Checked) -> None:
        """A new object."""
        new.causes += violations({**self.head, **new.value}, self.schema)
        self._check_scale(new)
        new.causes += duplicates(new.value, self.schema)

    def check_changed(self, new: Checked, old: Json) -> None:
        """What an update introduces."""
        before = {**self.head, **old}
        new.causes += violations({**self.head, **new.value}, self.schema, "", before)
        self._check_scale(new)
        self._check_new_duplicates(new, old)

    def check_status(self, new: Checked, old: Json) -> None:
        """The same for an update of the status; its messages begin there."""
        schema = self.schema.get("properties", {}).get("status")
        if schema is not None and "status" in new.value:
            inner = violations(new.value["status"], schema, "", old.get("status"))
            new.causes += [_below_status(cause) for cause in inner]
        self._check_scale(new, status_only=True)
        self._check_new_duplicates(new, old)

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

    def _check_new_duplicates(self, new: Checked, old: Json) -> None:
        if not duplicates(old, self.schema):
            new.causes += duplicates(new.value, self.schema)

    def _check_scale(self, new: Checked, *, status_only: bool = False) -> None:
        if self.scale is not None:
            if not status_only:
                _check_replicas(new, self.scale.wanted)
            _check_replicas(new, self.scale.present)


def _without_meta(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in META}


def _below_status(cause: StatusCause) -> StatusCause:
    field = f"status.{cause.field}" if cause.field[0] != "<" else "status"
    return StatusCause(field=field, message=cause.message, reason=cause.reason)


def _check_replicas(new: Checked, path: FieldPath) -> None:
    found: Any = new.value
    field = "." + ".".join(path)
    for step in path:
        if found is None:
            return
        if not isinstance(found, dict):
            _wrong_type(new, field, found, "map[string]interface{}")
            return
        found = found.get(step)
    if found is not None and type(found) is not int:
        _wrong_type(new, field, found, "int64")
    elif found is not None and not 0 <= found <= _MAX_REPLICAS:
        limit = f"less than or equal to {_MAX_REPLICAS}" if found > 0 else "a non-negative integer"
        new.wrong(field, found, f"should be {limit}")


def _wrong_type(new: Checked, field: str, found: Any, wanted: str) -> None:
    kind = _GO_TYPES.get(type(found), "map[string]interface {}")
    text = f"{field} accessor error: {found} is of the type {kind}, expected {wanted}"
    new.wrong(field, 0, text)


# A CustomResourceDefinition as rows of the kinds that are served: one a version.


_LISTED = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_LISTED_TO_THE_END = ("delete", "deletecollection", "get", "list", "watch")


def defined_kinds(definition: Json) -> list[Resource]:
    """One row a version; those without verbs are stored but not served."""
    spec = definition["spec"]
    storage = next(version for version in spec["versions"] if version["storage"])
    return [_row(definition, version, schema_of(storage)) for version in spec["versions"]]


def schema_of(version: Json) -> Json:
    """A version's structural schema."""
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


def _row(definition: Json, version: Json, stored: Json) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    parts = version.get("subresources") or {}
    scale = _scale_paths(parts["scale"]) if "scale" in parts else None
    terminating = is_true(definition, "Terminating")
    objects = CustomObjects(
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        group=spec["group"],
        version=version["name"],
        schema=schema_of(version),
        stored=stored,
        has_status="status" in parts,
        scale=scale,
        terminating=terminating,
    )
    served = version["served"] and is_true(definition, "Established")
    columns = printed(version.get("additionalPrinterColumns") or [])
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        singular_name=names.get("singular", ""),
        list_kind_name=spec["names"]["listKind"],
        definition=definition["metadata"]["name"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        verbs=ALL_VERBS if served else (),
        listed_verbs=_LISTED_TO_THE_END if terminating else _LISTED,
        subresources=_subresources(parts),
        scale=_scale(scale),
        pruner=objects.prune,
        schema=schema_of(version),
        warning=_warning(spec, version),
        columns=custom_columns(columns),
        cells=lambda obj, now: custom_cells(columns)(objects.present(obj), now),
        selectable={
            field["jsonPath"].lstrip("."): _path(field["jsonPath"])
            for field in version.get("selectableFields") or []
        },
        has_generation=True,
        unconditional_update=False,
        prepare=objects.prepare,
        default=objects.default,
        check=objects.check,
        check_changed=objects.check_changed,
        check_status=objects.check_status,
        apply=objects.apply,
        present=objects.present,
    )


def _subresources(parts: Json) -> tuple[Subresource, ...]:
    found = (("status", STATUS), ("scale", SCALE))
    return tuple(one for name, one in found if name in parts)


def _scale_paths(declared: Json) -> ScalePaths:
    selector = declared.get("labelSelectorPath", "")
    return ScalePaths(
        wanted=_path(declared["specReplicasPath"]),
        present=_path(declared["statusReplicasPath"]),
        selector=_path(selector) if selector else (),
    )


def _scale(paths: ScalePaths | None) -> Scale | None:
    if paths is None:
        return None
    return Scale(wanted=paths.wanted, present=paths.present, selector=paths.selector_of)


def _path(text: str) -> FieldPath:
    return tuple(text.removeprefix(".").split("."))


def _warning(spec: Json, version: Json) -> str:
    """The warning of a deprecated version, sent with every answer."""
    if not version.get("deprecated"):
        return ""
    if "deprecationWarning" in version:
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    good = [one["name"] for one in spec["versions"] if one["served"] and not one.get("deprecated")]
    ranked = by_rank([*good, version["name"]])
    return text if ranked[0] == version["name"] else f"{text}; use {group}/{ranked[0]} {kind}"
