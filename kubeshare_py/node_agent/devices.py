"""The resources and devices that kubelet counts for shares of cards."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.node import slices_of
from kubeshare_py.domain.printable import listed

# The extended resources that the node agent's device plugins can serve, and what each counts.


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
    #: The beginning of the variables and annotations that hold a container's numbers.
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


# Which devices each resource advertises, from the cards of the node.
#
# A device is a counter, not a piece of hardware: kubelet picks some of them for a container, and
# only their number means something. Its id begins with the index of the card that it counts for, so
# that it is unhealthy while that card is. Ids are short, because kubelet takes no message above 4
# MiB: https://github.com/AliyunContainerService/gpushare-scheduler-extender/issues/16


#: The most bytes of a message that kubelet's gRPC takes.
MOST_BYTES = 4 << 20
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
PERCENT = 100
#: INDEX-NUMBER: an id of ours. Other plugins write UUIDs and other words.
_OWN_ID = re.compile(r"(0|[1-9][0-9]{0,3})-(0|[1-9][0-9]{0,8})")


class CardDevices(msgspec.Struct, frozen=True, gc=False):
    """The devices of one card, or of one MIG instance: `count` of them from `first` on.

    `taken`: no more of them may be given away, though the card is well (see `taken`).
    """

    card: GpuUuid
    index: int
    first: int
    count: int
    healthy: bool
    taken: bool = False


class DeviceList(msgspec.Struct, frozen=True, gc=False):
    """What one resource advertises. `refusal` says why it does not, "" if it does."""

    resource: PluginResource
    cards: tuple[CardDevices, ...] = ()
    refusal: str = ""

    @property
    def count(self) -> int:
        """How many devices it has."""
        return sum(one.count for one in self.cards)

    def devices(self) -> Iterator[tuple[str, bool]]:
        """Id and health of each device, by card and number."""
        for one in self.cards:
            for number in range(one.first, one.first + one.count):
                yield f"{one.index}-{number}", one.healthy and not one.taken


def not_offered(offered: DeviceList, devices: Sequence[str]) -> str:
    """Why a container cannot have these devices, "" if each is one of the list, named once.

    Their health does not count: kubelet asks again for those that a container has.
    """
    name = offered.resource.name
    if not devices:
        return f"no device of {name} was named"
    if len({*devices}) < len(devices):
        return f"a device of {name} was named twice"
    ranges: dict[int, list[range]] = defaultdict(list)
    for one in offered.cards:
        ranges[one.index].append(range(one.first, one.first + one.count))
    unknown = [device for device in devices if not _is_within(device, ranges)]
    return f"this node offers no such devices of {name}: {listed(unknown)}" if unknown else ""


def is_own(device: str) -> bool:
    """Whether a device id is of this form. Others were given by a plugin before this one."""
    return _OWN_ID.fullmatch(device) is not None


def preferred(
    resource: PluginResource, free: Iterable[str], chosen: Collection[str], size: int
) -> list[str]:
    """Which devices kubelet is to take: those `chosen`, then of the first cards, by number.

    Devices that stand for free cards: of the last ones, as `given.free_cards` chooses cards, so
    that a device is sick when its pod's card is. Devices in another form come last.
    """
    others = sorted({*free} - {*chosen}, key=_place)
    if resource.unplaced is Unplaced.FREE_CARD:
        own = [one for one in others if is_own(one)]
        others = [*reversed(own), *others[len(own) :]]
    return [*chosen, *others][:size]


def device_lists(
    resources: Iterable[PluginResource], cards: Iterable[Gpu], strategy: MigStrategy
) -> dict[str, DeviceList]:
    """What each resource advertises, by its name, in order."""
    found = [*cards]
    whole = [card for card in found if card.parent is None]
    parts = [card for card in found if card.parent is not None]
    lists: dict[str, DeviceList] = {}
    for resource in resources:
        own = whole
        is_native = resource.unplaced is Unplaced.FREE_CARD or resource.slices
        if is_native and strategy is MigStrategy.SINGLE:
            own = found
        lists[resource.name] = _bounded(DeviceList(resource, tuple(_of(resource, own))))
    if NVIDIA_GPU in lists and strategy is MigStrategy.MIXED:
        for name, few in sorted(_by_profile(parts).items()):
            resource = instances(name)
            lists[resource.name] = DeviceList(resource, tuple(_of(resource, few)))
    return lists


def message_bytes(listed: DeviceList) -> int:
    """The bytes of its ListAndWatchResponse, whose fields are all shorter than 128 bytes.

    A device costs two bytes and its fields: two bytes and the text for id and health.
    """
    total = 0
    for one in listed.cards:
        health = HEALTHY if one.healthy and not one.taken else UNHEALTHY
        fixed = 6 + len(f"{one.index}-") + len(health)
        total += fixed * one.count + _digits(one.first, one.first + one.count)
    return total


def profile(card: Gpu) -> str:
    """The MIG profile in the name of an instance, such as 1g.5gb; "" if there is none."""
    return card.model.rpartition(" MIG ")[2] if " MIG " in card.model else ""


def _place(device: str) -> tuple[int, int]:
    """The index of a device's card, and its number."""
    index, _, number = device.partition("-")
    return (int(index), int(number)) if is_own(device) else (1 << 30, 0)


def _is_within(device: str, ranges: Mapping[int, Sequence[range]]) -> bool:
    if not is_own(device):
        return False
    index, number = _place(device)
    return any(number in one for one in ranges.get(index, ()))


def _of(resource: PluginResource, cards: Iterable[Gpu]) -> Iterator[CardDevices]:
    given: Counter[int] = Counter()
    for card in sorted(cards, key=lambda one: (one.index, one.uuid)):
        count = _count(resource, card)
        yield CardDevices(card.uuid, card.index, given[card.index], count, card.healthy)
        given[card.index] += count


def _count(resource: PluginResource, card: Gpu) -> int:
    if resource.counts is DeviceCounts.CARDS:
        return 1
    if resource.counts is DeviceCounts.PERCENT:
        return PERCENT
    if resource.counts is DeviceCounts.SLICES:
        return resource.slices if card.parent is None else 1
    return card.memory_bytes // (resource.unit or MemoryUnit.GIB).size


def _by_profile(parts: Iterable[Gpu]) -> Mapping[str, list[Gpu]]:
    found: dict[str, list[Gpu]] = defaultdict(list)
    for card in parts:
        if name := profile(card):
            found[name].append(card)
    return found


def _bounded(listed: DeviceList) -> DeviceList:
    size = message_bytes(listed)
    if size <= MOST_BYTES:
        return listed
    resource = listed.resource
    advice = f"leave {resource.name} out of the agent's resources"
    if resource.slices:
        advice = "choose fewer slices"
    if resource.has_choice:
        advice = f"choose {MemoryUnit.GIB} as its unit"
    return DeviceList(
        resource,
        refusal=f"{resource.name} in {resource.unit or 'cards'} needs {listed.count} devices in a "
        f"message of {size} bytes, and kubelet takes {MOST_BYTES}: {advice}",
    )


def _digits(first: int, end: int) -> int:
    """The digits of all numbers from `first` up to `end`, without it."""
    total, low, width = 0, 0, 1
    while low < end:
        high = 10**width
        total += width * max(0, min(high, end) - max(low, first))
        low, width = high, width + 1
    return total
