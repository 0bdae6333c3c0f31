"""What is asked about the cluster: its tables, and what each profile answers about them.

The tables may be the ledger's own, an overlay's, or read by a question that no decision depends on.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kubeshare_py.cluster.charge import (
    NO_SUCH_CARD,
    Charge,
    card_charges,
    card_of_each,
    refusal,
    tentative_charge,
)
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay, PodsOverlay, Tables, WhatIf
from kubeshare_py.cluster.rows import AllRows, OneRow, Rows, SomeRows
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.pod import PlacedPod, Shape
from kubeshare_py.framework.boundary import Boundary, PluginCalls, PluginFailed
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import MAX_PODS, RowHeadroom
from kubeshare_py.framework.prepared_plugins import ASKING, EvaluationWork
from kubeshare_py.framework.result_cache import SHAPES_KEPT, Choice
from kubeshare_py.framework.scheduler_profile import Profile

# An upper bound of how many pods of a shape fit into the cluster at once, row by row.


@dataclass(slots=True)
class RowBounds:
    """The bound of each row, (rows,) int64, as of change number `seen` of the tables."""

    questions: list[RowHeadroom]
    layout: int
    seen: int
    rows: IntArray


class Headroom:
    """Bounds for one profile; only rows that changed are asked about again.

    All arrays are (rows,) int64, in pods. When the evaluator forgets a shape, so do these.
    """

    def __init__(
        self, ledger: Ledger, evaluator: Evaluator, below: "Headroom | None" = None
    ) -> None:
        """The evaluator may be one of an overlay: the bounds are then those of its tables.

        They begin as those of `below`, if these are about the tables below the overlay.
        """
        self._ledger = ledger
        self._below = below
        self._evaluator = evaluator
        self._tables = evaluator.tables
        self._known: OrderedDict[Shape, RowBounds] = OrderedDict()
        #: By shape: the ledger's capacity number, and the bound of each row as of it.
        self._if_empty: OrderedDict[Shape, tuple[int, IntArray]] = OrderedDict()
        #: All rows without pods, as of these change numbers of the ledger.
        self._emptied: tuple[tuple[int, ...], WhatIf] | None = None
        evaluator.forget_too = self.forget

    def knows(self, shape: Shape) -> bool:
        """Whether a bound for the shape is cached."""
        return shape in self._known or shape in self._if_empty

    def forget(self, shape: Shape) -> None:
        """Drop all that is cached about a shape, because no pod with it waits any more."""
        self._known.pop(shape, None)
        self._if_empty.pop(shape, None)

    def total(self, shape: Shape) -> int:
        """An upper bound of how many pods of this shape fit now.

        0 exactly when no row has room for it alone, also when that is because a plugin failed. What
        depends on the whole cluster is left out, because pods that are placed before may change it.
        """
        return int(self.rows(shape).sum())

    def if_empty(self, shape: Shape) -> IntArray:
        """An upper bound of how many pods of the shape each row would take if it were empty."""
        if self._below is not None:
            return self._below.if_empty(shape)  # it does not depend on what pods hold
        ledger = self._ledger
        known = self._if_empty.get(shape)
        if known is None or known[0] != ledger.capacities:
            rows = self._emptied_rows()
            try:
                bound = _bound(
                    self._evaluator.bounds(shape),
                    rows,
                    self._evaluator.local_negated_masks_on(shape, rows),
                )
            except PluginFailed:
                return np.zeros(ledger.columns.rows, np.int64)
            known = self._if_empty[shape] = (ledger.capacities, bound)
            if len(self._if_empty) > SHAPES_KEPT:
                self._if_empty.popitem(last=False)
        self._if_empty.move_to_end(shape)
        return known[1]

    def rows(self, shape: Shape) -> IntArray:
        """An upper bound of how many pods of the shape each row takes now.

        The array must not be changed, and is valid until the next change of the tables.
        """
        scores = self._evaluator.local_row_scores(shape)
        if shape not in self._evaluator.failed:
            try:
                return self._refreshed(shape, scores)
            except PluginFailed as failure:
                self._evaluator.fail(shape, failure)
        self._known.pop(shape, None)
        return np.zeros(len(scores), np.int64)

    def _emptied_rows(self) -> WhatIf:
        """All rows without pods; several shapes are asked about at the same moment."""
        ledger = self._ledger
        now = ledger.capacities, ledger.changed.end, ledger.relabelled.end
        if self._emptied is None or self._emptied[0] != now:
            rows = ledger.what_if(np.arange(ledger.columns.rows))
            rows.empty()
            self._emptied = now, rows
        return self._emptied[1]

    def _refreshed(self, shape: Shape, scores: IntArray) -> IntArray:
        tables = self._tables
        columns, end = tables.columns, tables.changed.end
        known = self._known.get(shape)
        changed = None
        if known is None:
            known = self._known[shape] = self._unasked(shape, scores)
            if len(self._known) > SHAPES_KEPT:
                self._known.popitem(last=False)
        if known.layout == columns.layout:
            changed = tables.changed.since(known.seen, columns.rows)
        if changed is None:
            self._evaluator.work.other += ASKING + columns.rows
            known.rows = _bound(known.questions, AllRows(columns), scores)
        elif len(changed):
            self._ask(known, changed, scores)
        known.layout, known.seen = columns.layout, end
        self._known.move_to_end(shape)
        return known.rows

    def _ask(self, known: RowBounds, index: IntArray, scores: IntArray) -> None:
        """Ask about these rows, (k,), again; `scores` are those of all rows."""
        self._evaluator.work.other += ASKING + len(index)
        rows = SomeRows(self._tables.columns, index)
        known.rows[index] = _bound(known.questions, rows, scores.take(index))

    def _unasked(self, shape: Shape, scores: IntArray) -> RowBounds:
        """The questions about a shape, and what is known without asking them.

        Nothing, or on an overlay what is known below, and asked again where rows differ.
        """
        bounds, overlay = self._evaluator.bounds(shape), self._evaluator.overlay
        if self._below is None or overlay is None:
            return RowBounds(bounds, -1, 0, scores)
        known = self._below.rows(shape).copy()
        failure = self._evaluator.failed.get(shape)
        if failure is not None:
            raise failure  # a bound below failed just now
        found = RowBounds(bounds, overlay.columns.layout, overlay.changed.end, known)
        rows = overlay.differing()
        if len(rows):
            self._ask(found, rows, scores)
        return found

    def start_anew(self) -> None:
        """Drop the bounds of now; those of empty rows stay."""
        self._known.clear()


def _bound(questions: list[RowHeadroom], rows: Rows, scores: IntArray) -> IntArray:
    """0 where the shape does not fit; else the lowest bound of the plugins, and at least 1."""
    bound: IntArray = np.full(len(scores), MAX_PODS, np.int64)
    for question in questions:
        bound = np.minimum(bound, question(rows))
    # (k,): where the shape fits there is room for one, whatever a bound says.
    return np.where(scores >= 0, np.maximum(bound, 1), 0)


# What is asked about the cluster: its tables, and what each profile answers about them.


class Snapshot:
    """One set of tables, with an evaluator and headrooms for each profile."""

    def __init__(
        self,
        ledger: Ledger,
        tables: Tables,
        evaluators: Mapping[str, Evaluator],
        rooms: Mapping[str, Headroom] | None = None,
    ) -> None:
        self.ledger = ledger
        self.tables = tables
        self.evaluators = evaluators
        self.rooms = rooms or {
            name: Headroom(ledger, evaluator) for name, evaluator in evaluators.items()
        }
        self._trial: Trial | None = None

    def follow(self) -> None:
        """Show the cluster as it is now; the ledger's own tables always do."""

    def trial(self) -> "Trial":
        """This snapshot, to try places in; the trial before it ends."""
        if self._trial is None:
            self._trial = Trial(self)
        self._trial.begin()
        return self._trial


