"""Values against an `openAPIV3Schema`, in the words of kube-apiserver.

The keywords of structural schemas are checked; `x-kubernetes-validations` (CEL) are not, and refuse
nothing. On update, an invalid value may stay if it does not change ("ratcheting",
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/).
"""

from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.schemas.schema_causes import homeless, mistyped, too_many
from kubeshare_py.embedded_cluster.schemas.schema_formats import recognised
from kubeshare_py.embedded_cluster.schemas.schema_numbers import number_causes
from kubeshare_py.embedded_cluster.schemas.schema_texts import text_causes
from kubeshare_py.embedded_cluster.schemas.schema_values import LIST_TYPE, entry_key, field_schema


class _Absent:
    """A value that was not there before."""


ABSENT = _Absent()


def violations(value: Any, schema: Json, path: str = "", old: Any = ABSENT) -> list[StatusCause]:
    """Everything wrong with a value; nothing if it equals its former value `old`."""
    found = _typed(value, schema, path)
    if value is not None:
        found += _combined(value, schema, path)
    if isinstance(value, str):
        found += text_causes(value, schema, path)
    elif isinstance(value, list):
        found += _entries(value, schema, path, old)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found += number_causes(value, schema, path)
    found += _enumerated(value, schema, path)
    if isinstance(value, dict):
        found += _fields(value, schema, path, old)
    return [] if found and old is not ABSENT and old == value else found


def duplicates(value: Any, schema: Json | None, path: str = "") -> list[StatusCause]:
    """The entries of sets and maps that occur twice."""
    found: list[StatusCause] = []
    if schema is None:
        return found
    if isinstance(value, dict):
        for name, entry in value.items():
            found += duplicates(entry, field_schema(schema, name), f"{path}.{name}".strip("."))
    elif isinstance(value, list):
        found += _repeated(value, schema, path)
        for index, entry in enumerate(value):
            found += duplicates(entry, schema.get("items"), f"{path}[{index}]")
    return found


def _typed(value: Any, schema: Json, path: str) -> list[StatusCause]:
    types = _types(schema)
    form = recognised(schema)
    if value is None:
        allowed = not types or schema.get("nullable")
        return [] if allowed else [mistyped(path, ",".join(types), "null")]
    found = _json_type(value)
    fits = found in types or (found == "integer" and "number" in types)
    numeric = "number" in types or "integer" in types
    if not types or fits or (form and not numeric and isinstance(value, str | list)):
        return []
    if form and not isinstance(value, str | list):
        precise = {"integer": "int64", "number": "float64"}.get(found, "")
        return [mistyped(path, form, precise)]
    return [mistyped(path, ",".join(types), found)]


def _types(schema: Json) -> list[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []


def _json_type(value: Any) -> str:
    names = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array"}
    return names.get(type(value), "object")


def _combined(value: Any, schema: Json, path: str) -> list[StatusCause]:
    """anyOf, oneOf, allOf and not; of failing alternatives, the first is shown."""
    found: list[StatusCause] = []
    alternatives = [violations(value, one, path) for one in schema.get("anyOf", [])]
    if alternatives and all(alternatives):
        text = f'"{path}" must validate at least one schema (anyOf)'
        found += [homeless(text), *alternatives[0]]
    if alternatives := [violations(value, one, path) for one in schema.get("oneOf", [])]:
        valid = alternatives.count([])
        if valid != 1:
            many = f"Found {valid} valid alternatives" if valid else "Found none valid"
            text = f'"{path}" must validate one and only one schema (oneOf). {many}'
            found += [homeless(text), *([] if valid else alternatives[0])]
    if parts := [violations(value, one, path) for one in schema.get("allOf", [])]:
        found += [cause for part in parts for cause in part]
        if any(parts):
            none = ". None validated" if all(parts) else ""
            found.append(homeless(f'"{path}" must validate all the schemas (allOf){none}'))
    if "not" in schema and not violations(value, schema["not"], path):
        found.append(homeless(f'"{path}" must not validate the schema (not)'))
    return found


def _entries(value: list[Any], schema: Json, path: str, old: Any) -> list[StatusCause]:
    found: list[StatusCause] = []
    if isinstance(schema.get("items"), dict):
        for index, entry in enumerate(value):
            before = _correlated(entry, schema, old)
            found += violations(entry, schema["items"], f"{path}[{index}]", before)
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        text = f"{path} in body should have at least {least} items"
        found.append(wrong(path, len(value), text))
    if most is not None and len(value) > most:
        found.append(too_many(path, len(value), most))
    return found


def _correlated(entry: Any, schema: Json, old: Any) -> Any:
    """The former version of an entry; only lists with keys have one."""
    if schema.get(LIST_TYPE) != "map" or not isinstance(old, list):
        return ABSENT
    key = entry_key(entry, schema)
    return next((one for one in old if entry_key(one, schema) == key), ABSENT)


def _enumerated(value: Any, schema: Json, path: str) -> list[StatusCause]:
    allowed = schema.get("enum")
    if not allowed or any(entry == value and _alike(entry, value) for entry in allowed):
        return []
    shown = [e if isinstance(e, str) else msgspec.json.encode(e).decode() for e in allowed]
    return [unsupported(path, value, shown)]


def _alike(one: object, other: object) -> bool:
    """Equality of JSON values, where True is not 1."""
    return isinstance(one, bool) == isinstance(other, bool)


def _fields(value: Json, schema: Json, path: str, old: Any) -> list[StatusCause]:
    found: list[StatusCause] = []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        text = f"{path} in body should have at least {least} properties"
        found.append(wrong(path, len(value), text))
    if most is not None and len(value) > most:
        found.append(too_many(path, len(value), most))
    for name, entry in value.items():
        where = f"{path}.{name}" if path else name
        inner = field_schema(schema, name)
        if inner is not None:
            before = old.get(name, ABSENT) if isinstance(old, dict) else ABSENT
            found += violations(entry, inner, where, before)
        elif schema.get("additionalProperties") is False:
            found.append(wrong(path, name, f"{where} in body is a forbidden property"))
    for name in schema.get("required", []):
        if name not in value:
            found.append(required(f"{path}.{name}" if path else name))
    return found


def _repeated(value: list[Any], schema: Json, path: str) -> list[StatusCause]:
    kind = schema.get(LIST_TYPE)
    if kind not in ("set", "map"):
        return []
    seen: list[Any] = []
    found: dict[str, StatusCause] = {}
    for index, entry in enumerate(value):
        identity = entry if kind == "set" else entry_key(entry, schema)
        if identity in seen:
            found.setdefault(repr(identity), duplicate(f"{path}[{index}]", identity))
        seen.append(identity)
    return list(found.values())
