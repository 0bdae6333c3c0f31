"""All cards with their pods, some rows at a time. Reads."""

from collections.abc import Iterator, Mapping

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.scheduling.explain.figures import card_figures
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.shared_cards import HeldPart, SharedCard


def shared_cards(machine: Machine) -> Iterator[tuple[list[SharedCard], list[HeldPart]]]:
    """Some cards, and what pods hold of them; the machine may go on between portions.

    About 10 µs for each card, and 5 µs for each part.
    """
    inventory = machine.ledger.inventory
    for one in card_figures(machine):
        known = {
            gpu.uuid: gpu
            for name in dict.fromkeys(one.nodes)
            for gpu in inventory.get(NodeName(name), ())
        }
        cards = []
        for at, uuid in enumerate(one.uuids):
            gpu = known.get(GpuUuid(uuid))
            cards.append(
                SharedCard(
                    node=one.nodes[at],
                    uuid=uuid,
                    index=None if gpu is None else gpu.index,
                    model=one.models[at],
                    capacity_bytes=one.capacity_bytes[at],
                    capacity_milli=one.capacity_milli[at],
                    allocated_bytes=one.allocated_bytes[at],
                    allocated_milli=one.allocated_milli[at],
                    tenants=one.tenants[at],
                    parent=None if gpu is None else gpu.parent,
                )
            )
        yield cards, list(_parts(machine.ledger, machine.records, cards))


def _parts(
    ledger: Ledger, records: Mapping[PodUid, Record], cards: list[SharedCard]
) -> Iterator[HeldPart]:
    """What pods hold of these cards; no reservations, and no ResourceClaims."""
    found = {(card.node, card.uuid): card for card in cards}
    for node in dict.fromkeys(card.node for card in cards):
        for uid, charge in ledger.pods_on(NodeName(node)).items():
            record = records.get(uid)
            if record is None or charge.allocation is None:
                continue
            key = record.pod.key
            for held in charge.allocation.cards:
                card = found.get((node, held.uuid))
                if card is not None:
                    yield HeldPart(
                        namespace=key.namespace,
                        pod=key.name,
                        of=card,
                        memory_bytes=held.memory_bytes,
                        milli=held.milli,
                    )
