"""Which schemas a CustomResourceDefinition may have: structural ones, without CEL."""

from kubeshare_py.embedded_cluster.kinds.schemas import (
    EMBEDDED,
    LIST_KEYS,
    LIST_TYPE,
    META,
    NOWHERE,
    PRESERVE,
    pattern_problem,
    pruned,
    violations,
)
from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.status import Json, StatusCause, required

# Whether a schema is structural: every value has a known type before rules apply to it.
#
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema


_EITHER = "x-kubernetes-int-or-string"
_EITHER_TYPES = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("anyOf", "allOf", "oneOf")
_LEVELS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_ONLY_OUTSIDE = {
    **dict.fromkeys(("type", "title", "description"), "must be empty to be structural"),
    **dict.fromkeys(("additionalProperties", "default"), "must be undefined to be structural"),
    **dict.fromkeys(("nullable", PRESERVE, EMBEDDED, _EITHER), "must be false to be structural"),
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def _check_structure(schema: Checked) -> None:
    """Everything that makes a schema not structural, in the order of the fields' names."""
    own = Checked(schema.value, schema.path)
    _check_invariants(own, "root")
    own.causes += _missing(own.value, own.value, own.path, own.path)
    schema.causes += sorted(own.causes, key=lambda cause: (cause.field, cause.message))


def _check_invariants(schema: Checked, level: str) -> None:
    if schema.get("type") == "array" and "items" not in schema.value:
        schema.lacks("items", "must be specified")
    if "items" in schema.value:
        _check_invariants(schema.below("items", schema.value["items"]), "item")
    for name, inner in schema.get("properties", {}).items():
        _check_invariants(schema.below(f"properties[{name}]", inner), "field")
    inner = schema.get("additionalProperties", None)
    if inner is not None and level == "root":
        schema.forbid("additionalProperties", "must not be used at the root")
    if isinstance(inner, dict):
        _check_invariants(schema.below("additionalProperties", inner), "field")
    _check_type(schema, level)
    _check_junctors(schema)
    if level == "root" or schema.get(EMBEDDED):
        _check_meta(schema, level)


def _check_type(schema: Checked, level: str) -> None:
    kind = schema.get("type")
    if schema.get(EMBEDDED) and kind != "object":
        _demand_type(schema, "object", f"must be object if {EMBEDDED} is true")
    elif not kind and not schema.get(_EITHER) and not schema.get(PRESERVE):
        schema.lacks("type", _LEVELS[level])
    elif level == "root" and kind and kind != "object":
        schema.wrong("type", kind, "must be object at the root")
    elif schema.get(_EITHER):
        for name in (PRESERVE, EMBEDDED):
            if schema.get(name):
                schema.wrong(name, True, f"must be false if {_EITHER} is true")


def _demand_type(schema: Checked, wanted: str, text: str) -> None:
    if schema.get("type") != wanted and schema.require("type", text=text):
        schema.wrong("type", schema.get("type"), text)


def _check_meta(schema: Checked, level: str) -> None:
    """Kind, version and metadata of an object are given; the root may restrict the name."""
    fields = schema.get("properties", {})
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in fields and fields[name].get("type") != kind:
            found = fields[name].get("type", "")
            schema.wrong(f"properties[{name}].type", found, f"must be {kind}")
    metadata = fields.get("metadata", {})
    others = {*metadata} - {"type", "properties", "default"}
    if level == "root" and (others or {*metadata.get("properties", {})} - {"name", "generateName"}):
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        schema.forbid("properties[metadata]", text)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE):
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        schema.require("properties", text=text)


def _check_junctors(schema: Checked) -> None:
    """What stands below anyOf, allOf, oneOf and not."""
    for name in _JUNCTORS:
        for index, inner in enumerate(schema.each(name)):
            if not _is_either(schema.value, name, index):
                _check_nested(inner)
    if "not" in schema.value:
        _check_nested(schema.below("not", schema.value["not"]))
    if schema.get("pattern"):
        schema.valid("pattern", pattern_problem)


