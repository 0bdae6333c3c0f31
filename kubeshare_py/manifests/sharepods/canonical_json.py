"""JSON in one form, so that equal values are equal bytes: sorted names, no nulls."""

import zlib
from typing import Any

import msgspec

from kubeshare_py.manifests.undecodable import UNDECODABLE


def canonical(value: object) -> bytes:
    """A value as JSON with sorted names, without fields that are null."""
    return msgspec.json.encode(_without_nulls(value), order="sorted")


def decoded_object(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """A JSON object; {} if it is none."""
    try:
        found = msgspec.json.decode(bytes(raw) or b"{}")
    except UNDECODABLE:
        return {}
    return found if isinstance(found, dict) else {}


def hash_of(value: object) -> str:
    """Eight hexadecimal digits that change with the value."""
    return f"{zlib.crc32(canonical(value)):08x}"


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
