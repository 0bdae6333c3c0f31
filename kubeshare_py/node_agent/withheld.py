"""Cards that device plugins may not give: those that others gave, and those that shares use."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.node_agent.agent_report import HeldCards
from kubeshare_py.node_agent.allocation import ContainerDevices, Given, cards_by_pod
from kubeshare_py.node_agent.devices import CardDevices, DeviceList, Unplaced
from kubeshare_py.node_agent.tenants import NodeTenant

# Which cards pods hold that no scheduler of ours gave them, by kubelet's list of devices.


_HEX = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
#: Devices of NVIDIA's plugin are uuids, with `::` and a number where it time-slices. Plugins that
#: share cards put another sign before the number: nvshare two underscores, HAMi and Volcano a `-`.
_UUID = re.compile(
    rf"((?:GPU|MIG)-{_HEX}|MIG-GPU-{_HEX}/\d+/\d+|(?:GPU|MIG)-[0-9A-Za-z/-]{{1,120}}?)"
    r"(?:(?:::|__|(?<=[0-9A-Fa-f]{12})-)\d{1,6})?"
)


def device_uuids(listed: Iterable[ContainerDevices], own: Collection[str]) -> Iterator[GpuUuid]:
    """The cards in kubelet's list that other plugins gave; `own` are the resources of ours."""
    for container in listed:
        yield from _uuids(container, own)


def held_cards(
    listed: Iterable[ContainerDevices],
    given: Given,
    own: Collection[str],
    uids: Mapping[PodKey, PodUid],
) -> tuple[HeldCards, ...]:
    """What other plugins gave, and what ours chose, by pod; `uids` are those of the node's pods."""
    found: defaultdict[tuple[PodKey, str], set[GpuUuid]] = defaultdict(set)
    for container in listed:
        uuids = {*_uuids(container, own)}
        uid = uids.get(container.pod)
        if uuids and uid is not None:
            found[container.pod, uid] |= uuids
    for pod, cards in cards_by_pod(given).items():
        found[pod] |= {*cards}
    return tuple(
        HeldCards(PodUid(uid), key, tuple(sorted(cards))) for (key, uid), cards in found.items()
    )


def _uuids(container: ContainerDevices, own: Collection[str]) -> Iterator[GpuUuid]:
    for resource, devices in container.devices.items():
        if resource not in own:
            for device in devices:
                if met := _UUID.fullmatch(device):
                    yield GpuUuid(met[1])


# Which devices of whole cards kubelet must not give away, because pods have shares of cards.
#
# A share takes no device, so that kubelet would give its card to a native pod. Which device stands
# for which card is not fixed; only their number counts. So as many devices are taken as there are
# such cards, and none of them is one that kubelet gave to a pod.


def shared_cards(tenants: Iterable[NodeTenant], by_device: Collection[str]) -> set[GpuUuid]:
    """The cards that pods hold without a device; `by_device` are dialects whose pods have some."""
    return {
        card.uuid
        for one in tenants
        if one.allocation is not None and one.allocation.dialect not in by_device
        for card in one.allocation.cards
    }


def without_taken(
    listed: DeviceList, shared: Collection[GpuUuid], used: Collection[str]
) -> DeviceList:
    """The list with devices taken for the `shared` cards; `used` are those that pods have.

    Nothing is taken of resources whose pods name their cards themselves.
    """
    if listed.resource.unplaced is not Unplaced.FREE_CARD or listed.resource.slices:
        return listed
    count = sum(one.healthy and one.card in shared for one in listed.cards)
    free = [one for one in listed.cards if one.healthy and _device(one) not in used]
    # Those of the cards themselves, then those of the last cards.
    free.sort(key=lambda one: (one.card not in shared, -one.index, -one.first))
    taken = {*map(_device, free[:count])}
    cards = tuple(
        msgspec.structs.replace(one, taken=True) if _device(one) in taken else one
        for one in listed.cards
    )
    return msgspec.structs.replace(listed, cards=cards)


def _device(one: CardDevices) -> str:
    return f"{one.index}-{one.first}"