def _is_either(schema: Json, name: str, index: int) -> bool:
    """Integer or string, in one of the two ways in which this may be written with types."""
    if name == "anyOf":
        return bool(schema["anyOf"] == _EITHER_TYPES)
    return bool(name == "allOf" and index == 0 and schema["allOf"][0] == {"anyOf": _EITHER_TYPES})


def _check_nested(schema: Checked) -> None:
    for keyword, text in _ONLY_OUTSIDE.items():
        if schema.get(keyword) not in (None, False, "", []):
            schema.forbid(keyword, text)
    _check_junctors(schema)
    if isinstance(schema.get("items"), dict):
        _check_nested(schema.below("items", schema.value["items"]))
    for name, inner in schema.get("properties", {}).items():
        _check_nested(schema.below(f"properties[{name}]", inner))
    if "metadata" in schema.get("properties", {}):
        schema.forbid("properties[metadata]", "must not be specified in a nested context")


def _missing(rules: Json, schema: Json | None, where: str, said: str) -> list[StatusCause]:
    """Fields that only a rule names, below the junctors of `rules`."""
    found = []
    nested = [
        (f"{said}.{name}[{index}]", inner)
        for name in _JUNCTORS
        for index, inner in enumerate(rules.get(name, []))
    ]
    if "not" in rules:
        nested.append((f"{said}.not", rules["not"]))
    for place, inner in nested:
        found += _unknown(inner, schema, where, place)
    return found


def _unknown(rules: Json, schema: Json | None, where: str, said: str) -> list[StatusCause]:
    if schema is None:
        return [required(where, f"because it is defined in {said}")]
    found = _missing(rules, schema, where, said)
    if "items" in rules:
        found += _unknown(rules["items"], schema.get("items"), f"{where}.items", f"{said}.items")
    for name, inner in rules.get("properties", {}).items():
        known = schema.get("properties", {}).get(name)
        part = f"properties[{name}]"
        found += _unknown(inner, known, f"{where}.{part}", f"{said}.{part}")
    return found


# Which schemas a CustomResourceDefinition may have; CEL expressions are not checked.


_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_LIST_TYPES = ("atomic", "set", "map")
_MAP_TYPE, _MAP_TYPES = "x-kubernetes-map-type", ("atomic", "granular")
_INNER_JUNCTORS = ("allOf", "oneOf", "anyOf")
_WITH_STATUS = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum"),
    *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
    *("uniqueItems", "multipleOf", "required", "items", "properties", "externalDocs", "example"),
    *(PRESERVE, "x-kubernetes-validations"),
)


def check_schema(schema: Checked, *, has_status: bool) -> None:
    """The schema of one version."""
    if has_status:
        _check_root_with_status(schema)
    if schema.get("nullable"):
        schema.forbid("nullable", "nullable cannot be true at the root")
    foreign = Checked(schema.value, schema.path)
    _check_keywords(foreign, root=True)
    before = len(schema.causes)
    if not _is_foreign(schema.value):
        _check_structure(schema)
    if len(schema.causes) == before and not foreign.causes:
        _check_defaults(schema)
    schema.causes += foreign.causes


def _check_root_with_status(schema: Checked) -> None:
    """The rules for a root with a separate status."""
    if schema.get("type") != "object":
        text = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        schema.wrong("type", schema.get("type"), text)
    elif any(keyword not in _WITH_STATUS for keyword in schema.value):
        listed = " ".join(keyword[0].upper() + keyword[1:] for keyword in _WITH_STATUS)
        text = (
            f"only [{listed}] fields are allowed at the root of the schema if the status "
            "subresource is enabled"
        )
        schema.wrong("", schema.value, text)


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
    for name in _INNER_JUNCTORS:
        found += [(f"{name}[{index}]", one) for index, one in enumerate(schema.get(name, []))]
    return found


