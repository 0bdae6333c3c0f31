"""A collector's page, read into the series that Prometheus would make of it.

Lines look the same in the text format and in OpenMetrics, which also marks where a page ends.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.printable import MAX_SAID, beginning, listed
from kubeshare_py.inventory import wiring_series
from kubeshare_py.inventory.series import CAPACITY, CARD_SERIES, CARDS, UP, Series

#: The last line of a page in OpenMetrics.
END = "# EOF"
#: The parser raises ValueError for a bad line, and the others for lines that it did not expect.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
_BEGINNINGS = tuple(f"{name}{after}" for name in CARD_SERIES for after in "{ ")
_WIRING = tuple(f"{name}{{" for name in wiring_series.WIRING_SERIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedPage:
    """A collector's answer: its series with `up`, or the problem with the whole page.

    `wiring` are the lines on the wiring of its cards: many, and nearly always the same.
    """

    vector: tuple[Series, ...]
    wiring: str = ""
    diagnostics: tuple[str, ...] = ()
    problem: str = ""


def read_page(text: str, node: NodeName, instance: str, *, has_end: bool = False) -> ScrapedPage:
    """Read the page of the collector on `node` at `instance` (`host:port`).

    A page that reports another node than its own, or no cards at all, is not a collector's. With
    `has_end`, a page without its last line is incomplete. Lines that cannot be read are named, and
    no card counts as gone because of them.
    """
    if has_end and not text.rstrip().endswith(END):
        return no_answer(node, instance, "its page is cut off")
    given = {"instance": instance}
    every = text.split("\n")
    lines = [(at, line) for at, line in enumerate(every, 1) if line.startswith(_BEGINNINGS)]
    if not any(line.startswith((CAPACITY, CARDS)) for _, line in lines):
        return no_answer(node, instance, f"its page has neither {CAPACITY} nor {CARDS}")
    vector = [Series({"__name__": UP, **given, "node": node}, 1.0)]
    diagnostics: list[str] = []
    for found in _series(lines, given):
        if isinstance(found, Series):
            vector.append(found)
        else:
            number, rule = found
            where = f"node {node}: line {number} of the page at {instance}"
            diagnostics.append(f"{where}: {beginning(rule, MAX_SAID)}")
    others = sorted({one.own("node") for one in vector} - {node, ""})
    if others:
        return no_answer(node, instance, f"it says that it is on {listed(others)}")
    cards = sum(line.startswith(CAPACITY) for _, line in lines)
    # KubeShare's collectors do not count their cards; listed but unreadable ones count too.
    vector.append(Series({"__name__": CARDS, **given, "node": node}, float(cards)))
    wiring = "\n".join(line for line in every if line.startswith(_WIRING))
    return ScrapedPage(vector=tuple(vector), wiring=wiring, diagnostics=tuple(diagnostics))


def wiring_of_page(text: str) -> Iterator[Series]:
    """The series of a page's `wiring`; lines that cannot be read are skipped."""
    lines = [*enumerate(text.split("\n"), 1)]
    return (found for found in _series(lines, {}) if isinstance(found, Series))


def no_answer(node: NodeName, instance: str, problem: str) -> ScrapedPage:
    """The page of a collector that gave none, or none that can be used."""
    return ScrapedPage(
        vector=(Series({"__name__": UP, "instance": instance, "node": node}, 0.0),),
        diagnostics=(f"node {node}: no answer of the collector at {instance}: {problem}",),
        problem=problem,
    )


def _series(
    lines: list[tuple[int, str]], given: dict[str, str]
) -> Iterator[Series | tuple[int, str]]:
    """The series of all lines; if they cannot be read together, line by line with the problems."""
    try:
        yield from _parsed("\n".join(line for _, line in lines), given)
    except _UNREADABLE:
        for number, line in lines:
            try:
                yield from _parsed(line, given)
            except ValueError as problem:
                yield number, str(problem)
            except _UNREADABLE:
                yield number, f"not a line of the text format: {line}"


def _parsed(text: str, given: dict[str, str]) -> list[Series]:
    return [
        Series({**sample.labels, "__name__": sample.name, **given}, _number(sample.value))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def _number(value: float) -> float:
    """The value as Prometheus reads it; the parser keeps whole numbers whole, however large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
