"""Plans a whole gang on one state of the cluster: all members that it needs, or none.

Members are tried one after the other in a trial of the cluster: first within one domain that may
hold them all, then anywhere. Only a complete plan is charged. This is greedy. Of members of one
shape, as many find a place as there are places. Where shapes differ, several orders are tried, and
a way to fit them all may still be missed. Members that must have cards of one model are planned on
each model, and placed on the best.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.evaluation_cost import EvaluationWork
from kubeshare_py.framework.shape_diagnosis import failed
from kubeshare_py.framework.snapshot import Snapshot, Trial
from kubeshare_py.scheduling.binding.assume import Assumer
from kubeshare_py.scheduling.binding.iteration_budget import LOOK
from kubeshare_py.scheduling.pod_groups.gang_attempt import Attempt, Run
from kubeshare_py.scheduling.pod_groups.gang_cards import GangCards
from kubeshare_py.scheduling.pod_groups.gang_limits import too_large
from kubeshare_py.scheduling.pod_groups.gang_models import (
    ProfileShape,
    kind_of,
    models_for,
    narrowed_all,
)
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces
from kubeshare_py.scheduling.queue.gangs import Gang, Shapes, Shortage
from kubeshare_py.scheduling.queue.inter_pod_shapes import with_terms
from kubeshare_py.scheduling.queue.pod_records import Record

#: The cost of a placement, in rows asked about.
ROWS_A_PLACEMENT = 100
#: The most members placed in vain to be near each other: this many, or as many as the gang needs.
MIN_IN_VAIN = 256


@dataclass(frozen=True, slots=True)
class Placed:
    """As many members as are needed are charged to their places."""

    records: tuple[Record, ...]


@dataclass(slots=True)
class _Draft:
    """The places found so far."""

    places: list[tuple[Record, Choice, Charge]] = field(default_factory=list)
    #: The sum of the places' scores; only where models are compared.
    score: int = 0


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A plugin refuses a member's place, with this reason."""

    record: Record
    sentence: str


