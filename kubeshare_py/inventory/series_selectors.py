"""Prometheus series selectors: `name{label="value", other=~"regex"}`.

Syntax: https://prometheus.io/docs/prometheus/latest/querying/basics/#time-series-selectors. Regular
expressions are anchored at both ends, as there; Python's dialect stands in for RE2.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_MATCHER = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*
    ("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*""",
    re.VERBOSE,
)


class SelectorProblem(ValueError):
    """Prometheus would refuse the selector because of `rule`, at character `position` from 1."""

    def __init__(self, position: int, rule: str) -> None:
        self.position = position
        self.rule = rule
        super().__init__(f"1:{position}: parse error: {rule}")


class Comparison(StrEnum):
    """How a matcher compares."""

    EQUAL = "="
    UNEQUAL = "!="
    MATCHING = "=~"
    NOT_MATCHING = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label; an absent label counts as an empty one."""

    label: str
    comparison: Comparison
    value: str

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether this condition holds for a series with these labels."""
        text = labels.get(self.label, "")
        match self.comparison:
            case Comparison.EQUAL:
                return text == self.value
            case Comparison.UNEQUAL:
                return text != self.value
            case Comparison.MATCHING:
                return re.fullmatch(self.value, text) is not None
            case Comparison.NOT_MATCHING:
                return re.fullmatch(self.value, text) is None


def selects(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether all conditions hold."""
    return all(matcher.accepts(labels) for matcher in matchers)


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The conditions of an instant vector selector, the metric's name being one on `__name__`.

    Raises SelectorProblem, also for a selector that would select everything.
    """
    found = _NAME.match(text)
    matchers: tuple[Matcher, ...] = ()
    if found:
        matchers = (Matcher("__name__", Comparison.EQUAL, found[1]),)
    at = found.end() if found else len(text) - len(text.lstrip())
    rest = text[at:].rstrip()
    if rest:
        if not rest.startswith("{"):
            raise SelectorProblem(at + 1, f"unexpected {rest[0]!r}")
        if not rest.endswith("}"):
            raise SelectorProblem(at + len(rest), "unexpected end of input inside braces")
        matchers += parse_matchers(rest[1:-1], at + 1)
    if not any(not matcher.accepts({}) for matcher in matchers):
        raise SelectorProblem(
            1, "vector selector must contain at least one non-empty matcher" if rest else "no query"
        )
    return matchers


def parse_matchers(text: str, offset: int = 0) -> tuple[Matcher, ...]:
    """The conditions between the braces of a selector; raises SelectorProblem."""
    matchers: list[Matcher] = []
    at = 0
    while text[at:].strip():
        found = _MATCHER.match(text, at)
        if found is None:
            raise SelectorProblem(offset + at + 1, "expected label, operator and quoted value")
        matchers.append(_matcher(found, offset))
        at = found.end()
        if at < len(text):
            if text[at] != ",":
                raise SelectorProblem(offset + at + 1, f"unexpected {text[at]!r}")
            at += 1
    return tuple(matchers)


def _matcher(found: re.Match[str], offset: int) -> Matcher:
    label, comparison, quoted = found.groups()
    value = quoted[1:-1] if quoted[0] == "`" else str(ast.literal_eval(quoted))
    if "~" in comparison:
        try:
            re.compile(value)
        except re.error as problem:
            position = offset + found.start(3) + 1
            raise SelectorProblem(position, f"error parsing regexp: {problem}") from problem
    return Matcher(label, Comparison(comparison), value)
