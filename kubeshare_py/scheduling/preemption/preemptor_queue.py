"""Chooses the preemptor to search for next: pods that were tried, do not fit, and may evict."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from kubeshare_py.domain.effects import PreemptionPlan, Preemptor
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.remembered import MAX_BYTES, weight_of
from kubeshare_py.scheduling.iteration_budget import IterationBudget
from kubeshare_py.scheduling.preemption.planner import Planner, preemptor_of
from kubeshare_py.scheduling.preemption.potential_victims import LowestPriority
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import FairHeap, ShapeQueue, Shares, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.reservations import Nominee, needed
from kubeshare_py.scheduling.queue.timers import Timers, backoff_s
from kubeshare_py.scheduling.state import State

#: The most failed searches that are remembered.
FUTILE_KEPT = 4096

#: The most shape queues and gangs looked at per iteration, and the most first pods of a shape
#: queue.
LOOKS_PER_ITERATION, MAX_LOOKED_AT = 500, 500

#: The cost of a search without its questions, in rows of about 0.4 µs: some milliseconds.
A_SEARCH = 5_000

#: The remark on a preemptor that has used up its plans.
EXHAUSTED = "Pods were evicted for it {} times, and it has no place: it evicts no more."

#: Ranks above and below all.
NOBODY, NOTHING = (math.inf, True), (-math.inf, False)
#: Nominees of equal rank in one shape queue, and of one namespace if that matters, have the same
#: outcome.
_Alike = tuple[object, ...]


class Futile(NamedTuple):
    """Searches in vain: how many, when (s) the next is due, and what the last one found.

    That is a text about so many nodes, "" if there is none.
    """

    tries: int = 0
    until: float = 0.0
    nodes: int = 0
    text: str = ""


class PreemptionQueue:
    """Unschedulable queues and gangs: new ones, and those whose failed search is due again."""

    def __init__(
        self,
        state: State,
        planner: Planner,
        budget: IterationBudget,
        under_way: Mapping[Nominee, object],
        ranks: LowestPriority,
        most_plans: int,
    ) -> None:
        """`most_plans`: how many times one nominee may evict others."""
        self._records = state.records
        self._pod_queue, self._gang_queue = state.queue, state.gang_queue
        self._queue_shares, self._attempts = state.shares, state.attempts
        self._budget = budget
        self._planner = planner
        self._under_way = under_way
        self._ranks = ranks
        self._most_plans = most_plans
        #: Candidates, with the sort key at which each stands. Searches have fair shares of their
        #: own: a round lasts until every owner with candidates has had its share.
        self._due: dict[ShapeQueue | Gang, SortKey] = {}
        self._shares = Shares()
        self._candidates: FairHeap[ShapeQueue | Gang] = FairHeap(
            self._shares, self._stands_at, self._due.__len__
        )
        #: Candidates that were found under a former owner.
        self._moved: dict[ShapeQueue | Gang, None] = {}
        #: Candidates still to be looked at, some in each iteration.
        self._unlooked: list[ShapeQueue | Gang] = []
        self._retry: Timers[ShapeQueue | Gang] = Timers(state.alarms)
        self._futile: dict[_Alike, Futile] = {}
        self._futile_bytes = 0
        #: The lowest bound rank when a candidate that could evict no pod was passed over; the
        #: highest such rank.
        self._passed_over_at = NOTHING

    @property
    def is_due(self) -> bool:
        """Whether there is a candidate to search for."""
        return bool(
            self._due
            or self._unlooked
            or self._pod_queue.newcomers
            or self._gang_queue.newcomers
            or (self._passed_over_at is not NOTHING and self._lowest() < self._passed_over_at)
        )

    @property
    def is_idle(self) -> bool:
        """Whether `take` would change nothing: there is no candidate, and no round to end."""
        return not (self._shares.spent or self.is_due)

    @property
    def is_behind(self) -> bool:
        """Whether some candidates were not looked at yet."""
        return bool(self._unlooked)

    def unschedulable(self, who: ShapeQueue | Gang) -> None:
        """A shape queue or gang was tried and does not fit."""
        key = self._key(who)
        if key is not None and self._due.get(who) != key:
            self._put(who, key)

    def again(self, nominee: Nominee) -> None:
        """A nominee's plan ended: it waits with its equals again."""
        if isinstance(nominee, Gang):
            if nominee.needs_quorum and nominee.waiting:
                self._note_plans(nominee)
            else:
                nominee.plans, nominee.remark = 0, ""
            self._gang_queue.move(nominee, alone=False)
            self.unschedulable(nominee)
            return
        shape_queue = self._pod_queue.queue_of(nominee)
        if shape_queue is None:
            return
        self._note_plans(self._records[nominee])
        if self._records[nominee].remark:
            # Its message differs from that of the pods in its shape queue.
            shape_queue.diagnosis = None
            self._pod_queue.activate(shape_queue)
        else:
            self._pod_queue.move(nominee, alone=False)
            shape_queue = self._pod_queue.queue_of(nominee)
            if shape_queue is not None:
                self.unschedulable(shape_queue)

    def _note_plans(self, owner: Gang | Record) -> None:
        """Set the remark of an owner that has used up its plans."""
        if owner.plans >= self._most_plans and not owner.remark:
            owner.remark = EXHAUSTED.format(owner.plans)
            self._attempts.exhausted += 1

    def set_apart(self, nominee: Nominee) -> None:
        """Move a nominee to a shape queue of its own: it may take what pods before it may not."""
        if isinstance(nominee, Gang):
            self._gang_queue.move(nominee, alone=True)
        else:
            self._pod_queue.move(nominee, alone=True)

    def wake(self, nominee: Nominee) -> None:
        """Wake a nominee, which may fit now although no row improved."""
        if isinstance(nominee, Gang):
            composition_queue = self._gang_queue.queue_of(nominee)
            if composition_queue is not None:
                self._gang_queue.activate(composition_queue)
        else:
            shape_queue = self._pod_queue.queue_of(nominee)
            if shape_queue is not None:
                self._pod_queue.activate(shape_queue)

    def was_tried(self, nominee: Nominee) -> bool:
        """Whether the nominee was tried and does not fit now."""
        if self._budget.sweeps:
            return False
        if isinstance(nominee, Gang):
            return self._gang_queue.queue_of(nominee) is not None
        shape_queue = self._pod_queue.queue_of(nominee)
        return shape_queue is not None and shape_queue.unschedulable

    def time_passed(self, now: float) -> None:
        """Make failed searches due again."""
        for who in self._retry.due(now):
            self.unschedulable(who)

    def take(self, now: float) -> Nominee | None:
        """The first nominee, of those looked at so far, that may evict some pod.

        A namespace that has used its share of searches lets all others pass.
        """
        if self._passed_over_at is not NOTHING and self._lowest() < self._passed_over_at:
            self._look_at_all()
        for newcomers in (self._pod_queue.newcomers, self._gang_queue.newcomers):
            self._unlooked.extend(newcomers)
            newcomers.clear()
        for _ in range(min(LOOKS_PER_ITERATION, len(self._unlooked))):
            self.unschedulable(self._unlooked.pop())
        for _ in range(LOOKS_PER_ITERATION):
            who = self._first()
            if who is None:
                return None
            found = self._searched_for(who, now)
            if found is None:
                del self._due[who]
                self._passed_over_at = max(self._passed_over_at, self._lowest())
            elif found[0] == self._due[who]:
                return found[1]
            else:
                self._put(who, found[0])
        return None

    def spend(self, nominee: Nominee, cost: int) -> None:
        """Charge a search to its owner: `cost` rows for questions, and the fixed cost."""
        cost += A_SEARCH
        shape_queue = nominee if isinstance(nominee, Gang) else self._pod_queue.queue_of(nominee)
        if shape_queue is not None:
            self._shares.spend(shape_queue.owner, cost)
            self._queue_shares.spend(shape_queue.owner, cost)

    def futile(self, nominee: Nominee, now: float, found: tuple[int, str] = (0, "")) -> None:
        """Record that no eviction would help; the search is tried again later.

        `found`: the number of nodes, and what is said of them.
        """
        alike = self._alike(nominee)
        tries = self._futile.get(alike, Futile()).tries + 1
        if alike not in self._futile and not isinstance(nominee, Gang):
            self._futile_bytes += weight_of(self._records[nominee].shape)
        if len(self._futile) > FUTILE_KEPT or self._futile_bytes > MAX_BYTES:
            self._futile.clear()
            self._futile_bytes = 0
        until = now + backoff_s(tries)
        self._futile[alike] = Futile(tries, until, *found)
        shape_queue = nominee if isinstance(nominee, Gang) else self._pod_queue.queue_of(nominee)
        if shape_queue is not None:
            self._retry.add(until, shape_queue)

    def is_above_another(self, nominee: Nominee) -> bool:
        """Whether some pod that may be evicted ranks lower."""
        return self.ranks_above_another(
            preemptor_of([one.pod for one in needed(nominee, self._records)])
        )

    def ranks_above_another(self, preemptor: Preemptor) -> bool:
        """The same of a preemptor that need not wait."""
        return self._lowest() < (preemptor.priority, preemptor.guarantee)

    def searched(self, record: Record) -> Futile | None:
        """What the last search for a pod like this one found, if it was in vain."""
        return self._futile.get(self._alike(record.pod.uid))

    # --- inside --------------------------------------------------------------------------------

    def _put(self, who: ShapeQueue | Gang, key: SortKey) -> None:
        self._due[who] = key
        self._candidates.push(who.owner, key, who)

    def _first(self) -> ShapeQueue | Gang | None:
        """The first candidate; starts another round of shares when all have used theirs."""
        first = self._first_of_round()
        if first is None and self._shares.new_round():
            self._candidates.let_on()
            first = self._first_of_round()
        return first

    def _first_of_round(self) -> ShapeQueue | Gang | None:
        """The first candidate, after those under a former owner moved to their own."""
        first = self._candidates.first()
        while self._moved:
            moved = list(self._moved)
            self._moved.clear()
            for who in moved:
                if who in self._due:
                    self._candidates.push(who.owner, self._due[who], who)
            first = self._candidates.first()
        return first

    def _stands_at(self, who: ShapeQueue | Gang, owner: str, key: SortKey) -> bool:
        if self._due.get(who) != key:
            return False
        if who.owner != owner:
            self._moved[who] = None
            return False
        return True

    @staticmethod
    def _key(who: ShapeQueue | Gang) -> SortKey | None:
        """The sort key of a candidate; None if none of its pods waits."""
        if isinstance(who, Gang):
            return who.key
        head = who.head()
        return None if head is None else head[0]

    def _searched_for(self, who: ShapeQueue | Gang, now: float) -> tuple[SortKey, Nominee] | None:
        """The nominee to search for, a shape queue's pod or the gang, and its sort key."""
        if isinstance(who, ShapeQueue):
            uid = self._first_of(who, now)
            return None if uid is None else (who.waiting[uid], uid)
        composition_queue = self._gang_queue.queue_of(who)
        if composition_queue is None or composition_queue.shortage is None:
            return None
        if not self._may_search(who, now):
            return None
        return who.key, who

    def _first_of(self, shape_queue: ShapeQueue, now: float) -> PodUid | None:
        """The first pod of an unschedulable queue that a search may help."""
        head = shape_queue.head()
        if (
            not shape_queue.unschedulable
            or head is None
            or not self._planner.is_on(shape_queue.profile)
        ):
            return None
        if not self.is_above_another(head[1]):
            return None
        # Thousands may wait in one shape queue, most of them equal: one verdict serves all of
        # those, and pods far behind the first are not looked at.
        verdicts: dict[tuple[object, ...], bool] = {}
        able = []
        for key, uid in shape_queue.heap[:MAX_LOOKED_AT]:
            if uid in self._under_way or shape_queue.waiting.get(uid) != key:
                continue
            pod = self._records[uid].pod
            alike = (*_standing(pod), pod.preempts)
            if alike not in verdicts:
                verdicts[alike] = self._may_search(uid, now)
            if verdicts[alike]:
                able.append(uid)
        return min(able, key=shape_queue.waiting.__getitem__, default=None)

    def may_plan(self, nominee: Nominee) -> bool:
        """Whether its profile, its pods and its number of plans let it evict others."""
        members = needed(nominee, self._records)
        if not members or self._owner(nominee).plans >= self._most_plans:
            return False
        is_on = self._planner.is_on(members[0].pod.scheduler_name)
        # The API server may refuse the freed place, too.
        return is_on and all(one.pod.preempts and not one.shape.avoided for one in members)

    def count(self, nominee: Nominee, plan: PreemptionPlan) -> None:
        """Count a plan that is carried out, if it has victims."""
        if plan.victims:
            self._owner(nominee).plans += 1

    def _owner(self, nominee: Nominee) -> Gang | Record:
        return nominee if isinstance(nominee, Gang) else self._records[nominee]

    def _may_search(self, nominee: Nominee, now: float) -> bool:
        if nominee in self._under_way:
            return False
        if self._futile.get(self._alike(nominee), Futile()).until > now:
            return False
        return self.may_plan(nominee) and self.is_above_another(nominee)

    def _look_at_all(self) -> None:
        """Look at all waiting pods again, because a lower rank is bound now."""
        self._passed_over_at = NOTHING
        self._unlooked = [*self._pod_queue.unschedulable()]
        for composition_queue in self._gang_queue.queues():
            self._unlooked.extend(composition_queue.gangs)

    def _lowest(self) -> tuple[float, bool]:
        return self._ranks.lowest() or NOBODY

    def _alike(self, nominee: Nominee) -> _Alike:
        if isinstance(nominee, Gang):
            return (nominee, nominee.need)
        record = self._records[nominee]
        return (record.pod.scheduler_name, record.shape, *_standing(record.pod))


def _standing(pod: Pod) -> tuple[int, bool, str]:
    """What decides, for pods of one shape queue, which pods may be evicted for them."""
    guarantee = pod.label_priority > 0
    return pod.priority, guarantee, pod.key.namespace if guarantee else ""
