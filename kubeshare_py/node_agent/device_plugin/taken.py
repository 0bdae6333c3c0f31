"""Which devices of whole cards kubelet must not give away, because pods have shares of cards.

A share takes no device, so that kubelet would give its card to a native pod. Which device stands
for which card is not fixed; only their number counts. So as many devices are taken as there are
such cards, and none of them is one that kubelet gave to a pod.
"""

from collections.abc import Collection, Iterable

import msgspec

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.device_plugin.devices import CardDevices, DeviceList
from kubeshare_py.node_agent.device_plugin.resources import Unplaced
from kubeshare_py.node_agent.tenants import NodeTenant


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
