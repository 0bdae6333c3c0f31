"""Preemption plans while they are carried out: what is shown, requested, kept and resumed.

Nominations of pods, evictions of victims, places and cards that the preemptor alone may take, and
plans of an earlier process.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.charge import Charge, tentative_charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Evict, Nominate, NominatedPlace, PreemptionPlan
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.scheduling.preemption.planner import Planner, preemptor_of
from kubeshare_py.scheduling.preemption.potential_victims import is_leaving
from kubeshare_py.scheduling.queue.gangs import Gang, Gangs
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.scheduling.queue.pod_table import PodTable
from kubeshare_py.scheduling.queue.reservations import Contender, Nominee, needed
from kubeshare_py.scheduling.queue.timers import Timers

# Nominations of pods: set when a plan begins, and cleared when it ends.
#
# A pod may show a nomination without reason: an earlier scheduler set it, a request arrived late,
# or the request that should have cleared it was lost. What the API server shows is what counts.


#: A nomination that is still shown is cleared again after this time (s).
AGAIN_S = 10.0


class Nominations:
    """Which pods show a nomination, and which have a plan for it."""

    def __init__(self, table: PodTable, ours: Container[str]) -> None:
        """`ours` are the schedulerNames of this scheduler."""
        self._records = table.records
        self._ours = ours
        #: Pods that the API server shows with a nomination, and pods that this scheduler nominated.
        self.shown: set[PodUid] = set()
        self._told: set[PodUid] = set()
        self._planned: set[PodUid] = set()
        #: Those whose nomination may have no plan behind it; to be read.
        self.doubtful: set[PodUid] = set()
        self._again: Timers[PodUid] = Timers(table.alarms)

    def seen(self, record: Record) -> None:
        """Take a pod as the API server shows it."""
        pod = record.pod
        if not pod.nominated:
            self.shown.discard(pod.uid)
        elif pod.uid not in self.shown and pod.scheduler_name in self._ours:
            self.shown.add(pod.uid)
            self.doubtful.add(pod.uid)

    def gone(self, uid: PodUid) -> None:
        """Forget a pod."""
        for pods in (self.shown, self._told, self._planned, self.doubtful):
            if uid in pods:
                pods.remove(uid)

    def begin(self, plan: PreemptionPlan) -> list[Nominate]:
        """Nominate all pods that get a place in the plan."""
        uids = [place.uid for place in plan.nominations]
        self._planned.update(uids)
        self._told.update(uids)
        return [
            Nominate(place.uid, place.key, place.node, tuple(dict.fromkeys(place.cards)))
            for place in plan.nominations
        ]

    def keep(self, plan: PreemptionPlan) -> None:
        """Keep the places of a plan that ended after all."""
        self._planned.update(place.uid for place in plan.nominations)

    def end(self, plan: PreemptionPlan) -> None:
        """Record that the plan ended: its pods have their places, or will not get them."""
        uids = {place.uid for place in plan.nominations}
        self._planned -= uids
        self.doubtful |= uids & (self.shown | self._told)

    def time_passed(self, now: float) -> None:
        """Check again nominations that should have been cleared."""
        self.doubtful.update(self._again.due(now))

    def clear_unplanned(self, now: float) -> list[Nominate]:
        """Clear nominations without a plan. Mostly the Binding has cleared them already."""
        cleared = []
        for uid in sorted(self.doubtful - self._planned):
            record = self._records.get(uid)
            if record is None or not (uid in self.shown or uid in self._told):
                continue
            if record.node is None or record.state is PodState.BOUND:
                self._told.discard(uid)
            if record.node is None or (record.state is PodState.BOUND and uid in self.shown):
                cleared.append(Nominate(uid, record.pod.key, None))
            self._again.add(now + AGAIN_S, uid)
        self.doubtful.clear()
        return cleared


# Pods that are leaving, and victims whose eviction was requested.
#
# A request may be lost or refused, so it is repeated while the plan that needs it is carried out. A
# victim that is not being deleted when its plan ends stays, and may be evicted for another plan.
# But if some members of a gang have left already, the gang goes whole, because it would be below
# its minimum.


#: A deletion that did not happen is requested again after this time (s).
EVICT_AGAIN_S = 10.0


@dataclass(slots=True, eq=False)
class _PendingEviction:
    """A requested eviction of a pod that is still there.

    `is_wanted`: its plan still needs it. `answer`: why the last request failed, "" if none did.
    """

    effect: Evict
    is_wanted: Callable[[], bool]
    answer: str = ""


class EvictionsInFlight:
    """Marks records as evicted. `since`: when (s) pods that are leaving or must leave began to."""

    def __init__(self, table: PodTable, gangs: Gangs) -> None:
        self.since: dict[PodUid, float] = {}
        self._table = table
        self._records = table.records
        self._gangs = gangs
        self._asked: dict[PodUid, _PendingEviction] = {}
        self._due: Timers[PodUid] = Timers(table.alarms)

    def ask(self, effect: Evict, is_wanted: Callable[[], bool], now: float) -> None:
        """Request a pod's eviction by this effect."""
        self._asked[effect.uid] = _PendingEviction(effect, is_wanted)
        self._due.add(now + EVICT_AGAIN_S, effect.uid)
        self.since.setdefault(effect.uid, now)
        self._mark(self._records[effect.uid], evicted=True)

    def failed(self, uid: PodUid, answer: str) -> None:
        """The API server refused a request, or did not confirm it."""
        asked = self._asked.get(uid)
        if asked is not None:
            asked.answer = answer

    def answer_about(self, uid: PodUid) -> str:
        """Why the last request to evict a pod failed; "" if none did."""
        asked = self._asked.get(uid)
        return "" if asked is None else asked.answer

    def seen(self, record: Record, now: float) -> None:
        """Take a pod as the API server shows it."""
        pod = record.pod
        if pod.node_name is not None and pod.deleting:
            self.since.setdefault(pod.uid, now)
            self._asked.pop(pod.uid, None)

    def gone(self, uid: PodUid) -> None:
        """Forget a pod that no longer holds anything."""
        if uid in self.since:
            del self.since[uid]
            self._asked.pop(uid, None)

    def time_passed(self, now: float) -> tuple[list[Evict], list[PodUid]]:
        """Repeat requests that are still wanted; these, and the pods that stay after all."""
        due = [uid for uid in self._due.due(now) if uid in self._asked]
        wanted = {uid for uid in due if self._asked[uid].is_wanted()}
        torn = {gang for gang in map(self._gangs.of, due) if gang and self._is_torn(gang)}
        repeated, staying = [], []
        for uid in due:
            if uid in wanted or self._gangs.of(uid) in torn:
                repeated.append(self._asked[uid].effect)
                self._due.add(now + EVICT_AGAIN_S, uid)
            else:
                staying.append(uid)
        for uid in staying:
            self.gone(uid)
            self._mark(self._records[uid], evicted=False)
        return repeated, staying

    # --- inside --------------------------------------------------------------------------------

    def _is_torn(self, gang: Gang) -> bool:
        """Whether too few members would be left if all that can stay did."""
        able = [member for uid, member in gang.members.items() if uid in self._asked]
        # The gang does not count members that must leave.
        least = gang.min_member
        if gang.declared is None:
            least = max(least, *(member.min_member for member in able))
        return least > 1 and gang.placed + len(able) + gang.completed < least

    def _mark(self, record: Record, *, evicted: bool) -> None:
        record.evicted = evicted
        self._table.update(record)


