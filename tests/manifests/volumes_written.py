"""Storage objects as JSON, read as the watch reads them."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

META: dict[str, Any] = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7"}


def read(kind: type[T], **fields: Any) -> T:
    """An object of these fields, `META` unless they say otherwise."""
    return msgspec.json.decode(msgspec.json.encode({"metadata": META, **fields}), type=kind)
