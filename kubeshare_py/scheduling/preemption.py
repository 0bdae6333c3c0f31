"""Preemptions under way: who is to be searched for, plans that are carried out, and their ends.

A search follows every try that found no place. A plan gives its nominee earmarks and asks for the
victims' deletion; then the nominee is tried in its turn like everybody else. The plan is over when
its earmarks are: the nominee was placed, somebody before it took the place, or it is gone. It is
given up when nobody is left to be waited for and the nominee still does not fit, or when
victims do not leave in time; then another search may follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Effect, Evict, Nominate, Preempt
from kubeshare_py.domain.identity import DecisionToken, PodUid
from kubeshare_py.domain.preemption import PreemptionPlan, Seat
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.books import Books
from kubeshare_py.scheduling.bound_ranks import BoundRanks
from kubeshare_py.scheduling.earmarks import Cause, Holder, Nominee
from kubeshare_py.scheduling.gang_turns import GangTurns
from kubeshare_py.scheduling.gangs import Gang
from kubeshare_py.scheduling.pod_records import Record, State
from kubeshare_py.scheduling.preemption_planner import Planner, preemptor_of
from kubeshare_py.scheduling.preemption_queue import PreemptionQueue, needed
from kubeshare_py.scheduling.timers import Timers

#: The reason in the victims' condition, and that of their event, as kube-scheduler's.
REASON, EVENT = "PreemptionByScheduler", "Preempted"
#: A deletion that did not happen is asked for again after this time (s).
AGAIN_S = 10.0


@dataclass(slots=True, eq=False)
class UnderWay:
    """A plan that is carried out. `awaited` are pods that still hold something."""

    nominee: Nominee
    plan: PreemptionPlan
    until: float
    awaited: set[PodUid]


class Preemption:
    """Works on the machine's books, at the end of each turn."""

    def __init__(
        self,
        books: Books,
        records: Mapping[PodUid, Record],
        profiles: Mapping[str, Profile],
        gang_turns: GangTurns,
        patience_s: float,
    ) -> None:
        """`patience_s`: who has not left by then is not waited for any longer."""
        self._books = books
        self._records = records
        planner = self.planner = Planner(books.ledger, records, books.gangs, books.askers, profiles)
        self._patience_s = patience_s
        self._due: Timers[UnderWay | None] = Timers()
        #: Pods that leave, and since when.
        self._leaving: dict[PodUid, float] = {}
        self.under_way: dict[Nominee, UnderWay] = {}
        self.ranks = BoundRanks()
        self.queue = PreemptionQueue(
            books, records, planner, gang_turns, self.under_way, self.ranks
        )
        #: Waiting pods that carry a nomination, whosever it is.
        self._nominated: set[PodUid] = set()
        self._now = 0.0
        self._searched = False

    @property
    def is_due(self) -> bool:
        """Whether a turn would search, or see that a nomination came to nothing."""
        return self.queue.is_due or self._searched

    @property
    def next_at(self) -> float:
        """When time alone changes something; infinity when it does not."""
        return min(self._due.next_at, self.queue.next_at)

    def seen(self, record: Record | None, now: float) -> None:
        """What the API server shows of a pod."""
        if record is None:
            return
        pod = record.pod
        self.ranks.note(record)
        if pod.node_name is not None and pod.deleting:
            self._leaving.setdefault(pod.uid, now)
        elif pod.node_name is None and pod.nominated:
            self._nominated.add(pod.uid)

    def gone(self, uid: PodUid) -> None:
        """The pod holds nothing any more."""
        self._nominated.discard(uid)
        self.ranks.gone(uid)
        if self._leaving.pop(uid, None) is not None:
            for one in self.under_way.values():
                one.awaited.discard(uid)

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
        for one in self._due.due(now):
            if one is None or self.under_way.get(one.nominee) is not one:
                continue
            if now >= one.until:
                self._give_up(one)
                continue
            self._due.add(min(now + AGAIN_S, one.until), one)
            for victim in one.plan.victims:
                record = self._records.get(victim.uid)
                if record is not None and record.evicted and not record.pod.deleting:
                    effects.append(_eviction(record, one.plan))

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
            self._take_back_nominations(effects)
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
            for uid, since in self._leaving.items()
            if now < since + self._patience_s and self._books.ledger.charge_of(uid) is not None
        ]
        earmarks = self._books.earmarks
        broken = earmarks.stand_at(_key_of(nominee, members[0])) if earmarks else None
        if broken is not None:
            return None  # it is tried first, and this one then again
        name = nominee.name if isinstance(nominee, Gang) else ""
        preemptor = preemptor_of([record.pod for record in members], name)
        plan = self.planner.plan(preemptor, members, leaving)
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
        self._due.add(now + AGAIN_S, one)
        first = plan.seats[0]
        effects.append(Preempt(first.uid, first.key, plan))
        self._nominated.update(seat.uid for seat in plan.seats)
        effects += [Nominate(seat.uid, seat.key, seat.node, seat.cards) for seat in plan.seats]
        for victim in plan.victims:
            record = self._records[victim.uid]
            effects.append(_eviction(record, plan))
            record.evicted = True
            self.ranks.note(record)
            self._leaving.setdefault(victim.uid, now)
            self._books.gangs.file(record)

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
        self.queue.again(one.nominee)

    def _take_back_nominations(self, effects: list[Effect]) -> None:
        """Nominations that no plan stands behind, such as those of a scheduler before this one.

        Of a pod that is bound the API server takes it back; until it is, it may wait again.
        """
        plans = (one.plan for one in self.under_way.values())
        nominees = {seat.uid for plan in plans for seat in plan.seats}
        # Those that a plan stands behind stay: of others there are few.
        for uid in sorted(self._nominated - nominees):
            record = self._records.get(uid)
            if record is None or record.state is State.BOUND:
                self._nominated.discard(uid)
            elif record.node is None:
                effects.append(Nominate(uid, record.pod.key, None))
                self._nominated.discard(uid)


def _key_of(nominee: Nominee, first: Record) -> tuple[int | str, ...]:
    return nominee.key if isinstance(nominee, Gang) else first.key


def _eviction(record: Record, plan: PreemptionPlan) -> Evict:
    pod, preemptor = record.pod, plan.preemptor
    # By no name: the victim's owner may not be allowed to see what is in other namespaces.
    by = f"{'the pod group of ' if preemptor.is_gang else ''}pod {plan.seats[0].uid}"
    message = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
    note = f"Preempted by {by} on node {record.node}"
    return Evict(pod.uid, pod.key, REASON, message, EVENT, note)
