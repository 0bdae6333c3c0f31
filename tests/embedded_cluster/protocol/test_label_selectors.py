"""LabelSelector objects: whom they select, and how they read."""

from typing import Any

import pytest

from kubeshare_py.embedded_cluster.protocol.checks import Checked
from kubeshare_py.embedded_cluster.protocol.selectors import check_selector, selector_text, selects


def needs(key: str, operator: str, *values: str) -> dict[str, Any]:
    given = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **given}]}


@pytest.mark.parametrize(
    ("selector", "matched", "others"),
    [
        (None, [], [{}, {"a": "b"}]),
        ({}, [{}, {"a": "b"}], []),
        ({"matchLabels": {"a": "b"}}, [{"a": "b", "c": "d"}], [{}, {"a": "c"}]),
        (needs("a", "In", "b", "c"), [{"a": "c"}], [{}, {"a": "d"}]),
        (needs("a", "NotIn", "b"), [{}, {"a": "c"}], [{"a": "b"}]),
        (needs("a", "Exists"), [{"a": ""}], [{}]),
        (needs("a", "DoesNotExist"), [{}], [{"a": ""}]),
        ({"matchLabels": {"a": "b"}, **needs("c", "Exists")}, [{"a": "b", "c": ""}], [{"a": "b"}]),
    ],
)
def test_all_requirements_must_hold(
    selector: dict[str, Any] | None, matched: list[dict[str, str]], others: list[dict[str, str]]
) -> None:
    matches = selects(selector)
    assert all(matches(labels) for labels in matched)
    assert not any(matches(labels) for labels in others)


def test_it_reads_as_a_query_takes_it() -> None:
    expressions = [
        *needs("d", "In", "y", "x")["matchExpressions"],
        *needs("c", "NotIn", "z")["matchExpressions"],
        *needs("e", "Exists")["matchExpressions"],
        *needs("b", "DoesNotExist")["matchExpressions"],
    ]
    selector = {"matchLabels": {"a": "1"}, "matchExpressions": expressions}
    assert selector_text(selector) == "a=1,!b,c notin (z),d in (x,y),e"
    assert selector_text(None) == ""


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({"matchLabels": {"a!": "b"}}, "s.matchLabels"),
        (needs("a", "In"), "s.matchExpressions[0].values"),
        (needs("a", "Exists", "b"), "s.matchExpressions[0].values"),
        (needs("a", "Foo"), "s.matchExpressions[0].operator"),
        (needs("a!", "Exists"), "s.matchExpressions[0].key"),
    ],
)
def test_what_is_wrong_is_named(selector: dict[str, Any], field: str) -> None:
    checked = Checked(selector, "s")
    check_selector(checked)
    assert [cause.field for cause in checked.causes] == [field]
