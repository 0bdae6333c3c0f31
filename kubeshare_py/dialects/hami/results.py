"""The annotations by which HAMi's device plugin, monitor and scheduler know what a pod got."""

from kubeshare_py.dialects.dialect import PlacedNode
from kubeshare_py.dialects.hami.encoding import DeviceRecord, Slots, encode, encode_as_seed
from kubeshare_py.dialects.hami.keys import ALLOCATING, MIB, SEED, SUCCESS, HamiSettings
from kubeshare_py.dialects.hami.request import read_note
from kubeshare_py.domain.allocation import Allocation, CardCharge


def results(allocation: Allocation, node: PlacedNode, settings: HamiSettings) -> dict[str, str]:
    """The node, the moment of the decision, and each container's cards, twice.

    HAMi's device plugin takes the cards from `to_allocate`, empties that container by container,
    and then writes the phase `success`. The node agent takes them from the allocation instead, and
    has no right to write on pods: where it serves the devices, both are written here as the plugin
    would leave them.
    """
    system, vendor = settings.system, settings.nvidia
    write = encode_as_seed if settings.profile == SEED else encode
    slots = slots_of(allocation, node, vendor.word)
    is_ours = settings.count in node.served
    return {
        **system.bound(node.name, node.decided_at_ns, SUCCESS if is_ours else ALLOCATING),
        vendor.to_allocate: write(((),) * len(slots) if is_ours else slots),
        vendor.allocated: write(slots),
    }


def slots_of(allocation: Allocation, node: PlacedNode, vendor: str) -> Slots:
    """The records of all containers of the pod, init containers first."""
    held = {str(one.container): one.cards for one in allocation.containers}
    return tuple(
        tuple(_record(card, note, node, vendor) for card in held.get(container, ()))
        for container, note in node.notes
    )


def _record(card: CardCharge, note: str, node: PlacedNode, vendor: str) -> DeviceRecord:
    asked, known = read_note(note), node.cards.get(card.uuid)
    capacity = card.memory_bytes if known is None else known.memory_bytes
    if known is None and not asked.memory_mib:
        # A card that left its node is held with what it was charged.
        return DeviceRecord(card.uuid, vendor, max(capacity // MIB, 1), asked.cores)
    return DeviceRecord(card.uuid, vendor, asked.mib_of(capacity), asked.cores)
