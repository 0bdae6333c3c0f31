"""Plans places for pods that fit nowhere now, which they would get once some pods with cards end.

No pod is evicted. Nodes with the least use come first, and on each node the cards with the least
use, so that little has to end. In a trial of the cluster, tenants are removed one by one until a
member fits. Members that need cards of one model, or one domain, are planned where most of them fit
already.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.evaluation_cost import EvaluationWork
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.framework.snapshot import Snapshot, Trial
from kubeshare_py.scheduling.pod_groups.gang_models import (
    ProfileShape,
    kind_of,
    models_for,
    narrowed_all,
)
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces
from kubeshare_py.scheduling.pod_groups.gang_plan import ROWS_A_PLACEMENT
from kubeshare_py.scheduling.queue.gangs import Shapes
from kubeshare_py.scheduling.queue.pod_records import Record

#: The most tenants that one plan removes, about 60 µs each.
MAX_REMOVED = 1000


@dataclass(frozen=True, slots=True)
class WantedReservation:
    """Places for `need` of these pods, which are a gang or wait each on its own.

    `within` is the label of the domain that all must share, together with those on `nodes`.
    """

    members: Sequence[Record]
    need: int
    is_gang: bool = False
    within: str = ""
    nodes: Sequence[NodeName] = ()


@dataclass(frozen=True, slots=True)
class _ReservationOption:
    """One model ("" for any) and one domain (rows, or None for all) that could hold all."""

    model: str
    rows: IntArray | None
    kinds: Shapes
    #: An upper bound of how many would fit on an empty cluster.
    if_empty: int


@dataclass(slots=True)
class _Try:
    """What one plan has tried so far."""

    option: _ReservationOption
    trial: Trial
    places: dict[PodUid, Charge] = field(default_factory=dict)
    removed: dict[PodUid, None] = field(default_factory=dict)
    #: For each kind of member, the tenants that could be removed next.
    tenants: dict[ProfileShape, Iterator[tuple[int, PodUid]]] = field(default_factory=dict)


class ReservationPlan:
    """Plans in trials of a snapshot of the cluster."""

    def __init__(
        self, ledger: Ledger, calls: PluginCalls, work: EvaluationWork, gang_places: GangPlaces
    ) -> None:
        self._ledger = ledger
        self._calls = calls
        self._work = work
        self._gang_places = gang_places

    def may_ever_fit(self, snapshot: Snapshot, wanted: WantedReservation) -> bool:
        """False only if not even an empty cluster would hold as many as are needed."""
        return next(self._options(snapshot, wanted), None) is not None

    def places(self, snapshot: Snapshot, wanted: WantedReservation) -> dict[PodUid, Charge]:
        """Places for as many members as are needed; empty if there is no way.

        Fewer where very many tenants hold the cards: a later plan, when some ended, has more.
        """
        in_vain = 0
        for option in self._best_first(snapshot, wanted):
            attempt = _Try(option, snapshot.trial())
            permitted = self._place(wanted, attempt)
            complete = len(attempt.places) == wanted.need or len(attempt.removed) >= MAX_REMOVED
            if permitted and complete:
                return attempt.places
            in_vain += len(attempt.places) + len(attempt.removed)
            if in_vain >= MAX_REMOVED:
                break
        return {}

    def _options(
        self, snapshot: Snapshot, wanted: WantedReservation
    ) -> Iterator[_ReservationOption]:
        """The models and domains that could hold all members that are needed."""
        shapes = Counter((one.pod.scheduler_name, one.shape) for one in wanted.members)
        # A pod that waits on its own is tried as it is.
        models = models_for(shapes, self._ledger.columns.model_names) if wanted.is_gang else ("",)
        places: list[IntArray] | list[None] = [None]
        if wanted.within:
            places = self._gang_places.each(wanted.within, self._gang_places.rows_of(wanted.nodes))
        for model in models:
            kinds = narrowed_all(shapes, model)
            rooms = {kind: snapshot.rooms[kind[0]].if_empty(kind[1]) for kind in kinds}
            for rows in places:
                fitting = _fitting(kinds, rooms, rows)
                if fitting >= wanted.need:
                    yield _ReservationOption(model, rows, kinds, fitting)

    def _best_first(
        self, snapshot: Snapshot, wanted: WantedReservation
    ) -> list[_ReservationOption]:
        """First where most fit now, then where most have reservations already, to keep these."""
        options = list(self._options(snapshot, wanted))
        if len(options) <= 1:
            return options
        reservations = self._ledger.reservations
        mine = [reservations[one.pod.uid] for one in wanted.members if one.pod.uid in reservations]

        def merit(option: _ReservationOption) -> tuple[int, int, int]:
            rooms = {kind: snapshot.rooms[kind[0]].rows(kind[1]) for kind in option.kinds}
            kept = sum(self._is_in(option, charge) for charge in mine)
            return -_fitting(option.kinds, rooms, option.rows), -kept, -option.if_empty

        return sorted(options, key=merit)

    def _is_in(self, option: _ReservationOption, charge: Charge) -> bool:
        cards = charge.allocation.cards if charge.allocation is not None else ()
        if option.model and any(card.model != option.model for card in cards):
            return False
        row = self._ledger.columns.row_of.get(charge.node)
        return option.rows is None or row in option.rows.tolist()

    def _place(self, wanted: WantedReservation, attempt: _Try) -> bool:
        """Find places for members; False if a plugin refuses one of them."""
        full: set[ProfileShape] = set()
        for record in wanted.members:
            if len(attempt.places) == wanted.need:
                break
            kind = kind_of(record, attempt.option.model)
            if kind in full:
                continue
            choice = self._choice(kind, attempt) or self._make_room(kind, attempt)
            if choice is None:
                full.add(kind)
                continue
            place = self._permitted(record, choice, attempt.trial)
            if place is None:
                return False
            attempt.places[record.pod.uid] = place
            self._work.rows += ROWS_A_PLACEMENT
        return True

    def _permitted(self, record: Record, choice: Choice, trial: Trial) -> Charge | None:
        """The place, tried; None if a plugin or the ledger would refuse it."""
        place = trial.charge_at(choice, record.shape, record.pod.placed)
        if self._calls.permit(record.pod, place.node) is not None:
            return None
        if trial.refusal(choice, place) is not None:
            trial.evaluators[record.pod.scheduler_name].add_ledger_filter()
            return None
        trial.place(choice, place)
        return place

    def _choice(self, kind: ProfileShape, attempt: _Try) -> Choice | None:
        (profile, shape), rows = kind, attempt.option.rows
        evaluator = attempt.trial.evaluators[profile]
        return evaluator.best(shape) if rows is None else evaluator.best_among(shape, rows)

    def _make_room(self, kind: ProfileShape, attempt: _Try) -> Choice | None:
        """Remove tenants until the shape fits somewhere."""
        profile, shape = kind
        evaluator = attempt.trial.evaluators[profile]
        tenants = attempt.tenants.get(kind)
        if tenants is None:
            tenants = attempt.tenants[kind] = self._tenants(kind, attempt)
        for row, uid in tenants:
            if uid in attempt.removed:
                continue
            if len(attempt.removed) >= MAX_REMOVED:
                return None
            attempt.trial.remove(self._ledger.charges_on_row(row)[uid])
            attempt.removed[uid] = None
            if evaluator.keys(shape).item(row) >= 0:
                choice = self._choice(kind, attempt)
                if choice is not None:
                    return choice
        return None

    def _tenants(self, kind: ProfileShape, attempt: _Try) -> Iterator[tuple[int, PodUid]]:
        """Pods with cards and their rows, in the order in which to remove them."""
        (profile, shape), among = kind, attempt.option.rows
        columns = attempt.trial.tables.columns
        rows = np.flatnonzero(attempt.trial.rooms[profile].if_empty(shape))
        if among is not None:
            rows = rows[np.isin(rows, among)]
        used = columns.gpu_capacity_milli[rows] - columns.gpu_free_milli[rows]
        for row in rows[np.argsort(used, kind="stable")].tolist():
            yield from ((row, uid) for uid in self._tenants_on(row, columns))

    def _tenants_on(self, row: int, columns: Columns) -> list[PodUid]:
        free = dict(zip(columns.uuids[row], columns.free_milli[row].tolist(), strict=False))
        found = []
        for uid, charge in self._ledger.charges_on_row(row).items():
            cards = charge.allocation.cards if charge.allocation else ()
            there = [(free[card.uuid], card.uuid) for card in cards if card.uuid in free]
            if there:
                fullest = min(there)
                found.append((-fullest[0], fullest[1], uid))
        return [uid for _, _, uid in sorted(found)]


def _fitting(kinds: Shapes, rooms: Mapping[ProfileShape, IntArray], rows: IntArray | None) -> int:
    """An upper bound of how many pods of these kinds fit on these rows, or on all."""
    return sum(
        min(count, int((rooms[kind] if rows is None else rooms[kind].take(rows)).sum()))
        for kind, count in kinds.items()
    )
