"""What versions of a CustomResourceDefinition have besides their schema."""

from typing import Any

from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    wrong,
)
from kubeshare_py.embedded_cluster.schemas.schema_values import field_schema

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (*("byte", "date", "date-time", "double", "float", "int32", "int64", "password"),)
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_MAX_SELECTABLE = 8
_LONGEST_WARNING = 256


def deprecation_causes(version: Json, where: str) -> list[StatusCause]:
    """A warning is for deprecated versions, and short."""
    text = version.get("deprecationWarning")
    if text is None:
        return []
    problems = []
    if not version.get("deprecated"):
        problems.append("can only be set for deprecated versions")
    elif len(text) > _LONGEST_WARNING:
        problems.append(f"must be <= {_LONGEST_WARNING} characters long")
    elif not text:
        problems.append("must not be an empty string")
    return [wrong(f"{where}.deprecationWarning", text, problem) for problem in problems]


def scale_causes(scale: Json | None, where: str) -> list[StatusCause]:
    """The replicas must be below .spec and .status."""
    if scale is None:
        return []
    found: list[StatusCause] = []
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        place, path = f"{where}.scale.{field}", scale.get(field, "")
        if not path:
            found.append(required(place))
        elif problem := _path_problem(path):
            found.append(wrong(place, path, problem))
        elif not path.startswith(root):
            text = f"should be a json path under {root[:-1]}"
            found.append(wrong(place, path, text))
    selector = scale.get("labelSelectorPath", "")
    if selector and not selector.startswith((".spec.", ".status.")):
        text = _path_problem(selector) or "should be a json path under either .spec or .status"
        found.append(wrong(f"{where}.scale.labelSelectorPath", selector, text))
    return found


def column_causes(columns: list[Json], where: str) -> list[StatusCause]:
    """Columns need a name, a known type and a path."""
    found: list[StatusCause] = []
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    for index, column in enumerate(columns):
        place = f"{where}[{index}]"
        if not column.get("name"):
            found.append(required(f"{place}.name"))
        if not column.get("type"):
            found.append(required(f"{place}.type", types))
        elif column["type"] not in _COLUMN_TYPES:
            found.append(wrong(f"{place}.type", column["type"], types))
        if column.get("format", _COLUMN_FORMATS[0]) not in _COLUMN_FORMATS:
            text = f"must be one of {','.join(_COLUMN_FORMATS)}"
            found.append(wrong(f"{place}.format", column["format"], text))
        path = column.get("jsonPath", "")
        if not path:
            found.append(required(f"{place}.JSONPath"))
        elif problem := _path_problem(path):
            found.append(wrong(f"{place}.JSONPath", path, problem))
    return found


def selectable_causes(fields: list[Json], schema: Json, where: str) -> list[StatusCause]:
    """Fields that selectors may name must be in the schema, plain, and not many."""
    found: list[StatusCause] = []
    paths = [field.get("jsonPath", "") for field in fields]
    for index, path in enumerate(paths):
        place = f"{where}[{index}].jsonPath"
        if not path:
            found.append(required(place))
            continue
        inner = _schema_at(schema, path)
        if inner is None:
            text = "is an invalid path: does not refer to a valid field"
            found.append(wrong(place, path, text))
        elif inner.get("type") not in _SELECTABLE_TYPES:
            text = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            found.append(wrong(place, path, text))
        elif path in paths[:index]:
            found.append(duplicate(place, path))
    if len(set(paths)) > _MAX_SELECTABLE:
        text = f"Too many: {len(set(paths))}: must have at most {_MAX_SELECTABLE} items"
        found.append(StatusCause(field=where, message=text, reason="FieldValueTooMany"))
    return found


def _schema_at(schema: Json, path: str) -> Any:
    inner: Json | None = schema
    for step in path.removeprefix(".").split("."):
        inner = field_schema(inner, step)
    return inner


def _path_problem(path: str) -> str:
    return "" if path.startswith(".") else "must be a simple json path starting with ."
