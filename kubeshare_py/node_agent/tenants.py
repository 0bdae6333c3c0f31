"""The pods of one node, by uid, from a list and the changes after it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import PodKey, PodUid


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTenant:
    """A pod that is bound to the node and has not ended, and the GPUs that its annotations give it.

    `allocation` is None if it has none, or none that can be read; `problem` says why, "" if
    nothing is wrong. `is_running`: its phase is Running.
    """

    uid: PodUid
    key: PodKey
    allocation: Allocation | None = None
    problem: str = ""
    is_running: bool = False

    @property
    def holds_cards(self) -> bool:
        """Whether it holds a part of any card."""
        return self.allocation is not None and bool(self.allocation.cards)


@dataclass(frozen=True, slots=True)
class AgentState:
    """What the agent knows of its node. None: not known yet, since this process started.

    `cards` are those that may be given to pods, instances of divided cards among them.
    """

    cards: tuple[Gpu, ...] | None = None
    tenants: Mapping[PodUid, NodeTenant] | None = None


class Tenants:
    """Pods that hold a place on the node. A pod that cannot be decoded keeps its last value."""

    def __init__(self) -> None:
        self._by_uid: dict[PodUid, NodeTenant] = {}
        #: Whether a list has arrived; before it nothing is known.
        self.is_listed = False

    @property
    def by_uid(self) -> Mapping[PodUid, NodeTenant] | None:
        """A copy of all pods, sorted by namespace and name; None before the first list."""
        if not self.is_listed:
            return None
        found = sorted(self._by_uid.items(), key=lambda item: (item[1].key, item[0]))
        return MappingProxyType(dict(found))

    def listed(self, tenants: Iterable[NodeTenant], undecoded: Iterable[PodUid] = ()) -> bool:
        """Take a list of all pods; whether anything differs."""
        before = self._by_uid
        kept = {uid: before[uid] for uid in undecoded if uid in before}
        self._by_uid = kept | {one.uid: one for one in tenants}
        was_listed, self.is_listed = self.is_listed, True
        return not was_listed or self._by_uid != before

    def changed(self, uid: PodUid, tenant: NodeTenant | None) -> bool:
        """Take one pod's change, None if it is gone or has ended; whether anything differs."""
        before = self._by_uid.get(uid)
        if tenant is None:
            self._by_uid.pop(uid, None)
        else:
            self._by_uid[uid] = tenant
        return before != tenant
