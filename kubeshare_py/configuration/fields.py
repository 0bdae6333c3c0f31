"""Rules and errors of the configuration's fields: each problem names its field."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import inspect

from kubeshare_py.domain.cluster_objects import BadSelector, parsed

# Rules for texts of a configuration; each returns what is wrong, or "".
#
# Names: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253

_URL = re.compile(
    r"https?://([^\s/?#@]+@)?(\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)(:(?P<port>[0-9]{1,5}))?(/[^\s?#]*)?"
)
_MAX_PORT = 65_535


def url_problem(text: str) -> str:
    """Check the URL of an HTTP server."""
    found = _URL.fullmatch(text)
    if not found or int(found["port"] or 0) > _MAX_PORT:
        return f"must be a URL such as http://prometheus-k8s.monitoring:9090, not {text!r}"
    return ""


def label_problem(text: str) -> str:
    """Check the name of a namespace or a Service."""
    if len(text) <= _LONGEST_LABEL and _DNS_LABEL.fullmatch(text):
        return ""
    return (
        "must be at most 63 lower-case letters, digits and dashes, with a letter or digit first and"
        f" last, such as kube-system, not {text!r}"
    )


def subdomain_problem(text: str) -> str:
    """Check the name of a Lease."""
    if len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text):
        return ""
    return (
        "must be at most 253 lower-case letters, digits, dashes and dots, with a letter or digit"
        f" first and last in each part, such as kubeshare-scheduler, not {text!r}"
    )


def label_selector_problem(text: str) -> str:
    """Check a label selector as in `kubectl get -l`."""
    try:
        parsed(text)
    except BadSelector as bad:
        return (
            f"cannot be parsed at {bad.part!r}: must be requirements such as"
            f" app=collector,tier in (gpu,cpu),!old, not {text!r}"
        )
    return ""


# msgspec's errors about a bad field in words for the file's author: path, rule, value, choices.


_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|([^.\[\]]+)")
#: Stands for an unknown value, and for one too long to repeat.
_UNKNOWN = object()
_PAIR = 2


def explained(message: str, document: object, kind: Any) -> str:
    """A message of msgspec.ValidationError with the path first, as in `profiles[0].isolation[0]`.

    `document` is what was converted to `kind`: the value at the path is repeated, and the allowed
    ones are listed. The path of the whole is `document`.
    """
    text, found, place = message.rpartition(" - at `")
    # The place is "$.a[0].b`", or for a bad key "key` in `$.a[0]`".
    path = place.split("`")[-2].removeprefix("$").removeprefix(".") if found else ""
    text = text if found else message
    steps = [number or name for number, name in _STEP.findall(path)]
    expected = _type_at(inspect.type_info(kind), steps)
    unknown = _UNKNOWN_FIELD.fullmatch(text)
    if unknown:
        where = f"{path}.{unknown[1]}".removeprefix(".")
        return f"{where}: no such field; there are {', '.join(_fields(expected))}"
    value = _UNKNOWN if place.startswith("key`") else _value_at(document, steps)
    return f"{path or 'document'}: {_rule(text, expected, value)}"


def one_of(choices: Sequence[str]) -> str:
    """`a or b`, or `one of a, b, c`."""
    return " or ".join(choices) if len(choices) <= _PAIR else f"one of {', '.join(choices)}"


def _rule(text: str, expected: inspect.Type | None, value: object) -> str:
    """The required type and the actual value."""
    wanted = _wanted(expected)
    if value is _UNKNOWN:
        return text
    if wanted:
        return f"must be {wanted}, not {value!r}"
    return f"{text} ({value!r})" if "got" in text else f"{text}, not {value!r}"


def _wanted(expected: inspect.Type | None) -> str:
    """The required type as words: its choices, or its description."""
    match expected:
        case inspect.EnumType(cls=choices):
            return one_of([str(one.value) for one in choices])
        case inspect.LiteralType(values=values):
            return one_of([str(one) for one in values])
        case inspect.Metadata(extra_json_schema=schema):
            return str((schema or {}).get("description", ""))
        case _:
            return ""


def _fields(expected: inspect.Type | None) -> list[str]:
    if not isinstance(expected, inspect.StructType):
        return []
    return [field.encode_name for field in expected.fields]


def _type_at(kind: inspect.Type, steps: Sequence[str]) -> inspect.Type | None:
    """The type at a path; None if anything is allowed there."""
    found: inspect.Type | None = kind
    for step in steps:
        match _given(found):
            case inspect.StructType(fields=fields):
                found = next((one.type for one in fields if one.encode_name == step), None)
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                found = item
            case inspect.DictType(value_type=value):
                found = value
            case _:
                return None
    return _given(found)


def _given(kind: inspect.Type | None) -> inspect.Type | None:
    """The type of a value that may be left out, as None."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    return next((one for one in kind.types if not isinstance(one, inspect.NoneType)), None)


def _value_at(document: object, steps: Sequence[str]) -> object:
    """The value at a path, if it is short enough to be repeated."""
    found = document
    for step in steps:
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal():
            found = found[int(step)]
        else:
            return _UNKNOWN
    return found if isinstance(found, str | int | float) else _UNKNOWN
