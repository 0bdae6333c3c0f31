"""Values against the schemas of CustomResourceDefinitions: pruning, defaults, checks."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.protocol.names import label_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    unsupported,
    wrong,
)

# Problems of values under a schema, in kube-apiserver's words.


NOWHERE = "<nil>"
"""The field that the real server names for problems without one."""


def mistyped(path: str, wanted: str, found: str) -> StatusCause:
    """A value of another JSON type, or a string of another format."""
    text = f'{path} in body must be of type {wanted}: "{found}"'
    return StatusCause(
        field=path or NOWHERE,
        message=f'Invalid value: "{found}": {text}',
        reason="FieldValueTypeInvalid",
    )


def homeless(text: str) -> StatusCause:
    """A problem that the real server does not assign to a field."""
    return wrong(NOWHERE, "", text)


def too_many(path: str, count: int, most: int) -> StatusCause:
    """A list or map with more entries than allowed."""
    text = f"Too many: {count}: must have at most {most} items"
    return StatusCause(field=path, message=text, reason="FieldValueTooMany")


# The string formats of a CustomResourceDefinition's schema, and their checks.
#
# List: `format` in JSONSchemaProps of
# https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/


_UUID = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_HEX4, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_BYTE = "([01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])"
_PATTERNS = {
    "bsonobjectid": "[0-9a-fA-F]{24}",
    "uri": r"[a-zA-Z][-+.a-zA-Z0-9]*:.+|/.*",
    "email": r"[^@\s]+@[^@\s]+|.*<[^@\s]+@[^@\s]+>",
    "hostname": rf"{_LABEL}(\.{_LABEL})*",
    "mac": r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5,19}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2,9}",
    "uuid": _UUID % (_HEX4, _HEX4),
    "uuid3": _UUID % ("3[0-9a-f]{3}", _HEX4),
    "uuid4": _UUID % ("4[0-9a-f]{3}", _VARIANT),
    "uuid5": _UUID % ("5[0-9a-f]{3}", _VARIANT),
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "hexcolor": "#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "rgbcolor": rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)",
    "duration": r"[-+]?(0|(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h|[a-z]+)(\s*\d+(\.\d*)?"
    r"(ns|us|µs|ms|s|m|h))*)",
    "datetime": r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+]\d\d:?\d\d)?",
}
_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def recognised(schema: Json) -> str:
    """The schema's format if it applies to its type, else ""."""
    text: str = schema.get("format", "")
    kind = schema.get("type", "")
    if kind in _NUMBERS:
        return text if text in _NUMBERS[kind] else ""
    if kind not in ("", "string"):
        return ""
    return text if _plain(text) in _CHECKS else ""


def is_formatted(text: str, name: str) -> bool:
    """Whether a string has a format; true for formats of numbers."""
    check = _CHECKS.get(_plain(name))
    return check is None or check(text)


def _plain(name: str) -> str:
    """The format's name without dashes, which do not count."""
    return name.replace("-", "")


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _anything(_text: str) -> bool:
    return True


