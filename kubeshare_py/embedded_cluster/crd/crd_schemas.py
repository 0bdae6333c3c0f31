"""Which schemas a CustomResourceDefinition may have; CEL expressions are not checked."""

from kubeshare_py.embedded_cluster.crd.crd_structure import structure_causes
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubeshare_py.embedded_cluster.schemas.schema_causes import NOWHERE
from kubeshare_py.embedded_cluster.schemas.schema_checks import violations
from kubeshare_py.embedded_cluster.schemas.schema_values import (
    LIST_KEYS,
    LIST_TYPE,
    META,
    PRESERVE,
    pruned,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_LIST_TYPES = ("atomic", "set", "map")
_MAP_TYPE, _MAP_TYPES = "x-kubernetes-map-type", ("atomic", "granular")
_JUNCTORS = ("allOf", "oneOf", "anyOf")
_WITH_STATUS = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum"),
    *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
    *("uniqueItems", "multipleOf", "required", "items", "properties", "externalDocs", "example"),
    *(PRESERVE, "x-kubernetes-validations"),
)


def schema_causes(schema: Json, where: str, *, has_status: bool) -> list[StatusCause]:
    """Everything wrong with the schema of one version."""
    found = _status_causes(schema, where) if has_status else []
    if schema.get("nullable"):
        found.append(not_allowed(f"{where}.nullable", "nullable cannot be true at the root"))
    foreign = _keyword_causes(schema, where, root=True)
    structural = [] if _is_foreign(schema) else structure_causes(schema, where)
    found += structural or ([] if foreign else _default_causes(schema, where))
    return found + foreign


def _status_causes(schema: Json, where: str) -> list[StatusCause]:
    """The rules for a root with a separate status."""
    if schema.get("type") != "object":
        text = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        return [wrong(f"{where}.type", schema.get("type", ""), text)]
    if all(keyword in _WITH_STATUS for keyword in schema):
        return []
    listed = " ".join(keyword[0].upper() + keyword[1:] for keyword in _WITH_STATUS)
    text = (
        f"only [{listed}] fields are allowed at the root of the schema if the status subresource "
        "is enabled"
    )
    return [wrong(where, schema, text)]


def _is_foreign(schema: Json) -> bool:
    """Whether it has parts that no structural schema can have."""
    if any(keyword in schema for keyword in _UNSUPPORTED) or isinstance(schema.get("items"), list):
        return True
    return any(_is_foreign(inner) for _, inner in _inner(schema))


def _inner(schema: Json) -> list[tuple[str, Json]]:
    """All schemas directly inside one, with their places."""
    found = []
    for name in ("additionalProperties", "not", "items"):
        if isinstance(schema.get(name), dict):
            found.append((name, schema[name]))
    found += [(f"properties[{name}]", one) for name, one in schema.get("properties", {}).items()]
    for name in _JUNCTORS:
        found += [(f"{name}[{index}]", one) for index, one in enumerate(schema.get(name, []))]
    return found


def _keyword_causes(schema: Json, where: str, *, root: bool = False) -> list[StatusCause]:
    found = []
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        found.append(unsupported(f"{where}.type", kind, _TYPES))
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            found.append(not_allowed(f"{where}.{keyword}", f"{keyword} is not supported"))
    if isinstance(schema.get("items"), list):
        text = "items must be a schema object and not an array"
        found.append(not_allowed(f"{where}.items", text))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(not_allowed(f"{where}.uniqueItems", text))
    if schema.get("properties") and schema.get("additionalProperties", True) is not True:
        text = "additionalProperties and properties are mutual exclusive"
        found.append(not_allowed(f"{where}.additionalProperties", text))
    if schema.get(PRESERVE) is False:
        found.append(wrong(f"{where}.{PRESERVE}", value=False, text="must be true or undefined"))
    found += [*_map_type_causes(schema, where), *_list_type_causes(schema, where)]
    for name, inner in _inner(schema):
        in_meta = root and name.removeprefix("properties[").rstrip("]") in META
        if in_meta and inner.get("default") is not None:
            text = f"must not be set in top-level {name[11:-1]}"
            found.append(not_allowed(f"{where}.{name}.default", text))
        found += _keyword_causes(inner, f"{where}.{name}")
    return found


