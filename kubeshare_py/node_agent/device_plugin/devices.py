"""Which devices each resource advertises, from the cards of the node.

A device is a counter, not a piece of hardware: kubelet picks some of them for a container, and only
their number means something. Its id begins with the index of the card that it counts for, so that
it is unhealthy while that card is. Ids are short, because kubelet takes no message above 4 MiB:
https://github.com/AliyunContainerService/gpushare-scheduler-extender/issues/16
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.printable import listed
from kubeshare_py.node_agent.device_plugin.resources import (
    NVIDIA_GPU,
    DeviceCounts,
    MemoryUnit,
    MigStrategy,
    PluginResource,
    Unplaced,
    instances,
)

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
