"""Private copies of rows, to answer what would fit if some pods were elsewhere.

Nothing of it enters the tables. A node may have several of these rows, each without other pods.
"""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.card_tags import counted
from kubeshare_py.cluster.columns import ABSENT, CHARGED_COLUMNS, Columns, IntArray, TagCounts
from kubeshare_py.cluster.derived import flags_of, held_back, room, used_percent
from kubeshare_py.cluster.native.native_gpus import all_to_hold_back
from kubeshare_py.cluster.numbering import Numbering
from kubeshare_py.cluster.pods.pods_overlay import PodMove, PodsOverlay
from kubeshare_py.cluster.rows import Rows, SomeRows, read_only
from kubeshare_py.domain.card_tags import CardTags
from kubeshare_py.domain.needs.host_ports import HostPort
from kubeshare_py.domain.needs.placed_pod import PlacedPod

#: Columns that charges and reservations are added to, and those that they are subtracted from with
#: the columns that have the whole.
_COUNTED_UP = (
    "tenants",
    "exclusive",
    "excluding",
    "tag_set",
    "reserved_milli",
    "reserved_bytes",
    "reservations",
)
_COUNTED_DOWN = {
    "free": "allocatable",
    "free_milli": "capacity_milli",
    "free_bytes": "capacity_bytes",
}


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts that pods hold of rows, one line each; int64.

    Node resources are (k, resources), card amounts (k, width), and GPUs that the kubelet gives out
    (k, 3), as `NativeGpus`. `milli` are shares in milli, `memory` is in bytes,
    `tenants`, `exclusive` and `excluding` count pods. `tags` are those of each pod of a line that
    has any, with the slot of its card. `pods` are what other pods' placement depends on besides, by
    line.
    """

    free: IntArray
    milli: IntArray
    memory: IntArray
    tenants: IntArray
    exclusive: IntArray
    excluding: IntArray
    native: IntArray
    tags: dict[int, list[tuple[int, CardTags]]]
    pods: dict[int, list[PlacedPod]] = field(default_factory=dict)

    @staticmethod
    def none(lines: int, resources: int, width: int) -> "Amounts":
        """k lines of zeros: `free` (k, resources), card amounts (k, width), `native` (k, 3)."""
        milli, memory, tenants, exclusive, excluding = np.zeros((5, lines, width), np.int64)
        free, native = np.zeros((lines, resources), np.int64), np.zeros((lines, 3), np.int64)
        return Amounts(free, milli, memory, tenants, exclusive, excluding, native, {})


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
    #: Pods that were placed or removed: for all of these rows, and by position. The rows are one
    #: plan, or alternatives to each other, for which only the moves of their own position count.
    _common: tuple[PodMove, ...]
    _moves: dict[int, list[PodMove]]
    #: Rows of the plan of which these are alternatives, (p,), and their cards' tags, (p, width).
    _plan_tags: tuple[IntArray, IntArray]
    _is_one_plan: bool
    _is_empty: bool

    def _begin(
        self, columns: Columns, index: IntArray, native: IntArray, own: dict[str, IntArray]
    ) -> None:
        super().__init__(columns, None)
        self.__dict__.update(_at=index, _native=native, _own=own, _tag_sets=columns.tag_sets)
        self.__dict__.update(_common=(), _moves={}, _is_one_plan=False, _is_empty=False)
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
        own = self._moves.get(position, ())
        moves = self._all_moves() if self._is_one_plan else (*self._common, *own)
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
        return bool(self._common or self._moves) or self._has_own_tags

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
            taken.__dict__["_common"] = self._all_moves()
        elif self.has_moved_pods:
            own_moves = enumerate(self._moves.get(one, ()) for one in positions.tolist())
            moves = {number: [*found] for number, found in own_moves if found}
            taken.__dict__.update(_common=self._common, _moves=moves)
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
        own["free"][positions] -= sign * amounts.free.take(lines, 0)
        own["free_milli"][positions] -= sign * amounts.milli.take(lines, 0)
        own["free_bytes"][positions] -= sign * amounts.memory.take(lines, 0)
        own["tenants"][positions] += sign * amounts.tenants.take(lines, 0)
        own["exclusive"][positions] += sign * amounts.exclusive.take(lines, 0)
        own["excluding"][positions] += sign * amounts.excluding.take(lines, 0)
        self._native[positions] += sign * amounts.native.take(lines, 0)
        for position, line in zip(positions.tolist(), lines.tolist(), strict=True):
            for slot, tags in amounts.tags.get(line, ()) if amounts.tags else ():
                self._count_tags(position, slot, tags, sign)
            if line in amounts.pods:
                row = self._at.item(position)
                moves = [(row, pod, sign) for pod in amounts.pods[line]]
                self._moves.setdefault(position, []).extend(moves)

    def _all_moves(self) -> tuple[PodMove, ...]:
        return (*self._common, *(move for moves in self._moves.values() for move in moves))

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
        own["idle_cards"][positions] = (idle * self.position_bit[positions]).sum(1)
        own["break_order"][positions] *= idle
        there = (free_milli * (flags & ABSENT == 0)).sum(1)
        own["gpu_free_milli"][positions] = there
        whole = self.gpu_capacity_milli[positions]
        own["gpu_used_percent"][positions] = used_percent(whole, there, np.minimum)


def _held_back(flags: IntArray, tenants: IntArray, native: IntArray) -> IntArray:
    """HELD_BACK where a card is held back, else 0, (k, width); `native` is (k, 1)."""
    idle = ((flags == 0) & (tenants == 0)).astype(np.int64)
    idle_from = np.cumsum(idle[:, ::-1], axis=1)[:, ::-1]
    return held_back(flags, idle, idle_from, idle_from[:, :1], native)
