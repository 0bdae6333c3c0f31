"""HAMi's metrics of one node, for its dashboards. Values in, a page out.

Names and labels are those of HAMi's monitor (cmd/vGPUmonitor/metrics.go of
github.com/Project-HAMi/HAMi, v2.10.0), where all series have `zone="vGPU"` and what is called a
ratio is in hundredths. What is not known has no series; there it is 0.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.exporters.metric import Metric, gauges

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ZONE = "vGPU"

_CARD = ("zone", "device_index", "device_uuid", "device_type")
_USE = ("zone", "namespace", "pod", "container", "vdevice_index", "device_uuid")
_OLD_CARD = ("zone", "nodeid", "deviceidx", "deviceuuid", "devicetype")
_OLD_USE = ("zone", "podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")


def _of_card(name: str, text: str, labels: tuple[str, ...] = (*_CARD, "node")) -> Metric:
    return Metric(name, "gauge", text, labels)


def _of_use(name: str, text: str, labels: tuple[str, ...] = _USE) -> Metric:
    return Metric(name, "gauge", text, labels)


CATALOGUE = (
    _of_card("hami_host_gpu_memory_used_bytes", "Memory of a card that is used."),
    _of_card(
        "hami_host_gpu_utilization_ratio",
        "Hundredths of the time in which a kernel ran on a card.",
    ),
    _of_card(
        "hami_host_gpu_memory_controller_utilization_ratio",
        "Hundredths of the time in which a card's memory was read or written.",
        _CARD,
    ),
    _of_use("hami_vgpu_memory_used_bytes", "Memory that a container uses of a card."),
    _of_use("hami_vgpu_memory_limit_bytes", "Memory that it may use; absent without a limit."),
    _of_use("hami_container_device_memory_bytes", "The same as hami_vgpu_memory_used_bytes."),
    _of_use(
        "hami_container_device_utilization_ratio",
        "Hundredths of the card's time in which kernels of a container ran.",
    ),
    _of_use(
        "hami_container_last_kernel_elapsed_seconds", "Since a container last started a kernel."
    ),
    _of_use("hami_vgpu_memory_context_bytes", "Of the used memory, that of CUDA contexts."),
    _of_use("hami_vgpu_memory_module_bytes", "Of the used memory, that of modules."),
    _of_use("hami_vgpu_memory_buffer_bytes", "Of the used memory, what was allocated."),
)
#: Those of HAMi before v2.9, and of 4paradigm's scheduler.
LEGACY = (
    _of_card("HostGPUMemoryUsage", "Memory of a card that is used, in bytes.", _OLD_CARD),
    _of_card("HostCoreUtilization", "Hundredths of the time in which a kernel ran.", _OLD_CARD),
    _of_use("vGPU_device_memory_usage_in_bytes", "Memory that a container uses.", _OLD_USE),
    _of_use("vGPU_device_memory_limit_in_bytes", "Memory that it may use.", _OLD_USE),
    _of_use(
        "Device_memory_desc_of_container",
        "Memory that a container uses, in bytes, and its parts as labels.",
        (*_OLD_USE, "context", "module", "data", "offset"),
    ),
    _of_use(
        "Device_utilization_desc_of_container",
        "Hundredths of the card's time in which kernels of a container ran.",
        _OLD_USE,
    ),
    _of_use(
        "Device_last_kernel_of_container",
        "Seconds since a container last started a kernel.",
        _OLD_USE,
    ),
)

_Samples = Iterator[tuple[str, tuple[str, ...], float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiCard:
    """A whole card; None is not known."""

    index: int
    uuid: str
    model: str
    used_bytes: int | None = None
    busy_percent: int | None = None
    copying_percent: int | None = None

    @property
    def type(self) -> str:
        """HAMi's name of the model, as its device plugin registers it."""
        return self.model if self.model.startswith("NVIDIA") else f"NVIDIA-{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiUse:
    """What a container uses of one card, the `number`th that it sees; None is not known.

    `limit_bytes` 0 is no limit. `idle_s` is the time since it started a kernel.
    """

    pod: PodKey
    container: str
    number: int
    uuid: str
    limit_bytes: int
    used_bytes: int | None = None
    context_bytes: int | None = None
    module_bytes: int | None = None
    buffer_bytes: int | None = None
    busy_percent: int | None = None
    idle_s: int | None = None


def hami_page(
    node: NodeName, cards: Sequence[HamiCard], uses: Sequence[HamiUse], *, legacy: bool = False
) -> str:
    """The page, with the names of before too if `legacy`."""
    samples = [*_of_cards(node, cards), *_of_uses(uses)]
    catalogue: tuple[Metric, ...] = CATALOGUE
    if legacy:
        catalogue += LEGACY
        samples += [*_legacy_cards(node, cards), *_legacy_uses(uses)]
    found: defaultdict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
    for name, labels, value in samples:
        if value is not None:
            found[name][ZONE, *labels] = value
    return gauges(catalogue, found)


def _of_cards(node: NodeName, cards: Iterable[HamiCard]) -> _Samples:
    for card in cards:
        labels = (str(card.index), card.uuid, card.type)
        yield "hami_host_gpu_memory_used_bytes", (*labels, node), card.used_bytes
        yield "hami_host_gpu_utilization_ratio", (*labels, node), card.busy_percent
        name = "hami_host_gpu_memory_controller_utilization_ratio"
        yield name, labels, card.copying_percent


def _of_uses(uses: Iterable[HamiUse]) -> _Samples:
    for use in uses:
        labels = _labels(use)
        yield "hami_vgpu_memory_used_bytes", labels, use.used_bytes
        yield "hami_vgpu_memory_limit_bytes", labels, use.limit_bytes or None
        yield "hami_container_device_memory_bytes", labels, use.used_bytes
        yield "hami_container_device_utilization_ratio", labels, use.busy_percent
        yield "hami_container_last_kernel_elapsed_seconds", labels, use.idle_s
        yield "hami_vgpu_memory_context_bytes", labels, use.context_bytes
        yield "hami_vgpu_memory_module_bytes", labels, use.module_bytes
        yield "hami_vgpu_memory_buffer_bytes", labels, use.buffer_bytes


def _legacy_cards(node: NodeName, cards: Iterable[HamiCard]) -> _Samples:
    for card in cards:
        labels = (node, str(card.index), card.uuid, card.type)
        yield "HostGPUMemoryUsage", labels, card.used_bytes
        yield "HostCoreUtilization", labels, card.busy_percent


def _legacy_uses(uses: Iterable[HamiUse]) -> _Samples:
    for use in uses:
        labels = _labels(use)
        yield "vGPU_device_memory_usage_in_bytes", labels, use.used_bytes
        yield "vGPU_device_memory_limit_in_bytes", labels, use.limit_bytes or None
        yield "Device_utilization_desc_of_container", labels, use.busy_percent
        yield "Device_last_kernel_of_container", labels, use.idle_s
        parts = (use.context_bytes, use.module_bytes, use.buffer_bytes)
        known = [one for one in parts if one is not None]
        if use.used_bytes is not None and len(known) == len(parts):
            rest = use.used_bytes - sum(known)
            described = (*labels, *map(str, (*known, rest)))
            yield "Device_memory_desc_of_container", described, use.used_bytes


def _labels(use: HamiUse) -> tuple[str, ...]:
    return use.pod.namespace, use.pod.name, use.container, str(use.number), use.uuid
