"""Limits how long capacity is reserved for a pod or gang when none becomes free.

The planned places may be held by pods that never end, and the rest of the cluster must not idle for
that. After some time without progress the reservations end, and the nominee gets none for as long,
then for twice as long, and so on.
"""

from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.queue.reservations import Nominee, Reservation

#: The most doublings of the time without reservations.
MAX_DOUBLED = 6


@dataclass(frozen=True, slots=True)
class ReservationRules:
    """A pod or gang that has waited for `after_s` may get reservations; with 0 none ever does.

    They end if none of its places became free within `patience_s`; with 0 they never do. Both in
    seconds.
    """

    after_s: float = 60.0
    patience_s: float = 3600.0


def reservation_rules(configuration: SchedulerConfiguration) -> ReservationRules:
    """The rules of a configuration."""
    return ReservationRules(
        configuration.reservation_seconds, configuration.reservation_patience_seconds
    )


@dataclass(slots=True)
class _CoolDown:
    """`until` (s), and how many times the nominee's reservations ended so far."""

    until: float
    times: int


class ReservationPatience:
    """Watches the starving holder of reservations."""

    def __init__(self, ledger: Ledger, patience_s: float) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._holder: Reservation | None = None
        self._look_at = 0.0
        self._ready = 0
        self._rests: dict[Nominee, _CoolDown] = {}

    def look(self, reservation: Reservation | None, now: float) -> float | None:
        """When (s) to check the present holder again; None if not at all.

        If the holder has shown no progress, `cooldown_until` is then in the
        future.
        """
        if reservation is None or not self._patience_s:
            self._holder = None
            return None
        if self._holder is not reservation:
            self._holder, self._ready = reservation, self._places_ready(reservation)
            self._look_at = now + self._patience_s
        elif now >= self._look_at:
            ready = self._places_ready(reservation)
            if ready <= self._ready:
                self._give_up(reservation.nominee, now)
                return None
            self._ready, self._look_at = ready, now + self._patience_s
        return self._look_at

    def cooldown_until(self, nominee: Nominee) -> float:
        """The time (s) before which the nominee gets no reservations again."""
        rest = self._rests.get(nominee)
        return 0.0 if rest is None else rest.until

    def _give_up(self, nominee: Nominee, now: float) -> None:
        self._holder = None
        before = self._rests.pop(nominee, None)
        times = 1 if before is None else before.times + 1
        longest = self._patience_s * 2.0**MAX_DOUBLED
        # A nominee whose rest ended long ago is forgotten.
        self._rests = {one: rest for one, rest in self._rests.items() if now < rest.until + longest}
        until = now + self._patience_s * 2.0 ** min(times - 1, MAX_DOUBLED)
        self._rests[nominee] = _CoolDown(until, times)

    def _places_ready(self, reservation: Reservation) -> int:
        """How many of its places no other pod holds anything of."""
        return sum(self._is_ready(uid) for uid in reservation.uids)

    def _is_ready(self, uid: PodUid) -> bool:
        columns, place = self._ledger.columns, self._ledger.reservations[uid]
        row = columns.row_of[place.node]
        if (columns.free[row] < 0).any():
            return False
        cards = () if place.allocation is None else place.allocation.cards
        for card in cards:
            if card.uuid not in columns.uuids[row]:
                return False
            slot = columns.uuids[row].index(card.uuid)
            free = columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)
            others = columns.tenants.item(row, slot) - columns.reservations.item(row, slot)
            if min(free) < 0 or (others and columns.exclusive.item(row, slot)):
                return False
        return True
