"""The node agent's metrics, without those of its parts. Values in, a page out."""

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.exporters.metric import BUILD_INFO, Metric, Values, collector, registry

_NODE = ("node",)
CATALOGUE = (
    Metric(
        "kubeshare_node_agent_connected",
        "gauge",
        "1 while the API server answers the agent's watch of its pods, else 0.",
        _NODE,
    ),
    Metric("kubeshare_node_agent_cards", "gauge", "Cards that may be given to pods.", _NODE),
    Metric("kubeshare_node_agent_pods", "gauge", "Pods of the node that hold cards.", _NODE),
    Metric(
        "kubeshare_node_agent_unreadable_pods",
        "gauge",
        "Pods of the node whose allocation cannot be read; the log names them.",
        _NODE,
    ),
    Metric(
        "kubeshare_node_agent_enforces",
        "gauge",
        "1 for each isolation back-end that works because of the agent.",
        (*_NODE, "backend"),
    ),
    BUILD_INFO,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures:
    """What the agent knows of its node; None: not known yet.

    `pods` hold cards, `unreadable` are those whose allocation cannot be read, and `enforces` the
    back-ends that work because of the agent.
    """

    node: NodeName
    is_connected: bool
    cards: int | None = None
    pods: int | None = None
    unreadable: int | None = None
    enforces: Iterable[IsolationBackend] = ()


def agent_values(figures: AgentFigures) -> Values:
    """The values by metric; what is not known yet has none."""
    node = figures.node
    found: dict[str, dict[tuple[str, ...], float]] = {
        "kubeshare_node_agent_connected": {(node,): int(figures.is_connected)},
        "kubeshare_node_agent_enforces": {(node, one): 1 for one in figures.enforces},
    }
    for name, count in (
        ("kubeshare_node_agent_cards", figures.cards),
        ("kubeshare_node_agent_pods", figures.pods),
        ("kubeshare_node_agent_unreadable_pods", figures.unreadable),
    ):
        if count is not None:
            found[name] = {(node,): count}
    return found


def agent_page(
    figures: AgentFigures,
    parts: Iterable[tuple[tuple[Metric, ...], Values]],
    accept: str,
    process: Iterable[Collector] = (),
) -> tuple[bytes, str]:
    """The page in the format that `accept` prefers (an HTTP header), and its content type.

    `parts` are the metrics of the agent's parts with their values, `process` gives more.
    """
    encoder, content_type = choose_encoder(accept)
    given = registry(CATALOGUE, agent_values(figures))
    for metrics, values in parts:
        given.register(collector(metrics, values))
    for one in process:
        given.register(one)
    return encoder(given), content_type


# The metrics of the node agent's part that serves Gemini.


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


# The metrics of the node agent's part for HAMi-core.


HAMI_CORE = (
    Metric(
        "kubeshare_hami_core_regions",
        "gauge",
        "Containers whose shared region of HAMi-core can be read.",
        _NODE,
    ),
    Metric(
        "kubeshare_hami_core_unreadable_regions",
        "gauge",
        "Those whose region cannot be read; the log says which and why.",
        _NODE,
    ),
    Metric(
        "kubeshare_hami_core_folders_not_removed",
        "gauge",
        "Folders that containers left and that cannot be removed; the log says which and why.",
        _NODE,
    ),
)


def hami_core_values(node: NodeName, readable: int, unreadable: int, stay: int) -> Values:
    """The values by metric, in their order."""
    numbers = (readable, unreadable, stay)
    return {
        metric.name: {(node,): number} for metric, number in zip(HAMI_CORE, numbers, strict=True)
    }