def _check_keywords(schema: Checked, *, root: bool = False) -> None:
    if schema.get("type"):
        schema.one_of("type", _TYPES)
    for keyword in _UNSUPPORTED:
        if keyword in schema.value:
            schema.forbid(keyword, f"{keyword} is not supported")
    if isinstance(schema.get("items"), list):
        schema.forbid("items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        schema.forbid("uniqueItems", text)
    if schema.get("properties") and schema.get("additionalProperties", True) is not True:
        text = "additionalProperties and properties are mutual exclusive"
        schema.forbid("additionalProperties", text)
    if schema.get(PRESERVE) is False:
        schema.wrong(PRESERVE, False, "must be true or undefined")
    _check_map_type(schema)
    _check_list_type(schema)
    for name, inner in _inner(schema.value):
        in_meta = root and name.removeprefix("properties[").rstrip("]") in META
        if in_meta and inner.get("default") is not None:
            schema.forbid(f"{name}.default", f"must not be set in top-level {name[11:-1]}")
        _check_keywords(schema.below(name, inner))


def _check_map_type(schema: Checked) -> None:
    if _MAP_TYPE in schema.value:
        _demand_type(schema, "object", f"must be object if {_MAP_TYPE} is specified")
        schema.one_of(_MAP_TYPE, _MAP_TYPES)


def _check_list_type(schema: Checked) -> None:
    wanted, keys = schema.get(LIST_TYPE, None), schema.get(LIST_KEYS, [])
    if keys and wanted != "map":
        text = f"must be map if {LIST_KEYS} is non-empty"
        if schema.require(LIST_TYPE, text=text):
            schema.wrong(LIST_TYPE, wanted, text)
        return
    if wanted is None:
        return
    _demand_type(schema, "array", f"must be array if {LIST_TYPE} is specified")
    schema.one_of(LIST_TYPE, _LIST_TYPES)
    if wanted == "map":
        schema.require(LIST_KEYS, text=f"must not be empty if {LIST_TYPE} is map")
        if "items" not in schema.value:
            schema.lacks("items", f"must have a schema if {LIST_TYPE} is map")
    if isinstance(schema.get("items"), dict) and wanted in ("map", "set"):
        items = schema.below("items", schema.value["items"])
        if items.get("nullable"):
            items.forbid("nullable", f"cannot be nullable when {LIST_TYPE} is {wanted}")
        if wanted == "set":
            _check_set_items(items)
        else:
            _check_map_items(schema, items, keys)


def _check_set_items(items: Checked) -> None:
    """What is in a set is compared whole."""
    name = {"array": LIST_TYPE, "object": _MAP_TYPE}.get(items.get("type"))
    if name and items.get(name, "atomic" if name == LIST_TYPE else "") != "atomic":
        text = f"must be atomic as item of a list with {LIST_TYPE}=set"
        items.wrong(name, items.get(name, None), text)


def _check_map_items(schema: Checked, items: Checked, keys: list[str]) -> None:
    if items.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        items.wrong("type", items.get("type"), text)
        return
    fields = items.get("properties", {})
    if any(key not in fields for key in keys):
        schema.wrong(LIST_KEYS, keys, "entries must all be names of item properties")
    text = f"this property is in {LIST_KEYS}, so it"
    for key in filter(fields.__contains__, keys):
        field = items.below(f"properties[{key}]", fields[key])
        if key not in items.get("required", []) and field.get("default", None) is None:
            field.lacks("default", f"{text} must have a default or be a required property")
        if field.get("nullable"):
            field.forbid("nullable", f"{text} cannot be nullable")


def _check_defaults(schema: Checked) -> None:
    """Defaults must be valid, and have no unknown fields."""
    value = schema.get("default", None)
    if value is not None:
        unknown: list[str] = []
        pruned(value, schema.value, unknown)
        if unknown:
            schema.wrong("default", value, "must not have unknown fields")
        for cause in violations(value, schema.value):
            place = "default" if cause.field in ("", NOWHERE) else f"default.{cause.field}"
            found = StatusCause(
                field=schema.where(place), message=cause.message, reason=cause.reason
            )
            schema.causes.append(found)
    for name, inner in _inner(schema.value):
        _check_defaults(schema.below(name, inner))
