"""Prometheus selectors: what they select, and what is refused."""

import pytest

from kubeshare_py.inventory.series_selectors import (
    SelectorProblem,
    parse_matchers,
    parse_selector,
    selects,
)

SERIES = {"__name__": "gpu_capacity", "job": "kubeshare-collector", "node": "a-1"}


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ("gpu_capacity", True),
        ("up", False),
        ('gpu_capacity{job="kubeshare-collector"}', True),
        ('gpu_capacity{job="other"}', False),
        ("gpu_capacity{job!='other', node=~`a-.`,}", True),
        ('gpu_capacity{node=~"a"}', False),
        ('gpu_capacity{node!~"b.*"}', True),
        ('gpu_capacity{absent=""}', True),
        ('gpu_capacity{absent!=""}', False),
        ('{__name__=~"gpu_capacity|up",job="kubeshare-collector"}', True),
        (' { __name__ =~ "gpu_.*" } ', True),
        ('gpu_capacity{node="a\\u002d1"}', True),
    ],
)
def test_selects(query: str, selected: bool) -> None:
    assert selects(parse_selector(query), SERIES) is selected


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", "1:1: parse error: no query"),
        ("{}", "1:1: parse error: vector selector must contain"),
        ('{job=~".*"}', "1:1: parse error: vector selector must contain"),
        ("gpu_capacity{", "1:13: parse error: unexpected end of input"),
        ("gpu_capacity{job=x}", "1:14: parse error: expected label"),
        ('gpu_capacity{job="x" node="y"}', "1:22: parse error: unexpected 'n'"),
        ('gpu_capacity{job=~"("}', "1:19: parse error: error parsing regexp"),
        ("sum(gpu_capacity)", "1:4: parse error: unexpected '('"),
    ],
)
def test_refuses_what_prometheus_refuses_and_what_is_no_selector(query: str, problem: str) -> None:
    with pytest.raises(SelectorProblem) as raised:
        parse_selector(query)
    assert str(raised.value).startswith(problem)


def test_the_conditions_alone_may_be_none() -> None:
    assert parse_matchers("") == ()
