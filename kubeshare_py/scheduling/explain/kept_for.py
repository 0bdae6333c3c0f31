"""For which pods cards and room are kept from a waiting pod, in words.

For preemptors, and for pods that were deleted by force and may still run.
"""

from collections import Counter
from collections.abc import Mapping

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.scheduling.explain.visibility import UNNAMED, Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import (
    Contender,
    Nominee,
    Reservation,
    ReservationCause,
    contender_of,
)


def kept_from(
    machine: Machine, record: Record, sees: Sees = sees_all
) -> dict[NodeName, tuple[str, ...]]:
    """By node, what is kept there for others; they are named if the reader may see them."""
    contender = _contender(machine.gangs, machine.records, record)
    found = _lingering(machine, sees)
    for reservation in machine.reservations.holders:
        if reservation.cause is ReservationCause.PREEMPTS and not reservation.is_open_to(contender):
            for node, cards in _cards(machine.ledger, reservation).items():
                kept = (
                    f"{_are_kept(cards)} for {reservation_name(machine, reservation, sees)} by "
                    "preemption"
                )
                found[node] = (*found.get(node, ()), kept)
    return found


def _lingering(machine: Machine, sees: Sees) -> dict[NodeName, tuple[str, ...]]:
    """By node, what pods that were deleted by force keep there."""
    found: dict[NodeName, tuple[str, ...]] = {}
    for one in machine.lingering.pods():
        charge = machine.ledger.lingering[one.record.pod.uid]
        cards = charge.allocation.cards if charge.allocation is not None else ()
        held = _are(len(cards) + charge.native.on_unknown_cards, "held")
        pod = f"pod {one.key}" if sees(one.key.namespace) else UNNAMED
        left_s = machine.left_s(one.until)
        kept = f"{held} for {left_s} s more after the forced deletion of {pod}"
        found[charge.node] = (*found.get(charge.node, ()), kept)
    return found


def _contender(gangs: Gangs, records: Mapping[PodUid, Record], record: Record) -> Contender:
    gang = gangs.of(record.pod.uid)
    nominee: Nominee = record.pod.uid
    if isinstance(gang, Gang) and gang.needs_quorum and record.pod.uid in gang.waiting:
        nominee = gang
    return contender_of(nominee, records)


def _cards(ledger: Ledger, reservation: Reservation) -> Counter[NodeName]:
    """The number of cards that are kept, by node; 0 where it is only other resources."""
    charges = [ledger.reservations[uid] for uid in (*reservation.uids, *reservation.beside)]
    cards = {
        (charge.node, card.uuid)
        for charge in charges
        for card in (charge.allocation.cards if charge.allocation is not None else ())
    }
    found = Counter({charge.node: 0 for charge in charges})
    found.update(node for node, _ in cards)
    return found


def _are_kept(cards: int) -> str:
    return _are(cards, "kept") if cards else "room is kept"


def _are(cards: int, what: str) -> str:
    return f"1 card is {what}" if cards == 1 else f"{cards} cards are {what}"
