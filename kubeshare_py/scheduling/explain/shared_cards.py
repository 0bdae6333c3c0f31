"""All cards with their pods, some rows at a time. Reads."""

from collections.abc import Iterator

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.scheduling.explain.figures import card_figures
from kubeshare_py.scheduling.machine import Machine
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
            gpu = known.get(uuid)
            cards.append(
                SharedCard(
                    one.nodes[at],
                    uuid,
                    None if gpu is None else gpu.index,
                    one.models[at],
                    one.capacity_bytes[at],
                    one.capacity_milli[at],
                    one.allocated_bytes[at],
                    one.allocated_milli[at],
                    one.tenants[at],
                    None if gpu is None else gpu.parent,
                )
            )
        yield cards, list(_parts(machine, cards))


def _parts(machine: Machine, cards: list[SharedCard]) -> Iterator[HeldPart]:
    """What pods hold of these cards; no reservations, and no ResourceClaims."""
    found = {(card.node, card.uuid): card for card in cards}
    for node in dict.fromkeys(card.node for card in cards):
        for uid, charge in machine.ledger.pods_on(NodeName(node)).items():
            record = machine.records.get(uid)
            if record is None or charge.allocation is None:
                continue
            key = record.pod.key
            for held in charge.allocation.cards:
                card = found.get((node, held.uuid))
                if card is not None:
                    yield HeldPart(key.namespace, key.name, card, held.memory_bytes, held.milli)
