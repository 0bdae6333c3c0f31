"""Pruning and type checks of bodies by the types of `fields`."""

from functools import cache
from typing import Any

from kubeshare_py.embedded_cluster.protocol.fields import TYPES
from kubeshare_py.embedded_cluster.protocol.status import Json

_GO_TYPES = {
    **dict.fromkeys("se", "string"),
    **dict.fromkeys("iz", "int64"),
    **dict.fromkeys("bo", "bool"),
    "n": "float64",
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys("se", (str,)),
    **dict.fromkeys("iz", (int,)),
    **dict.fromkeys("bo", (bool,)),
    "n": (int, float),
}


class WrongType(ValueError):
    """A field of another JSON type than the kind has; the text is like encoding/json's."""


def prune(kind: str, body: Json) -> tuple[Json, list[str]]:
    """The body with only known fields, and the paths of the unknown ones; raises WrongType."""
    unknown: list[str] = []
    return _object(kind, body, "", unknown), unknown


@cache
def _shape(name: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in TYPES[name].split())


def _object(kind: str, body: object, path: str, unknown: list[str]) -> Json:
    if not isinstance(body, dict):
        raise WrongType(_mismatch(body, path, kind))
    shape = _shape(kind)
    kept: Json = {}
    for key, value in body.items():
        if value is None:
            continue
        where = f"{path}.{key}" if path else key
        if key not in shape:
            unknown.append(where)
            continue
        letter = shape[key]
        pruned = _value(letter, value, where, unknown)
        if not _vanishes(letter, pruned):
            kept[key] = pruned
    return kept


def _vanishes(letter: str, value: object) -> bool:
    """Whether Go's omitempty would leave the field out."""
    if isinstance(value, bool):
        return letter == "o" and not value
    if letter in ("z", "e", "j"):
        return letter == "z" and value == 0
    if letter[0] == "{":
        return value == {}
    return value in ("", [])


def _value(letter: str, value: object, path: str, unknown: list[str]) -> Any:
    if letter == "p":
        letter = "s" if isinstance(value, str) else "i"
    if letter in _PYTHON_TYPES:
        return _scalar(letter, value, path)
    if letter in ("*", "j"):
        return value
    if letter == "q":
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise WrongType(_mismatch(value, path, "Quantity"))
        return str(value)
    if letter[0] in "[{?":
        return _composed(letter, value, path, unknown)
    return _object(letter, value, path, unknown)


def _composed(letter: str, value: object, path: str, unknown: list[str]) -> Any:
    if letter[0] == "{":
        return _map(letter[1:-1], value, path, unknown)
    if letter[0] == "?":
        return _either(letter[1:], value, path)
    if not isinstance(value, list):
        raise WrongType(_mismatch(value, path, "list"))
    inner = letter[1:-1]
    return [_value(inner, v, f"{path}[{i}]", unknown) for i, v in enumerate(value)]


def _map(inner: str, value: object, path: str, unknown: list[str]) -> Json:
    if not isinstance(value, dict):
        raise WrongType(_mismatch(value, path, "map"))
    return {
        key: _value(inner, entry, f"{path}.{key}", unknown)
        for key, entry in value.items()
        if entry is not None
    }


def _either(inner: str, value: object, path: str) -> Any:
    """Such types have decoders of their own on the real server, which report no unknown field."""
    if isinstance(value, list):
        return [_either(inner, entry, path) for entry in value]
    return _object(inner, value, path, []) if isinstance(value, dict) else value


def _scalar(letter: str, value: object, path: str) -> object:
    wanted = _PYTHON_TYPES[letter]
    if int in wanted and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise WrongType(_mismatch(value, path, _GO_TYPES[letter]))
    return value


def _mismatch(value: object, path: str, wanted: str) -> str:
    found = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
    return f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"
