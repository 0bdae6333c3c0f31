"""Plans a whole gang on one state of the cluster: all members that it needs, or none.

Members are charged one after the other, and taken back if too few fit: first within one domain that
may hold them all, then anywhere. This is greedy. Of members of one shape, as many find a place as
there are places. Where shapes differ, several orders are tried, and a way to fit them all may still
be missed. Members that must have cards of one model are planned on each model, and placed on the
best.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.evaluation_cost import EvaluationWork
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.headroom import Headroom
from kubeshare_py.framework.shape_diagnosis import failed
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.iteration_budget import LOOK
from kubeshare_py.scheduling.pod_groups.gang_attempt import Attempt, Run
from kubeshare_py.scheduling.pod_groups.gang_cards import GangCards
from kubeshare_py.scheduling.pod_groups.gang_limits import too_large
from kubeshare_py.scheduling.pod_groups.gang_models import models_for, narrowed, narrowed_all
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces
from kubeshare_py.scheduling.queue.gangs import Gang, Shapes, Shortage
from kubeshare_py.scheduling.queue.pod_records import Record

#: The cost of a placement, in rows asked about.
ROWS_A_PLACEMENT = 100
#: The most members placed in vain to be near each other: this many, or as many as the gang needs.
LEAST_IN_VAIN = 256

ProfileShape = tuple[str, Shape]


@dataclass(frozen=True, slots=True)
class Placed:
    """As many members as are needed are charged to their places."""

    records: tuple[Record, ...]
    #: The sum of the places' scores; only where models are compared.
    score: int = 0


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A plugin refuses a member's place, with this reason."""

    record: Record
    sentence: str


