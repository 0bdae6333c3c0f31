"""Places for pods that fit nowhere now: where they would, once some of those who hold cards end.

Nobody is made to end. Nodes on which least is held come first, and on each the cards of which least
is held, so that little has to be waited for. Tenants are left out of the books one by one
until a member fits; the places are then taken back, and the tenants counted again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.asks import Asker, Choice, Work
from kubeshare_py.framework.rooms import Rooms
from kubeshare_py.scheduling.cycle import Cycle
from kubeshare_py.scheduling.gang_plan import ROWS_A_PLACEMENT
from kubeshare_py.scheduling.pod_records import Record

#: Tenants that one plan leaves out at most, about 80 us each.
MOST_ASIDE = 1000

_Kind = tuple[str, Shape]


@dataclass(slots=True)
class _Try:
    """What one plan has done to the books so far."""

    placed: list[Record] = field(default_factory=list)
    aside: dict[PodUid, None] = field(default_factory=dict)
    #: For each kind of member who else could be left out.
    tenants: dict[_Kind, Iterator[tuple[int, PodUid]]] = field(default_factory=dict)


class EarmarkPlan:
    """Plans on the machine's books, which are as before when it is done."""

    def __init__(
        self,
        ledger: Ledger,
        cycle: Cycle,
        askers: Mapping[str, Asker],
        rooms: Mapping[str, Rooms],
        work: Work,
    ) -> None:
        self._ledger = ledger
        self._cycle = cycle
        self._askers = askers
        self._rooms = rooms
        self._work = work

    def may_ever_fit(self, members: Sequence[Record], need: int) -> bool:
        """False only if so many of them would not even fit if nobody held anything."""
        kinds: dict[_Kind, int] = {}
        for record in members:
            kind = (record.pod.scheduler_name, record.shape)
            kinds[kind] = kinds.get(kind, 0) + 1
        fitting = 0
        for (profile, shape), count in kinds.items():
            fitting += min(count, int(self._rooms[profile].prospects(shape).sum()))
        return fitting >= need

    def places(self, members: Sequence[Record], need: int) -> dict[PodUid, Charge]:
        """Places for `need` members; nothing if there is no way.

        Fewer where very many tenants hold the cards: then a later plan, when some ended, has more.
        """
        attempt = _Try()
        permitted = self._place(members, need, attempt)
        complete = len(attempt.placed) == need or len(attempt.aside) >= MOST_ASIDE
        places = {record.pod.uid: _place(record) for record in attempt.placed}
        for record in reversed(attempt.placed):
            self._cycle.take_back(record)
        for uid in reversed(attempt.aside):
            self._ledger.put_back(uid)
        return places if permitted and complete else {}

    def _place(self, members: Sequence[Record], need: int, attempt: _Try) -> bool:
        """Charge members to places; False if a plugin does not permit one of them."""
        full: set[_Kind] = set()
        for record in members:
            if len(attempt.placed) == need:
                break
            pod = record.pod
            kind = (pod.scheduler_name, record.shape)
            if kind in full:
                continue
            choice = self._askers[pod.scheduler_name].best(record.shape)
            choice = choice or self._make_room(kind, attempt)
            if choice is None:
                full.add(kind)
                continue
            if self._cycle.place(record, choice) is not None:
                return False
            attempt.placed.append(record)
            self._work.rows += ROWS_A_PLACEMENT
        return True

    def _make_room(self, kind: _Kind, attempt: _Try) -> Choice | None:
        """Leave out tenants until the shape fits somewhere."""
        profile, shape = kind
        asker = self._askers[profile]
        tenants = attempt.tenants.get(kind)
        if tenants is None:
            tenants = attempt.tenants[kind] = self._tenants(profile, shape)
        placed = {record.pod.uid for record in attempt.placed}
        for row, uid in tenants:
            if uid in attempt.aside or uid in placed:
                continue
            if len(attempt.aside) >= MOST_ASIDE:
                return None
            self._ledger.set_aside(uid)
            attempt.aside[uid] = None
            if asker.may_fit(shape, row):
                choice = asker.best(shape)
                if choice is not None:
                    return choice
        return None

    def _tenants(self, profile: str, shape: Shape) -> Iterator[tuple[int, PodUid]]:
        """Pods with cards, each with its row, in the order in which to leave them out."""
        columns = self._ledger.columns
        rows = np.flatnonzero(self._rooms[profile].prospects(shape))
        used = columns.gpu_count[rows] * WHOLE_MILLI - columns.gpu_free_milli[rows]
        for row in rows[np.argsort(used, kind="stable")].tolist():
            yield from ((row, uid) for uid in self._tenants_on(row))

    def _tenants_on(self, row: int) -> list[PodUid]:
        columns = self._ledger.columns
        name, uuids = columns.names[row], columns.uuids[row]
        free = dict(zip(uuids, columns.free_milli[row].tolist(), strict=False))
        found = []
        for uid, charge in self._ledger.pods_on(name).items() if name is not None else ():
            cards = charge.allocation.cards if charge.allocation else ()
            # A card that left has no slot while those who hold it are left out.
            there = [(free[card.uuid], card.uuid) for card in cards if card.uuid in free]
            if there:
                fullest = min(there)
                found.append((-fullest[0], fullest[1], uid))
        return [uid for _, _, uid in sorted(found)]


def _place(record: Record) -> Charge:
    assert record.node is not None
    return Charge(record.node, record.pod.shape.resources, record.allocation)
