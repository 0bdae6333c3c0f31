"""JSON in one form, so that equal values are equal bytes: sorted names, no nulls.

Users write SharePods without a schema for their specs, nested as deep as kube-apiserver accepts.
"""

import zlib
from typing import Any

import msgspec

from kubeshare_py.manifests.plain_shallow_json import MAX_DEPTH
from kubeshare_py.manifests.shallow_json import shallow
from kubeshare_py.manifests.undecodable import UNDECODABLE


def bounded(raw: bytes | msgspec.Raw) -> bytes:
    """The JSON with null for what is more than MAX_DEPTH levels deep; `{}` for none.

    What is decoded from it can be walked and encoded without running out of stack.
    """
    text = bytes(raw) or b"{}"
    may_be_deep = text.count(b"{") + text.count(b"[") > MAX_DEPTH
    return shallow(text) if may_be_deep else text


def canonical(value: object) -> bytes:
    """A value of `bounded` JSON with sorted names, without fields that are null."""
    return msgspec.json.encode(_without_nulls(value), order="sorted")


def decoded_object(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """A `bounded` JSON object; {} if it is none."""
    try:
        found = msgspec.json.decode(bounded(raw))
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
