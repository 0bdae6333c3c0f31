"""JSON of SharePods in one form, however deep users nest it."""

import msgspec
import pytest

from kubeshare_py.manifests.decoding import MAX_DEPTH
from kubeshare_py.manifests.share_pods import bounded, canonical, decoded_object, hash_of


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_equal_values_are_equal_bytes() -> None:
    assert canonical({"b": 1, "a": [{"d": None, "c": 2}], "e": None}) == b'{"a":[{"c":2}],"b":1}'
    assert hash_of({"a": 1, "b": None}) == hash_of({"a": 1})


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 300, 700, 990, 9_999])
def test_what_is_nested_deep_is_null_and_can_be_written_again(levels: int) -> None:
    """A user's SharePod must not end the controller: kube-apiserver accepts 10,000 levels."""
    found = decoded_object(b'{"deep":%s,"beside":1}' % nested(levels))
    assert found["beside"] == 1
    assert msgspec.json.encode(found)
    assert canonical(found).count(b"{") <= MAX_DEPTH


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"1", b"{", b'{"a":', b"\xff"])
def test_what_is_no_object_is_an_empty_one(text: bytes) -> None:
    assert decoded_object(text) == {}


def test_what_is_not_deep_stays_as_it_is() -> None:
    text = b'{"a":[%s]}' % b",".join([b"{}"] * 100)
    assert bounded(text) == text
