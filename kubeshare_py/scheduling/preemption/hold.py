"""What a plan of preemption keeps for its preemptor, and which other pods may take it.

Kept are the places of the plan and, beside them, all that its victims held of cards: a preemptor
that asks for half a card gets it from a pod that held a whole one, and until it is bound nothing of
that card is handed out. As in kube-scheduler, pods of higher priority may take what is kept. Of
cards only those that could have evicted the victims themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.preemption import PreemptionPlan, Seat
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.scheduling.preemption.evictable import is_leaving
from kubeshare_py.scheduling.preemption.planner import Planner, preemptor_of
from kubeshare_py.scheduling.queue.earmarks import Contender
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import Record


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that goes for a preemptor, or went, and what it held."""

    pod: Pod
    node: NodeName
    cards: tuple[CardCharge, ...]


class PreemptionHold:
    """Reads the machine's books."""

    def __init__(self, ledger: Ledger, records: Mapping[PodUid, Record], planner: Planner) -> None:
        self._ledger = ledger
        self._records = records
        self._planner = planner

    def places(self, plan: PreemptionPlan) -> dict[PodUid, Charge]:
        """By pod, the place that the plan has for it."""
        return {seat.uid: self._place(seat) for seat in plan.seats}

    def evicted(self, plan: PreemptionPlan) -> list[Evicted]:
        """The plan's victims, and pods on its cards that leave because of another plan."""
        cards = {uuid for seat in plan.seats for uuid in seat.cards}
        victims = [self._records[victim.uid] for victim in plan.victims]
        # Those that linger are no records any more, and are not kept beside the plan's places.
        leaving = [self._records[uid] for uid in plan.awaited if uid in self._records]
        others = [one for one in leaving if one.evicted and not cards.isdisjoint(_cards(one))]
        return [self._evicted(record) for record in (*victims, *others)]

    def carried(self, before: Sequence[Evicted]) -> list[Evicted]:
        """Of the pods that an earlier plan evicted, those that went or are on their way."""
        records = (self._records.get(one.pod.uid) for one in before)
        return [
            one
            for one, record in zip(before, records, strict=True)
            if record is None or is_leaving(record)
        ]

    def beside(
        self,
        places: Mapping[PodUid, Charge],
        evicted: Sequence[Evicted],
        before: Sequence[PodUid] = (),
    ) -> dict[PodUid, Charge]:
        """By evicted pod, what it held of cards beyond these places.

        Not of pods of which something is kept for another, those `before` are its own.
        """
        left: dict[GpuUuid, tuple[int, int]] = {}
        for place in places.values():
            for card in place.allocation.cards if place.allocation is not None else ():
                milli, memory = left.get(card.uuid, (0, 0))
                left[card.uuid] = milli + card.milli, memory + card.memory_bytes
        found = {}
        for one in evicted:
            uid = one.pod.uid
            if uid in self._ledger.earmarks and uid not in before:
                continue
            rests = [_beyond(card, left) for card in one.cards]
            cards = tuple(rest for rest in rests if rest is not None)
            if cards:
                kept = Allocation(token=DecisionToken(""), cards=cards, port=None)
                found[uid] = Charge(one.node, (), kept)
        return found

    def rule(self, plan: PreemptionPlan, evicted: Sequence[Evicted]) -> Callable[[Contender], bool]:
        """Which contenders may take what is kept."""
        priority, has_cards = plan.preemptor.priority, any(seat.cards for seat in plan.seats)

        victims = [one.pod for one in evicted]

        def yields_to(contender: Contender) -> bool:
            if contender.priority <= priority:
                return False
            wants_cards = any(pod.shape.claim is not None for pod in contender.pods)
            return not (has_cards and wants_cards) or self._may_evict(contender, victims)

        return yields_to

    # --- inside --------------------------------------------------------------------------------

    def _evicted(self, record: Record) -> Evicted:
        assert record.node is not None
        held = record.allocation.cards if record.allocation is not None else ()
        return Evicted(record.pod, record.node, held)

    def _may_evict(self, contender: Contender, victims: Sequence[Pod]) -> bool:
        pods, planner = contender.pods, self._planner
        profile = pods[0].scheduler_name
        if not all(pod.preempts for pod in pods) or not planner.is_on(profile):
            return False
        name = contender.nominee.name if isinstance(contender.nominee, Gang) else ""
        try:
            gives_way = planner.rule(profile, preemptor_of(pods, name))
            return all(map(gives_way, victims))
        except PluginFailed:
            return False  # nobody knows

    def _place(self, seat: Seat) -> Charge:
        shape, columns = self._records[seat.uid].shape, self._ledger.columns
        row, claim = columns.row_of[seat.node], shape.claim
        charges = []
        for uuid in seat.cards if claim is not None else ():
            assert claim is not None
            slot = columns.uuids[row].index(uuid)
            model = columns.model_names[columns.model.item(row, slot)]
            memory = claim.bytes_of(columns.capacity_bytes.item(row, slot), model)
            charges.append(CardCharge(uuid, claim.milli_on(model), memory, model))
        allocation = Allocation(
            token=DecisionToken(""),
            cards=tuple(charges),
            exclusive=claim is not None and claim.exclusive,
            port=0 if shape.needs_port else None,
        )
        return Charge(seat.node, shape.resources, allocation)


def _cards(record: Record) -> set[GpuUuid]:
    held = record.allocation.cards if record.allocation is not None else ()
    return {card.uuid for card in held}


def _beyond(card: CardCharge, left: dict[GpuUuid, tuple[int, int]]) -> CardCharge | None:
    """What of this charge is beyond what `left` takes of the card, which is less by it then."""
    milli, memory = left.get(card.uuid, (0, 0))
    left[card.uuid] = max(0, milli - card.milli), max(0, memory - card.memory_bytes)
    over = max(0, card.milli - milli), max(0, card.memory_bytes - memory)
    return CardCharge(card.uuid, *over, card.model) if any(over) else None
