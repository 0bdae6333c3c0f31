"""msgspec's errors in words: the place first, then the rule, the value and the choices."""

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from kubeshare_py.configuration.fields import (
    explained,
    label_problem,
    label_selector_problem,
    one_of,
    subdomain_problem,
    url_problem,
)


class _Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    colour: _Colour = _Colour.RED
    size: int = 0


class _Whole(msgspec.Struct, forbid_unknown_fields=True):
    parts: tuple[_Part, ...] = ()
    spare: _Part | None = None
    by_name: dict[str, _Part] = {}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"part": 1}, "part: no such field; there are parts, spare, by_name"),
        ({"parts": [{"colour": "pink"}]}, "parts[0].colour: must be red or blue, not 'pink'"),
        ({"spare": {"colour": "pink"}}, "spare.colour: must be red or blue, not 'pink'"),
        ({"spare": {"color": "red"}}, "spare.color: no such field; there are colour, size"),
        ({"parts": [{"size": "1"}]}, "parts[0].size: Expected `int`, got `str` ('1')"),
        ([], "document: Expected `object`, got `array`"),
    ],
)
def test_an_error_names_its_place_and_what_may_be_there(document: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(document, _Whole)
    assert explained(str(caught.value), document, _Whole) == said


def test_two_choices_are_joined_by_or_and_more_are_listed() -> None:
    assert one_of(["a", "b"]) == "a or b"
    assert one_of(["a", "b", "c"]) == "one of a, b, c"


@pytest.mark.parametrize(
    "url",
    [
        *("http://prometheus:9090", "https://prometheus", "http://[::1]:9090/", "http://10.0.0.1"),
        *("https://user:secret@host:443/prometheus/", "http://prometheus-k8s.monitoring:9090/a/b"),
    ],
)
def test_addresses_of_servers(url: str) -> None:
    assert url_problem(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        *("", "prometheus:9090", "//prometheus", "ftp://prometheus", "http://", "http://:9090"),
        *("http://prometheus:port", "http://prometheus:99999", "http://a b", "http://a/?query=x"),
    ],
)
def test_what_is_no_address_is_repeated_beside_an_example(url: str) -> None:
    assert url_problem(url) == (
        f"must be a URL such as http://prometheus-k8s.monitoring:9090, not {url!r}"
    )


@pytest.mark.parametrize("text", ["a", "kube-system", "1a", "a" * 63])
def test_names_of_namespaces(text: str) -> None:
    assert label_problem(text) == subdomain_problem(text) == ""


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a b", "ä", "a" * 254, "a..b"])
def test_what_is_no_name(text: str) -> None:
    assert repr(text) in label_problem(text)
    assert repr(text) in subdomain_problem(text)


def test_only_subdomains_have_dots() -> None:
    assert label_problem("a.b") != ""
    assert subdomain_problem("a.b") == ""


@pytest.mark.parametrize(
    "selector",
    [
        *("a", "!a", "a=b", "a==b", "a!=b", "a=", "a = b , c", "a in (b)", "a notin (b, c),d"),
        *("app.kubernetes.io/name=kubeshare-collector", "a in (b,c),!d/e,f"),
    ],
)
def test_label_selectors(selector: str) -> None:
    assert label_selector_problem(selector) == ""


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        *(("a in (b", "a in (b"), ("a in b", "a in b"), ("a=b=c", "a=b=c"), ("a,,b", "")),
        *(("a=b,c d", "c d"), ("a=-b", "a=-b"), ("/a", "/a"), ("A/b/c", "A/b/c"), ("a~b", "a~b")),
    ],
)
def test_what_is_no_label_selector_is_told_with_its_bad_part(selector: str, part: str) -> None:
    found = label_selector_problem(selector)
    assert found.startswith(f"cannot be parsed at {part!r}: ")
    assert found.endswith(f", not {selector!r}")
