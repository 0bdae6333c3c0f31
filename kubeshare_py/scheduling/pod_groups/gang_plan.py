"""Plans a whole gang on one state of the cluster: all members that it needs, or none.

Gangs that the cluster could not hold even if it were empty are found first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.claim_fit import names_cards
from kubeshare_py.framework.diagnosis import CardsThere, cards_there, failed, impossible_sentence
from kubeshare_py.framework.points import MAX_PODS
from kubeshare_py.framework.prepared_plugins import ASKING
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.snapshot import Snapshot, Trial
from kubeshare_py.scheduling.iteration_budget import LOOK
from kubeshare_py.scheduling.pod_cycle import Assumer
from kubeshare_py.scheduling.pod_groups.gang_places import (
    GangCards,
    GangPlaces,
    ProfileShape,
    Some,
    kind_of,
    models_for,
    narrowed_all,
)
from kubeshare_py.scheduling.queue.asked_shapes import with_terms
from kubeshare_py.scheduling.queue.gangs import Gang, Shapes, Shortage
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.state import State
from kubeshare_py.topology.card_sets import GangContext

# One attempt to place a gang's members one after the other: what is left to place, and where.


@dataclass(slots=True)
class Run:
    """The members of one shape under one profile."""

    shape: Shape
    #: The rows to fill, the next one last; empty where scores decide.
    order: list[int]
    #: An upper bound of how many fit on each row, (rows,), as of the beginning.
    headroom: IntArray
    #: How many have no place yet.
    left: int
    full: bool = False
    #: The row that is being filled, and how many of them it still gets at most.
    row: int = -1
    here: int = 0


@dataclass(slots=True)
class Attempt:
    """Places members until `need` more have a place, on `rows`, (k,) int64, or on any rows."""

    need: int
    rows: IntArray | None
    shapes: Shapes
    cards: GangCards
    runs: dict[tuple[str, Shape], Run] = field(default_factory=dict)

    def gang_context(self, run: Run, row: int) -> GangContext | None:
        """The cards that this run's next member should be near on this row, if that matters."""
        if run.row != row:
            run.row, run.here = row, min(run.left, self.need, run.headroom.item(row))
        one_node = self.rows is not None and len(self.rows) == 1
        others = [*self._others(run)] if one_node and len(self.shapes) > 1 else ()
        return self.cards.gang_context(row, run.shape, run.here, others)

    def filled_by(self, run: Run, members: int) -> list[int]:
        """The next rows that a run fills that so many members of it certainly fill.

        They are taken out of the run's order, and are several, or none.
        """
        rows: list[int] = []
        room = passed = 0
        for row in reversed(run.order) if members > 1 else ():
            here = run.headroom.item(row)
            room += here
            if room > members or row == run.row:
                break
            passed += 1
            if here:
                rows.append(row)
        if len(rows) < 2:  # noqa: PLR2004
            return []
        del run.order[-passed:]
        return rows

    def count_of(self, kind: tuple[str, Shape]) -> int:
        """How many members are of this kind; one, if its labels matter only in this attempt."""
        return self.shapes.get(kind, 1)

    def record_place(self, run: Run, choice: Choice) -> None:
        """Record that a member of this run got a place."""
        run.here -= 1
        self.cards.record_cards(choice.row, choice.slots)
        self.record_members(run, 1)

    def record_members(self, run: Run, count: int) -> None:
        """Record that so many members of this run got places, whose cards are known."""
        self.need -= count
        run.left -= count

    def try_again(self) -> bool:
        """Try members again whose places depend on those of others; False if there are none."""
        again = [run for run in self.runs.values() if run.full and run.shape.is_cluster_wide]
        for run in again:
            run.full = False
        return bool(again)

    def _others(self, current: Run) -> Iterator[Some]:
        """Members of other runs that have no place yet."""
        for kind, count in self.shapes.items():
            run = self.runs.get(kind)
            if run is None:
                yield kind[1], count
            elif run is not current and not run.full:
                yield run.shape, run.left


# Finds gangs that the cluster could not hold even if it were empty, and says how much it has.
#
# What counts as being there is defined in `diagnosis`.