class OverlaySnapshot(Snapshot):
    """A snapshot above another: nothing of it enters the one below, its caches or the ledger."""

    def __init__(self, below: Snapshot) -> None:
        ledger, overlay = below.ledger, Overlay(below.tables)
        evaluators = {
            name: Evaluator(one.profile, ledger, overlay=overlay, below=one)
            for name, one in below.evaluators.items()
        }
        rooms = {
            name: Headroom(ledger, evaluators[name], room) for name, room in below.rooms.items()
        }
        super().__init__(ledger, overlay, evaluators, rooms)
        self.below = below
        self._overlay = overlay


class WithoutReservations(OverlaySnapshot):
    """The cluster without some reservations; answers are kept while others are left out."""

    def follow(self) -> None:
        """Show the cluster as it is now, without these reservations."""
        self._overlay.follow()

    def leave_out(self, reservations: Mapping[int, Sequence[Charge]]) -> None:
        """Leave these reservations out from the next `follow` on, by row."""
        self._overlay.leave_out(reservations)


class Trial(OverlaySnapshot):
    """A snapshot in which pods are placed and removed."""

    def begin(self) -> None:
        """Be like the one below again."""
        self._overlay.follow()
        for evaluator in self.evaluators.values():
            evaluator.start_anew()
        for room in self.rooms.values():
            room.start_anew()

    def charge_at(self, choice: Choice, shape: Shape, pod: PlacedPod | None = None) -> Charge:
        """What a pod of this shape would hold at its place, with what others would see of it."""
        columns, row = self._overlay.columns, choice.row
        slots = self._there(choice)  # the ledger refuses other places later
        if pod is not None and pod.volumes is not None:
            pod = OneRow(columns, row).volumes.with_choice(pod)
        return tentative_charge(columns, row, slots, shape, self.ledger.cells_on(row), pod)

    def cards_at(self, choices: Sequence[Choice], shape: Shape) -> list[tuple[CardCharge, ...]]:
        """What pods of this shape would take of the cards at each of these places."""
        columns, cells_on = self._overlay.columns, self.ledger.cells_on
        claim, rows = shape.claim, [choice.row for choice in choices]
        there = [self._there(choice) for choice in choices]
        if claim is not None and claim.count == 1 and all(there):
            slots = [one[0] for one in there]
            return [(card,) for card in card_of_each(columns, rows, slots, claim, cells_on)]
        return [
            card_charges(columns, row, slots, shape.claims, cells_on(row))
            for row, slots in zip(rows, there, strict=True)
        ]

    def place_each(
        self, choices: Sequence[Choice], shape: Shape, cards: Sequence[tuple[CardCharge, ...]]
    ) -> None:
        """Take places on different rows for pods of one shape, as `place` does.

        `pods` do not have them yet, which matters to shapes that ask about other pods.
        """
        slots = [tuple(dict.fromkeys(choice.slots)) for choice in choices]
        good = [at for at, where in enumerate(slots) if len(cards[at]) == len(where)]
        if good:
            rows, slots = [choices[at].row for at in good], [slots[at] for at in good]
            self._overlay.count_each(rows, slots, shape, [cards[at] for at in good])

    def _there(self, choice: Choice) -> tuple[int, ...]:
        """The slots of a place that have a card: a plugin may take an empty one for a card."""
        count = len(self._overlay.columns.uuids[choice.row])
        return tuple([slot for slot in choice.slots if slot < count])

    @property
    def pods(self) -> PodsOverlay:
        """The placed pods, with those that are tried."""
        return self._overlay.pods

    def place(self, choice: Choice, charge: Charge) -> None:
        """Add a pod at its place, unless that has an empty slot in place of a card."""
        cards = charge.allocation.cards if charge.allocation is not None else ()
        slots = tuple(dict.fromkeys(choice.slots))  # several claims may share a card
        if len(cards) == len(slots):
            self._overlay.place(choice.row, charge, slots)

    def refusal(self, choice: Choice, charge: Charge) -> str | None:
        """Why the ledger would not take this charge now; None if all of it is free."""
        allocation, columns = charge.allocation, self._overlay.columns
        if allocation is not None and len(allocation.cards) < len({*choice.slots}):
            return NO_SUCH_CARD
        port = allocation is not None and allocation.port is not None
        return refusal(columns, choice.row, charge.resources, allocation, port)

    def remove(self, charge: Charge) -> None:
        """Remove what a pod holds."""
        row = self._overlay.columns.row_of.get(charge.node)
        if row is not None:
            self._overlay.remove(row, charge)


