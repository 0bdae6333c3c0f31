"""Decides on which node a card counts when several nodes list it or pods of several nodes hold it.

A card is one piece of hardware, so its uuid belongs to one node, and so does the uuid of the card
that a MIG instance is a part of. The verdict depends only on the present state, never on what came
first:

- the parties are the nodes of the cluster that list the uuid or on which pods hold it;
- if pods hold it on exactly one of them, it counts there; if on several, it counts nowhere;
- if no pod holds it, it counts on the node whose collector answers and whose Node object is the
  oldest, unless two are equally old: who joins a cluster later takes no cards of nodes that are in
  it. The API server keeps the time, so that a node cannot make itself older.

A reservation holds a card as a pod does: a pod will be bound there. The cost of a change depends on
the keys of the cards that it names, not on the number of nodes.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName


@dataclass(frozen=True, slots=True)
class Dispute:
    """A disputed uuid: its parties, two or more, sorted by name, and the one where it counts."""

    parties: tuple[NodeName, ...]
    keeper: NodeName | None


class Claims:
    """Which nodes list each uuid, and on which nodes pods hold it.

    `changed` are the nodes whose disputes changed; the ledger empties it. Keys are uuids of cards
    and of parents alike.
    """

    def __init__(self) -> None:
        self.disputes: dict[GpuUuid, Dispute] = {}
        self.changed: set[NodeName] = set()
        #: The disputed keys of each party.
        self._disputed_on: dict[NodeName, set[GpuUuid]] = {}
        self._listed: dict[NodeName, tuple[Gpu, ...]] = {}
        self._listers: dict[GpuUuid, tuple[NodeName, ...]] = {}
        self._instances: dict[tuple[NodeName, GpuUuid], tuple[GpuUuid, ...]] = {}
        self._parent: dict[tuple[NodeName, GpuUuid], GpuUuid] = {}
        self._holds: dict[GpuUuid, dict[NodeName, int]] = {}
        #: When each node of the cluster was created.
        self._present: dict[NodeName, str] = {}
        self._silent: frozenset[NodeName] = frozenset()

    @property
    def as_listed(self) -> Mapping[NodeName, tuple[Gpu, ...]]:
        """The cards that each node lists, disputed ones too."""
        return self._listed

    def listed(self, node: NodeName, gpus: tuple[Gpu, ...]) -> None:
        """Record that the node lists exactly these cards."""
        old, new = _keys(self._listed.get(node, ())), _keys(gpus)
        self._index(node, self._listed.pop(node, ()), gpus)
        if gpus:
            self._listed[node] = gpus
        for key in sorted(old - new):
            listers = tuple(one for one in self._listers[key] if one != node)
            if listers:
                self._listers[key] = listers
            else:
                del self._listers[key]
        alone = (node,)
        for key in new - old:
            listers = self._listers.get(key, ())
            self._listers[key] = tuple(sorted((*listers, node))) if listers else alone
        for key in sorted(old | new):
            self._settle_if_shared(key, alone)

    def is_there(
        self, node: NodeName, present: bool, held: Iterable[GpuUuid], created: str = ""
    ) -> None:
        """Record whether the cluster has this node; `held` are the cards that pods hold on it.

        `created`: see `Node`.
        """
        if present == (node in self._present) and self._present.get(node, created) == created:
            return
        if present:
            self._present[node] = created
        else:
            del self._present[node]
        for key in sorted({*_keys(self._listed.get(node, ())), *held}):
            self._settle_if_shared(key, (node,))

    def silent_are(self, nodes: frozenset[NodeName]) -> None:
        """Record that the collectors of exactly these nodes do not answer."""
        moved = self._silent ^ nodes
        self._silent = nodes
        for node in sorted(moved):
            for key in sorted(self._disputed_on.get(node, ())):
                self._settle(key)

    def held(self, node: NodeName, uuid: GpuUuid, sign: int) -> None:
        """Record that a pod holds the card on this node (sign 1), or no longer does (-1)."""
        if uuid not in self._holds:
            self._holds[uuid] = {}
        nodes = self._holds[uuid]
        count = nodes[node] + sign if node in nodes else sign
        if count:
            nodes[node] = count
        else:
            del nodes[node]
            if not nodes:
                del self._holds[uuid]
        if count == (sign > 0):  # the first holder came, or the last one left
            self._settle_if_shared(uuid, (node,))
            if (node, uuid) in self._parent:
                self._settle_if_shared(self._parent[node, uuid], (node,))

    def counted(self, node: NodeName) -> tuple[Gpu, ...]:
        """The cards that the node lists; those that count elsewhere or nowhere as not healthy.

        So is a card that is listed beside instances of it, because it cannot be given away beside
        them.
        """
        gpus = self._listed.get(node, ())
        divided = {gpu.parent for gpu in gpus if gpu.parent is not None}
        if node not in self._disputed_on and divided.isdisjoint(gpu.uuid for gpu in gpus):
            return gpus
        return tuple(
            replace(gpu, healthy=False)
            if gpu.healthy and (gpu.uuid in divided or not self._counts(node, gpu))
            else gpu
            for gpu in gpus
        )

    def disputes_of(self, node: NodeName) -> dict[GpuUuid, Dispute]:
        """The disputes to which this node is a party, by uuid."""
        return {key: self.disputes[key] for key in sorted(self._disputed_on.get(node, ()))}

    def is_elsewhere(self, uuid: GpuUuid, node: NodeName) -> bool:
        """Whether other nodes list the card, and this one does not."""
        listers = self._listers.get(uuid, ())
        return bool(listers) and node not in listers

    def rivals(self, node: NodeName) -> dict[GpuUuid, tuple[NodeName, ...]]:
        """The other parties, sorted by name, of each disputed card that this node lists."""
        disputes, found = self.disputes_of(node), {}
        for gpu in self._listed.get(node, ()) if disputes else ():
            of = [disputes[key] for key in _keys_of(gpu) if key in disputes]
            parties = {party for one in of for party in one.parties if party != node}
            if parties:
                found[gpu.uuid] = tuple(sorted(parties))
        return found

    # --- inside --------------------------------------------------------------------------------

    def _counts(self, node: NodeName, gpu: Gpu) -> bool:
        disputes = (self.disputes.get(key) for key in _keys_of(gpu))
        return all(one is None or one.keeper == node for one in disputes)

    def _index(self, node: NodeName, old: Iterable[Gpu], new: Iterable[Gpu]) -> None:
        """Keep the instances of each parent, and the parent of each instance."""
        for gpu in old:
            if gpu.parent is not None:
                self._instances.pop((node, gpu.parent), None)
                self._parent.pop((node, gpu.uuid), None)
        for gpu in new:
            if gpu.parent is not None:
                place = (node, gpu.parent)
                self._instances[place] = (*self._instances.get(place, ()), gpu.uuid)
                self._parent[node, gpu.uuid] = gpu.parent

    def _settle_if_shared(self, key: GpuUuid, alone: tuple[NodeName]) -> None:
        """Settle a key if it may be shared. Nearly always it is not: that costs two look-ups."""
        holds = self._holds.get(key)
        if (
            key in self.disputes
            or self._listers.get(key, alone) != alone
            or (holds is not None and (len(holds) > 1 or alone[0] not in holds))
        ):
            self._settle(key)

    def _settle(self, key: GpuUuid) -> None:
        listers = [node for node in self._listers.get(key, ()) if node in self._present]
        holders = {node for node in self._holds.get(key, ()) if node in self._present}
        holders.update(node for node in listers if self._holds_a_part(node, key))
        parties = tuple(sorted({*listers, *holders}))
        old = self.disputes.get(key)
        new = Dispute(parties, self._keeper(listers, holders)) if len(parties) > 1 else None
        if new == old:
            return
        if new is None:
            del self.disputes[key]
        else:
            self.disputes[key] = new
        now = new.parties if new else ()
        for node in old.parties if old else ():
            self._note(node, key, node in now)
        for node in now:
            self._note(node, key, True)

    def _note(self, node: NodeName, key: GpuUuid, is_party: bool) -> None:
        self.changed.add(node)
        keys = self._disputed_on.setdefault(node, set())
        (keys.add if is_party else keys.discard)(key)
        if not keys:
            del self._disputed_on[node]

    def _holds_a_part(self, node: NodeName, key: GpuUuid) -> bool:
        parts = self._instances.get((node, key), ())
        return any(node in self._holds.get(part, ()) for part in parts)

    def _keeper(
        self, listers: Collection[NodeName], holders: Collection[NodeName]
    ) -> NodeName | None:
        if holders:
            return next(iter(holders)) if len(holders) == 1 else None
        answering = [node for node in listers if node not in self._silent]
        if len(answering) == 1:
            return answering[0]
        ages = sorted((self._present[node], node) for node in answering)
        is_clear = bool(ages) and bool(ages[0][0]) and ages[0][0] < ages[1][0]
        return ages[0][1] if is_clear else None


def _keys_of(gpu: Gpu) -> tuple[GpuUuid, ...]:
    return (gpu.uuid,) if gpu.parent is None else (gpu.uuid, gpu.parent)


def _keys(gpus: Iterable[Gpu]) -> set[GpuUuid]:
    return {key for gpu in gpus for key in _keys_of(gpu)}
