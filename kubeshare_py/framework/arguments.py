"""Typed reading of a plugin's `args`; every error names its path."""

from typing import TypeVar

import msgspec

from kubeshare_py.configuration.field_errors import explained

T = TypeVar("T")


class ArgumentError(ValueError):
    """A plugin's argument cannot be used; the text begins with its path within `args`."""


def checked(value: object, kind: type[T], path: str) -> T:
    """Convert the argument at this path to a msgspec type.

    Raises ArgumentError.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner, _, text = explained(str(error), value, kind).partition(": ")
        within = "" if inner == "document" else f".{inner}".replace(".[", "[")
        raise ArgumentError(f"{path}{within}: {text}") from error
