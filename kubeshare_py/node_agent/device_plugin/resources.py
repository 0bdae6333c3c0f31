"""The extended resources that the node agent's device plugins can serve, and what each counts."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kubeshare_py.domain.node import slices_of

#: MIG instances of one profile: this and the profile, such as nvidia.com/mig-1g.5gb.
MIG = "nvidia.com/mig-"
NVIDIA_GPU = "nvidia.com/gpu"


class DeviceCounts(StrEnum):
    """What one device of a resource is a piece of."""

    CARDS = "cards"  # one device for each card
    SLICES = "slices"  # as many for each card as pods may have a part of it
    PERCENT = "percent"  # a hundred for each card
    MEMORY = "memory"  # one for each unit of a card's memory, rounded down


class MemoryUnit(StrEnum):
    """Units of memory."""

    GIB = "GiB"
    MIB = "MiB"

    @property
    def size(self) -> int:
        """In bytes."""
        return 1 << (30 if self is MemoryUnit.GIB else 20)


class Unplaced(StrEnum):
    """What becomes of the containers of a pod that this scheduler did not place."""

    REFUSED = "refused"  # nothing says which card they mean
    FREE_CARD = "free card"  # each device is a whole card that no pod holds
    UNTOUCHED = "untouched"  # the resource gives no card to anyone


class MigStrategy(StrEnum):
    """How MIG instances are advertised; the words of NVIDIA's device plugin."""

    NONE = "none"  # not at all
    SINGLE = "single"  # as nvidia.com/gpu
    MIXED = "mixed"  # each profile as a resource of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginResource:
    """One extended resource. `unit` is that of its memory, None if it counts none.

    `has_choice`: its unit is the node's choice, so that the Node has to tell it.
    """

    name: str
    counts: DeviceCounts
    unplaced: Unplaced
    unit: MemoryUnit | None = None
    has_choice: bool = False
    #: The beginning of the variables and annotations in which a container's numbers are told.
    numbers: str = ""
    #: The devices of each card that is not an instance, where it counts slices.
    slices: int = 0

    @property
    def reported(self) -> str:
        """The word for it in the agent's annotation."""
        return slices_of(self.name) if self.slices else self.name


class UnknownResource(ValueError):
    """There is no resource of this name. The text says what to write."""


_GIB, _MIB = MemoryUnit.GIB, MemoryUnit.MIB


def _named(name: str, counts: DeviceCounts, unit: MemoryUnit | None = None) -> PluginResource:
    return PluginResource(name=name, counts=counts, unplaced=Unplaced.REFUSED, unit=unit)


#: gpushare-device-plugin, the four prefixes of nano-gpu-agent (elastic-gpu-agent), and NVIDIA's:
#: https://github.com/AliyunContainerService/gpushare-device-plugin
#: https://github.com/elastic-ai/elastic-gpu-agent
#: https://github.com/NVIDIA/k8s-device-plugin
KNOWN: Mapping[str, PluginResource] = {
    one.name: one
    for one in (
        replace(
            _named("aliyun.com/gpu-mem", DeviceCounts.MEMORY, _GIB),
            has_choice=True,
            numbers="ALIYUN_COM_GPU_MEM",
        ),
        PluginResource(
            name="aliyun.com/gpu-count", counts=DeviceCounts.CARDS, unplaced=Unplaced.UNTOUCHED
        ),
        _named("nano-gpu.io/gpu-core", DeviceCounts.PERCENT),
        _named("nano-gpu.io/gpu-memory", DeviceCounts.MEMORY, _GIB),
        _named("nano-gpu/gpu-percent", DeviceCounts.PERCENT),
        _named("elastic-gpu/gpu-percent", DeviceCounts.PERCENT),
        _named("elasticgpu.io/gpu-core", DeviceCounts.PERCENT),
        _named("elasticgpu.io/gpu-memory", DeviceCounts.MEMORY, _MIB),
        PluginResource(name=NVIDIA_GPU, counts=DeviceCounts.CARDS, unplaced=Unplaced.FREE_CARD),
    )
}


def chosen(names: Iterable[str], unit: MemoryUnit, slices: int = 0) -> tuple[PluginResource, ...]:
    """The resources of these names, once each. Raises UnknownResource.

    `example.com/gpu-mem=aliyun.com/gpu-mem` is a vendor's name for a known resource. `unit` is for
    those with a choice. With `slices`, each card has so many devices of `nvidia.com/gpu`, of which
    none is a card: HAMi's split count.
    """
    found: dict[str, PluginResource] = {}
    for written in names:
        name, _, like = written.partition("=")
        known = KNOWN.get(like or name)
        if known is None or name.count("/") != 1:
            raise UnknownResource(
                f"{written!r} is no resource that this agent can serve: one of {', '.join(KNOWN)}, "
                "or NAME=ONE-OF-THESE"
            )
        own = replace(known, name=name)
        if known.numbers:
            # As cerit.io/gpu-mem and CERIT_IO_GPU_MEM_IDX.
            own = replace(own, numbers=re.sub("[^A-Z0-9]", "_", name.upper()))
        if slices and known.unplaced is Unplaced.FREE_CARD:
            own = replace(own, counts=DeviceCounts.SLICES, unplaced=Unplaced.REFUSED, slices=slices)
        found[name] = replace(own, unit=unit) if known.has_choice else own
    return tuple(found.values())


def instances(profile: str) -> PluginResource:
    """The resource of MIG instances of a profile; `+` is no character of such names."""
    name = MIG + profile.replace("+", ".")
    return PluginResource(name=name, counts=DeviceCounts.CARDS, unplaced=Unplaced.FREE_CARD)
