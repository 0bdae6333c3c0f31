"""Typed reading of a plugin's `args`; every error names its path."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import TypeVar

import msgspec

from kubeshare_py.configuration.field_errors import explained

T = TypeVar("T")
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


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


def names_taken(factory: Callable[..., object]) -> tuple[str, ...] | None:
    """The arguments of a factory by name; None if it takes any, or does not say."""
    try:
        taken = signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is Parameter.VAR_KEYWORD for one in taken):
        return None
    return tuple(one.name for one in taken if one.kind in _BY_NAME)
