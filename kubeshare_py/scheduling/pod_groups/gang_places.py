"""Topology domains that hold a gang, and the order in which to fill their rows.

A domain is a node, or the nodes with the same values of labels: rack, zone, region. The narrowest
domain with room for all members is taken. Among several, it is the one that is then fullest, so
that large ones stay free for larger gangs. Within a domain, as few domains of each narrower level
are used as possible, nodes included.

Domains have numbers, and NOWHERE is a row without one. A level is (rows,) int64: each row's domain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework import plugin_calls
from kubeshare_py.framework.boundary import Boundary
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.framework.snapshot import Snapshot
from kubeshare_py.scheduling.pod_groups.gang_nodes import best_first, cards_together
from kubeshare_py.topology.topology_labels import CLIQUE

#: How many pods of each profile and shape.
WantedPlaces = Mapping[tuple[str, Shape], int]
NOWHERE = -1
#: The most lists of labels whose domains are cached: pods may name any.
MAX_KNOWN = 64
_Sums = dict[tuple[str, Shape], NDArray[np.float64]]


@dataclass(slots=True)
class _KnownPlaces:
    """The domains of all rows under some labels, as of a state of the node objects."""

    relabelled: int
    layout: int
    levels: list[IntArray]


class GangPlaces:
    """Finds domains; caches the domains of each row, which rarely change.

    Rows are (k,) int64, numbers of the tables' rows.
    """

    def __init__(self, ledger: Ledger, profiles: Mapping[str, Profile], boundary: Boundary) -> None:
        self._boundary = boundary
        self._ledger = ledger
        self._profiles = profiles
        self._known: dict[tuple[str, ...], _KnownPlaces] = {}

    def that_hold(
        self,
        snapshot: Snapshot,
        wanted: WantedPlaces,
        need: int,
        at: Sequence[int],
        within: str = "",
    ) -> Iterator[IntArray]:
        """The domains that may hold `need` of these pods, by their rows, (k,) int64.

        The best first.

        Domains with members already, on the rows `at`, come before all others. Nothing if no pod
        claims a card or the profile has no Locality plugin: then scores decide. With `within`, only
        domains that all members may be in. Raises PluginFailed.
        """
        levels = self._levels_for(wanted) or []
        has_nodes = bool(levels)
        rooms = {kind: snapshot.rooms[kind[0]].rows(kind[1]) for kind in wanted}
        if within:
            widest = self._places_by((within,))[0]
            levels = [widest, *(_split(level, widest) for level in levels)]
            allowed = self.allowed(within, at)
            rooms = {kind: room * allowed for kind, room in rooms.items()}
        for with_members in (True, False) if at else (False,):
            for level in reversed(levels):
                sums = _sums(level, rooms)
                most = [np.minimum(sums[kind], count) for kind, count in wanted.items()]
                found = np.flatnonzero(np.sum(most, axis=0) >= need)
                found = found[np.isin(found, level[list(at)]) == with_members]
                total = np.sum([*sums.values()], axis=0)
                if has_nodes and level is levels[-1] and not with_members:
                    rows = np.flatnonzero(np.isin(level, found))
                    yield from self._best_nodes(wanted, need, rows, total[level[rows]])
                    continue
                for place in found[np.argsort(total[found], kind="stable")].tolist():
                    yield np.flatnonzero(level == place)

    def roomiest(
        self, snapshot: Snapshot, wanted: WantedPlaces, at: Sequence[int], within: str
    ) -> IntArray:
        """The rows, (k,), of the domain of this label with the most room for these pods."""
        allowed = self.allowed(within, at)
        rooms = {kind: snapshot.rooms[kind[0]].rows(kind[1]) * allowed for kind in wanted}
        level = self._places_by((within,))[0]
        sums = _sums(level, rooms)
        most = np.sum([np.minimum(sums[kind], count) for kind, count in wanted.items()], axis=0)
        if not len(most):
            return np.zeros(0, np.int64)
        rows: IntArray = np.flatnonzero(level == int(np.argmax(most)))
        return rows

    def allowed(self, within: str, at: Sequence[int]) -> NDArray[np.bool_]:
        """Which rows members may use, (rows,) bool, if they must share one value of a label."""
        level = self._places_by((within,))[0]
        somewhere: NDArray[np.bool_] = level != NOWHERE
        if not at:
            return somewhere
        ids = np.unique(level[list(at)])
        # Members that are in several domains already leave no room for others.
        there: NDArray[np.bool_] = level == ids.item(0)
        return somewhere & there if len(ids) == 1 else np.zeros_like(somewhere)

    def each(self, within: str, at: Sequence[int]) -> list[IntArray]:
        """The rows, (k,), of each domain of this label where members may be."""
        level = self._places_by((within,))[0]
        ids = np.unique(level[self.allowed(within, at)])
        return [np.flatnonzero(level == place) for place in ids.tolist()]

    def in_order(
        self, snapshot: Snapshot, kind: tuple[str, Shape], need: int, rows: IntArray | None
    ) -> list[int]:
        """The order in which to fill these rows, so that few domains are used.

        `rows` is (k,) int64, or None for all rows. Empty where scores decide.
        """
        levels = self._levels_for({kind: need})
        if levels is None:
            return []
        profile, shape = kind
        rows = levels[-1] if rows is None else rows
        room = snapshot.rooms[profile].rows(shape).take(rows)
        keys = snapshot.evaluators[profile].keys(shape).take(rows)
        # Of equal room, the row with the best score.
        order = rows[np.lexsort((rows, -keys, -room))]
        return _filled(order, snapshot.rooms[profile].rows(shape), levels, need)

    def nearest(
        self,
        snapshot: Snapshot,
        kind: tuple[str, Shape],
        at: Sequence[int],
        allowed: NDArray[np.bool_] | None = None,
    ) -> IntArray:
        """The rows, (k,), that fit and are as near to the rows `at` as possible.

        Only rows in `allowed`, (rows,) bool. No rows if none fits, or if all are allowed and the
        profile has no Locality plugin.
        """
        profile, shape = kind
        fits = snapshot.evaluators[profile].keys(shape) >= 0
        if allowed is not None:
            fits &= allowed
        for level in reversed(self._levels_for({kind: 1}) or []) if at else ():
            ids = level[list(at)]
            rows = np.flatnonzero(fits & np.isin(level, ids[ids != NOWHERE]))
            if len(rows):
                return rows
        return np.flatnonzero(fits) if allowed is not None else np.zeros(0, np.int64)

    def wishes(self, profile: str) -> bool:
        """Whether the profile has a Locality plugin."""
        return self._profiles[profile].locality is not None

    def labels(self, profile: str) -> tuple[str, ...] | None:
        """The labels of topology domains; None to leave nearness to scores.

        Raises PluginFailed.
        """
        locality = self._profiles[profile].locality
        return None if locality is None else plugin_calls.places(self._boundary, locality)

    def rows_of(self, names: Sequence[NodeName]) -> list[int]:
        """The rows of nodes, without unknown nodes."""
        row_of = self._ledger.columns.row_of
        return [row_of[name] for name in dict.fromkeys(names) if name in row_of]

    def _best_nodes(
        self, wanted: WantedPlaces, need: int, rows: IntArray, room: NDArray[np.float64]
    ) -> Iterator[IntArray]:
        """The nodes with room for so many of these pods, best first."""
        cards = cards_together([(shape, count) for (_, shape), count in wanted.items()], need)
        profile, left = self._profiles[next(iter(wanted))[0]], room.astype(np.int64) - need
        if len(rows):
            found = best_first(self._boundary, profile, self._ledger.columns, rows, left, cards)
            yield from found.reshape(-1, 1)

    def _levels_for(self, wanted: WantedPlaces) -> list[IntArray] | None:
        """The domains of each row, widest level first, nodes last; None if scores decide."""
        if not any(shape.claims for _, shape in wanted):
            return None
        labels = self.labels(next(iter(wanted))[0])
        return None if labels is None else self._places_by(labels)

    def _places_by(self, labels: tuple[str, ...]) -> list[IntArray]:
        """The domains of each row by these labels, widest first, and last the rows."""
        ledger = self._ledger
        known = self._known.get(labels)
        now = (ledger.relabelled.end, ledger.columns.layout)
        if known is None or (known.relabelled, known.layout) != now:
            levels = [*_places(ledger.columns, labels), np.arange(ledger.columns.rows)]
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[labels] = _KnownPlaces(*now, levels)
        return known.levels


def places_by(columns: Columns, label: str) -> IntArray:
    """The number of each row's domain by one label, (rows,); NOWHERE if the node lacks it."""
    return next(_places(columns, (label,)))


