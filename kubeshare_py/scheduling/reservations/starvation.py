"""Gives earmarks to the first waiting pod or gang, so that smaller pods do not starve it.

A gang, or a pod that needs whole cards, may never find room while small pods take each share that
becomes free. If it has waited for some time and stands before all others like it, places are
planned for it: free ones, and ones that pods still hold. While it waits, the plan follows events.
At any time only one nominee has earmarks, and only one that would fit on an empty cluster.
"""

import math
from dataclasses import dataclass
from heapq import nsmallest

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.scheduling.binding.books import Books
from kubeshare_py.scheduling.binding.cycle import LOOK
from kubeshare_py.scheduling.pod_groups.gang_queue import GangLine
from kubeshare_py.scheduling.pod_groups.gang_turns import GangTurns
from kubeshare_py.scheduling.queue.earmarks import Cause, Holder, Nominee, contender_of
from kubeshare_py.scheduling.queue.gangs import Gang
from kubeshare_py.scheduling.queue.pod_queue import Line, SortKey
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.timers import Timers
from kubeshare_py.scheduling.reservations.earmark_patience import EarmarkPatience, EarmarkRules
from kubeshare_py.scheduling.reservations.earmark_plan import EarmarkPlan, Wanted

#: The most nominees that are looked at, and the most plans at a time.
MOST_LOOKED_AT, MOST_PLANS = 64, 2
#: The most lines that one turn looks at.
LINES_AT_ONCE = 500
#: A plan is kept for this time (s), and for the seconds that its members make at this rate.
PLAN_S, MEMBERS_A_SECOND = 1.0, 100

_Line = Line | GangLine


@dataclass(slots=True)
class _Waiting:
    """A nominee that may get earmarks. `since`: s."""

    key: SortKey
    nominee: Nominee
    name: str
    since: float


class Starvation:
    """Decides which nominee gets earmarks, and when to look again."""

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
        #: Until when (s) nothing is planned, because there was no way.
        self._not_before = -math.inf
        self._work = books.work
        self._is_due = False
        #: Lines still to be looked at, None if all were, and the first pods of the others.
        self._left: list[_Line] | None = None
        self._firsts: list[tuple[_Waiting, _Line]] = []

    @property
    def is_due(self) -> bool:
        """Whether a turn must look at the first nominees."""
        return self._is_due or self._left is not None

    @property
    def next_at(self) -> float:
        """When the next nominee will have waited long enough; infinity if none is waiting."""
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
        """The holder, if its plan is old enough to be made anew after an improvement."""
        holder = self._earmarks.starving()
        return holder if holder is not None and _is_old(holder, now) else None

    def time_passed(self, now: float) -> None:
        """Look at the first nominees if one has waited long enough."""
        if self._due.due(now):
            self._is_due = True

    def look(self, now: float) -> None:
        """Give earmarks to the first nominee, at the end of a turn.

        If there are many lines, each turn looks at some, until all were looked at.
        """
        self.time_passed(now)
        news = (self._earmarks.ended, self._ledger.capacities)
        if self._left is None:
            if not self._is_due and news == self._seen:
                return
            self._is_due, self._seen = False, news
            if self._after_s == math.inf:
                return
            self._left = [*self._queue.blocked(), *self._gangs.lines()]
        if self._look_on(self._left, now):
            return
        holder = self._patient(now)
        # Some may have got a place in the meantime.
        again = (self._waiting(line, now) for _, line in self._firsts)
        firsts = sorted((one for one in again if one is not None), key=lambda one: one.key)
        self._left, self._firsts = None, []
        self._give_to_first(firsts, holder, now)

    # --- inside --------------------------------------------------------------------------------

    def _look_on(self, left: list[_Line], now: float) -> bool:
        """Look at some more lines; whether any are left."""
        lines, left[-LINES_AT_ONCE:] = left[-LINES_AT_ONCE:], []
        self._work.other += LOOK * len(lines)
        found = [(one, line) for line in lines if (one := self._waiting(line, now)) is not None]
        self._firsts = nsmallest(MOST_LOOKED_AT, self._firsts + found, key=lambda pair: pair[0].key)
        return bool(left)

    def _give_to_first(self, firsts: list[_Waiting], holder: Holder | None, now: float) -> None:
        """Give earmarks to the first of these that has a way; `holder` has some now."""
        plans = 0
        for one in firsts:
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

    def _patient(self, now: float) -> Holder | None:
        """The present holder; its earmarks end if nothing became free for it for long."""
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
        """A holder was tried and does not fit: plan anew, unless its plan is recent."""
        if holder.uids and not holder.is_broken and not _is_old(holder, now):
            return
        holder.key = one.key
        places = self._plan.places(self._wanted(one.nominee))
        if places:
            self._earmarks.hold(holder, places, now)
        else:
            self._earmarks.end(one.nominee)

    def _give(self, one: _Waiting, wanted: Wanted, now: float) -> bool:
        """Plan as if no nominee behind it had earmarks; if there is no way, they are kept."""
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

    def _waiting(self, line: _Line, now: float) -> _Waiting | None:
        """The first nominee of a line, if it may get earmarks and has none."""
        one = self._blocked(line, now)
        if one is None:
            return None
        holder, rests_until = self._earmarks.of(one.nominee), self._rests_until(one)
        if now < rests_until:
            self._look_at(rests_until)
            return None
        return one if holder is None or holder.cause is Cause.STARVES else None

    def _rests_until(self, one: _Waiting) -> float:
        return self._patience.rests_until(one.nominee)

    def _blocked(self, line: _Line, now: float) -> _Waiting | None:
        """The first of a line that waits for room, if it needs whole cards or is a gang."""
        if isinstance(line, Line):
            head = line.head() if line.blocked and wants_whole_cards(line.shape) else None
            return None if head is None else self._one(head[1], now)
        if line.shortage is None or not any(shape.claim for _, shape in line.shapes):
            return None
        gang = min(line.gangs, key=lambda gang: gang.key, default=None)
        if gang is None or gang.short_since is None or self._gangs.line_of(gang) is not line:
            return None
        return self._one(gang, now)

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
    """Whether small pods could for ever take what such a pod needs."""
    claim = shape.claim
    return claim is not None and (claim.exclusive or claim.count > 1 or claim.milli >= WHOLE_MILLI)
