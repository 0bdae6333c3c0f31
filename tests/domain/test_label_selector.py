"""Label selectors: what their texts and lines mean."""

import time

import pytest

from kubeshare_py.domain.cluster_objects import BadSelector, Requirement, all_hold, holds, parsed


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", ()),
        (" ", ()),
        ("a", (Requirement("a", "Exists"),)),
        ("! a", (Requirement("a", "DoesNotExist"),)),
        ("a=b", (Requirement("a", "In", ("b",)),)),
        ("a == b", (Requirement("a", "In", ("b",)),)),
        ("a=", (Requirement("a", "In", ("",)),)),
        ("a!=b", (Requirement("a", "NotIn", ("b",)),)),
        ("x.y/a in (b, c)", (Requirement("x.y/a", "In", ("b", "c")),)),
        ("a notin ()", (Requirement("a", "NotIn", ("",)),)),
        ("in in (in),notin", (Requirement("in", "In", ("in",)), Requirement("notin", "Exists"))),
    ],
)
def test_a_text_reads_as_requirements(text: str, requirements: tuple[Requirement, ...]) -> None:
    assert parsed(text) == requirements


#: A pattern that can match a space in two ways would try 2^2,000 of them.
LONG = 2 * ("a in (" + 2000 * ", " + "!)",)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a=b,", ""),
        ("a in (b", "a in (b"),
        ("a=b, c d", "c d"),
        ("a=-b", "a=-b"),
        ("a>1", "a>1"),
        LONG,
    ],
)
def test_what_is_no_selector_is_refused_with_its_bad_part(text: str, part: str) -> None:
    with pytest.raises(BadSelector) as refused:
        parsed(text)
    assert refused.value.part == part


@pytest.mark.parametrize(
    ("requirement", "with_b", "with_c", "without"),
    [
        (Requirement("a", "In", ("b", "x")), True, False, False),
        (Requirement("a", "NotIn", ("b", "x")), False, True, True),
        (Requirement("a", "In", ("",)), False, False, False),
        (Requirement("a", "NotIn", ("",)), True, True, True),
        (Requirement("a", "Exists"), True, True, False),
        (Requirement("a", "DoesNotExist"), False, False, True),
        (Requirement("a", "Gt", ("0",)), False, False, False),
        (Requirement("a", "Foo"), False, False, False),
    ],
)
def test_a_requirement_holds(
    requirement: Requirement, with_b: bool, with_c: bool, without: bool
) -> None:
    found = [holds(requirement, labels) for labels in ({"a": "b"}, {"a": "c"}, {"b": "b"})]
    assert found == [with_b, with_c, without]


def test_all_requirements_must_hold_and_none_select_everything() -> None:
    assert all_hold((), {})
    assert all_hold(parsed("a,b!=1"), {"a": "x"})
    assert not all_hold(parsed("a,b!=1"), {"a": "x", "b": "1"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["a," * 100_000, " " * 200_000 + "?", "a in (" + "b," * 100_000, "a in (b" + " " * 200_000],
    ids=["commas", "spaces", "values", "spaces between values"],
)
def test_a_long_text_takes_time_in_proportion(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BadSelector):
        parsed(text)
    # A tenth of a second; in time that grows with the square it would be minutes.
    assert time.process_time() - began < 5