class GangPlan:
    """Plans in trials of a snapshot of the cluster, and charges complete plans."""

    def __init__(
        self, assumer: Assumer, work: EvaluationWork, places: GangPlaces, ledger: Ledger
    ) -> None:
        self._work = work
        self._places = places
        self._assumer = assumer
        self._ledger = ledger
        self._columns = ledger.columns

    def may_fit(self, snapshot: Snapshot, shapes: Shapes, need: int) -> bool:
        """False only if so many pods of these shapes certainly do not fit now; cheap."""
        return any(self.each_look(lambda: snapshot, shapes, need))

    def each_look(self, shown: Callable[[], Snapshot], shapes: Shapes, need: int) -> Iterator[bool]:
        """`may_fit`, one shape at a time: whether the shapes so far take so many pods.

        Ends with the first True. The shapes must not change meanwhile; rows may, and the snapshot
        that is `shown`.
        """
        for model in list(models_for(shapes, self._columns.model_names)):
            fitting = 0
            for (profile, shape), count in narrowed_all(shapes, model).items():
                self._work.other += LOOK
                fitting += min(count, shown().rooms[profile].total(shape))
                yield fitting >= need
                if fitting >= need:
                    return

    def place(self, snapshot: Snapshot, gang: Gang) -> Placed | Forbidden | None:
        """Place as many members as the gang needs; None if there is no way."""
        try:
            draft = self._best(snapshot, gang)
        except PluginFailed as failure:
            return Forbidden(next(iter(gang.waiting.values())), str(failure))
        return None if draft is None else self._charge(snapshot, draft)

    def near(self, snapshot: Snapshot, gang: Gang, record: Record, choice: Choice) -> Choice | str:
        """A place for one more member, as near to the others as possible; `choice` is the best one.

        A sentence if it must be in one domain with them and does not fit there.
        """
        try:
            return self._near(snapshot, gang, record, choice)
        except PluginFailed as failure:
            return str(failure)

    def _near(self, snapshot: Snapshot, gang: Gang, record: Record, choice: Choice) -> Choice | str:
        rows, kind = self._places.rows_of(gang.nodes()), kind_of(record, "")
        group, allowed = record.pod.group, None
        if group is not None and group.within:
            allowed = self._places.allowed(group.within, rows)
        near = self._places.nearest(snapshot, kind, rows, allowed)
        if not len(near):
            if allowed is None or group is None:
                return choice
            return f"no room where its group must be: in one {group.within}"
        profile, shape = kind
        evaluator = snapshot.evaluators[profile]
        if not self._places.wishes(profile):
            return evaluator.best_among(shape, near) or choice
        cards = GangCards(snapshot.tables.columns, gang, {*near.tolist()})
        return cards.best(evaluator, shape, near, gang.shapes[kind]) or choice

    def shortage(self, snapshot: Snapshot, gang: Gang) -> Shortage:
        """What a gang lacks that does not fit."""
        try:
            return self._worked_out(snapshot, gang)
        except PluginFailed as failure:
            lacking = Counter(record.shape for record in gang.waiting.values())
            return Shortage(0, tuple(lacking.items()), failed(failure))

    def _worked_out(self, snapshot: Snapshot, gang: Gang) -> Shortage:
        models = list(models_for(gang.shapes, self._columns.model_names)) or [""]
        fitting: dict[str, int] = {}
        for model in models if len(models) > 1 else ():
            rows = self._roomiest(snapshot, gang, model)
            members = next(self._orders(snapshot, gang, model))
            fitting[model] = len(self._try(snapshot.trial(), gang, members, rows, model).places)
        by_model = sorted(fitting.items(), key=lambda pair: (-pair[1], pair[0]))
        shortage = self._shortage_on(snapshot, gang, by_model[0][0] if by_model else models[0])
        is_nowhere = bool(gang.within) and not self._places.each(gang.within, ())
        limit = self._limit(gang)
        return replace(shortage, by_model=tuple(by_model), is_nowhere=is_nowhere, limit=limit)

    def _limit(self, gang: Gang) -> str:
        places = self._places.each(gang.within, ()) if gang.within else ()
        shapes = Counter[Shape]()
        for (_, shape), count in gang.shapes.items():
            shapes[shape] += count
        return too_large(shapes.items(), gang.need, self._ledger, gang.within, places)

    def _shortage_on(self, snapshot: Snapshot, gang: Gang, model: str) -> Shortage:
        members, trial = next(self._orders(snapshot, gang, model)), snapshot.trial()
        placed = self._try(
            trial, gang, members, self._roomiest(snapshot, gang, model), model
        ).places
        there = {record.pod.uid for record, _, _ in placed}
        rest = [record for record in members if record.pod.uid not in there]
        short = max(1, gang.need - len(placed))
        lacking = Counter(record.shape for record in rest[:short])
        profile, shape = kind_of(rest[0] if rest else members[0], model)
        diagnosis = trial.evaluators[profile].diagnose(shape)
        return Shortage(len(placed), tuple(lacking.items()), diagnosis)

    def _roomiest(self, snapshot: Snapshot, gang: Gang, model: str) -> IntArray | None:
        """The domain with the most room, if the gang must be in one."""
        if not gang.within:
            return None
        at = self._places.rows_of(gang.nodes())
        return self._places.roomiest(snapshot, narrowed_all(gang.shapes, model), at, gang.within)

    def _headroom(self, snapshot: Snapshot, shapes: Shapes, enough: int, model: str) -> int:
        """An upper bound of how many pods fit on this model, counted until there are enough."""
        fitting = 0
        for (profile, shape), count in narrowed_all(shapes, model).items():
            fitting += min(count, snapshot.rooms[profile].total(shape))
            if fitting >= enough:
                break
        return fitting

    def _best(self, snapshot: Snapshot, gang: Gang) -> _Draft | None:
        """Places for all members on the best model, if they must be on one."""
        models = list(models_for(gang.shapes, self._columns.model_names))
        if len(models) == 1:
            return self._drafted(snapshot, gang, models[0])
        best: _Draft | None = None
        for model in models:
            if self._headroom(snapshot, gang.shapes, gang.need, model) < gang.need:
                continue
            draft = self._drafted(snapshot, gang, model)
            if draft is not None and (best is None or draft.score > best.score):
                best = draft
        return best

    def _drafted(self, snapshot: Snapshot, gang: Gang, model: str) -> _Draft | None:
        draft = self._in_one_place(snapshot, gang, model)
        if gang.within:
            return draft
        for members in self._orders(snapshot, gang, model):
            if draft is not None:
                return draft
            draft, _ = self._all_or_none(snapshot, gang, members, None, model)
        return draft

    def _orders(self, snapshot: Snapshot, gang: Gang, model: str) -> Iterator[Sequence[Record]]:
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
        kinds = {kind_of(record, model): number for number, record in enumerate(members)}
        room = {kind: (snapshot.rooms[kind[0]].total(kind[1]), kinds[kind]) for kind in kinds}
        yield sorted(members, key=lambda record: room[kind_of(record, model)])
        if not all_needed:
            yield sorted(members, key=lambda record: room[kind_of(record, model)], reverse=True)

    def _in_one_place(self, snapshot: Snapshot, gang: Gang, model: str) -> _Draft | None:
        """`_drafted`, with all members near each other and near those already placed."""
        members = next(self._orders(snapshot, gang, model))
        shapes = narrowed_all(gang.shapes, model)
        at = self._places.rows_of(gang.nodes())
        left, within = max(gang.need, MIN_IN_VAIN), gang.within
        for rows in self._places.that_hold(snapshot, shapes, gang.need, at, within):
            draft, tried = self._all_or_none(snapshot, gang, members, rows, model)
            left -= tried
            if draft is not None or (left < 0 and not within):
                return draft
        return None

    def _all_or_none(
        self,
        snapshot: Snapshot,
        gang: Gang,
        members: Iterable[Record],
        rows: IntArray | None,
        model: str,
    ) -> tuple[_Draft | None, int]:
        """Places for as many members as are needed, and the number of members that had one."""
        draft = self._try(snapshot.trial(), gang, members, rows, model)
        count = len(draft.places)
        return (draft if count == gang.need else None), count

    def _try(
        self,
        trial: Trial,
        gang: Gang,
        members: Iterable[Record],
        rows: IntArray | None,
        model: str,
    ) -> _Draft:
        """Place members on these rows, or on any, until as many as are needed have a place.

        Raises PluginFailed.
        """
        draft, columns = _Draft(), trial.tables.columns
        shapes = narrowed_all(gang.shapes, model)
        attempt = Attempt(gang.need, rows, shapes, GangCards(columns, gang))
        left = [*members]
        while left:
            unplaced = [one for one in left if not self._seat(trial, one, attempt, model, draft)]
            # A place for one member may make places for others that depend on where it is.
            if not attempt.need or len(unplaced) == len(left) or not attempt.try_again():
                break
            left = unplaced
        return draft

    def _seat(
        self, trial: Trial, record: Record, attempt: Attempt, model: str, draft: _Draft
    ) -> bool:
        """Place one member, if more are needed; whether it has a place. Raises PluginFailed."""
        if not attempt.need:
            return False
        kind = self._kind_in(trial, record, model)
        run = attempt.runs.get(kind)
        if run is None:
            run = attempt.runs[kind] = self._run(trial, kind, attempt)
        choice = None if run.full else self._choice(trial, kind, run, attempt)
        if choice is None:
            run.full = True
            return False
        if model:
            profile, shape = kind
            draft.score += trial.evaluators[profile].keys(shape).item(choice.row)
        charge = trial.charge_at(choice, record.shape, record.pod.placed)
        trial.place(choice, charge)
        draft.places.append((record, choice, charge))
        attempt.took(run, choice)
        self._work.rows += ROWS_A_PLACEMENT
        return True

    def _kind_in(self, trial: Trial, record: Record, model: str) -> ProfileShape:
        """The kind of a member, with its labels if terms of members before it may select it."""
        profile, shape = kind_of(record, model)
        pods = trial.pods
        return profile, with_terms(record.pod, shape, pods) if pods.has_terms else shape

    def _run(self, trial: Trial, kind: ProfileShape, attempt: Attempt) -> Run:
        profile, shape = kind
        order: list[int] = []
        if not shape.is_cluster_wide:
            # A row that such a shape does not fit may fit once other members have places.
            order = self._places.in_order(trial, kind, attempt.need, attempt.rows)[::-1]
        return Run(shape, order, trial.rooms[profile].rows(shape), attempt.count_of(kind))

    def _choice(
        self, trial: Trial, kind: ProfileShape, run: Run, attempt: Attempt
    ) -> Choice | None:
        """The next place for a member of a run."""
        profile, shape = kind
        evaluator, rows, order = trial.evaluators[profile], attempt.rows, run.order
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

    def _charge(self, snapshot: Snapshot, draft: _Draft) -> Placed | Forbidden:
        """Charge all members to their places; none if a plugin or the ledger refuses one."""
        placed: list[Record] = []
        for record, choice, charge in draft.places:
            cards = charge.allocation.cards if charge.allocation is not None else ()
            sentence = self._assumer.place(record, choice, snapshot.tables, cards)
            if sentence is not None:
                for one in reversed(placed):
                    self._assumer.take_back(one)
                return Forbidden(record, sentence)
            placed.append(record)
            snapshot.follow()  # or several members could be charged to what is free for one
        return Placed(tuple(placed))
