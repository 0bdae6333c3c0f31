"""Places for a whole gang on one state of the cluster: all that it needs, or none.

Members are charged one after the other, each where it fits best then, and taken back if too few
fit. That is greedy. Of members of one shape as many find a place as there are places for; where
shapes differ several orders are tried, and a way to fit them all may still be missed. Members that
must have cards of one model are planned on each model, and placed on the best.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.asks import Asker, Work
from kubeshare_py.framework.rooms import Rooms
from kubeshare_py.scheduling.cycle import Cycle
from kubeshare_py.scheduling.gang_models import models_for, narrowed, narrowed_all
from kubeshare_py.scheduling.gangs import Gang, Shapes, Shortage
from kubeshare_py.scheduling.pod_records import Record

#: A placement takes as much of a turn as asking about so many rows.
ROWS_A_PLACEMENT = 100


@dataclass(frozen=True, slots=True)
class Placed:
    """So many members as are needed are charged to their places."""

    records: tuple[Record, ...]
    #: What the plugins said of the places, in all; only where models are compared.
    score: int = 0


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
        models: Sequence[str],
    ) -> None:
        """`models` are the names of all models there are, and stay so."""
        self._work = work
        self._cycle = cycle
        self._askers = askers
        self._rooms = rooms
        self._models = models
        self._score = 0

    def may_fit(self, shapes: Shapes, need: int) -> bool:
        """False only if so many pods of these shapes certainly do not fit now; cheap."""
        models = models_for(shapes, self._models)
        return any(self._room(shapes, need, model) >= need for model in models)

    def place(self, gang: Gang) -> Placed | Forbidden | None:
        """Find places for as many members as it needs; None if there is no way."""
        models = list(models_for(gang.shapes, self._models))
        if len(models) > 1:
            models = [self._best_model(gang, models)]
        return self._place(gang, models[0]) if models else None

    def shortage(self, gang: Gang) -> Shortage:
        """Work out what is missing for a gang that does not fit."""
        models = list(models_for(gang.shapes, self._models)) or [""]
        fitting: dict[str, int] = {}
        for model in models if len(models) > 1 else ():
            placed, _ = self._try(next(self._orders(gang, model)), gang.need, model)
            self._undo(placed)
            fitting[model] = len(placed)
        by_model = sorted(fitting.items(), key=lambda pair: (-pair[1], pair[0]))
        shortage = self._shortage_on(gang, by_model[0][0] if by_model else models[0])
        return replace(shortage, by_model=tuple(by_model))

    def _shortage_on(self, gang: Gang, model: str) -> Shortage:
        members = next(self._orders(gang, model))
        placed, _ = self._try(members, gang.need, model)
        there = {record.pod.uid for record in placed}
        rest = [record for record in members if record.pod.uid not in there]
        short = max(1, gang.need - len(placed))
        lacking = Counter(record.shape for record in rest[:short])
        profile, shape = _kind(rest[0] if rest else members[0], model)
        diagnosis = self._askers[profile].diagnose(shape)
        self._undo(placed)
        return Shortage(len(placed), tuple(lacking.items()), diagnosis)

    def _room(self, shapes: Shapes, enough: int, model: str) -> int:
        """No more pods than so many fit on this model; it is counted until there are enough."""
        fitting = 0
        for (profile, shape), count in narrowed_all(shapes, model).items():
            fitting += min(count, self._rooms[profile].total(shape))
            if fitting >= enough:
                break
        return fitting

    def _best_model(self, gang: Gang, models: Sequence[str]) -> str:
        """The model on which its members are placed best; where it does not fit, any of them."""
        best, score = models[0], -1
        for model in models:
            if self._room(gang.shapes, gang.need, model) < gang.need:
                continue
            answer = self._place(gang, model)
            if isinstance(answer, Placed):
                self._undo(answer.records)
                if answer.score > score:
                    best, score = model, answer.score
            elif isinstance(answer, Forbidden) and score < 0:
                best = model
        return best

    def _place(self, gang: Gang, model: str) -> Placed | Forbidden | None:
        for members in self._orders(gang, model):
            placed, refusal = self._try(members, gang.need, model)
            if len(placed) == gang.need:
                return Placed(tuple(placed), self._score)
            self._undo(placed)
            if refusal is not None:
                return refusal
        return None

    def _orders(self, gang: Gang, model: str) -> Iterator[Sequence[Record]]:
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
        kinds = {_kind(record, model): number for number, record in enumerate(members)}
        room = {kind: (self._rooms[kind[0]].total(kind[1]), kinds[kind]) for kind in kinds}
        yield sorted(members, key=lambda record: room[_kind(record, model)])
        if not all_needed:
            yield sorted(members, key=lambda record: room[_kind(record, model)], reverse=True)

    def _try(
        self, members: Iterable[Record], need: int, model: str
    ) -> tuple[list[Record], Forbidden | None]:
        self._score = 0
        placed: list[Record] = []
        full: set[tuple[str, Shape]] = set()
        for record in members:
            if len(placed) == need:
                break
            kind = _kind(record, model)
            if kind in full:
                continue
            asker = self._askers[kind[0]]
            choice = asker.best(kind[1])
            if choice is None:
                full.add(kind)
                continue
            if model:
                self._score += asker.keys(kind[1]).item(choice.row)
            sentence = self._cycle.place(record, choice)
            if sentence is not None:
                return placed, Forbidden(record, sentence)
            placed.append(record)
            self._work.rows += ROWS_A_PLACEMENT
        return placed, None

    def _undo(self, placed: Sequence[Record]) -> None:
        for record in reversed(placed):
            self._cycle.take_back(record)


def _kind(record: Record, model: str) -> tuple[str, Shape]:
    """All that decides where a member fits, on this model if it asks for one."""
    shape = record.shape
    return record.pod.scheduler_name, narrowed(shape, model) if model else shape