class Snapshots:
    """The cluster as it is, and as the pod or gang that is tried now may see it."""

    def __init__(self, actual: Snapshot) -> None:
        self.actual = self.shown = actual

    def replace(self, actual: Snapshot) -> None:
        """Show the cluster by other evaluators."""
        self.actual = self.shown = actual


# The cluster as one question about it sees it: no decision ever depends on what was asked.
#
# Answers that decisions use are cached, and what an answer costs bounds an iteration; labels get
# numbers when they are first asked about. So a question has caches, costs, failures and label
# columns of its own. They cost one evaluation of the shapes that it is about, and are dropped with
# it.


class ClusterReading:
    """The cluster at this instant, valid until the next event.

    `ledger` and `evaluators`, by profile, answer as those that decide would. `snapshots` show the
    cluster with and without reservations. A plugin's failure counts in `boundary` alone, and shapes
    for which one failed when they were decided are not asked about again.
    """

    def __init__(self, ledger: Ledger, deciding: Mapping[str, Evaluator]) -> None:
        """`deciding` are the evaluators of the machine."""
        self.ledger = ledger.for_reading()
        self.boundary, work = Boundary(), EvaluationWork()
        self.evaluators: dict[str, Evaluator] = {
            name: Evaluator(
                one.profile, self.ledger, work, self.boundary, known_failures=one.failed
            )
            for name, one in deciding.items()
        }
        self.snapshots = Snapshots(Snapshot(self.ledger, self.ledger, self.evaluators))