# What a preemption plan keeps for its preemptor, and which other pods may take it.
#
# The plan keeps its places and, beside them, all cards that its victims held. A preemptor that asks
# for half a card may get it from a pod that held a whole one, and until the preemptor is bound the
# rest of the card is not handed out. As in kube-scheduler, pods of higher priority may take what is
# kept. Cards go only to pods that could have evicted the victims themselves.


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
        """The pods evicted by an earlier plan that have left or are leaving."""
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


# Plans of an earlier scheduler process, which are made anew before other pods are tried.
#
# Such a plan is known from waiting pods, which show the node that they are nominated for. It is
# made anew for that node, with the pods that are leaving there. So what was freed does not go to
# others, and only pods that still have to leave are evicted.


#: The most single pods per iteration; a gang takes an iteration of its own.
PODS_PER_ITERATION = 8


class Resumption:
    """Nominees still to be looked at, from the first iteration of this process on."""

    def __init__(self, records: Mapping[PodUid, Record], gangs: Gangs) -> None:
        self._records = records
        self._gangs = gangs
        #: None before the first iteration; to be read.
        self.left: dict[PodUid, None] | None = None

    def is_due(self, *, cards_known: bool) -> bool:
        """Whether nominees are left; those that claim cards count once cards are known."""
        return any(cards_known or not self._wants_cards(uid) for uid in self.left or ())

    def begin(self, nominated: Iterable[PodUid]) -> None:
        """At the first iteration: these pods are nominated."""
        if self.left is None:
            self.left = dict.fromkeys(sorted(nominated, key=self._rank))

    def portion(self, *, cards_known: bool) -> list[tuple[Nominee, Collection[NodeName]]]:
        """The next nominees in queue order, each with the nodes that it is nominated for."""
        found: list[tuple[Nominee, Collection[NodeName]]] = []
        for uid in list(self.left or ()):
            if len(found) >= PODS_PER_ITERATION or (found and isinstance(found[-1][0], Gang)):
                break
            if self.left is None or (not cards_known and self._wants_cards(uid)):
                continue
            self.left.pop(uid, None)
            record = self._records.get(uid)
            if record is None or record.state is not PodState.WAITING:
                continue
            gang = self._gangs.of(uid)
            nominee: Nominee = gang if gang is not None and gang.needs_quorum else uid
            members = needed(nominee, self._records)
            if isinstance(nominee, Gang) and len(members) < nominee.need:
                continue
            nodes = {one.pod.nominated_node for one in members} - {None}
            for member in members:
                self.left.pop(member.pod.uid, None)
            found.append((nominee, {node for node in nodes if node is not None}))
        return found

    # --- inside --------------------------------------------------------------------------------

    def _wants_cards(self, uid: PodUid) -> bool:
        record = self._records.get(uid)
        return record is not None and bool(record.pod.shape.claims)

    def _rank(self, uid: PodUid) -> tuple[int, int]:
        record = self._records[uid]
        return -record.pod.priority, record.arrived
