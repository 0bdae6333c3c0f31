"""All cards with their pods, some rows at a time. Reads."""

from collections.abc import Iterator, Mapping

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.scheduling.explain.figures import card_figures
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.figures import CardFigures
from kubeshare_py.views.shared_cards import HeldPart, SharedCard

#: The most cards of a portion: with their series as text they take 5 to 10 ms.
CARDS_A_PORTION = 64


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
        for first in range(0, len(one.uuids), CARDS_A_PORTION):
            cards = [
                _card(one, at, known)
                for at in range(first, min(first + CARDS_A_PORTION, len(one.uuids)))
            ]
            yield cards, list(_parts(machine.ledger, machine.records, cards))


def _card(figures: CardFigures, at: int, known: Mapping[GpuUuid, Gpu]) -> SharedCard:
    uuid = figures.uuids[at]
    gpu = known.get(GpuUuid(uuid))
    return SharedCard(
        node=figures.nodes[at],
        uuid=uuid,
        index=None if gpu is None else gpu.index,
        model=figures.models[at],
        capacity_bytes=figures.capacity_bytes[at],
        capacity_milli=figures.capacity_milli[at],
        allocated_bytes=figures.allocated_bytes[at],
        allocated_milli=figures.allocated_milli[at],
        tenants=figures.tenants[at],
        parent=None if gpu is None else gpu.parent,
    )


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