def _sums(level: IntArray, rooms: Mapping[tuple[str, Shape], IntArray]) -> _Sums:
    """The room in each domain of a level, by its number."""
    somewhere = np.flatnonzero(level != NOWHERE)
    ids = level[somewhere]
    return {
        kind: np.bincount(ids, room[somewhere]).astype(np.float64) for kind, room in rooms.items()
    }


def _split(level: IntArray, by: IntArray) -> IntArray:
    """The intersections of the domains of two levels."""
    _, both = np.unique(level * (len(by) + 1) + by, return_inverse=True)
    return np.where((level == NOWHERE) | (by == NOWHERE), NOWHERE, both)


def _places(columns: Columns, labels: Sequence[str]) -> Iterator[IntArray]:
    """For each label the number of each row's domain; NOWHERE if the node lacks the label.

    Racks of one name in two zones are two domains; a fabric's name is unique.
    """
    path = np.zeros(columns.rows, np.int64)
    for key in labels:
        label = columns.label(key)
        codes = label.codes
        missing = (codes == 0) | (codes == label.values.get("", 0))
        if key == CLIQUE:
            yield np.where(missing, NOWHERE, codes)
            continue
        _, path = np.unique(path * len(label.values) + codes, return_inverse=True)
        yield np.where(missing, NOWHERE, path)


def _filled(rows: IntArray, room: IntArray, levels: Sequence[IntArray], need: int) -> list[int]:
    """The rows, which are sorted by room, grouped by domain from the widest level on."""
    if len(levels) == 1:
        return [rows.item(at) for at in _few(room[rows], need)]
    ids = levels[0][rows]
    places, inverse = np.unique(ids, return_inverse=True)
    if len(places) == 1:
        return _filled(rows, room, levels[1:], need)
    sums = np.bincount(inverse, room[rows]).astype(np.int64)
    order = np.argsort(-sums, kind="stable")
    filled: list[int] = []
    for place in order[_few(sums[order], need)].tolist():
        filled += _filled(rows[inverse == place], room, levels[1:], max(need, 1))
        need -= sums.item(place)
    return filled


def _few(room: IntArray, need: int) -> list[int]:
    """The order in which to take rooms, sorted from largest to smallest, so that few are used.

    The largest first; the remainder goes where it fits most tightly.
    """
    taken = 0
    while taken < len(room) and need > room.item(taken):
        need -= room.item(taken)
        taken += 1
    if taken == len(room) or need <= 0:
        return list(range(len(room)))
    smallest = room.item(int(np.count_nonzero(room >= need)) - 1)
    last = max(taken, int(np.argmax(room == smallest)))
    rest = [at for at in range(taken, len(room)) if at != last]
    return [*range(taken), last, *rest]
