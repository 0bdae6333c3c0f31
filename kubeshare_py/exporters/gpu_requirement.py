"""KubeShare 2.0's `gpu_requirement`: one series for each running pod with a part of a card.

Names, labels and their order, rules and defaults are those of its aggregator (pkg/aggregator of
github.com/NTHU-LSALab/KubeShare, release-2.0), and so is the value, the Unix time of the scrape.
KubeShare reads the pod's labels and environment; the allocation says what the pod got. Rendered
here for the same reasons as `gpu_capacity`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.quantity import as_decimal
from kubeshare_py.exporters.metric import (
    BUILD_INFO,
    Build,
    Metric,
    build_values,
    gauges,
    head,
    label_text,
)

PATH = "/kubeshare-aggregator"
METRIC = Metric(
    "gpu_requirement",
    "counter",
    "Running pods with a part of a card, at the Unix time of the scrape.",
    (
        *("namespace", "pod", "pod_id", "node", "group_name", "min_available", "limit", "request"),
        *("memory", "cell_id", "uuid", "port"),
    ),
)
_CARD = ("node", "uuid")
_SUMS = (
    Metric("kubeshare_aggregator_pods", "gauge", "Pods that hold a part of a card.", _CARD),
    Metric(
        "kubeshare_aggregator_request_ratio",
        "gauge",
        "What these pods are charged of its time together, 1 for the whole card.",
        _CARD,
    ),
    Metric(
        "kubeshare_aggregator_limit_ratio",
        "gauge",
        "Their limits of its time together, 1 for a pod without a limit.",
        _CARD,
    ),
    Metric(
        "kubeshare_aggregator_memory_bytes",
        "gauge",
        "What they are charged of its memory together.",
        _CARD,
    ),
)
#: Everything on the aggregator's page.
CATALOGUE = (METRIC, *_SUMS, BUILD_INFO)
#: A card's whole time, in milli.
_WHOLE = 1000
#: What a pod holds that has no allocation.
_NOTHING = Allocation(token=DecisionToken(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiringPod:
    """A bound pod that has not ended, with what its annotations give it.

    `is_required`: it runs, by the scheduler in question, and has a `sharedgpu/gpu_limit`: only then
    it has a series. `min_available` is its label of that name, "" for none.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    allocation: Allocation | None = None
    is_required: bool = False
    min_available: str = ""


def requirement_page(pods: Iterable[RequiringPod], now: float, build: Build) -> str:
    """The page in Prometheus' text format; `now` is the Unix time of the scrape in seconds."""
    pods = sorted(pods, key=lambda one: (one.key, one.uid))
    lines = [
        f"{METRIC.name}{label_text(METRIC.labels, _labels(one))} {int(now)}\n"
        for one in pods
        if one.is_required
    ]
    values = {**card_sums(pods), **_floats(build)}
    return "".join([head(METRIC), *lines, gauges((*_SUMS, BUILD_INFO), values)])


def card_sums(pods: Iterable[RequiringPod]) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """What the pods hold of each card together, by metric and by node and uuid."""
    found: dict[tuple[NodeName, GpuUuid], list[int]] = {}
    for pod in pods:
        if pod.allocation is None:
            continue
        limit = _limit_of_card(pod.allocation)
        for card in pod.allocation.cards:
            sums = found.setdefault((pod.node, card.uuid), [0, 0, 0, 0])
            for place, amount in enumerate((1, card.milli, limit, card.memory_bytes)):
                sums[place] += amount
    units = (1, _WHOLE, _WHOLE, 1)
    return {
        metric.name: {card: found[card][place] / unit for card in sorted(found)}
        for place, (metric, unit) in enumerate(zip(_SUMS, units, strict=True))
    }


def _labels(pod: RequiringPod) -> tuple[str, ...]:
    """The values of gpu_requirement's labels."""
    held = pod.allocation or _NOTHING
    cards = held.cards
    request = sum(card.milli for card in cards)
    limit = _limit_of_card(held) * len(cards)
    return (
        pod.key.namespace,
        pod.key.name,
        pod.uid,
        pod.node,
        held.group or str(pod.key),
        pod.min_available or "1",
        as_decimal(limit),
        as_decimal(request),
        str(held.memory_bytes),
        ",".join(card.cell for card in cards) if any(card.cell for card in cards) else "",
        ",".join(card.uuid for card in cards),
        str(held.port or 0),
    )


def _limit_of_card(allocation: Allocation) -> int:
    """The limit of time on each of its cards, in milli; that of the whole card if it has none."""
    if allocation.exclusive or allocation.isolation is None:
        return _WHOLE
    return allocation.isolation.limit_milli or _WHOLE


def _floats(build: Build) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    [(name, values)] = build_values(build).items()
    return {name: dict.fromkeys(values, 1.0)}
