"""All enabled dialects: those of each profile, and what concerns the whole cluster.

Which annotations are results, the owner of a resource name on a node, and what pods of other
schedulers hold do not depend on a profile: for them the dialects of all profiles count.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from kubeshare_py.dialects.cambricon.cambricon_dialect import Cambricon
from kubeshare_py.dialects.dialect import Dialect, NodeCard, NodeKeys, PlacedNode
from kubeshare_py.dialects.dialect_calls import has_mark_by, owns_by, results_by
from kubeshare_py.dialects.dialect_table import DialectTable, mark, mark_of_any
from kubeshare_py.dialects.gpushare.gpushare_dialect import Gpushare
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.nano_gpu.dialect import NanoGpu
from kubeshare_py.dialects.nvidia_dialect import Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod.dialect import SharePods
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.needs.gpu_quota import QuotaNames
from kubeshare_py.domain.needs.native_resources import NVIDIAS, NativeResources
from kubeshare_py.domain.node import NodeAtDecision

#: The owners of contested resource names on a node, as sorted (resource, dialect) pairs; names
#: that are not in it are native there.
Owners = tuple[tuple[str, str], ...]
_NONE: Mapping[str, Collection[str]] = {}
#: The API server does not check a Binding's labels, and a pod with a bad one cannot be updated.
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


class Dialects:
    """The tables of the profiles by schedulerName. A dialect is one object in all of them."""

    def __init__(
        self,
        profiles: Mapping[str, Sequence[Dialect]],
        demanding: Mapping[str, Collection[str]] = _NONE,
        native: NativeResources = NVIDIAS,
    ) -> None:
        """Raises DialectConflict for dialects that cannot be used in one cluster.

        `native` are the resources of device plugins, whose cards the kubelet chooses.
        `demanding` are those whose nodes must have the labels of their rules, by profile.
        """
        self.native = native
        found: dict[str, Dialect] = {}
        for dialects in profiles.values():
            found |= {one.name: one for one in dialects}
        self.every = DialectTable(tuple(found.values()) or (SHAREDGPU,))
        self._tables = {
            name: DialectTable(dialects, demanding.get(name, ()))
            for name, dialects in profiles.items()
        }
        self._by_name = {one.name: one for one in self.every.dialects}
        #: The names by which ResourceQuotas of namespaces limit pods of some dialect.
        self.quota_names: tuple[QuotaNames, ...] = tuple(
            one.quota_names for one in self.every.dialects if one.quota_names is not None
        )
        self._contesting = [one for one in self.every.dialects if one.owns.contested]
        #: Resource names that have different owners on different nodes.
        self.contested: frozenset[str] = frozenset().union(
            *(one.owns.contested for one in self._contesting)
        )

    def of(self, scheduler_name: str) -> DialectTable:
        """The table for pods with this schedulerName; of other schedulers' pods, all dialects."""
        return self._tables.get(scheduler_name, self.every)

    def owners(self, node: NodeKeys) -> Owners:
        """The owners of contested resource names on this node: the first dialect that says so."""
        owners: dict[str, str] = {}
        for dialect in self._contesting:
            for resource in sorted(dialect.owns.contested - owners.keys()):
                if owns_by(dialect, resource, node):
                    owners[resource] = dialect.name
        return tuple(sorted(owners.items()))

    def owner_marks(self, owners: Owners) -> tuple[str, ...]:
        """The marks of a node whose contested names have these owners."""
        found = {mark(resource, dialect) for resource, dialect in owners}
        for table in self._tables.values():
            for resource, dialect in owners:
                contesting = table.contesting.get(resource, ())
                if dialect in contesting:
                    found.add(mark_of_any(resource, contesting))
        return tuple(sorted(found))

    def marks(self, node: NodeKeys) -> tuple[str, ...]:
        """The marks of dialects that this node has."""
        return tuple(
            mark
            for dialect in self.every.dialects
            for mark in dialect.marks
            if has_mark_by(dialect, mark, node)
        )

    def results(
        self, allocation: Allocation, decided: NodeAtDecision, unix_offset_s: float
    ) -> Mapping[str, str] | str:
        """The annotations of the allocation's dialect; a sentence if the dialect failed.

        `unix_offset_s` is Unix time less the machine's time (s).
        """
        dialect = self._by_name.get(allocation.dialect)
        if dialect is None or dialect is SHAREDGPU:
            return {}
        return results_by(dialect, allocation, _placed_node(dialect, decided, unix_offset_s))

    def labels(self, allocation: Allocation, results: Mapping[str, str]) -> dict[str, str]:
        """Those of the allocation's `results` that are labels too, if a label can say them."""
        dialect = self._by_name.get(allocation.dialect)
        named = dialect.result_keys.labels if dialect is not None else frozenset()
        return {
            key: text for key, text in results.items() if key in named and _LABEL.fullmatch(text)
        }


def _placed_node(dialect: Dialect, decided: NodeAtDecision, unix_offset_s: float) -> PlacedNode:
    owned = dialect.owns.resources | dialect.owns.contested
    return PlacedNode(
        cards={
            gpu.uuid: NodeCard(gpu.index, gpu.capacity_bytes, gpu.model) for gpu in decided.cards
        },
        offered={name: amount for name, amount in decided.allocatable if name in owned},
        decided_at_ns=round((decided.at + unix_offset_s) * 1e9),
        notes=decided.notes,
        name=decided.name,
        served=frozenset(name for name in owned if decided.agent.serves(name)),
    )


#: The dialects of this project, by name; others come by entry points.
IN_TREE: Mapping[str, Callable[..., object]] = {
    SHAREDGPU.name: lambda: SHAREDGPU,
    Gpushare.name: Gpushare,
    NanoGpu.name: NanoGpu,
    Nvidia.name: Nvidia,
    SharePods.name: SharePods,
    Hami.name: Hami,
    Cambricon.name: Cambricon,
}

#: `sharedgpu` in every profile.
SHAREDGPU_ALONE = Dialects({})
