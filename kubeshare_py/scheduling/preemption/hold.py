"""What a preemption plan keeps for its preemptor, and which other pods may take it.

The plan keeps its places and, beside them, all cards that its victims held. A preemptor that asks
for half a card may get it from a pod that held a whole one, and until the preemptor is bound the
rest of the card is not handed out. As in kube-scheduler, pods of higher priority may take what is
kept. Cards go only to pods that could have evicted the victims themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.charge import Charge, tentative_charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.preemption import NominatedPlace, PreemptionPlan
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.scheduling.preemption.planner import Planner, preemptor_of
from kubeshare_py.scheduling.preemption.potential_victims import is_leaving
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Contender


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that is or was evicted for a preemptor, and what it held."""

    pod: Pod
    node: NodeName
    cards: tuple[CardCharge, ...]


class PreemptionHold:
    """Computes what plans keep."""

    def __init__(self, ledger: Ledger, records: Mapping[PodUid, Record], planner: Planner) -> None:
        self._ledger = ledger
        self._records = records
        self._planner = planner

    def places(self, plan: PreemptionPlan) -> dict[PodUid, Charge]:
        """The planned place of each pod."""
        return {place.uid: self._place(place) for place in plan.nominations}

    def evicted(self, plan: PreemptionPlan) -> list[Evicted]:
        """The plan's victims, and pods on its cards that leave because of another plan."""
        cards = {uuid for place in plan.nominations for uuid in place.cards}
        victims = [self._records[victim.uid] for victim in plan.victims]
        # Lingering pods have no record, and nothing is kept for them beside the plan's places.
        leaving = [self._records[uid] for uid in plan.awaited if uid in self._records]
        others = [one for one in leaving if one.evicted and not cards.isdisjoint(_cards(one))]
        return [self._evicted(record) for record in (*victims, *others)]

    def carried(self, before: Sequence[Evicted]) -> list[Evicted]:
        """Those of the pods evicted by an earlier plan that left or are leaving."""
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

        Pods for which a reservation is kept are left out, except those in `before`, whose
        reservations are the plan's own.
        """
        left: dict[GpuUuid, tuple[int, int]] = {}
        for place in places.values():
            for card in place.allocation.cards if place.allocation is not None else ():
                milli, memory = left.get(card.uuid, (0, 0))
                left[card.uuid] = milli + card.milli, memory + card.memory_bytes
        found = {}
        for one in evicted:
            uid = one.pod.uid
            if uid in self._ledger.reservations and uid not in before:
                continue
            rests = [_beyond(card, left) for card in one.cards]
            cards = tuple(rest for rest in rests if rest is not None)
            if cards:
                kept = Allocation(token=DecisionToken(""), cards=cards, port=None)
                found[uid] = Charge(one.node, (), kept)
        return found

    def rule(self, plan: PreemptionPlan, evicted: Sequence[Evicted]) -> Callable[[Contender], bool]:
        """The rule that says which contenders may take what is kept."""
        priority, has_cards = (
            plan.preemptor.priority,
            any(place.cards for place in plan.nominations),
        )

        victims = [one.pod for one in evicted]

        def yields_to(contender: Contender) -> bool:
            if contender.priority <= priority:
                return False
            wants_cards = any(pod.shape.claims for pod in contender.pods)
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
            return False  # unknown: treated as "may not"

    def _place(self, place: NominatedPlace) -> Charge:
        shape, columns = self._records[place.uid].shape, self._ledger.columns
        row = columns.row_of[place.node]
        slots = [columns.uuids[row].index(uuid) for uuid in place.cards]
        return tentative_charge(columns, row, slots, shape)


def _cards(record: Record) -> set[GpuUuid]:
    held = record.allocation.cards if record.allocation is not None else ()
    return {card.uuid for card in held}


def _beyond(card: CardCharge, left: dict[GpuUuid, tuple[int, int]]) -> CardCharge | None:
    """The part of this charge beyond what `left` takes of the card; `left` is reduced by it."""
    milli, memory = left.get(card.uuid, (0, 0))
    left[card.uuid] = max(0, milli - card.milli), max(0, memory - card.memory_bytes)
    over = max(0, card.milli - milli), max(0, card.memory_bytes - memory)
    return CardCharge(card.uuid, *over, card.model) if any(over) else None