class GangPlan:
    """Plans on the machine's state, which is unchanged unless the answer is `Placed`."""

    def __init__(
        self,
        assumer: Assumer,
        evaluators: Mapping[str, Evaluator],
        rooms: Mapping[str, Headroom],
        work: EvaluationWork,
        places: GangPlaces,
        ledger: Ledger,
    ) -> None:
        self._work = work
        self._places = places
        self._assumer = assumer
        self._evaluators = evaluators
        self._rooms = rooms
        self._ledger = ledger
        self._columns = ledger.columns
        self._score = 0

    def may_fit(self, shapes: Shapes, need: int) -> bool:
        """False only if so many pods of these shapes certainly do not fit now; cheap."""
        return any(self.each_look(shapes, need))

    def each_look(self, shapes: Shapes, need: int) -> Iterator[bool]:
        """`may_fit`, one shape at a time: whether the shapes so far take so many pods.

        Ends with the first True. The shapes must not change meanwhile; rows may.
        """
        for model in list(models_for(shapes, self._columns.model_names)):
            fitting = 0
            for (profile, shape), count in narrowed_all(shapes, model).items():
                self._work.other += LOOK
                fitting += min(count, self._rooms[profile].total(shape))
                yield fitting >= need
                if fitting >= need:
                    return

    def place(self, gang: Gang) -> Placed | Forbidden | None:
        """Place as many members as the gang needs; None if there is no way."""
        models = list(models_for(gang.shapes, self._columns.model_names))
        try:
            if len(models) > 1:
                models = [self._best_model(gang, models)]
            return self._place(gang, models[0]) if models else None
        except PluginFailed as failure:
            return Forbidden(next(iter(gang.waiting.values())), str(failure))

    def near(self, gang: Gang, record: Record, choice: Choice) -> Choice | str:
        """A place for one more member, as near to the others as possible; `choice` is the best one.

        A sentence if it must be in one domain with them and does not fit there.
        """
        try:
            return self._near(gang, record, choice)
        except PluginFailed as failure:
            return str(failure)

    def _near(self, gang: Gang, record: Record, choice: Choice) -> Choice | str:
        rows, kind = self._places.rows_of(gang.nodes()), _kind(record, "")
        group, allowed = record.pod.group, None
        if group is not None and group.within:
            allowed = self._places.allowed(group.within, rows)
        near = self._places.nearest(kind, rows, allowed)
        if not len(near):
            if allowed is None or group is None:
                return choice
            return f"no room where its group must be: in one {group.within}"
        profile, shape = kind
        evaluator = self._evaluators[profile]
        if not self._places.wishes(profile):
            return evaluator.best_among(shape, near) or choice
        cards = GangCards(self._columns, gang, {*near.tolist()})
        return cards.best(evaluator, shape, near, gang.shapes[kind]) or choice

    def shortage(self, gang: Gang) -> Shortage:
        """What a gang lacks that does not fit."""
        try:
            return self._worked_out(gang)
        except PluginFailed as failure:
            lacking = Counter(record.shape for record in gang.waiting.values())
            return Shortage(0, tuple(lacking.items()), failed(failure))

    def _worked_out(self, gang: Gang) -> Shortage:
        models = list(models_for(gang.shapes, self._columns.model_names)) or [""]
        fitting: dict[str, int] = {}
        for model in models if len(models) > 1 else ():
            rows = self._roomiest(gang, model)
            placed, _ = self._try(gang, next(self._orders(gang, model)), rows, model)
            self._undo(placed)
            fitting[model] = len(placed)
        by_model = sorted(fitting.items(), key=lambda pair: (-pair[1], pair[0]))
        shortage = self._shortage_on(gang, by_model[0][0] if by_model else models[0])
        is_nowhere = bool(gang.within) and not self._places.each(gang.within, ())
        limit = self._limit(gang)
        return replace(shortage, by_model=tuple(by_model), is_nowhere=is_nowhere, limit=limit)

    def _limit(self, gang: Gang) -> str:
        places = self._places.each(gang.within, ()) if gang.within else ()
        shapes = Counter[Shape]()
        for (_, shape), count in gang.shapes.items():
            shapes[shape] += count
        return too_large(shapes.items(), gang.need, self._ledger, gang.within, places)

    def _shortage_on(self, gang: Gang, model: str) -> Shortage:
        members = next(self._orders(gang, model))
        placed, _ = self._try(gang, members, self._roomiest(gang, model), model)
        there = {record.pod.uid for record in placed}
        rest = [record for record in members if record.pod.uid not in there]
        short = max(1, gang.need - len(placed))
        lacking = Counter(record.shape for record in rest[:short])
        profile, shape = _kind(rest[0] if rest else members[0], model)
        diagnosis = self._evaluators[profile].diagnose(shape)
        self._undo(placed)
        return Shortage(len(placed), tuple(lacking.items()), diagnosis)

    def _roomiest(self, gang: Gang, model: str) -> IntArray | None:
        """The domain with the most room, if the gang must be in one."""
        if not gang.within:
            return None
        at = self._places.rows_of(gang.nodes())
        return self._places.roomiest(narrowed_all(gang.shapes, model), at, gang.within)

    def _headroom(self, shapes: Shapes, enough: int, model: str) -> int:
        """An upper bound of how many pods fit on this model, counted until there are enough."""
        fitting = 0
        for (profile, shape), count in narrowed_all(shapes, model).items():
            fitting += min(count, self._rooms[profile].total(shape))
            if fitting >= enough:
                break
        return fitting

    def _best_model(self, gang: Gang, models: Sequence[str]) -> str:
        """The model on which members are placed best; any if the gang fits on none."""
        best, score = models[0], -1
        for model in models:
            if self._headroom(gang.shapes, gang.need, model) < gang.need:
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
        answer = self._in_one_place(gang, model)
        if gang.within:
            return answer
        for members in self._orders(gang, model):
            if answer is not None:
                return answer
            answer, _ = self._all_or_none(gang, members, None, model)
        return answer

    def _orders(self, gang: Gang, model: str) -> Iterator[Sequence[Record]]:
        """The orders in which to try members, the best first.

        If all are needed: by shape, those with the least room first. Otherwise in queue order, and
        only if that fails by room, so that as many as possible fit.
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

    def _in_one_place(self, gang: Gang, model: str) -> Placed | Forbidden | None:
        """`place`, with all members near each other and near those already placed."""
        members = next(self._orders(gang, model))
        shapes = narrowed_all(gang.shapes, model)
        at = self._places.rows_of(gang.nodes())
        left, within = max(gang.need, LEAST_IN_VAIN), gang.within
        for rows in self._places.that_hold(shapes, gang.need, at, within):
            answer, tried = self._all_or_none(gang, members, rows, model)
            left -= tried
            if answer is not None or (left < 0 and not within):
                return answer
        return None

    def _all_or_none(
        self, gang: Gang, members: Iterable[Record], rows: IntArray | None, model: str
    ) -> tuple[Placed | Forbidden | None, int]:
        """The answer, and the number of members that had a place."""
        placed, refusal = self._try(gang, members, rows, model)
        if len(placed) == gang.need:
            return Placed(tuple(placed), self._score), gang.need
        self._undo(placed)
        return refusal, len(placed)

    def _try(
        self, gang: Gang, members: Iterable[Record], rows: IntArray | None, model: str
    ) -> tuple[list[Record], Forbidden | None]:
        """Place members on these rows, or on any, until as many as are needed have a place.

        Raises PluginFailed, after undoing all of it.
        """
        self._score = 0
        placed: list[Record] = []
        try:
            return placed, self._fill(gang, members, rows, model, placed)
        except PluginFailed:
            self._undo(placed)
            raise

    def _fill(
        self,
        gang: Gang,
        members: Iterable[Record],
        rows: IntArray | None,
        model: str,
        placed: list[Record],
    ) -> Forbidden | None:
        shapes = narrowed_all(gang.shapes, model)
        attempt = Attempt(gang.need, rows, shapes, GangCards(self._columns, gang))
        for record in members:
            if not attempt.need:
                break
            kind = _kind(record, model)
            run = attempt.runs.get(kind)
            if run is None:
                run = attempt.runs[kind] = self._run(kind, attempt)
            if run.full:
                continue
            choice = self._choice(kind, run, attempt)
            if choice is None:
                run.full = True
                continue
            if model:
                profile, shape = kind
                self._score += self._evaluators[profile].keys(shape).item(choice.row)
            sentence = self._assumer.place(record, choice)
            if sentence is not None:
                return Forbidden(record, sentence)
            placed.append(record)
            attempt.took(run, choice)
            self._work.rows += ROWS_A_PLACEMENT
        return None

    def _run(self, kind: ProfileShape, attempt: Attempt) -> Run:
        profile, shape = kind
        order = self._places.in_order(kind, attempt.need, attempt.rows)[::-1]
        return Run(shape, order, self._rooms[profile].rows(shape), attempt.shapes[kind])

    def _choice(self, kind: ProfileShape, run: Run, attempt: Attempt) -> Choice | None:
        """The next place for a member of a run."""
        profile, shape = kind
        evaluator, rows, order = self._evaluators[profile], attempt.rows, run.order
        if not order:
            if rows is None:
                return evaluator.best(shape)
            return evaluator.best_among(shape, rows) if len(rows) else None
        while order:
            row = order[-1]
            if run.headroom.item(row):
                choice = evaluator.at(shape, row, attempt.gang_context(run, row))
                if choice is not None:
                    return choice
            order.pop()
        return None

    def _undo(self, placed: Sequence[Record]) -> None:
        for record in reversed(placed):
            self._assumer.take_back(record)


def _kind(record: Record, model: str) -> ProfileShape:
    """The profile and shape by which a member is placed, on this model if it asks for one."""
    shape = record.shape
    return record.pod.scheduler_name, narrowed(shape, model) if model else shape