def too_large(
    shapes: Iterable[tuple[Shape, int]],
    need: int,
    ledger: Ledger,
    within: str = "",
    places: Sequence[IntArray] = (),
) -> str:
    """A sentence if no such cluster, or none of its domains, holds `need` of these pods; else "".

    `within` is the label of domains, whose rows are `places`, (k,) int64 each; with "" pods may be
    anywhere.
    """
    kinds = Counter(dict(shapes))
    columns = ledger.columns
    if not all(shape.claims for shape in kinds) or not columns.present.any():
        return ""
    claims = {claim for shape in kinds for claim in shape.claims}
    there = {claim: cards_there(claim, columns) for claim in claims}
    somewhere = list(places) if within else [np.flatnonzero(columns.present)]
    has = f"the largest {within} has" if within else "the cluster has"
    alike = {claim for claim in claims if claim.one_model}
    for asking in [alike, claims] if alike and alike != claims else [claims]:
        parts = {claim: there[claim] for claim in asking}
        cards = [_cards_in(columns, parts, rows) for rows in somewhere]
        much = _too_much(_asked(kinds, need, asking), asking, max(cards, default=(0, 0)))
        if much:
            of = " of one model" if asking != claims else ""
            asks, there_is = much
            return impossible_sentence(f"they ask for {asks}{of} in all; {has} {there_is}", ledger)
    room = max((_room(kinds, columns, there, rows) for rows in somewhere), default=0)
    if room >= need:
        return ""
    return impossible_sentence(f"if no pod held anything {has} room for {room} of them", ledger)


def _too_much(
    asked: int, claims: Collection[GpuClaim], cards: tuple[int, int]
) -> tuple[str, str] | None:
    """What these claims ask for and what there is, if that is less; the latter as `_cards_in`."""
    most, milli = cards
    if asked <= milli:
        return None
    there = str(most)
    if all(claim.one_model for claim in claims):
        there = f"at most {most} of one model"
    elif any(_is_choosy(claim) for claim in claims):
        there = f"{most} that they may be put on"
    if milli != most * WHOLE_MILLI:
        there += f", with scaled cores for {milli / WHOLE_MILLI:g}"
    return f"{asked / WHOLE_MILLI:g} GPUs", there


def _asked(kinds: Counter[Shape], need: int, claims: Collection[GpuClaim]) -> int:
    """What the `need` smallest of them ask for by these claims, in milli."""
    sizes = sorted(
        sum(_least(claim) for claim in shape.claims if claim in claims)
        for shape in kinds.elements()
    )
    return sum(sizes[:need])


def _least(claim: GpuClaim) -> int:
    """The least that a claim asks for on any model, in milli."""
    if claim.share_of:
        return claim.count * min((milli for _, milli in claim.shares), default=claim.milli)
    return claim.count * (WHOLE_MILLI if claim.exclusive else claim.milli)


def _is_choosy(claim: GpuClaim) -> bool:
    named = bool(claim.models) or claim.preferred is not None or bool(claim.share_of)
    return named or bool(claim.memory_bytes) or names_cards(claim)


def _cards_in(
    columns: Columns, there: dict[GpuClaim, CardsThere], rows: IntArray
) -> tuple[int, int]:
    """How many cards of these rows at least one of the claims may be put on, and their milli.

    A card counts as one GPU at least, because a claim of whole cards takes all of any card. If all
    claims ask for one model, those of the model with the most.
    """
    union = np.any([cards.fitting[rows] for cards in there.values()], axis=0)
    milli = np.maximum(columns.capacity_milli[rows][union], WHOLE_MILLI)
    if not all(claim.one_model for claim in there):
        return int(union.sum()), int(milli.sum())
    models = columns.model[rows][union]
    if not len(models):
        return 0, 0
    sums = [(int(milli[models == model].sum()), model) for model in np.unique(models).tolist()]
    most, model = max(sums)
    return int((models == model).sum()), most


def _room(
    kinds: Counter[Shape], columns: Columns, there: dict[GpuClaim, CardsThere], rows: IntArray
) -> int:
    """An upper bound of how many of these pods fit on these rows, summed over shapes."""
    return sum(
        min(count, int(_room_on(shape, columns, there, rows).sum()))
        for shape, count in kinds.items()
    )


