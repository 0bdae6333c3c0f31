"""Reading what a plugin is given in its `args`: typed, and every error with its path."""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")


class ArgumentError(ValueError):
    """An argument cannot be used; the text begins with its path within `args`."""


def checked(value: object, kind: type[T], path: str) -> T:
    """The argument at this path as a value of a msgspec type.

    Raises ArgumentError.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner, _, text = located(str(error)).partition(": ")
        within = "" if inner == "document" else f".{inner}".replace(".[", "[")
        raise ArgumentError(f"{path}{within}: {text}") from error


def located(message: str) -> str:
    """A message of msgspec with the path first, as users write it; `document` for the whole."""
    text, found, place = message.rpartition(" - at `")
    # The place is "$.a[0].b`", or for a bad key "key` in `$.a[0]`".
    path = place.split("`")[-2].removeprefix("$").removeprefix(".") if found else ""
    text = text if found else message
    unknown = _UNKNOWN_FIELD.fullmatch(text)
    if unknown:
        return f"{path}.{unknown[1]}: no such field".removeprefix(".")
    return f"{path or 'document'}: {text}"
