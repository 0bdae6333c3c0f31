import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.manifests import decoding
from kubeshare_py.manifests.decoding import MAX_DEPTH
from kubeshare_py.manifests.shallow_json import shallow
from tests.odd_input import VALUES


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0) if isinstance(value, dict | list) else 0


def without_depths(value: Any, left: int = MAX_DEPTH) -> Any:
    if not isinstance(value, dict | list):
        return value
    if left == 0:
        return None
    if isinstance(value, dict):
        return {key: without_depths(inner, left - 1) for key, inner in value.items()}
    return [without_depths(inner, left - 1) for inner in value]


def nested(levels: int, inner: Any, beside: Any) -> Any:
    for level in range(levels):
        inner = {"a": inner, "b": beside} if level % 2 else [beside, inner, beside]
    return inner


@given(VALUES, VALUES, st.integers(0, MAX_DEPTH * 2), st.booleans())
def test_what_is_too_deep_is_null_and_all_else_as_it_was(
    inner: Any, beside: Any, levels: int, ascii_only: bool
) -> None:
    made = nested(levels, inner, beside)
    text = json.dumps(made, ensure_ascii=ascii_only).encode("utf-8", "replace")
    found = shallow(text)
    wanted = without_depths(json.loads(text))
    # NaN is not equal to itself.
    assert json.dumps(json.loads(found)) == json.dumps(wanted)
    assert (found is text) == (depth(made) <= MAX_DEPTH)
    assert decoding.shallow(text) == found


@pytest.mark.parametrize("shallow", [shallow, decoding.shallow])
@pytest.mark.parametrize("text", [rb"\\", rb"\"", rb"\\\"", rb"{[\"{[", rb"}]\\"])
def test_brackets_and_quotes_in_texts_are_no_structure(
    text: bytes, shallow: Callable[[bytes], bytes]
) -> None:
    deep = b"[" * 200 + b'"%s"' % text + b"]" * 200
    assert (
        json.loads(shallow(b'["%s",%s,"%s"]' % (text, deep, text)))[::2]
        == [json.loads(b'"%s"' % text)] * 2
    )


@pytest.mark.parametrize("shallow", [shallow, decoding.shallow])
@pytest.mark.parametrize("text", [b"", b"[" * 5000, b"]" * 5000, b'"' * 5001, b"[" * 5000 + b'"'])
def test_what_is_no_json_becomes_none(text: bytes, shallow: Callable[[bytes], bytes]) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(shallow(text))
