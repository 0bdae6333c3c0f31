"""The queue of gangs. Gangs of the same composition wait in one composition queue.

Whether a gang fits depends only on its members' shapes. So if the first gang of a composition does
not fit, none does, and all wait until rows improve enough. What is kept for preemptors makes
exceptions, as for pods (`pod_queue`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kubeshare_py.scheduling.queue.gangs import Composition, Gang, Shapes, Shortage
from kubeshare_py.scheduling.queue.pod_queue import FairHeap, Shares, SortKey


@dataclass(frozen=True, slots=True)
class CompositionKey:
    """What gangs of one composition queue share: the composition, and whether they preempt.

    `alone` is the only gang of a composition queue of its own.
    """

    composition: Composition
    preempts: bool = True
    alone: Gang | None = None


@dataclass(slots=True, eq=False)
class CompositionQueue:
    """Gangs with equal needs, which do not fit."""

    key: CompositionKey
    need: int
    #: The composition's shapes, in an order that does not depend on hashes.
    shapes: Shapes
    gangs: dict[Gang, None] = field(default_factory=dict)
    #: The namespace of the gang that was tried.
    owner: str = ""
    #: When (s) a gang was last tried in vain.
    since: float = 0.0
    #: What is lacking; None while they wait for the inventory only.
    shortage: Shortage | None = None


class GangQueue:
    """Gangs with enough members: in queue order, or unschedulable in composition queues."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._entry: dict[Gang, int] = {}
        #: Gangs by their entry. Those of a composition that became unschedulable stay in it until
        #: they come first: then they join the composition queue.
        self._active: FairHeap[tuple[Gang, int]] = FairHeap(
            shares or Shares(), self._is_current, self._entry.__len__
        )
        self._entries = 0
        self._queue_of: dict[Gang, CompositionQueue] = {}
        self._queues: dict[CompositionKey, CompositionQueue] = {}
        #: The same by composition.
        self._queues_of: dict[Composition, dict[CompositionKey, CompositionQueue]] = {}
        self._key: dict[Gang, CompositionKey] = {}
        #: No unschedulable gang was tried before (s).
        self.unschedulable_from = math.inf
        #: Called when that is earlier than it was.
        self.blocked: Callable[[], None] = lambda: None
        #: Gangs that joined an unschedulable composition queue, and were not reported on yet.
        self.joined: list[Gang] = []
        #: Gangs that were unschedulable, or joined such gangs, since they were last taken.
        self.newcomers: dict[Gang, None] = {}

    def put(self, gang: Gang, *, alone: bool = False) -> None:
        """Queue the gang, or let it wait with others of its composition unless it is `alone`."""
        self.remove(gang)
        preempts = all(record.pod.preempts for record in gang.waiting.values())
        self._key[gang] = CompositionKey(gang.composition, preempts, gang if alone else None)
        if not self._join(gang):
            self._activate(gang)

    def move(self, gang: Gang, *, alone: bool) -> None:
        """Move the gang to a composition queue of its own, or back to its composition."""
        key, composition_queue = self._key.get(gang), self._queue_of.get(gang)
        if key is None or alone == (key.alone is not None):
            return
        self.remove(gang)
        target = self._key[gang] = replace(key, alone=gang if alone else None)
        if composition_queue is not None and target not in self._queues:
            self._add_queue(
                CompositionQueue(
                    target,
                    composition_queue.need,
                    composition_queue.shapes,
                    owner=gang.namespace,
                    since=composition_queue.since,
                    shortage=composition_queue.shortage,
                )
            )
        if not self._join(gang):
            self._activate(gang)

    def remove(self, gang: Gang) -> None:
        """Remove the gang, which may be unknown."""
        self._entry.pop(gang, None)
        self._key.pop(gang, None)
        composition_queue = self._queue_of.pop(gang, None)
        if composition_queue is not None:
            del composition_queue.gangs[gang]
            if not composition_queue.gangs:
                self._drop_queue(composition_queue.key)

    def clear(self) -> None:
        """Remove all gangs, and all knowledge of compositions."""
        for index in (self._entry, self._queue_of, self._queues, self._queues_of, self._key):
            index.clear()
        self._active.clear()
        self.joined.clear()

    @property
    def has_more(self) -> bool:
        """Whether a gang is to be tried, or to join a composition queue.

        Now, or when its namespace's turn comes.
        """
        return self._active.has_more

    def first(self) -> Gang | None:
        """The first active gang among namespaces that need not wait.

        Those before it whose composition is unschedulable join their composition queues.
        """
        while (found := self._active.first()) is not None:
            if not self._join(found[0]):
                return found[0]
        return None

    def let_on(self) -> None:
        """Look again at namespaces that need not wait any more."""
        self._active.let_on()

    def mark_unschedulable(self, gang: Gang, now: float) -> CompositionQueue:
        """Block this active gang's composition, which does not fit."""
        key = self._key[gang]
        composition_queue = self._add_queue(
            CompositionQueue(key, gang.need, gang.shapes.copy(), owner=gang.namespace, since=now)
        )
        if now < self.unschedulable_from:
            self.unschedulable_from = now
            self.blocked()
        self._join(gang)
        return composition_queue

    def activate(self, composition_queue: CompositionQueue) -> None:
        """Activate the gangs of a composition queue."""
        if composition_queue.key not in self._queues:
            return
        self._drop_queue(composition_queue.key)
        for gang in composition_queue.gangs:
            del self._queue_of[gang]
            self._activate(gang)
        composition_queue.gangs.clear()

    def queue_of(self, gang: Gang) -> CompositionQueue | None:
        """The composition queue in which a gang waits, or None."""
        return self._queue_of.get(gang)

    def is_unschedulable(self, composition_queue: CompositionQueue) -> bool:
        """Whether gangs wait in this composition queue."""
        return self._queues.get(composition_queue.key) is composition_queue

    def queues_of(self, composition: Composition) -> list[CompositionQueue]:
        """The composition queues of unschedulable gangs of this composition, the oldest first."""
        return [*self._queues_of.get(composition, {}).values()]

    def queues(self) -> list[CompositionQueue]:
        """The composition queues of unschedulable gangs, the oldest first."""
        return list(self._queues.values())

    def active(self) -> Iterator[Gang]:
        """The active gangs."""
        yield from self._entry

    def _add_queue(self, composition_queue: CompositionQueue) -> CompositionQueue:
        key = composition_queue.key
        self._queues[key] = composition_queue
        self._queues_of.setdefault(key.composition, {})[key] = composition_queue
        return composition_queue

    def _drop_queue(self, key: CompositionKey) -> None:
        del self._queues[key]
        of_composition = self._queues_of[key.composition]
        del of_composition[key]
        if not of_composition:
            del self._queues_of[key.composition]

    def _join(self, gang: Gang) -> bool:
        """Move the gang to its composition's queue if that is unschedulable; False if it is not."""
        composition_queue = self._queues.get(self._key[gang])
        if composition_queue is None:
            return False
        self._entry.pop(gang, None)
        composition_queue.gangs[gang] = None
        self._queue_of[gang] = composition_queue
        self.joined.append(gang)
        return True

    def _activate(self, gang: Gang) -> None:
        self._entries += 1
        self._entry[gang] = self._entries
        self._active.push(gang.namespace, gang.key, (gang, self._entries))

    def _is_current(self, one: tuple[Gang, int], owner: str, key: SortKey) -> bool:
        """Whether this entry is the gang's last one, and the gang is active."""
        gang, entry = one
        return self._entry.get(gang) == entry
