"""How long capacity is kept for somebody for whom none becomes free.

What lies in its plan may be held by pods that never end. Then the rest of the cluster must not idle
for it: after some time without progress its earmarks are over, and it gets none for as long, then
for twice as long, and so on.
"""

from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.queue.earmarks import Holder, Nominee

#: Rests double at most so often.
MOST_DOUBLED = 6


@dataclass(frozen=True, slots=True)
class EarmarkRules:
    """Who waited for `after_s` may get earmarks; 0: nobody ever does.

    They are over when none of its places became free in `patience_s`; 0: they stay.
    """

    after_s: float = 60.0
    patience_s: float = 3600.0


def earmark_rules(configuration: SchedulerConfiguration) -> EarmarkRules:
    """What a configuration says about it."""
    return EarmarkRules(configuration.earmark_seconds, configuration.earmark_patience_seconds)


@dataclass(slots=True)
class _Rest:
    """`until`: s. `times`: how often its earmarks were over so far."""

    until: float
    times: int


class EarmarkPatience:
    """Watches the one that has earmarks because it starves."""

    def __init__(self, ledger: Ledger, patience_s: float) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._holder: Holder | None = None
        self._look_at = 0.0
        self._ready = 0
        self._rests: dict[Nominee, _Rest] = {}

    def look(self, holder: Holder | None, now: float) -> float | None:
        """When to look again at who has earmarks now (s); None if nobody has to.

        With earmarks laid. `is_over` says what came of it.
        """
        if holder is None or not self._patience_s:
            self._holder = None
            return None
        if self._holder is not holder:
            self._holder, self._ready = holder, self._places_ready(holder)
            self._look_at = now + self._patience_s
        elif now >= self._look_at:
            ready = self._places_ready(holder)
            if ready <= self._ready:
                self._give_up(holder.nominee, now)
                return None
            self._ready, self._look_at = ready, now + self._patience_s
        return self._look_at

    def rests_until(self, nominee: Nominee) -> float:
        """Before that (s) it gets no earmarks again."""
        rest = self._rests.get(nominee)
        return 0.0 if rest is None else rest.until

    def _give_up(self, nominee: Nominee, now: float) -> None:
        self._holder = None
        before = self._rests.pop(nominee, None)
        times = 1 if before is None else before.times + 1
        longest = self._patience_s * 2.0**MOST_DOUBLED
        # Of who rested for long and did not come again nothing needs to be known.
        self._rests = {one: rest for one, rest in self._rests.items() if now < rest.until + longest}
        until = now + self._patience_s * 2.0 ** min(times - 1, MOST_DOUBLED)
        self._rests[nominee] = _Rest(until, times)

    def _places_ready(self, holder: Holder) -> int:
        """How many of its places nobody else holds anything of."""
        return sum(self._is_ready(uid) for uid in holder.uids)

    def _is_ready(self, uid: PodUid) -> bool:
        columns, place = self._ledger.columns, self._ledger.earmarks[uid]
        row = columns.row_of[place.node]
        if (columns.free[row] < 0).any():
            return False
        cards = () if place.allocation is None else place.allocation.cards
        for card in cards:
            if card.uuid not in columns.uuids[row]:
                return False
            slot = columns.uuids[row].index(card.uuid)
            free = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
            others = columns.tenants.item(row, slot) - columns.earmarks.item(row, slot)
            if min(free) < 0 or (others and columns.exclusive.item(row, slot)):
                return False
        return True
