"""Preemptions under way: who is to be searched for, plans that are carried out, and their ends.

A search follows every try that found no place. A plan gives its nominee earmarks and asks for the
victims' deletion; then the nominee is tried in its turn like everybody else. The plan is over when
its earmarks are: the nominee was placed, somebody before it took the place, or it is gone. It is
given up when nobody is left to be waited for and the nominee still does not fit, or when
victims do not leave in time; then another search may follow.
"""

from dataclasses import dataclass

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Effect, Evict, Preempt
from kubeshare_py.domain.identity import DecisionToken, PodUid
from kubeshare_py.domain.preemption import PreemptionPlan, Seat
from kubeshare_py.scheduling.books import Books
from kubeshare_py.scheduling.bound_ranks import BoundRanks
from kubeshare_py.scheduling.departures import Departures
from kubeshare_py.scheduling.earmarks import Cause, Holder, Nominee
from kubeshare_py.scheduling.gang_turns import GangTurns
from kubeshare_py.scheduling.gangs import Gang
from kubeshare_py.scheduling.nominations import Nominations
from kubeshare_py.scheduling.pod_queue import SortKey
from kubeshare_py.scheduling.pod_records import Record
from kubeshare_py.scheduling.preemption_planner import Planner, preemptor_of
from kubeshare_py.scheduling.preemption_queue import PreemptionQueue, needed
from kubeshare_py.scheduling.timers import Timers

#: The reason in the victims' condition, and that of their event, as kube-scheduler's.
REASON, EVENT = "PreemptionByScheduler", "Preempted"


@dataclass(slots=True, eq=False)
class UnderWay:
    """A plan that is carried out. `awaited` are pods that still hold something."""

    nominee: Nominee
    plan: PreemptionPlan
    until: float
    awaited: set[PodUid]


