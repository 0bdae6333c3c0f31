"""The metrics of kubeshare-controller. Values in, a page out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.exporters.client_metrics import CLIENT_METRICS, leader_values
from kubeshare_py.exporters.metric import BUILD_INFO, Metric, Values, registry

OWN = (
    Metric(
        "kubeshare_controller_sharepods",
        "gauge",
        "SharePods by the phase of their pods; an empty phase: there is no pod yet.",
        ("phase",),
    ),
    Metric(
        "kubeshare_controller_failing_sharepods",
        "gauge",
        "SharePods whose condition Synced is False, by its reason.",
        ("reason",),
    ),
    Metric(
        "kubeshare_controller_requests_under_way",
        "gauge",
        "Writes to SharePods and pods that have no answer yet.",
    ),
    Metric(
        "kubeshare_controller_events_dropped_total",
        "counter",
        "Events about SharePods that were given up.",
    ),
)
CATALOGUE = (*OWN, *CLIENT_METRICS, BUILD_INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFigures:
    """The phase of each SharePod's pod, the reason of each that fails, requests, events."""

    phases: tuple[str, ...]
    failing: tuple[str, ...]
    under_way: int
    dropped: int


def controller_page(
    figures: ControllerFigures,
    leader: LeaderFigures | None,
    requests: Values,
    accept: str,
    process: Iterable[Collector] = (),
) -> tuple[bytes, str]:
    """The page in the format that `accept` prefers (an HTTP header), and its content type.

    `requests` are the client's values, and `process` gives more.
    """
    encoder, content_type = choose_encoder(accept)
    values: Values = {
        "kubeshare_controller_sharepods": _counts(figures.phases),
        "kubeshare_controller_failing_sharepods": _counts(figures.failing),
        "kubeshare_controller_requests_under_way": {(): figures.under_way},
        "kubeshare_controller_events_dropped_total": {(): figures.dropped},
        **requests,
        **leader_values(leader),
    }
    given = registry(CATALOGUE, values)
    for one in process:
        given.register(one)
    return encoder(given), content_type


def _counts(found: Iterable[str]) -> dict[tuple[str, ...], float]:
    return {(one,): count for one, count in sorted(Counter(found).items())}