def _map_type_causes(schema: Json, where: str) -> list[StatusCause]:
    wanted = schema.get(_MAP_TYPE)
    if wanted is None:
        return []
    found = _typed(schema, where, "object", f"must be object if {_MAP_TYPE} is specified")
    if wanted not in _MAP_TYPES:
        found.append(unsupported(f"{where}.{_MAP_TYPE}", wanted, _MAP_TYPES))
    return found


def _list_type_causes(schema: Json, where: str) -> list[StatusCause]:
    wanted, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS, [])
    if keys and wanted != "map":
        text = f"must be map if {LIST_KEYS} is non-empty"
        place = f"{where}.{LIST_TYPE}"
        return [required(place, text) if wanted is None else wrong(place, wanted, text)]
    if wanted is None:
        return []
    found = _typed(schema, where, "array", f"must be array if {LIST_TYPE} is specified")
    if wanted not in _LIST_TYPES:
        found.append(unsupported(f"{where}.{LIST_TYPE}", wanted, _LIST_TYPES))
    items = schema.get("items")
    if wanted == "map":
        if not keys:
            text = f"must not be empty if {LIST_TYPE} is map"
            found.append(required(f"{where}.{LIST_KEYS}", text))
        if items is None:
            text = f"must have a schema if {LIST_TYPE} is map"
            found.append(required(f"{where}.items", text))
    if isinstance(items, dict) and wanted in ("map", "set"):
        if items.get("nullable"):
            text = f"cannot be nullable when {LIST_TYPE} is {wanted}"
            found.append(not_allowed(f"{where}.items.nullable", text))
        found += (_key_causes if wanted == "map" else _set_causes)(items, where, keys)
    return found


def _typed(schema: Json, where: str, wanted: str, text: str) -> list[StatusCause]:
    kind = schema.get("type", "")
    if kind == wanted:
        return []
    return [wrong(f"{where}.type", kind, text) if kind else required(f"{where}.type", text)]


def _set_causes(items: Json, where: str, _keys: list[str]) -> list[StatusCause]:
    """What is in a set is compared whole."""
    name = {"array": LIST_TYPE, "object": _MAP_TYPE}.get(items.get("type", ""))
    if name is None or items.get(name, "atomic" if name == LIST_TYPE else "") == "atomic":
        return []
    text = f"must be atomic as item of a list with {LIST_TYPE}=set"
    return [wrong(f"{where}.items.{name}", items.get(name), text)]


def _key_causes(items: Json, where: str, keys: list[str]) -> list[StatusCause]:
    found = []
    if items.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        return [wrong(f"{where}.items.type", items.get("type", ""), text)]
    fields = items.get("properties", {})
    if any(key not in fields for key in keys):
        text = "entries must all be names of item properties"
        found.append(wrong(f"{where}.{LIST_KEYS}", keys, text))
    for key in keys:
        place = f"{where}.items.properties[{key}]"
        if key not in fields:
            continue
        if key not in items.get("required", []) and fields[key].get("default") is None:
            text = f"this property is in {LIST_KEYS}, so it must have a default or be a required"
            found.append(required(f"{place}.default", f"{text} property"))
        if fields[key].get("nullable"):
            text = f"this property is in {LIST_KEYS}, so it cannot be nullable"
            found.append(not_allowed(f"{place}.nullable", text))
    return found


def _default_causes(schema: Json, where: str) -> list[StatusCause]:
    """Defaults must be valid, and have no unknown fields."""
    found: list[StatusCause] = []
    if schema.get("default") is not None:
        value, place = schema["default"], f"{where}.default"
        unknown: list[str] = []
        pruned(value, schema, unknown)
        if unknown:
            found.append(wrong(place, value, "must not have unknown fields"))
        for cause in violations(value, schema):
            field = place if cause.field in ("", NOWHERE) else f"{place}.{cause.field}"
            found.append(StatusCause(field=field, message=cause.message, reason=cause.reason))
    for name, inner in _inner(schema):
        found += _default_causes(inner, f"{where}.{name}")
    return found
