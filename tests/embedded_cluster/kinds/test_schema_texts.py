"""Patterns are Go's, and formats those that CustomResourceDefinitions may name."""

import pytest

from kubeshare_py.embedded_cluster.kinds.schemas import (
    is_formatted,
    matches,
    pattern_problem,
    recognised,
)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("b", "abc", True),
        ("[[:alpha:]]", "1", False),
        ("^[[:alpha:]_]+$", "a_", True),
        (r"^\d+\z", "12", True),
        ("^[$]$", "$", True),
        (r"a\$", "a$", True),
        ("^[^]a]$", "]", False),
        ("^[a[b]$", "[", True),
        ("(?i)^ABC$", "abc", True),
        (r"\p{Greek}", "anything, for Python does not know this", True),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern: str, text: str, found: bool) -> None:
    assert matches(pattern, text) is found
    assert pattern_problem(pattern) == ""


@pytest.mark.parametrize("pattern", ["(", "[a", "*"])
def test_what_is_no_pattern_says_so(pattern: str) -> None:
    assert pattern_problem(pattern).startswith("must be a valid regular expression, but isn't: ")


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("date-time", "2026-01-01T00:00:00.5+01:00", "2026-13-01T00:00:00Z"),
        ("date", "2024-02-29", "20240229"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.1.2.3/8", "10.0.0.0/33"),
        ("mac", "00:00:5e:00:53:01", "00:00"),
        ("uuid4", "5c1fe1e8-0000-4000-8000-000000000000", "5c1fe1e8-0000-1000-8000-000000000000"),
        ("byte", "aGk=", "aGk"),
        ("email", "a@example.com", "a"),
        ("hostname", "a.example.com", "-a"),
        ("uri", "https://example.com/x", "example"),
        ("duration", "1.5h", "1 fortnight!"),
        ("hexcolor", "#fff", "#ff"),
        ("rgbcolor", "rgb(1,2,255)", "rgb(1,2,256)"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a..b"),
    ],
)
def test_formats_are_checked(name: str, right: str, wrong: str) -> None:
    assert recognised({"type": "string", "format": name}) == name
    assert (is_formatted(right, name), is_formatted(wrong, name)) == (True, False)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("string", "odd"), ("integer", "date"), ("object", "date"), ("number", "int32")],
)
def test_formats_that_mean_nothing_for_a_type_are_passed_over(kind: str, name: str) -> None:
    assert recognised({"type": kind, "format": name}) == ""
