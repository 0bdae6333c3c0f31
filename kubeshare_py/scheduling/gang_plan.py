"""Places for a whole gang on one state of the cluster: all that it needs, or none.

Members are charged one after the other and taken back if too few fit: first within one place that
may hold them all, then anywhere. That is greedy. Of members of one shape as many find a place as
there are places for; where shapes differ several orders are tried, and a way to fit them all may
still be missed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.asks import Asker, Choice, Work
from kubeshare_py.framework.rooms import Rooms
from kubeshare_py.scheduling.cycle import Cycle
from kubeshare_py.scheduling.gang_places import GangPlaces
from kubeshare_py.scheduling.gangs import Gang, Shapes, Shortage
from kubeshare_py.scheduling.pod_records import Record

#: A placement takes as much of a turn as asking about so many rows.
ROWS_A_PLACEMENT = 100
#: Members that may be placed in vain for nearness' sake: so many, or as many as the gang needs.
LEAST_IN_VAIN = 256

Kind = tuple[str, Shape]


@dataclass(frozen=True, slots=True)
class Placed:
    """So many members as are needed are charged to their places."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A plugin does not permit a member's place, for this reason."""

    record: Record
    sentence: str


class GangPlan:
    """Plans on the machine's books, which are as before unless the answer is `Placed`."""

    def __init__(
        self,
        cycle: Cycle,
        askers: Mapping[str, Asker],
        rooms: Mapping[str, Rooms],
        work: Work,
        places: GangPlaces,
    ) -> None:
        self._work = work
        self._places = places
        self._cycle = cycle
        self._askers = askers
        self._rooms = rooms

    def may_fit(self, shapes: Shapes, need: int) -> bool:
        """False only if so many pods of these shapes certainly do not fit now; cheap."""
        fitting = 0
        for (profile, shape), count in shapes.items():
            fitting += min(count, self._rooms[profile].total(shape))
            if fitting >= need:
                return True
        return False

    def place(self, gang: Gang) -> Placed | Forbidden | None:
        """Find places for as many members as it needs; None if there is no way."""
        answer = self._in_one_place(gang)
        if gang.within:
            return answer
        for members in self._orders(gang):
            if answer is not None:
                return answer
            answer, _ = self._all_or_none(members, gang.need, None)
        return answer

    def near(self, gang: Gang, record: Record, choice: Choice) -> Choice | str:
        """A place for one more member as near to the others as there is; `choice` is the best.

        A sentence if it must be in one place with them and does not fit there.
        """
        rows = self._places.rows_of(gang.nodes())
        group = record.pod.group
        if group is None or not group.within:
            return self._places.nearest(_kind(record), rows) or choice
        allowed = self._places.allowed(group.within, rows)
        near = self._places.nearest(_kind(record), rows, allowed)
        return near or f"no room where its group must be: in one {group.within}"

    def shortage(self, gang: Gang) -> Shortage:
        """Work out what is missing for a gang that does not fit."""
        members, rows = next(self._orders(gang)), None
        if gang.within:
            at = self._places.rows_of(gang.nodes())
            rows = self._places.roomiest(gang.shapes, at, gang.within)
        placed, _ = self._try(members, gang.need, rows)
        there = {record.pod.uid for record in placed}
        rest = [record for record in members if record.pod.uid not in there]
        short = max(1, gang.need - len(placed))
        lacking = Counter(record.pod.shape for record in rest[:short])
        first = rest[0].pod if rest else members[0].pod
        diagnosis = self._askers[first.scheduler_name].diagnose(first.shape)
        self._undo(placed)
        return Shortage(len(placed), tuple(lacking.items()), diagnosis)

    def _orders(self, gang: Gang) -> Iterator[Sequence[Record]]:
        """In which order to try, the best first.

        Where all are needed: by shape, those with the least room first. Else as they stand in the
        queue, and only if that fails by room, so that as many as possible fit.
        """
        members = sorted(gang.waiting.values(), key=lambda record: record.key)
        all_needed = len(members) == gang.need
        if len(gang.shapes) == 1 or not all_needed:
            yield members
        if len(gang.shapes) == 1:
            return
        kinds = {_kind(record): number for number, record in enumerate(members)}
        room = {kind: (self._rooms[kind[0]].total(kind[1]), kinds[kind]) for kind in kinds}
        yield sorted(members, key=lambda record: room[_kind(record)])
        if not all_needed:
            yield sorted(members, key=lambda record: room[_kind(record)], reverse=True)

    def _in_one_place(self, gang: Gang) -> Placed | Forbidden | None:
        """As `place`, but all near each other, and near those that have places already."""
        members = next(self._orders(gang))
        at = self._places.rows_of(gang.nodes())
        left, within = max(gang.need, LEAST_IN_VAIN), gang.within
        for rows in self._places.that_hold(gang.shapes, gang.need, at, within):
            answer, tried = self._all_or_none(members, gang.need, rows)
            left -= tried
            if answer is not None or (left < 0 and not within):
                return answer
        return None

    def _all_or_none(
        self, members: Iterable[Record], need: int, rows: IntArray | None
    ) -> tuple[Placed | Forbidden | None, int]:
        """The answer, and for how many members there was a place."""
        placed, refusal = self._try(members, need, rows)
        if len(placed) == need:
            return Placed(tuple(placed)), need
        self._undo(placed)
        return refusal, len(placed)

    def _try(
        self, members: Iterable[Record], need: int, rows: IntArray | None = None
    ) -> tuple[list[Record], Forbidden | None]:
        """Place members on these rows, or on any, until so many have a place."""
        placed: list[Record] = []
        full: set[Kind] = set()
        orders: dict[Kind, list[int]] = {}
        for record in members:
            if len(placed) == need:
                break
            kind = _kind(record)
            if kind in full:
                continue
            if kind not in orders:
                orders[kind] = self._places.in_order(kind, need, rows)[::-1]
            choice = self._choice(kind, rows, orders[kind])
            if choice is None:
                full.add(kind)
                continue
            sentence = self._cycle.place(record, choice)
            if sentence is not None:
                return placed, Forbidden(record, sentence)
            placed.append(record)
            self._work.rows += ROWS_A_PLACEMENT
        return placed, None

    def _choice(self, kind: Kind, rows: IntArray | None, order: list[int]) -> Choice | None:
        """The next place for a member; `order` says which rows to fill, the next one last."""
        profile, shape = kind
        asker = self._askers[profile]
        if not order:
            if rows is None:
                return asker.best(shape)
            return asker.best_among(shape, rows) if len(rows) else None
        while order:
            choice = asker.at(shape, order[-1])
            if choice is not None:
                return choice
            order.pop()
        return None

    def _undo(self, placed: Sequence[Record]) -> None:
        for record in reversed(placed):
            self._cycle.take_back(record)


def _kind(record: Record) -> Kind:
    """All that decides where a member fits."""
    return record.pod.scheduler_name, record.pod.shape
