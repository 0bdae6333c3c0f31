"""Operations of a structural schema on values: pruning, defaults, merging of lists.

A schema is the JSON of an `openAPIV3Schema`. Arguments are never changed. Rules:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from typing import Any

from kubeshare_py.embedded_cluster.protocol.status import Json

Schema = Json | None
"""None where nothing is known of a value."""

META = ("apiVersion", "kind", "metadata")
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE, LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"


def field_schema(schema: Schema, name: str) -> Schema:
    """The schema of one field of an object, if it has one."""
    if schema is None:
        return None
    found = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else None


def whole(value: Any) -> Any:
    """The value with numbers like 2.0 as 2: a JSON reader in Go knows no difference."""
    if isinstance(value, dict):
        return {key: whole(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [whole(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def pruned(value: Any, schema: Schema, unknown: list[str], path: str = "") -> Any:
    """The value with known fields only; the paths of others are added to `unknown`."""
    known = schema or {}
    if isinstance(value, list):
        items = known.get("items")
        if known.get(PRESERVE):
            items = {**(items or {}), PRESERVE: True}
        return [pruned(v, items, unknown, f"{path}[{i}]") for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, entry in value.items():
        where = f"{path}.{name}" if path else name
        if known.get(EMBEDDED) and name in META:
            kept[name] = entry
        elif name in known.get("properties", {}) or known.get("additionalProperties") is not None:
            kept[name] = pruned(entry, field_schema(schema, name), unknown, where)
        elif known.get(PRESERVE):
            kept[name] = entry
        else:
            unknown.append(where)
    return kept


def without_nulls(value: Any, schema: Schema) -> Any:
    """The value without nulls of fields that can neither be null nor have a default."""
    if isinstance(value, list):
        return [without_nulls(entry, (schema or {}).get("items")) for entry in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, entry in value.items():
        inner = field_schema(schema, name)
        if not _is_wrong_null(entry, inner) or (inner or {}).get("default") is not None:
            kept[name] = without_nulls(entry, inner)
    return kept


def defaulted(value: Any, schema: Schema) -> Any:
    """The value with defaults of fields that are absent, or null and may not be."""
    if schema is None:
        return value
    if isinstance(value, list):
        return [_defaulted_entry(entry, schema.get("items")) for entry in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, inner in schema.get("properties", {}).items():
        absent = name not in filled or _is_wrong_null(filled[name], inner)
        if absent and inner.get("default") is not None:
            filled[name] = inner["default"]
    return {
        name: _defaulted_entry(entry, field_schema(schema, name)) for name, entry in filled.items()
    }


def applied(original: Any, wanted: Any, schema: Schema) -> Any:
    """Server-side apply: maps and lists with keys are merged, sets united.

    Ownership is not tracked: fields that an applier leaves out stay.
    """
    if isinstance(original, dict) and isinstance(wanted, dict):
        if (schema or {}).get("x-kubernetes-map-type") == "atomic":
            return wanted
        merged = {
            name: applied(original.get(name), entry, field_schema(schema, name))
            for name, entry in wanted.items()
        }
        return {**original, **merged}
    if isinstance(original, list) and isinstance(wanted, list):
        return _applied_list(original, wanted, schema or {})
    return wanted


def entry_key(entry: Any, schema: Json) -> dict[str, Any]:
    """What identifies an entry of a list of type map."""
    names = schema.get(LIST_KEYS, [])
    return {name: entry[name] for name in names if isinstance(entry, dict) and name in entry}


def _defaulted_entry(entry: Any, schema: Schema) -> Any:
    if _is_wrong_null(entry, schema):
        entry = (schema or {}).get("default")
    return defaulted(entry, schema)


def _is_wrong_null(value: Any, schema: Schema) -> bool:
    return value is None and schema is not None and not schema.get("nullable")


def _applied_list(original: list[Any], wanted: list[Any], schema: Json) -> list[Any]:
    kind = schema.get(LIST_TYPE)
    if kind == "set":
        return original + [entry for entry in wanted if entry not in original]
    if kind != "map":
        return wanted
    result, keys = list(original), [entry_key(entry, schema) for entry in original]
    for entry in wanted:
        key = entry_key(entry, schema)
        if key in keys:
            place = keys.index(key)
            result[place] = applied(result[place], entry, schema.get("items"))
        else:
            result.append(entry)
    return result
