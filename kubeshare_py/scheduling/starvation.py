"""When the first of those that wait gets earmarks, so that it is not starved by smaller pods.

A gang, or a pod that wants whole cards, may never find room while small pods take each share that
becomes free. Who has waited for some time, and stands before all others that wait like it,
has places planned for it: free ones, and such that others still hold. As long as it waits the plan
follows what happens. Of those that wait only one has earmarks, and nobody who could not be placed
if nobody held anything.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.scheduling.books import Books
from kubeshare_py.scheduling.earmark_patience import EarmarkPatience, EarmarkRules
from kubeshare_py.scheduling.earmark_plan import EarmarkPlan, Wanted
from kubeshare_py.scheduling.earmarks import Cause, Holder, Nominee, contender_of
from kubeshare_py.scheduling.gang_turns import GangTurns
from kubeshare_py.scheduling.gangs import Gang
from kubeshare_py.scheduling.pod_queue import SortKey
from kubeshare_py.scheduling.pod_records import Record
from kubeshare_py.scheduling.timers import Timers

#: Of those that wait so many are looked at, and for so many of them places are planned at once.
MOST_LOOKED_AT, MOST_PLANS = 64, 2
#: A plan is followed for so long (s), and for as many seconds as this many members make.
PLAN_S, MEMBERS_A_SECOND = 1.0, 100


@dataclass(slots=True)
class _Waiting:
    """Somebody who may get earmarks. `since`: s."""

    key: SortKey
    nominee: Nominee
    name: str
    since: float


class Starvation:
    """Works on the machine's books; holds when to look again."""

    def __init__(self, books: Books, gang_turns: GangTurns, rules: EarmarkRules) -> None:
        self._ledger, self._queue, self._earmarks = books.ledger, books.queue, books.earmarks
        self._members = books.gangs
        self._gangs = gang_turns.queue
        self._records = books.records
        rooms, places = gang_turns.rooms, gang_turns.places
        self._plan = EarmarkPlan(books.ledger, books.cycle, books.askers, rooms, books.work, places)
        self._after_s = rules.after_s or math.inf
        self._patience = EarmarkPatience(books.ledger, rules.patience_s)
        self._due: Timers[None] = Timers()
        self._seen = (0, 0)
        #: Until when nothing is planned again, because there was no way (s).
        self._not_before = -math.inf
        #: Whether a turn is to look who stands first.
        self.is_due = False

    @property
    def next_at(self) -> float:
        """When somebody will have waited for long enough; infinity when nobody will."""
        return self._due.next_at

    def pod_waits(self, record: Record, now: float) -> None:
        """The first pod of a line was tried and does not fit."""
        if wants_whole_cards(record.pod.shape):
            self._waits(self._one(record.pod.uid, now), now)

    def gang_waits(self, gang: Gang, now: float) -> None:
        """A gang was tried and does not fit."""
        if gang.short_since is not None and any(shape.claim for _, shape in gang.shapes):
            self._waits(self._one(gang, now), now)

    def outgrown(self, now: float) -> Holder | None:
        """A holder whose plan is so old that it is worth a new one, now that something improved."""
        holder = self._earmarks.starving()
        return holder if holder is not None and _is_old(holder, now) else None

    def time_passed(self, now: float) -> None:
        """Somebody has waited for long enough."""
        if self._due.due(now):
            self.is_due = True

    def look(self, now: float) -> None:
        """Give earmarks to who stands first, at the end of a turn."""
        self.time_passed(now)
        news = (self._earmarks.ended, self._ledger.capacities)
        if not self.is_due and news == self._seen:
            return
        self.is_due, self._seen = False, news
        if self._after_s == math.inf:
            return
        holder = self._patient(now)
        plans = 0
        for one in nsmallest(MOST_LOOKED_AT, self._waiting(now), key=lambda one: one.key):
            if holder is not None and holder.key <= one.key:
                return
            wanted = self._wanted(one.nominee)
            if not self._plan.may_ever_fit(wanted):
                continue
            if now < one.since + self._after_s:
                self._look_at(one.since + self._after_s)
                return
            if self._give(one, wanted, now):
                self._patient(now)
                return
            plans += 1
            if plans == MOST_PLANS:
                break
        if plans:
            self._not_before = now + self._after_s
            self._look_at(self._not_before)

    # --- inside --------------------------------------------------------------------------------

    def _patient(self, now: float) -> Holder | None:
        """Who has earmarks, unless nothing became free for it for long: then it has none now."""
        holder = self._earmarks.starving()
        look_at = self._patience.look(holder, now)
        if look_at is not None:
            self._look_at(look_at)
        elif holder is not None and now < self._patience.rests_until(holder.nominee):
            self._earmarks.end(holder.nominee)
            return None
        return holder

    def _look_at(self, when: float) -> None:
        if when < self._due.next_at:
            self._due.add(when, None)

    def _waits(self, one: _Waiting, now: float) -> None:
        holder = self._earmarks.starving()
        if holder is None or one.key < holder.key:
            due = one.since + self._after_s
            self._look_at(max(due, self._not_before, self._rests_until(one), now))
        elif holder.nominee == one.nominee:
            self._follow(holder, one, now)

    def _follow(self, holder: Holder, one: _Waiting, now: float) -> None:
        """A holder was tried, and does not fit: plan anew, unless that was done just now."""
        if holder.uids and not holder.is_broken and not _is_old(holder, now):
            return
        holder.key = one.key
        places = self._plan.places(self._wanted(one.nominee))
        if places:
            self._earmarks.hold(holder, places, now)
        else:
            self._earmarks.end(one.nominee)

    def _give(self, one: _Waiting, wanted: Wanted, now: float) -> bool:
        """Plan as if nobody behind it had any; who had some keeps them if there is no way."""
        self._earmarks.show_to(contender_of(one.nominee, self._records))
        places = self._plan.places(wanted)
        if places:
            before = self._earmarks.starving()
            if before is not None:
                self._earmarks.end(before.nominee)
            holder = Holder(one.nominee, one.key, one.name, Cause.STARVES, now)
            self._earmarks.hold(holder, places, now)
        self._earmarks.lay()
        return bool(places)

    def _waiting(self, now: float) -> Iterator[_Waiting]:
        """The first of each line that may get earmarks and has none."""
        for one in self._blocked(now):
            holder, rests_until = self._earmarks.of(one.nominee), self._rests_until(one)
            if now < rests_until:
                self._look_at(rests_until)
            elif holder is None or holder.cause is Cause.STARVES:
                yield one

    def _rests_until(self, one: _Waiting) -> float:
        return self._patience.rests_until(one.nominee)

    def _blocked(self, now: float) -> Iterator[_Waiting]:
        for line in self._gangs.lines():
            if line.shortage is not None and any(shape.claim for _, shape in line.shapes):
                gang = min(line.gangs, key=lambda gang: gang.key)
                if gang.short_since is not None:
                    yield self._one(gang, now)
        for pods in self._queue.blocked():
            head = pods.head()
            if head is not None and wants_whole_cards(pods.shape):
                yield self._one(head[1], now)

    def _one(self, nominee: Nominee, now: float) -> _Waiting:
        if isinstance(nominee, Gang):
            name = f'pod group "{nominee.namespace}/{nominee.name}"'
            since = now if nominee.short_since is None else nominee.short_since
            return _Waiting(nominee.key, nominee, name, since)
        record = self._records[nominee]
        since = now if record.queued_at is None else record.queued_at
        return _Waiting(record.key, nominee, f"pod {record.pod.key}", since)

    def _wanted(self, nominee: Nominee) -> Wanted:
        if isinstance(nominee, Gang):
            gang, members = nominee, sorted(nominee.waiting.values(), key=lambda one: one.key)
            return Wanted(members, gang.need, True, gang.within, gang.nodes())
        record, of = self._records[nominee], self._members.of(nominee)
        group = record.pod.group
        if of is None or group is None:
            return Wanted([record], 1)
        return Wanted([record], 1, within=group.within, nodes=of.nodes())


def _is_old(holder: Holder, now: float) -> bool:
    return now >= holder.planned_at + max(PLAN_S, len(holder.uids) / MEMBERS_A_SECOND)


def wants_whole_cards(shape: Shape) -> bool:
    """Whether small pods could take for ever what such a pod needs."""
    claim = shape.claim
    return claim is not None and (claim.exclusive or claim.count > 1 or claim.milli >= WHOLE_MILLI)