class Preemption:
    """Works on the machine's books, at the end of each turn."""

    def __init__(self, books: Books, gang_turns: GangTurns, patience_s: float) -> None:
        """`patience_s`: who has not left by then is not waited for any longer."""
        self._books = books
        records, profiles = books.records, books.profiles
        self._records = records
        planner = self.planner = Planner(
            books.ledger, records, books.gangs, books.askers, profiles, books.boundary
        )
        self._patience_s = patience_s
        self._given_up: Timers[UnderWay] = Timers()
        self.under_way: dict[Nominee, UnderWay] = {}
        self.ranks = BoundRanks()
        self.departures = Departures(records, books.gangs, self.ranks)
        self._nominations = Nominations(records, profiles)
        self.queue = PreemptionQueue(books, planner, gang_turns, self.under_way, self.ranks)
        self._now = 0.0
        self._searched = False

    @property
    def is_due(self) -> bool:
        """Whether a turn would search, or see that a plan or a nomination came to nothing."""
        return self.queue.is_due or self._searched or self._nominations.is_due

    @property
    def next_at(self) -> float:
        """When time alone changes something; infinity when it does not."""
        return min(
            self._given_up.next_at,
            self.queue.next_at,
            self.departures.next_at,
            self._nominations.next_at,
        )

    def seen(self, record: Record | None, now: float) -> None:
        """What the API server shows of a pod."""
        if record is None:
            return
        self.ranks.note(record)
        self.departures.seen(record, now)
        self._nominations.seen(record)

    def gone(self, uid: PodUid) -> None:
        """The pod holds nothing any more."""
        self._nominations.gone(uid)
        self.ranks.gone(uid)
        if self.departures.gone(uid):
            self._not_awaited(uid)

    def dry_run(self, record: Record) -> tuple[PreemptionPlan, bool] | None:
        """What would be done for a pod that waits, whether it may be or not.

        True beside it: it is being done.
        """
        gang = self._books.gangs.of(record.pod.uid)
        nominee: Nominee = gang if gang is not None and gang.together else record.pod.uid
        known = self.under_way.get(nominee)
        if known is not None:
            return known.plan, True
        if isinstance(nominee, Gang) and len(nominee.waiting) < nominee.need:
            return None
        plan = self._search(nominee, self._now)
        self._books.earmarks.lay()
        return None if plan is None else (plan, False)

    def time_passed(self, now: float, effects: list[Effect]) -> None:
        """Victims that do not go are asked again, and at last given up."""
        self.queue.time_passed(now)
        self._nominations.time_passed(now)
        for one in self._given_up.due(now):
            if self.under_way.get(one.nominee) is one:
                self._give_up(one)
        for uid in self.departures.time_passed(now, effects):
            self._not_awaited(uid)
            # Nothing became free, so that nobody else wakes who waited for it.
            self._searched = True

    def turn(self, now: float, effects: list[Effect]) -> None:
        """At the end of a turn, before earmarks are laid: end plans, and make at most one."""
        self._now = now
        for one in list(self.under_way.values()):
            if self._books.earmarks.of(one.nominee) is None:
                self._end(one)
            elif not one.awaited and self.queue.was_tried(one.nominee):
                self._give_up(one)
        nominee = self.queue.take(now)
        self._searched = nominee is not None
        if nominee is None:
            self._nominations.take_back(now, effects)
            return
        self._books.attempts.preemptions += 1
        plan = self._search(nominee, now)
        if plan is None:
            self.queue.futile(nominee, now)
        else:
            self._begin(nominee, plan, now, effects)

    # --- inside --------------------------------------------------------------------------------

    def _search(self, nominee: Nominee, now: float) -> PreemptionPlan | None:
        """On the cluster as the nominee may see it: earmarks of others behind it do not count."""
        members = needed(nominee, self._records)
        leaving = [
            self._records[uid]
            for uid, since in self.departures.since.items()
            if now < since + self._patience_s and self._books.ledger.charge_of(uid) is not None
        ]
        earmarks = self._books.earmarks
        broken = earmarks.stand_at(_key_of(nominee, members[0])) if earmarks else None
        if broken is not None:
            return None  # it is tried first, and this one then again
        name = nominee.name if isinstance(nominee, Gang) else ""
        preemptor = preemptor_of([record.pod for record in members], name)
        number = self._books.attempts.preemptions
        plan = self.planner.plan(preemptor, members, leaving, number=number)
        return plan if plan is None or plan.victims or plan.awaited else None

    def _begin(
        self, nominee: Nominee, plan: PreemptionPlan, now: float, effects: list[Effect]
    ) -> None:
        earmarks = self._books.earmarks
        members = needed(nominee, self._records)
        name = f'pod group "{plan.preemptor.namespace}/{plan.preemptor.name}"'
        if not isinstance(nominee, Gang):
            name = f"pod {members[0].pod.key}"
        earmarks.end(nominee)
        for seat in plan.seats:
            earmarks.took(seat.node)
        holder = Holder(nominee, _key_of(nominee, members[0]), name, Cause.PREEMPTS, now)
        earmarks.hold(holder, {seat.uid: self._place(seat) for seat in plan.seats}, now)
        awaited = {victim.uid for victim in plan.victims} | {*plan.awaited}
        one = UnderWay(nominee, plan, now + self._patience_s, awaited)
        self.under_way[nominee] = one
        self._given_up.add(one.until, one)
        first = plan.seats[0]
        effects.append(Preempt(first.uid, first.key, plan))
        self._nominations.begin(plan, effects)
        for victim in plan.victims:
            eviction = _eviction(self._records[victim.uid], plan)
            effects.append(eviction)
            self.departures.ask(eviction, lambda: self.under_way.get(nominee) is one, now)

    def _place(self, seat: Seat) -> Charge:
        shape, columns = self._records[seat.uid].shape, self._books.ledger.columns
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

    def _give_up(self, one: UnderWay) -> None:
        """The nominee does not get what was planned."""
        self._books.earmarks.end(one.nominee)
        self._end(one)

    def _end(self, one: UnderWay) -> None:
        del self.under_way[one.nominee]
        self._nominations.end(one.plan)
        self.queue.again(one.nominee)

    def _not_awaited(self, uid: PodUid) -> None:
        """It is gone, or stays."""
        for one in self.under_way.values():
            one.awaited.discard(uid)


def _key_of(nominee: Nominee, first: Record) -> SortKey:
    return nominee.key if isinstance(nominee, Gang) else first.key


def _eviction(record: Record, plan: PreemptionPlan) -> Evict:
    pod, preemptor = record.pod, plan.preemptor
    # By no name: the victim's owner may not be allowed to see what is in other namespaces.
    by = f"{'the pod group of ' if preemptor.is_gang else ''}pod {plan.seats[0].uid}"
    message = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
    note = f"Preempted by {by} on node {record.node}"
    return Evict(pod.uid, pod.key, REASON, message, EVENT, note)