def _room_on(
    shape: Shape, columns: Columns, there: dict[GpuClaim, CardsThere], rows: IntArray
) -> IntArray:
    """An upper bound of how many pods of a shape fit on each of these rows, (k,)."""
    rooms = [_claims_on(claim, columns, there[claim].fitting[rows], rows) for claim in shape.claims]
    room: IntArray = np.min(rooms, axis=0)
    for name, amount in shape.resources:
        column = columns.resources.get(name)
        if amount > 0 and column is not None:
            room = np.minimum(room, columns.allocatable[rows, column] // amount)
    return room


def _claims_on(
    claim: GpuClaim, columns: Columns, fitting: NDArray[np.bool_], rows: IntArray
) -> IntArray:
    """An upper bound of how many such claims fit on each of these rows, (k,).

    `fitting` are the cards that one may be put on, (k, width).
    """
    each: IntArray | int = 1
    if not claim.exclusive:
        least = _least(claim) // claim.count
        each = columns.capacity_milli[rows] // least if least else MAX_PODS
    on_card = np.where(fitting, each, 0)
    if claim.asks_memory and not claim.exclusive:
        capacity = columns.capacity_bytes[rows]
        asked = capacity * (claim.memory_milli or 0) // WHOLE_MILLI + (claim.memory_bytes or 0)
        on_card = np.where(
            asked > 0, np.minimum(on_card, capacity // np.maximum(asked, 1)), on_card
        )
    room: IntArray = on_card.sum(1) // claim.count
    return room


# Plans a whole gang on one state of the cluster: all members that it needs, or none.
#
# Members are tried one after the other in a trial of the cluster: first within one domain that may
# hold them all, then anywhere. Only a complete plan is charged. This is greedy. Of members of one
# shape, as many find a place as there are places. Where shapes differ, several orders are tried,
# and a way to fit them all may still be missed. Members that must have cards of one model are
# planned on each model, and placed on the best.


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

    places: list[tuple[Record, Choice, tuple[CardCharge, ...]]] = field(default_factory=list)
    #: The sum of the places' scores; only where models are compared.
    score: int = 0


@dataclass(frozen=True, slots=True)
class _Seats:
    """What equal members are placed by: their kind and run, and where their places are kept."""

    kind: ProfileShape
    run: Run
    attempt: Attempt
    model: str
    draft: _Draft


def _equal_from(members: Sequence[Record], at: int, most: int, trial: Trial) -> Sequence[Record]:
    """The members from the one at this index on that are placed by the same kind, at most so many.

    Only one if terms of pods matter, because each member may then be of another kind.
    """
    first = members[at]
    name, shape = first.pod.scheduler_name, first.shape
    if trial.pods.has_terms or shape.inter_pod is not None:
        return members[at : at + 1]
    end = at + 1
    while end < min(len(members), at + most):
        one = members[end]
        if one.shape != shape or one.pod.scheduler_name != name:
            break
        end += 1
    return members[at:end]


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A plugin refuses a member's place, with this reason."""

    record: Record
    sentence: str


class GangPlan:
    """Plans in trials of a snapshot of the cluster, and charges complete plans."""

    def __init__(self, state: State, assumer: Assumer, places: GangPlaces) -> None:
        self._ledger, self._columns = state.ledger, state.ledger.columns
        self._charges, self._work = state.charges, state.profiles.work
        self._assumer, self._places = assumer, places

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
            unplaced = self._seat_all(trial, left, attempt, model, draft)
            # A place for one member may make places for others that depend on where it is.
            if not attempt.need or len(unplaced) == len(left) or not attempt.try_again():
                break
            left = unplaced
        return draft

    def _seat_all(
        self, trial: Trial, members: Sequence[Record], attempt: Attempt, model: str, draft: _Draft
    ) -> list[Record]:
        """Place members in this order, as many as are needed; those that have no place.

        Raises PluginFailed.
        """
        unplaced: list[Record] = []
        at = 0
        while at < len(members) and attempt.need:
            kind = self._kind_in(trial, members[at], model)
            run = attempt.runs.get(kind)
            if run is None:
                run = attempt.runs[kind] = self._run(trial, kind, attempt)
            equal = _equal_from(members, at, attempt.need, trial)
            seated = 0
            while seated < len(equal) and not run.full:
                left = equal[seated:]
                rows = attempt.filled_by(run, len(left))
                if rows:
                    seated += self._fill(
                        trial, rows, left, _Seats(kind, run, attempt, model, draft)
                    )
                elif self._seat(trial, left[0], _Seats(kind, run, attempt, model, draft)):
                    seated += 1
                else:
                    run.full = True
            unplaced += equal[seated:]
            at += len(equal)
        return unplaced + list(members[at:])

    def _seat(self, trial: Trial, record: Record, seats: "_Seats") -> bool:
        """Place one member; whether it has a place. Raises PluginFailed."""
        run, attempt = seats.run, seats.attempt
        choice = self._choice(trial, seats.kind, run, attempt)
        if choice is None:
            return False
        if seats.model:
            profile, shape = seats.kind
            seats.draft.score += trial.evaluators[profile].row_scores(shape).item(choice.row)
        charge = trial.charge_at(choice, record.shape, record.pod.placed)
        trial.place(choice, charge)
        cards = charge.allocation.cards if charge.allocation is not None else ()
        seats.draft.places.append((record, choice, cards))
        attempt.record_place(run, choice)
        self._work.rows += ROWS_A_PLACEMENT
        return True

    def _fill(
        self, trial: Trial, rows: Sequence[int], members: Sequence[Record], seats: "_Seats"
    ) -> int:
        """Fill these rows with equal members; how many have a place. Raises PluginFailed.

        One member goes to each row at a time, because rows do not depend on each other: all of
        them are then asked about at once. Members get their places as if one row were filled after
        the other.
        """
        run, attempt, shape = seats.run, seats.attempt, seats.kind[1]
        evaluator, own_shape = trial.evaluators[seats.kind[0]], members[0].shape
        here = {row: run.headroom.item(row) for row in rows}
        places: dict[int, list[tuple[Choice, tuple[CardCharge, ...]]]] = {row: [] for row in rows}
        left = len(members)

        def near(row: int) -> GangContext | None:
            return attempt.cards.gang_context(row, shape, here[row], ())

        while rows and left:
            choices = [one for one in evaluator.at_each(shape, rows, near) if one is not None]
            choices = choices[:left]
            if not choices:
                break
            if seats.model:
                scores = evaluator.row_scores(shape)
                seats.draft.score += sum(scores.item(choice.row) for choice in choices)
            cards = trial.cards_at(choices, own_shape)
            trial.place_each(choices, own_shape, cards)
            for choice, of_member in zip(choices, cards, strict=True):
                row = choice.row
                places[row].append((choice, of_member))
                here[row] -= 1
                attempt.cards.record_cards(row, choice.slots)
            left -= len(choices)
            rows = [choice.row for choice in choices]
            self._work.rows += ROWS_A_PLACEMENT * len(choices)
            # A placement costs as much as where each is asked about after the other.
            self._work.other += ASKING * (len(choices) - 1)
        found = [place for on_row in places.values() for place in on_row]
        for record, (choice, of_member) in zip(members, found, strict=False):
            trial.pods.add(choice.row, record.pod.placed, 1)
            seats.draft.places.append((record, choice, of_member))
        attempt.record_members(run, len(found))
        return len(found)

    def _kind_in(self, trial: Trial, record: Record, model: str) -> ProfileShape:
        """The kind of a member, with its labels if terms of members before it may select it."""
        profile, shape = kind_of(record, model)
        pods = trial.pods
        return profile, with_terms(record.pod, shape, pods) if pods.has_terms else shape

    def _run(self, trial: Trial, kind: ProfileShape, attempt: Attempt) -> Run:
        profile, shape = kind
        # Before the first place is taken, all is as it is below, where it is mostly known.
        snapshot = trial if attempt.runs else trial.below
        order: list[int] = []
        if not shape.is_cluster_wide:
            # A row that such a shape does not fit may fit once other members have places.
            order = self._places.in_order(snapshot, kind, attempt.need, attempt.rows)[::-1]
        return Run(shape, order, snapshot.rooms[profile].rows(shape), attempt.count_of(kind))

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
        if self._assumer.place_each(draft.places, snapshot.tables):
            snapshot.follow()
            return Placed(tuple([record for record, _, _ in draft.places]))
        placed: list[Record] = []
        for record, choice, cards in draft.places:
            sentence = self._assumer.place(record, choice, snapshot.tables, cards)
            if sentence is not None:
                for one in reversed(placed):
                    self._charges.undo(one)
                return Forbidden(record, sentence)
            placed.append(record)
            snapshot.follow()  # or several members could be charged to what is free for one
        return Placed(tuple(placed))