def _cidr(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_network(text, strict=False)


def _is_date_time(text: str) -> bool:
    moment = text.upper().replace(" ", "T")
    return _matches(_PATTERNS["datetime"])(text) and _parses(datetime.fromisoformat)(moment)


def _is_long_name(text: str) -> bool:
    return not subdomain_problem(text)


def _is_short_name(text: str) -> bool:
    return not label_problem(text)


_CHECKS: dict[str, Callable[[str], bool]] = {
    **{name: _matches(pattern) for name, pattern in _PATTERNS.items()},
    # Formats of book and credit card numbers are known, but not checked here.
    **dict.fromkeys(("isbn", "isbn10", "isbn13", "creditcard", "password"), _anything),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(_cidr),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "date": lambda text: text[4:5] == "-" and _parses(date.fromisoformat)(text),
    "datetime": _is_date_time,
    "k8sshortname": _is_short_name,
    "k8slongname": _is_long_name,
}


# Numbers against a schema: ranges, bounds, multiples.


_INT32, _INT64 = 1 << 31, 1 << 63
_PLAIN_BELOW, _PLAIN_DIGITS = 4, 6


def number_causes(value: float, schema: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a number."""
    found = []
    kind, form = schema.get("type"), recognised(schema)
    limit = _INT32 if form == "int32" else _INT64
    if kind == "integer" and (isinstance(value, float) or not -limit <= value < limit):
        shown = f"with format {form}" if form else "(default format)"
        found.append(homeless(f"Checked value must be of type integer {shown} in {path}"))
    factor = schema.get("multipleOf")
    if factor and (value / factor) % 1:
        shown = _bound(value, factor)
        found.append(_wrong(path, value, f"be a multiple of {shown}"))
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        found.append(_wrong(path, value, f"be {words} {_bound(value, least)}"))
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        found.append(_wrong(path, value, f"be {words} {_bound(value, most)}"))
    return found


def _wrong(path: str, value: float, text: str) -> StatusCause:
    shown = _bound(value, value)
    return StatusCause(field=path, message=f"Invalid value: {shown}: {path} in body should {text}")


def _bound(value: float, bound: float) -> str:
    """A bound as Go prints it: integers plainly, floats as 1.5, 10, 1e+06."""
    if isinstance(value, int):
        return str(int(bound))
    exact = Decimal(repr(float(bound))).normalize()
    first, *rest = exact.as_tuple().digits
    if -_PLAIN_BELOW <= exact.adjusted() < _PLAIN_DIGITS:
        return f"{exact:f}"
    mantissa = f"{'-' * exact.is_signed()}{first}" + "".join(map(str, [".", *rest] if rest else []))
    return f"{mantissa}e{exact.adjusted():+03d}"


# Strings against a schema: lengths, patterns, formats.


_ONLY_IN_GO = re.compile(r"\\[pPCQ]")
_POSIX = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9A-Fa-f",
}


def text_causes(value: str, schema: Json, path: str) -> list[StatusCause]:
    """Everything wrong with a string."""
    found = []
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern")
    if longest is not None and len(value) > longest:
        text = f"Too long: may not be more than {longest} bytes"
        found.append(StatusCause(field=path, message=text, reason="FieldValueTooLong"))
    elif shortest is not None and len(value) < shortest:
        found.append(wrong(path, value, f"{path} in body should be at least {shortest} chars long"))
    elif pattern and not matches(pattern, value):
        found.append(wrong(path, value, f"{path} in body should match '{pattern}'"))
    form = recognised(schema)
    if form and not is_formatted(value, form):
        found.append(mistyped(path, form, value))
    return found


def matches(pattern: str, value: str) -> bool:
    """Whether a Go pattern is found in a string; patterns unknown to Python match all."""
    if _ONLY_IN_GO.search(pattern):
        return True
    return _compiled(pattern).search(value) is not None


def pattern_problem(pattern: str) -> str:
    """Why it is no pattern ("" if it is one)."""
    try:
        matches(pattern, "")
    except re.error as error:
        return f"must be a valid regular expression, but isn't: {error}"
    return ""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern with Go's end of text, and its classes of characters."""
    parts = re.split(r"(\\.|\[:\w+:\]|\[\^?\]?|\]|\$)", pattern, flags=re.DOTALL)
    inside = False
    for index, part in enumerate(parts):
        if part in _POSIX and inside:
            parts[index] = _POSIX[part]
        elif part in ("$", r"\z") and not inside:
            parts[index] = r"\Z"
        elif part.startswith("[") and inside:
            parts[index] = "\\" + part
        elif part.startswith("[") or part == "]":
            inside = part != "]"
    return re.compile("".join(parts))


# Operations of a structural schema on values: pruning, defaults, merging of lists.
#
# A schema is the JSON of an `openAPIV3Schema`. Arguments are never changed. Rules:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/


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


# Values against an `openAPIV3Schema`, in the words of kube-apiserver.
#
# The keywords of structural schemas are checked; `x-kubernetes-validations` (CEL) are not, and
# refuse nothing. On update, an invalid value may stay if it does not change ("ratcheting",
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/).


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