# The profiles by which the scheduler decides now, and what asks their plugins.


class ProfilesInUse:
    """By schedulerName: each profile, and its evaluator on the cluster of this ledger.

    `snapshots` are what evaluators are asked about, `calls` asks plugins about pods, `boundary`
    counts the failures of all plugins, and `work` what was asked of evaluators. `use` replaces
    profiles and evaluators in place.
    """

    def __init__(self, profiles: Iterable[Profile], ledger: Ledger) -> None:
        self._ledger = ledger
        self.profiles: dict[str, Profile] = {}
        self.evaluators: dict[str, Evaluator] = {}
        self.boundary, self.work = Boundary(), EvaluationWork()
        self.calls = PluginCalls(self.boundary, self.profiles)
        self.snapshots = Snapshots(Snapshot(ledger, ledger, self.evaluators))
        self.use(profiles)

    def reading(self) -> ClusterReading:
        """The cluster at this instant, for one question that changes nothing."""
        return ClusterReading(self._ledger, self.evaluators)

    def use(self, profiles: Iterable[Profile]) -> None:
        """Replace the profiles of the same names, with evaluators that know nothing yet."""
        given = {profile.scheduler_name: profile for profile in profiles}
        self.profiles.update(given)
        self.boundary.trusted = frozenset().union(*(one.trusted for one in self.profiles.values()))
        for profile in given.values():
            self.evaluators[profile.scheduler_name] = Evaluator(
                profile, self._ledger, self.work, self.boundary
            )
        self.snapshots.replace(Snapshot(self._ledger, self._ledger, self.evaluators))
