"""Copies of the tables, to try what would be if pods were placed, were gone, or were elsewhere.

A what-if has private copies of some rows; an overlay is a second set of all tables.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from operator import attrgetter, is_
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.changes import ChangeLog
from kubeshare_py.cluster.charge import (
    NONE,
    Charge,
    NativeGpus,
    Resources,
    all_to_hold_back,
    as_array,
    native_of,
    to_hold_back,
)
from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.columns import (
    ABSENT,
    CHARGED_COLUMNS,
    COLUMNS,
    Columns,
    Follows,
    IntArray,
    Numbering,
    TagCounts,
)
from kubeshare_py.cluster.derived import (
    counted,
    flags_of,
    held_back,
    room,
    used_percent,
)
from kubeshare_py.cluster.mounted_volumes import MountedVolumes, VolumesAbove
from kubeshare_py.cluster.placed_pods import AllSelectors, PodIndex
from kubeshare_py.cluster.pod_kinds import HeldTerm, held_by, selects
from kubeshare_py.cluster.rows import Rows, SomeRows, read_only
from kubeshare_py.cluster.usage_accounting import Accounting, Amounts, with_slots
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import Labels
from kubeshare_py.domain.gpu import CardTags
from kubeshare_py.domain.identity import DecisionToken, NodeName
from kubeshare_py.domain.pod import DeviceClaims, HostPort, PlacedPod, Shape

# Placed pods above others: some more and some fewer, to try what would be.


#: A pod that is placed on a row in what is tried (sign 1), or removed from it (-1).
PodMove = tuple[int, PlacedPod, int]


class PodsOverlay:
    """A PodIndex with some pods more and some fewer than the one below, until `clear`."""

    def __init__(
        self, below: PodIndex, objects: ClusterObjects, moves: Iterable[PodMove] = ()
    ) -> None:
        self.below = below
        self._objects = objects
        self._moves = [*moves]
        self._own_changes = 0
        self._with_terms = sum(pod.terms is not None for _, pod, _ in self._moves)

    @property
    def changes(self) -> int:
        """The number of changes so far, of this index and of the one below."""
        return self.below.changes + self._own_changes

    @property
    def moves(self) -> Sequence[PodMove]:
        """The pods that are placed and removed here, in order."""
        return self._moves

    def add(self, row: int, pod: PlacedPod, sign: int) -> None:
        """Place a pod on a row (sign 1), or remove it (-1)."""
        self._moves.append((row, pod, sign))
        self._with_terms += pod.terms is not None
        self._own_changes += 1

    def clear(self) -> None:
        """Be like the pods below again."""
        if self._moves:
            self._moves.clear()
            self._with_terms = 0
            self._own_changes += 1

    def counts(self, selectors: AllSelectors, rows: int, *, terminating: bool) -> NDArray[np.int64]:
        """See PodIndex, (rows,)."""
        found = self.below.counts(selectors, rows, terminating=terminating)
        if not self._moves:
            return found
        found = found.copy()
        for row, pod, sign in self._moves:
            if pod.terminating and not terminating:
                continue
            labels = dict(pod.labels)
            if all(selects(one, pod.namespace, labels, self._objects) for one in selectors):
                found[row] += sign
        return found

    def selecting(self, namespace: str, labels: Labels) -> Sequence[HeldTerm]:
        """See PodIndex; terms may be among them that no pod holds any more."""
        found = dict.fromkeys(self.below.selecting(namespace, labels))
        named = dict(labels)
        for _, pod, _ in self._moves:
            if pod.terms is not None:
                for held in held_by(pod.terms):
                    if selects(held.term.selector, namespace, named, self._objects):
                        found[held] = None
        return [*found]

    @property
    def has_terms(self) -> bool:
        """Whether pods that are tried here have terms."""
        return self._with_terms > 0

    def names(self, key: str) -> bool:
        """See PodIndex."""
        tried = (pod.terms for _, pod, _ in self._moves)
        return self.below.names(key) or any(
            terms is not None and key in terms.named_keys for terms in tried
        )

    def holders(self, held: HeldTerm, rows: int) -> NDArray[np.int64]:
        """See PodIndex, (rows,)."""
        found = self.below.holders(held, rows)
        for row, pod, sign in self._moves:
            if pod.terms is not None:
                found[row] += sign * sum(one == held for one in held_by(pod.terms))
        return found

    @property
    def volumes(self) -> MountedVolumes:
        """See PodIndex."""
        if any(pod.volumes is not None for _, pod, _ in self._moves):
            return VolumesAbove(self.below.volumes, self._moves)
        return self.below.volumes

    def host_ports(self, row: int) -> Mapping[HostPort, int]:
        """See PodIndex."""
        found = self.below.host_ports(row)
        if not any(at == row and pod.host_ports for at, pod, _ in self._moves):
            return found
        held = Counter(found)
        for at, pod, sign in self._moves:
            if at == row:
                held.update(dict.fromkeys(pod.host_ports, sign))
        return +held

    def device_claims(self) -> Mapping[tuple[int, DeviceClaims], int]:
        """See PodIndex."""
        found = self.below.device_claims()
        moved = [
            (row, pod.device_claims, sign) for row, pod, sign in self._moves if pod.device_claims
        ]
        if not moved:
            return found
        held = Counter(found)
        for row, claims, sign in moved:
            held[row, claims] += sign
        return +held


# Private copies of rows, to answer what would fit if some pods were elsewhere.
#
# Nothing of it enters the tables. A node may have several of these rows, each without other pods.


#: Columns that charges and reservations are added to, and those that they are subtracted from with
#: the columns that have the whole.
_COUNTED = {name: one for name, one in COLUMNS.items() if one.follows is Follows.CHARGES}
_COUNTED_UP = tuple(name for name, column in _COUNTED.items() if not column.whole)
_COUNTED_DOWN = {name: column.whole for name, column in _COUNTED.items() if column.whole}
#: What pods hold: the column, the field of `Amounts`, and the sign with which it is counted.
_HELD = tuple(
    (name, column.amount, -1 if column.whole else 1)
    for name, column in _COUNTED.items()
    if column.amount
)


class WhatIf(Rows):
    """Rows from which pods can be removed and to which pods can be added.

    `positions` count these rows, not those of the tables: (n,) int64. After amounts changed,
    `derive` must be called before the next question. The order in which idle cards should be broken
    is not updated.
    """

    def __init__(self, columns: Columns, index: IntArray, native: IntArray) -> None:
        """`index` are rows of the tables, (k,).

        `native` the GPUs per row that the kubelet gives out, as `NativeGpus`, (k, 3).
        """
        own = {name: getattr(columns, name).take(index, 0) for name in CHARGED_COLUMNS}
        self._begin(columns, index, native, own)

    _at: IntArray
    _native: IntArray
    _tag_sets: Numbering[TagCounts]
    #: The columns that charges change; plugins get views of them that cannot be written.
    _own: dict[str, IntArray]
    #: Pods that were placed or removed: in each call of `add`; in the first so many calls for the
    #: rows from which these were taken, at these positions; and in those for a plan of which these
    #: are alternatives. The rows are one plan, or alternatives to each other, for which only the
    #: moves of their own position count. Hardly any shape asks about other pods, so moves are
    #: sorted by position when one does.
    _plan: tuple["WhatIf", int] | None
    _added: list[tuple[IntArray, IntArray, Mapping[int, Sequence[PlacedPod]], int]]
    _source: tuple["WhatIf", IntArray, int] | None
    #: The moves by position after so many calls.
    _sorted: tuple[int, dict[int, list[PodMove]]]
    #: Rows of the plan of which these are alternatives, (p,), and their cards' tags, (p, width).
    _plan_tags: tuple[IntArray, IntArray]
    _is_one_plan: bool
    _is_empty: bool

    def _begin(
        self, columns: Columns, index: IntArray, native: IntArray, own: dict[str, IntArray]
    ) -> None:
        super().__init__(columns, None)
        self.__dict__.update(_at=index, _native=native, _own=own, _tag_sets=columns.tag_sets)
        self.__dict__.update(_plan=None, _added=[], _source=None, _sorted=(-1, {}))
        self.__dict__.update(_is_one_plan=False, _is_empty=False)
        self.__dict__["_plan_tags"] = index[:0], own["tag_set"][:0]

    @property
    def index(self) -> IntArray:
        """The numbers of the rows in the tables, (k,)."""
        return read_only(self._at)

    def _pick(self, column: NDArray[Any]) -> NDArray[Any]:
        return column.take(self._at, 0)

    def _take(self, name: str) -> NDArray[Any]:
        own = self._own.get(name)
        return super()._take(name) if own is None else own.view()

    def alone(self, position: int) -> Rows:
        """One of these rows, for questions about the whole cluster as it would be with it."""
        own = self._moves(len(self._added)).get(position, ())
        moves = self._all_moves() if self._is_one_plan else (*self._of_plan(), *own)
        columns = copy(self._columns)
        columns.pods = PodsOverlay(columns.pods, columns.objects, moves)
        if self._has_own_tags:
            columns.tag_sets, columns.tag_set = self._tag_sets, columns.tag_set.copy()
            own_tags, here = self._own["tag_set"], slice(position, position + 1)
            planned = (self._at, own_tags) if self._is_one_plan else self._plan_tags
            for at, tags in (planned, (self._at[here], own_tags[here])):
                columns.tag_set[at] = tags
        return SomeRows(columns, self._at[position : position + 1])

    @property
    def has_moved_pods(self) -> bool:
        """Whether pods were placed or removed whose labels, terms, ports or tags are known."""
        has_moves = bool(self._moves(len(self._added)) or self._of_plan())
        return has_moves or self._has_own_tags

    @property
    def _has_own_tags(self) -> bool:
        return self._tag_sets is not self._columns.tag_sets

    def host_ports(self) -> list[Collection[HostPort]]:
        """See `Rows.host_ports`."""
        if self._is_empty:
            return [() for _ in self._at]
        if not self.has_moved_pods:
            return super().host_ports()
        return [self.alone(position).host_ports()[0] for position in range(len(self._at))]

    def be_one_plan(self) -> None:
        """From now on, what is added to one row is there for all, with pods on other rows."""
        self.__dict__["_is_one_plan"] = True

    def take(self, positions: IntArray) -> "WhatIf":
        """Copies of the rows at `positions`, as they are here; they are alternatives."""
        taken = WhatIf.__new__(WhatIf)
        own = {name: column.take(positions, 0) for name, column in self._own.items()}
        at, native = self._at.take(positions), self._native.take(positions, 0)
        taken._begin(self._columns, at, native, own)
        if self._is_one_plan:
            taken.__dict__["_plan"] = self, len(self._added)
        else:
            source = self, positions, len(self._added)
            taken.__dict__.update(_plan=self._plan, _source=source)
        if self._has_own_tags:
            taken.__dict__["_tag_sets"] = self._tag_sets.copy()
            taken.__dict__["_plan_tags"] = self._plan_tags
            if self._is_one_plan:
                taken.__dict__["_plan_tags"] = self._at, self._own["tag_set"].copy()
        return taken

    def add(self, positions: IntArray, amounts: Amounts, lines: IntArray, sign: int = 1) -> None:
        """Add pods to rows (sign 1) or remove them (-1); each row at most once.

        `lines`, (n,) int64, are the lines of `amounts` for the `positions`.
        """
        own = self._own
        for name, amount, direction in _HELD:
            # (n, resources) or (n, width). Each position is there once: += with indices adds only
            # once to one that is there twice.
            own[name][positions] += direction * sign * getattr(amounts, amount).take(lines, 0)
        self._native[positions] += sign * amounts.native.take(lines, 0)
        if amounts.tags:
            for position, line in zip(positions.tolist(), lines.tolist(), strict=True):
                for slot, tags in amounts.tags.get(line, ()):
                    self._count_tags(position, slot, tags, sign)
        if amounts.pods:
            self._added.append((positions, lines, amounts.pods, sign))

    def _all_moves(self, added: int | None = None) -> tuple[PodMove, ...]:
        """All moves, or those until so many calls of `add`."""
        by_position = self._moves(len(self._added) if added is None else added).values()
        return (*self._of_plan(), *(move for moves in by_position for move in moves))

    def _of_plan(self) -> tuple[PodMove, ...]:
        """The moves of the plan of which these rows are alternatives."""
        return () if self._plan is None else self._plan[0]._all_moves(self._plan[1])

    def _moves(self, added: int) -> dict[int, list[PodMove]]:
        """The pods that were placed or removed in the first `added` calls of `add`, by position."""
        if self._sorted[0] == added:
            return self._sorted[1]
        found: dict[int, list[PodMove]] = {}
        if self._source is not None:
            rows, at, before = self._source
            theirs = rows._moves(before)
            for number, one in enumerate(at.tolist() if theirs else ()):
                if one in theirs:
                    found[number] = [*theirs[one]]
        for positions, lines, pods, sign in self._added[:added]:
            for position, line in zip(positions.tolist(), lines.tolist(), strict=True):
                if line in pods:
                    row = self._at.item(position)
                    moves = [(row, pod, sign) for pod in pods[line]]
                    found.setdefault(position, []).extend(moves)
        self.__dict__["_sorted"] = added, found
        return found

    def tag_counts(self) -> tuple[IntArray, Sequence[TagCounts]]:
        """See `Rows.tag_counts`; values that only these rows have are numbered apart."""
        return self.tag_set, self._tag_sets.shown

    def _count_tags(self, position: int, slot: int, tags: CardTags, sign: int) -> None:
        if not self._has_own_tags:
            self.__dict__["_tag_sets"] = self._tag_sets.copy()
        column = self._own["tag_set"]
        counts = counted(self._tag_sets.values[column.item(position, slot)], tags, sign)
        column[position, slot] = self._tag_sets.number(counts)

    def empty(self) -> None:
        """Remove all pods and reservations from all rows, and derive the columns that follow."""
        own = self._own
        self.__dict__["_is_empty"] = True
        for name in _COUNTED_UP:
            own[name].fill(0)
        for name, whole in _COUNTED_DOWN.items():
            own[name][:] = getattr(self, whole)
        self._native.fill(0)
        self.derive(np.arange(len(self._at)))

    def derive(self, positions: IntArray) -> None:
        """Update the derived columns of these rows, (n,) int64, as the tables do."""
        own = self._own
        before, tenants, exclusive, excluding = (
            own[name][positions] for name in ("flags", "tenants", "exclusive", "excluding")
        )
        flags = flags_of(before, tenants, self.max_tenants[positions], exclusive, excluding)
        at = self._at[positions]
        native = all_to_hold_back(self._columns, at, self._native[positions])
        if native.any():
            flags |= _held_back(flags, tenants, native[:, None])
        free_milli, free_bytes = own["free_milli"][positions], own["free_bytes"][positions]
        with_share = np.maximum(self.share_bytes[positions], 1)
        headroom, share_headroom, idle = room(
            flags, tenants, free_milli, free_bytes, with_share, np.minimum
        )
        own["flags"][positions] = flags
        own["headroom"][positions] = headroom
        own["share_headroom"][positions] = share_headroom
        own["idle"][positions] = idle
        # (n,): each bit is there once, so that their sum is their union.
        own["idle_cards"][positions] = (idle * self.position_bit[positions]).sum(1)
        own["break_order"][positions] *= idle
        # (n,): pods may hold parts of absent cards, which are not of the node.
        there = (free_milli * (flags & ABSENT == 0)).sum(1)
        own["gpu_free_milli"][positions] = there
        whole = self.gpu_capacity_milli[positions]
        own["gpu_used_percent"][positions] = used_percent(whole, there, np.minimum)


def _held_back(flags: IntArray, tenants: IntArray, native: IntArray) -> IntArray:
    """HELD_BACK where a card is held back, else 0, (k, width); `native` is (k, 1)."""
    # (k, width), as `idle_from`: of each card the idle cards from it on, so a sum from the right.
    # The first column, kept as (k, 1), has those of the whole row.
    idle = ((flags == 0) & (tenants == 0)).astype(np.int64)
    idle_from = np.cumsum(idle[:, ::-1], axis=1)[:, ::-1]
    return held_back(flags, idle, idle_from, idle_from[:, :1], native)


# The tables that questions are put to: the ledger's own, or an overlay's.


class Tables(Protocol):
    """Columns and their logs.

    `changed` logs rows whose amounts changed, and `relabelled` those whose node object changed.
    """

    @property
    def columns(self) -> Columns:
        """The columns."""

    @property
    def changed(self) -> ChangeLog:
        """The log of rows whose amounts changed."""

    @property
    def relabelled(self) -> ChangeLog:
        """The log of rows whose node object changed."""

    def native_on(self, row: int) -> NativeGpus:
        """The GPUs of a row that the kubelet gives to pods."""

    @property
    def has_native(self) -> bool:
        """Whether there are such GPUs on any row."""

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """A request as amounts by resource column, (resources,) int64; a pod is one of `pods`."""

    def what_if(self, rows: IntArray) -> WhatIf:
        """Private copies of these rows, (k,) int64."""


# A second set of the tables, to try what would be if pods were placed, or were gone.
#
# An overlay begins as the tables below it. What is added or removed in it stays in it: nothing
# enters the ledger, its change logs, or an answer that is cached about it. `follow` ends all of
# that, at the cost of the rows that differ. Columns that charges do not change are shared with the
# tables below.


_SHARED = tuple(
    name for name in Columns.__slots__ if name not in CHARGED_COLUMNS and name != "pods"
)
_shared_of = attrgetter(*_SHARED)
#: If more rows differ than this, all are copied.
_MAX_COPIED = 4096
#: So many rows are copied one by one, because that takes less time.
_FEW = 4


class Overlay:
    """Tables above other tables."""

    def __init__(self, below: Tables) -> None:
        self.below = below
        self.changed = ChangeLog()
        #: Rows in which something was tried.
        self._touched: dict[int, None] = {}
        #: By row, how many GPUs of native pods there are more than below.
        self._native: dict[int, NativeGpus] = {}
        self._left_out: Mapping[int, Sequence[Charge]] = {}
        self._seen = 0
        self.pods = PodsOverlay(below.columns.pods, below.columns.objects)
        self._copy_all()

    @property
    def relabelled(self) -> ChangeLog:
        """The log of the tables below: what is tried changes no node object."""
        return self.below.relabelled

    def differing(self) -> IntArray:
        """The rows, (k,) int64, that may differ from those below."""
        rows = {**self._touched, **dict.fromkeys(self._left_out)}
        return np.fromiter(rows, np.int64, len(rows))

    def follow(self) -> None:
        """Be like the tables below again, but for reservations that are left out."""
        below, columns = self.below.columns, self.columns
        self.pods.clear()
        is_laid_out = below.layout == columns.layout and below.resources is columns.resources
        # An overlay below has other arrays once it copied all rows, which may be few.
        is_same = is_laid_out and below.free is self._copied
        behind = self.below.changed.since(self._seen, _MAX_COPIED) if is_same else None
        if behind is None:
            self._copy_all()
        elif len(behind) or self._touched:
            self._copy({**dict.fromkeys(behind.tolist()), **self._touched})
        self._seen = self.below.changed.end

    def leave_out(self, reservations: Mapping[int, Sequence[Charge]]) -> None:
        """Leave these reservations out from now on, by row; `follow` shows the others again."""
        rows = {**self._left_out, **reservations}
        others = [row for row in rows if self._left_out.get(row) != reservations.get(row)]
        self._touched.update(dict.fromkeys(others))
        self._left_out = reservations

    def place(self, row: int, charge: Charge, slots: Sequence[int]) -> None:
        """Add a pod to a row; its cards are in these slots."""
        self._touched[row] = None
        self.changed.add(row)
        if charge.pod is not None:
            self.pods.add(row, charge.pod, 1)
        self._count(row, charge, 1, slots, charge.allocation)

    def count_each(
        self,
        rows: Sequence[int],
        slots: Sequence[Sequence[int]],
        shape: Shape,
        cards: Sequence[tuple[CardCharge, ...]],
    ) -> None:
        """Count pods of one shape, each on a row of its own; their cards are in these slots.

        `place` adds them to `pods` besides, which is left to the caller.
        """
        held = [card for of_pod in cards for card in of_pod]
        is_plain = bool(held) or native_of(shape.charged) == NONE
        self._touched.update(dict.fromkeys(rows))
        index = np.array(rows, np.int64)
        self.changed.add_all(index)
        if not is_plain or self.has_native or any(card.tags for card in held):
            port = 0 if shape.needs_port else None
            for row, where, of_pod in zip(rows, slots, cards, strict=True):
                allocation = Allocation(token=DecisionToken(""), cards=of_pod, port=port)
                charge = Charge(NodeName(""), shape.charged, allocation)
                self._count(row, charge, 1, where, allocation)
            return
        self.columns.free[index] -= self.vector(shape.charged, shape.needs_port)
        if held:
            each = index.repeat([len(where) for where in slots])
            where_each = np.array([slot for where in slots for slot in where], np.int64)
            self._accounting.count_many(each, where_each, held)

    def remove(self, row: int, charge: Charge) -> None:
        """Remove what a pod holds of a row."""
        self._touched[row] = None
        self.changed.add(row)
        if charge.pod is not None:
            self.pods.add(row, charge.pod, -1)
        self._count(row, charge, -1, *self._with_slots(row, charge))

    def native_on(self, row: int) -> NativeGpus:
        """The GPUs of a row that the kubelet gives to pods."""
        native = self.below.native_on(row)
        return native.plus(self._native[row], 1) if row in self._native else native

    @property
    def has_native(self) -> bool:
        """Whether there are such GPUs on any row."""
        return bool(self._native) or self.below.has_native

    def vector(self, resources: Resources, port: bool) -> IntArray:
        """A request as amounts by resource column, (resources,) int64; a pod is one of `pods`."""
        return self.below.vector(resources, port)

    def what_if(self, rows: IntArray) -> WhatIf:
        """Private copies of these rows, (k,) int64."""
        return WhatIf(self.columns, rows, as_array(self.native_on, rows))

    # --- inside --------------------------------------------------------------------------------

    def _count(
        self,
        row: int,
        charge: Charge,
        sign: int,
        slots: Sequence[int],
        allocation: Allocation | None,
    ) -> None:
        """Add (sign 1) or remove (-1) a charge, of whose cards `allocation` are in these slots."""
        columns, whole = self.columns, charge.allocation
        port = whole is not None and whole.port is not None
        free = columns.free[row]
        (np.subtract if sign > 0 else np.add)(free, self.vector(charge.resources, port), free)
        native = charge.native
        if native != NONE:
            self._native[row] = self._native.get(row, NONE).plus(native, sign)
        held_back = to_hold_back(columns, row, self.native_on(row))
        if whole is not None and whole.cards and allocation is not None:
            if any(card.tags for card in allocation.cards):
                self._number_apart()
            self._accounting.count_cards(row, slots, allocation, sign, held_back)
        if native != NONE:
            self._accounting.hold_back_cards(row, held_back)

    def _with_slots(self, row: int, charge: Charge) -> tuple[list[int], Allocation | None]:
        """See `with_slots`, for a charge with or without cards."""
        allocation = charge.allocation
        return ([], None) if allocation is None else with_slots(self.columns, row, allocation)

    @property
    def _numbers_apart(self) -> bool:
        """Whether sets of tags have other numbers than below."""
        return self.columns.tag_sets is not self.below.columns.tag_sets

    def _number_apart(self) -> None:
        if not self._numbers_apart:
            self.columns.tag_sets = self.columns.tag_sets.copy()

    def _copy_all(self) -> None:
        below = self.below.columns
        self.columns = copy(below)
        self.columns.pods = self.pods
        self._accounting = Accounting(self.columns)
        for name in CHARGED_COLUMNS:
            setattr(self.columns, name, getattr(below, name).copy())
        self._pairs = [
            (getattr(self.columns, name), getattr(below, name)) for name in CHARGED_COLUMNS
        ]
        self._copied, self._shared = below.free, _shared_of(below)
        self._seen = self.below.changed.end
        self._touched.clear()
        self._native.clear()
        self.changed.add_all(np.arange(below.rows))
        for row in self._left_out:
            self._leave_out(row)

    def _copy(self, rows: Mapping[int, None]) -> None:
        if self._numbers_apart:
            rows = {**rows, **dict.fromkeys(self._left_out)}
        shared = _shared_of(self.below.columns)
        # They are replaced when nodes change, which is seldom.
        if self._numbers_apart or not all(map(is_, shared, self._shared)):
            self._shared = shared
            for name, one in zip(_SHARED, shared, strict=True):
                setattr(self.columns, name, one)
        if len(rows) <= _FEW:
            for own, theirs in self._pairs:
                for row in rows:
                    own[row] = theirs[row]
        else:
            index = np.fromiter(rows, np.int64, len(rows))
            for own, theirs in self._pairs:
                own[index] = theirs.take(index, 0)
        self.changed.add_all(np.fromiter(rows, np.int64, len(rows)))
        self._touched.clear()
        for row in rows:
            self._native.pop(row, None)
            if row in self._left_out:
                self._leave_out(row)

    def _leave_out(self, row: int) -> None:
        """Remove the reservations that are left out of a row, which was copied just now."""
        for charge in self._left_out[row]:
            slots, allocation = self._with_slots(row, charge)
            if allocation is not None:
                self._accounting.count_reservation(row, slots, allocation, -1)
            self._count(row, charge, -1, slots, allocation)
