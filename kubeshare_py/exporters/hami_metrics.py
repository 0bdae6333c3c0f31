"""HAMi's metrics of its scheduler, from this ledger, so that its dashboards go on working.

Names, labels and units are those of HAMi 2.10 (cmd/scheduler/metrics.go), with the label
`zone="vGPU"` on each series; the older names are those of HAMi's `--legacy-metrics` and of the
4paradigm scheduler before it. What is not known has no series, and is never 0. Rendered here for
the same reasons as the metrics of cards.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from kubeshare_py.exporters.metric import (
    HAMI_BUILD_INFO,
    Build,
    Metric,
    hami_build_text,
    head,
    label_text,
)
from kubeshare_py.views.figures import HeldPart, QuotaUse, SharedCard

_CARD = ("node", "device_uuid", "device_index", "device_type")
_CORES = ("node", "device_uuid", "device_index", "device_cores", "device_type")
_PART = ("namespace", "node", "pod", "container_index", "device_uuid")
_MIG = ("node", "device_uuid", "device_index", "mig_uuid", "profile")
_QUOTA = ("namespace", "quota_name")
_ZONE = "zone"
#: Lines of a piece of the text.
_LINES = 1000
#: At the end of an instance's model, as in NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.
_PROFILE = re.compile(r"([0-9]+c[.])?[0-9]+g[.][0-9]+gb([+-][a-z.+-]+)?$")

_METRICS = (
    Metric("hami_gpu_memory_limit_bytes", "gauge", "Memory that pods may hold of a card.", _CARD),
    Metric("hami_gpu_memory_allocated_bytes", "gauge", "Memory that pods hold of a card.", _CORES),
    Metric("hami_gpu_core_limit_ratio", "gauge", "Time of a card in percent: 100.", _CARD),
    Metric(
        "hami_gpu_core_allocated_ratio",
        "gauge",
        "Time that pods hold of a card, in percent.",
        _CARD,
    ),
    Metric("hami_gpu_shared_count", "gauge", "Pods on a card.", _CARD),
    Metric(
        "hami_node_gpu_overview",
        "gauge",
        "Memory that pods hold of a card; the label device_memory_limit is in MiB.",
        (
            "node",
            "device_uuid",
            "device_index",
            "device_cores",
            "device_memory_limit",
            "device_type",
        ),
    ),
    Metric(
        "hami_node_gpu_memory_allocated_ratio",
        "gauge",
        "Part of a card's memory that pods hold, 0 to 1.",
        _CARD,
    ),
    Metric("hami_node_gpu_mig_instance_info", "gauge", "1 for each MIG instance.", _MIG),
    Metric(
        "hami_vgpu_memory_allocated_bytes", "gauge", "Memory that a pod holds of a card.", _PART
    ),
    Metric(
        "hami_vgpu_core_allocated_ratio",
        "gauge",
        "Time that a pod holds of a card, in percent.",
        _PART,
    ),
    Metric(
        "hami_resource_quota_used",
        "gauge",
        "What pods of a namespace hold, in units of its quota.",
        (*_QUOTA, "limit"),
    ),
    Metric(
        "hami_resource_quota_limit",
        "gauge",
        "The smallest limit of a namespace's quotas without scopes; absent without one.",
        _QUOTA,
    ),
)
#: The older names of labels in their order, and what these are called now.
_OLD_CARD = {"nodeid": "node", "deviceuuid": "device_uuid", "deviceidx": "device_index"}
_OLD_TYPED = {**_OLD_CARD, "devicetype": "device_type"}
_OLD_CORES = {**_OLD_CARD, "devicecores": "device_cores", "devicetype": "device_type"}
_OLD_OVERVIEW = {
    **_OLD_CARD,
    "devicecores": "device_cores",
    "devicememorylimit": "device_memory_limit",
    "devicetype": "device_type",
}
_OLD_PART = {
    "podnamespace": "namespace",
    "nodename": "node",
    "podname": "pod",
    "containeridx": "container_index",
    "deviceuuid": "device_uuid",
}
#: The older names of metrics: what each is called now, and its labels.
_LEGACY: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "GPUDeviceMemoryLimit": ("hami_gpu_memory_limit_bytes", _OLD_TYPED),
    "GPUDeviceCoreLimit": ("hami_gpu_core_limit_ratio", _OLD_TYPED),
    "GPUDeviceMemoryAllocated": ("hami_gpu_memory_allocated_bytes", _OLD_CORES),
    "GPUDeviceSharedNum": ("hami_gpu_shared_count", _OLD_TYPED),
    "GPUDeviceCoreAllocated": ("hami_gpu_core_allocated_ratio", _OLD_TYPED),
    "nodeGPUOverview": ("hami_node_gpu_overview", _OLD_OVERVIEW),
    "nodeGPUMemoryPercentage": ("hami_node_gpu_memory_allocated_ratio", _OLD_CARD),
    "vGPUMemoryAllocated": ("hami_vgpu_memory_allocated_bytes", _OLD_PART),
    "vGPUCoreAllocated": ("hami_vgpu_core_allocated_ratio", _OLD_PART),
    "QuotaUsed": (
        "hami_resource_quota_used",
        {"quotanamespace": "namespace", "quotaName": "quota_name", "limit": "limit"},
    ),
    # The 4paradigm scheduler's own name for the same value.
    "vGPUCorePercentage": ("hami_vgpu_core_allocated_ratio", _OLD_PART),
}
#: Metrics that only the 4paradigm scheduler had.
_SEED = (
    Metric(
        "vGPUPodsDeviceAllocated",
        "gauge",
        "Memory that a pod holds of a card; the label deviceusedcore is in percent.",
        (*_OLD_PART, "deviceusedcore"),
    ),
    Metric(
        "vGPUMemoryPercentage",
        "gauge",
        "Part of a card's memory that a pod holds, 0 to 1.",
        tuple(_OLD_PART),
    ),
)
_OLD = tuple(
    Metric(old, "gauge", f"An older name of {current}.", tuple(labels))
    for old, (current, labels) in _LEGACY.items()
)
#: All metrics with all their labels: the current ones, then the older ones.
CATALOGUE = (
    *(
        Metric(one.name, one.kind, one.help, (*one.labels, _ZONE))
        for one in (*_METRICS, *_OLD, *_SEED)
    ),
    HAMI_BUILD_INFO,
)
#: The names of those that are only there if the older ones are wanted.
LEGACY_NAMES = frozenset(one.name for one in (*_OLD, *_SEED))
_LABELS = {metric.name: metric.labels for metric in CATALOGUE}


def _older(current: Metric) -> list[tuple[str, tuple[int, ...]]]:
    """The older names of a metric, and where each of their labels is among the current ones."""
    return [
        (old, tuple(current.labels.index(label) for label in labels.values()))
        for old, (name, labels) in _LEGACY.items()
        if name == current.name
    ]


_OLDER = {metric.name: _older(metric) for metric in _METRICS}

_HamiSeries = tuple[str, tuple[str, ...], float]


class HamiSchedulerPage:
    """Collects portions of cards and quotas; `chunks` is the text, one metric after the other.

    The text can be had once.
    """

    def __init__(self, build: Build, *, legacy: bool) -> None:
        """With `legacy`, each series is there under its older names too."""
        self._build = build
        self._legacy = legacy
        self._parts: dict[str, list[str]] = {metric.name: [] for metric in CATALOGUE}

    def add(self, cards: Iterable[SharedCard], parts: Iterable[HeldPart]) -> None:
        """Render some cards and what pods hold of them; about 10 µs for each series."""
        for card in cards:
            for series in _of_card(card):
                self._add(series)
        for part in parts:
            for series in _of_part(part):
                self._add(series)
            if self._legacy:
                self._add_seed(part)

    def add_quotas(self, uses: Iterable[QuotaUse]) -> None:
        """Render what some namespaces hold and may hold; about 20 µs for each."""
        for use in uses:
            for series in _of_quota(use):
                self._add(series)

    def chunks(self) -> Iterable[bytes]:
        """The text in pieces of at most some hundred kilobytes, so that none takes long."""
        for metric in CATALOGUE:
            lines = self._parts.pop(metric.name)
            if lines:
                yield head(metric).encode()
            for start in range(0, len(lines), _LINES):
                yield "".join(lines[start : start + _LINES]).encode()
        yield hami_build_text(self._build).encode()

    def _add(self, series: _HamiSeries) -> None:
        name, labels, value = series
        self._line(name, labels, value)
        for old, places in _OLDER[name] if self._legacy else ():
            self._line(old, tuple(labels[place] for place in places), value)

    def _add_seed(self, part: HeldPart) -> None:
        labels = (part.namespace, part.of.node, part.pod, "0", part.of.uuid)
        used = (*labels, f"{part.milli / 10:g}")
        self._line("vGPUPodsDeviceAllocated", used, part.memory_bytes)
        if part.of.capacity_bytes:
            self._line("vGPUMemoryPercentage", labels, part.memory_bytes / part.of.capacity_bytes)

    def _line(self, name: str, labels: tuple[str, ...], value: float) -> None:
        text = label_text(_LABELS[name], (*labels, "vGPU"))
        self._parts[name].append(f"{name}{text} {value:.15g}\n")


def _of_card(card: SharedCard) -> Iterator[_HamiSeries]:
    index = "" if card.index is None else str(card.index)
    labels = (card.node, card.uuid, index, card.model)
    cores, known = f"{card.capacity_milli / 10:g}", card.index is not None
    with_cores = (card.node, card.uuid, index, cores, card.model)
    mebibytes = str(card.capacity_bytes >> 20)
    overview = (card.node, card.uuid, index, cores, mebibytes, card.model)
    yield "hami_gpu_memory_allocated_bytes", with_cores, card.allocated_bytes
    yield "hami_gpu_core_allocated_ratio", labels, card.allocated_milli / 10
    yield "hami_gpu_shared_count", labels, card.tenants
    if not known:
        return
    yield "hami_gpu_memory_limit_bytes", labels, card.capacity_bytes
    yield "hami_gpu_core_limit_ratio", labels, card.capacity_milli / 10
    yield "hami_node_gpu_overview", overview, card.allocated_bytes
    if card.capacity_bytes:
        ratio = card.allocated_bytes / card.capacity_bytes
        yield "hami_node_gpu_memory_allocated_ratio", labels, ratio
    if card.parent is not None:
        instance = (card.node, card.parent, index, card.uuid, _profile(card.model))
        yield "hami_node_gpu_mig_instance_info", instance, 1


def _of_part(part: HeldPart) -> Iterator[_HamiSeries]:
    labels = (part.namespace, part.of.node, part.pod, "0", part.of.uuid)
    yield "hami_vgpu_memory_allocated_bytes", labels, part.memory_bytes
    yield "hami_vgpu_core_allocated_ratio", labels, part.milli / 10


def _of_quota(use: QuotaUse) -> Iterator[_HamiSeries]:
    """The used amount and the limit of one quota, in its units; use may be a part of a unit."""
    labels = (use.namespace, use.resource)
    limit = "" if use.limit is None else str(use.limit)
    yield "hami_resource_quota_used", (*labels, limit), use.used / use.unit
    if use.limit is not None:
        yield "hami_resource_quota_limit", labels, use.limit


def _profile(model: str) -> str:
    """A MIG instance's profile, such as 1g.5gb; its model if that does not say it."""
    found = _PROFILE.search(model)
    return found[0] if found else model
