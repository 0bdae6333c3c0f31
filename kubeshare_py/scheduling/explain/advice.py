"""What would make a waiting pod fit: sentences for people."""

from collections.abc import Iterator, Mapping, Sequence

from kubeshare_py.cluster.columns import ABSENT, HELD_BACK, UNHEALTHY
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI, share_bytes
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.scheduling.explain.visibility import UNNAMED, Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import ReservationCause
from kubeshare_py.views.view import NodeWhy

_MOST = 3


def advice(
    machine: Machine, record: Record, nodes: Sequence[NodeWhy], sees: Sees = sees_all
) -> Iterator[str]:
    """A few sentences: which pod's end would help, and which smaller request would fit."""
    claim = record.shape.claim
    if claim is None:
        return
    amounts = {name.name: _only_amounts(name) for name in nodes}
    candidates = [NodeName(name) for name, only in amounts.items() if only]
    yield from _reserved(machine, record.pod.uid, [NodeName(node.name) for node in nodes], sees)
    ledger, records = machine.ledger, machine.records
    leaving = [text for name in candidates for text in _leavers(ledger, records, claim, name, sees)]
    yield from leaving[:_MOST]
    if claim.count == 1 and not claim.share_of:
        yield from _smaller(ledger, claim, candidates)


def _reserved(
    machine: Machine, uid: PodUid, names: Sequence[NodeName], sees: Sees
) -> Iterator[str]:
    """For which pods cards of these nodes are reserved, and how many; `uid` is the waiting pod."""
    ledger, there = machine.ledger, set(names)
    # What preemption keeps is reported per node, for the pods it is kept from.
    reservations = [
        one
        for one in machine.reservations.holders
        if one.cause is ReservationCause.STARVES or uid in one.uids
    ]
    for reservation in reservations[:_MOST]:
        charges = [ledger.reservations[uid] for uid in reservation.uids]
        allocations = [charge.allocation for charge in charges if charge.node in there]
        cards = {card.uuid for one in allocations if one is not None for card in one.cards}
        if cards:
            kept = "1 card is" if len(cards) == 1 else f"{len(cards)} cards are"
            since = f"for {machine.age_s(reservation.since):.0f} s now"
            if uid in reservation.uids:
                yield f"{kept} reserved for it, {since}: it starts when those who hold them end"
            else:
                yield f"{kept} reserved for {reservation_name(machine, reservation, sees)}, {since}"


def _only_amounts(node: NodeWhy) -> bool:
    """Whether the node refuses only for lack of free share or memory of GPUs."""
    # A label or a taint is a reason without a shortfall.
    explained = {shortfall.reason for shortfall in node.shortfalls}
    if node.fits or not explained.issuperset(node.reasons):
        return False
    return all(one.subject or one.resource == "gpu" for one in node.shortfalls)


def _leavers(
    ledger: Ledger,
    records: Mapping[PodUid, Record],
    claim: GpuClaim,
    name: NodeName,
    sees: Sees,
) -> Iterator[str]:
    """Pods whose end would, alone, make room on one card of this node."""
    if claim.count > 1:
        return
    for uid, charge in sorted(ledger.pods_on(name).items()):
        for card in charge.allocation.cards if charge.allocation else ():
            if _would_do(ledger, claim, name, card):
                key = records[uid].pod.key
                held = f"{_share(card.milli)} of {card.uuid}"
                who = key if sees(key.namespace) else UNNAMED
                yield f"it fits on {name} when {who} ends (it holds {held})"
                break


def _would_do(ledger: Ledger, claim: GpuClaim, name: NodeName, freed: CardCharge) -> bool:
    """Whether this card could hold the claim if one tenant, with what it holds, were gone."""
    columns, row = ledger.columns, ledger.columns.row_of[name]
    if freed.uuid not in columns.uuids[row]:
        return False  # the node does not have the card, and has no slot for it
    slot = columns.uuids[row].index(freed.uuid)
    others = columns.tenants.item(row, slot) - 1
    # An exclusive card has one tenant: without it the card is free.
    taken = others > 0 and (claim.exclusive or columns.exclusive.item(row, slot) > 0)
    # A card that becomes idle may be held back at once, like other idle ones.
    kept = not others and ledger.native_gpus(name) > 0
    if taken or kept or columns.flags.item(row, slot) & (ABSENT | UNHEALTHY | HELD_BACK):
        return False
    model = columns.model_names[columns.model[row, slot]]
    milli, asked = claim.milli_on(model), claim.memory_bytes
    if asked is None:
        asked = share_bytes(columns.capacity_bytes.item(row, slot), milli)
    return (
        claim.takes(model)
        and columns.free_milli.item(row, slot) + freed.milli >= milli
        and columns.free_bytes.item(row, slot) + freed.memory_bytes >= asked
    )


def _smaller(ledger: Ledger, claim: GpuClaim, names: Sequence[NodeName]) -> Iterator[str]:
    """The largest request that would fit now."""
    columns = ledger.columns
    best = 0
    where = ""
    for name in names:
        row = columns.row_of[name]
        for slot, uuid in enumerate(columns.uuids[row]):
            model = columns.model_names[columns.model[row, slot]]
            room = columns.headroom.item(row, slot)
            if claim.memory_bytes is not None:
                enough = columns.free_bytes.item(row, slot) >= claim.memory_bytes
                room = columns.share_headroom.item(row, slot) if enough else 0
            if room > best and claim.takes(model):
                best, where = room, f"{name} ({uuid})"
    if 0 < best < claim.milli:
        yield f"it fits on {where} now with sharedgpu/gpu_request {_share(best)} or less"


def _share(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:g}"
