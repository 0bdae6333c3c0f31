"""Places for a whole gang on one state of the cluster: all that it needs, or none.

Members are charged one after the other, each where it fits best then, and taken back if too few
fit. That is greedy. Of members of one shape as many find a place as there are places for; where
shapes differ several orders are tried, and a way to fit them all may still be missed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.asks import Asker, Work
from kubeshare_py.framework.rooms import Rooms
from kubeshare_py.scheduling.cycle import Cycle
from kubeshare_py.scheduling.gangs import Gang, Shapes, Shortage
from kubeshare_py.scheduling.pod_records import Record

#: A placement takes as much of a turn as asking about so many rows.
ROWS_A_PLACEMENT = 100


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
        self, cycle: Cycle, askers: Mapping[str, Asker], rooms: Mapping[str, Rooms], work: Work
    ) -> None:
        self._work = work
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
        for members in self._orders(gang):
            placed, refusal = self._try(members, gang.need)
            if len(placed) == gang.need:
                return Placed(tuple(placed))
            self._undo(placed)
            if refusal is not None:
                return refusal
        return None

    def shortage(self, gang: Gang) -> Shortage:
        """Work out what is missing for a gang that does not fit."""
        members = next(self._orders(gang))
        placed, _ = self._try(members, gang.need)
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

    def _try(self, members: Iterable[Record], need: int) -> tuple[list[Record], Forbidden | None]:
        placed: list[Record] = []
        full: set[tuple[str, Shape]] = set()
        for record in members:
            if len(placed) == need:
                break
            pod = record.pod
            kind = _kind(record)
            if kind in full:
                continue
            choice = self._askers[pod.scheduler_name].best(pod.shape)
            if choice is None:
                full.add(kind)
                continue
            sentence = self._cycle.place(record, choice)
            if sentence is not None:
                return placed, Forbidden(record, sentence)
            placed.append(record)
            self._work.rows += ROWS_A_PLACEMENT
        return placed, None

    def _undo(self, placed: Sequence[Record]) -> None:
        for record in reversed(placed):
            self._cycle.take_back(record)


def _kind(record: Record) -> tuple[str, Shape]:
    """All that decides where a member fits."""
    return record.pod.scheduler_name, record.pod.shape
