"""Which placements wait for PreBind plugins, for what, and which of them together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.needs.object_writes import ObjectRef, ObjectWrite
from kubeshare_py.framework.points import Wait
from kubeshare_py.scheduling.queue.pod_records import Record


@dataclass(slots=True, eq=False)
class WaitingPlacement:
    """One placement. `wait` is the last answer of `plugin`, None once all plugins are ready."""

    record: Record
    token: DecisionToken
    node: NodeName
    together: "PlacedTogether"
    plugin: str = ""
    wait: Wait | None = None
    #: When (s) the placement ends if `plugin` still waits, and since when each plugin has waited.
    until: float = 0.0
    #: Until when (s) it is not reported what the placement waits for.
    silent_until: float = 0.0
    since: dict[str, float] = field(default_factory=dict)
    #: Writes that were requested, and those that were performed.
    requested: set[ObjectWrite] = field(default_factory=set)
    written: list[ObjectWrite] = field(default_factory=list)
    tries: int = 0


@dataclass(slots=True, eq=False)
class PlacedTogether:
    """Placements whose Bindings are sent at once: of a single pod, or of members of a gang.

    `ended_by` is the pod because of which they end, and why. `is_over`: they have ended, or their
    Bindings are sent.
    """

    waiting: dict[PodUid, WaitingPlacement] = field(default_factory=dict)
    ended_by: tuple[Record, str] | None = None
    is_over: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether no plugin waits any more."""
        return all(one.wait is None for one in self.waiting.values())


class WaitingPlacements:
    """Finds placements by pod, by node, and by the objects that they wait for."""

    def __init__(self) -> None:
        self._by_uid: dict[PodUid, WaitingPlacement] = {}
        self._by_object: dict[ObjectRef, dict[PodUid, None]] = {}
        self._by_node: dict[NodeName, dict[PodUid, None]] = {}

    def __len__(self) -> int:
        """The number of placements."""
        return len(self._by_uid)

    def of(self, uid: PodUid) -> WaitingPlacement | None:
        """The placement of a pod; None if it does not wait."""
        return self._by_uid.get(uid)

    def uids(self) -> Iterable[PodUid]:
        """All pods, in the order in which they began to wait."""
        return self._by_uid

    def on_node(self, name: NodeName) -> Iterable[PodUid]:
        """The pods that are placed on a node."""
        return self._by_node.get(name, ())

    def on_object(self, ref: ObjectRef) -> Iterable[PodUid]:
        """The pods that wait for an object."""
        return self._by_object.get(ref, ())

    def add(
        self, record: Record, token: DecisionToken, node: NodeName, together: PlacedTogether
    ) -> WaitingPlacement:
        """A placement begins to wait, for nothing yet."""
        uid = record.pod.uid
        one = WaitingPlacement(record, token, node, together)
        self._by_uid[uid] = together.waiting[uid] = one
        self._by_node.setdefault(node, {})[uid] = None
        return one

    def waits(self, one: WaitingPlacement, wait: Wait | None, plugin: str) -> None:
        """The placement waits for this now, in place of what was before; None: for nothing."""
        uid = one.record.pod.uid
        for ref in one.wait.on if one.wait is not None else ():
            pods = self._by_object.get(ref, {})  # a plugin may name an object twice
            pods.pop(uid, None)
            if not pods:
                self._by_object.pop(ref, None)
        one.wait, one.plugin = wait, plugin
        one.record.waits_for = wait.sentence if wait is not None else ""
        for ref in wait.on if wait is not None else ():
            self._by_object.setdefault(ref, {})[uid] = None

    def drop(self, uid: PodUid) -> WaitingPlacement | None:
        """The placement does not wait any more, for whatever reason; None if it did not."""
        one = self._by_uid.pop(uid, None)
        if one is None:
            return None
        self.waits(one, None, "")
        on_node = self._by_node[one.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[one.node]
        del one.together.waiting[uid]
        return one
