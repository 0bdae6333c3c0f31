"""The metrics of the node agent's part that serves Gemini."""

from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.metric_values import Values

_NODE = ("node",)
GEMINI = (
    Metric("kubeshare_gemini_pods", "gauge", "Pods with a line in Gemini's files.", _NODE),
    Metric(
        "kubeshare_gemini_unserved_pods",
        "gauge",
        "Pods with this back-end that have no line; the log says which and why.",
        _NODE,
    ),
    Metric(
        "kubeshare_gemini_schedulers",
        "gauge",
        "Cards whose gem-schd runs; absent where that is not known.",
        _NODE,
    ),
    Metric(
        "kubeshare_gemini_file_writes_total",
        "counter",
        "Files written since the agent was started, those that were right already not counted.",
        _NODE,
    ),
    Metric(
        "kubeshare_gemini_file_failures_total",
        "counter",
        "Times that files could not be written since the agent was started.",
        _NODE,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiFigures:
    """Numbers of one node; `schedulers` None: not known."""

    node: NodeName
    pods: int
    unserved: int
    schedulers: int | None
    writes: int
    failures: int


def gemini_values(figures: GeminiFigures) -> Values:
    """The values by metric."""
    numbers = (
        figures.pods,
        figures.unserved,
        figures.schedulers,
        figures.writes,
        figures.failures,
    )
    return {
        metric.name: {(figures.node,): number}
        for metric, number in zip(GEMINI, numbers, strict=True)
        if number is not None
    }
