"""Answers of Prometheus' HTTP API over the series of a simulated cluster.

Only plain selectors are supported, no functions or operators; each series has one value, now.
Forms: https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubeshare_py.exporters.gpu_capacity import Sample
from kubeshare_py.inventory.series_selectors import (
    Matcher,
    SelectorProblem,
    parse_selector,
    selects,
)

OK, BAD_REQUEST = 200, 400
#: Prometheus refuses range queries with more points per series.
MAX_POINTS = 11_000


@dataclass(frozen=True, slots=True)
class PrometheusAnswer:
    """HTTP status and JSON body."""

    status: int
    body: dict[str, Any]


def query(text: str | None, series: Iterable[Sample], now: float) -> PrometheusAnswer:
    """`/api/v1/query`: an instant vector."""
    try:
        matchers = _selector("query", text)
    except _BadData as problem:
        return _refused(problem)
    return _good(
        {
            "resultType": "vector",
            "result": [
                {"metric": sample.labels, "value": [now, str(sample.value)]}
                for sample in _selected([matchers], series)
            ],
        }
    )


def query_range(
    text: str | None, times: tuple[str, str, str], series: Iterable[Sample]
) -> PrometheusAnswer:
    """`/api/v1/query_range` with `times` = start, end and step: today's value at every step."""
    try:
        matchers = _selector("query", text)
        points = _points(*times)
    except _BadData as problem:
        return _refused(problem)
    return _good(
        {
            "resultType": "matrix",
            "result": [
                {"metric": sample.labels, "values": [[at, str(sample.value)] for at in points]}
                for sample in _selected([matchers], series)
            ],
        }
    )


def series_list(texts: Sequence[str], series: Iterable[Sample]) -> PrometheusAnswer:
    """`/api/v1/series`: labels of what any of the `match[]` selectors selects."""
    try:
        if not texts:
            raise _BadData("no match[] parameter provided")
        selectors = [_selector("match[]", text) for text in texts]
    except _BadData as problem:
        return _refused(problem)
    return _good([sample.labels for sample in _selected(selectors, series)])


class _BadData(ValueError):
    """Prometheus' error type `bad_data`."""


def _good(data: object) -> PrometheusAnswer:
    return PrometheusAnswer(OK, {"status": "success", "data": data})


def _refused(problem: _BadData) -> PrometheusAnswer:
    return PrometheusAnswer(
        BAD_REQUEST, {"status": "error", "errorType": "bad_data", "error": str(problem)}
    )


def _selector(parameter: str, text: str | None) -> tuple[Matcher, ...]:
    try:
        return parse_selector(text or "")
    except SelectorProblem as problem:
        raise _BadData(f'invalid parameter "{parameter}": {problem}') from problem


def _selected(
    selectors: Sequence[tuple[Matcher, ...]], series: Iterable[Sample]
) -> Iterator[Sample]:
    for sample in series:
        if any(selects(matchers, sample.labels) for matchers in selectors):
            yield sample


def _points(start: str, end: str, step: str) -> list[float]:
    numbers: list[float] = []
    for parameter, text in (("start", start), ("end", end), ("step", step)):
        try:
            numbers.append(float(text.removesuffix("s") if parameter == "step" else text))
        except ValueError as problem:
            raise _BadData(
                f'invalid parameter "{parameter}": cannot parse "{text}" to a valid value'
            ) from problem
    first, last, width = numbers
    if width <= 0:
        raise _BadData('invalid parameter "step": zero or negative handling is not accepted')
    if last < first:
        raise _BadData('invalid parameter "end": end timestamp must not be before start time')
    if (last - first) / width > MAX_POINTS:
        raise _BadData(f"exceeded maximum resolution of {MAX_POINTS:,} points per timeseries")
    return [first + number * width for number in range(int((last - first) / width) + 1)]
