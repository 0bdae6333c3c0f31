"""The state of a simulated controller: its objects, their dependents, and which need work."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from kubeshare_py.embedded_cluster.controllers.controller_work import ControllerRole, ControllerWork
from kubeshare_py.embedded_cluster.controllers.dependents import Dependents
from kubeshare_py.embedded_cluster.controllers.object_kinds import ObjectKind
from kubeshare_py.embedded_cluster.controllers.ownership import controller_of
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects


class ControllerCache(ABC):
    """Takes in watches and answers, and gives the work once all lists are in.

    A controller whose selector claims unowned objects sets `adopts`.
    """

    role: ClassVar[ControllerRole]
    adopts: ClassVar[bool] = False

    def __init__(self) -> None:
        self.owners: dict[str, UnstructuredObject] = {}
        self.dependents = Dependents(self.role.owner.kind, self.look_again)
        #: The last refusal, by the uid of its owner; and the owners waiting for another try.
        self.refusals: dict[str, str] = {}
        self.resting: set[str] = set()
        self._unlisted = set(self.role.watched)
        self._dirty: set[str] = set()

    @abstractmethod
    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        """The work for one object; `now` is Unix time (s)."""

    def listed(
        self, kind: ObjectKind, found: Sequence[UnstructuredObject], asked_at: float
    ) -> None:
        """Take in all objects of a kind as of after `asked_at` (s), of the clock of `created`."""
        self._unlisted.discard(kind)
        if kind == self.role.owner:
            self.owners = {one.uid: one for one in found}
            self._dirty.update(self.owners)
        elif kind == self.role.dependents:
            self.dependents.listed(found, asked_at)
            if self.adopts:
                self._dirty.update(self.owners)

    def seen(self, kind: ObjectKind, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        if kind == self.role.owner:
            self.owners[found.uid] = found
            self._dirty.add(found.uid)
        elif kind == self.role.dependents:
            self.dependents.seen(found)
            if self.adopts and controller_of(found) is None:
                self.look_at_selectors_of(found)

    def gone(self, kind: ObjectKind, uid: str) -> None:
        """Take in that an object was deleted."""
        if kind == self.role.owner:
            self.owners.pop(uid, None)
            self.refusals.pop(uid, None)
            self.resting.discard(uid)
        elif kind == self.role.dependents:
            self.dependents.gone(uid)

    def created(self, found: UnstructuredObject, now: float) -> None:
        """Take in the answer to a creation; `now` is in seconds of a clock that is never set."""
        self.dependents.created(found, now)

    def deleted(self, uid: str) -> None:
        """Take in that a deletion was accepted."""
        self.dependents.deleted(uid)

    def refused(self, uid: str, why: str) -> None:
        """Record that a request for an object was refused; `try_again` follows later."""
        self.refusals[uid] = why
        self.resting.add(uid)

    def settled(self, uid: str) -> None:
        """Record that all work of an object was done."""
        if self.refusals.pop(uid, None) is not None:
            self._dirty.add(uid)

    def try_again(self, uid: str) -> None:
        """Allow refused requests of an object once more."""
        self.resting.discard(uid)
        self._dirty.add(uid)

    def look_again(self, uid: str) -> None:
        """Mark an object for work."""
        self._dirty.add(uid)

    def look_at_namespace(self, namespace: str) -> None:
        """Mark all objects of a namespace for work."""
        self._dirty.update(
            uid for uid, one in self.owners.items() if one.metadata.namespace == namespace
        )

    def look_at_selectors_of(self, found: UnstructuredObject) -> None:
        """Mark all objects that select this one for work."""
        metadata = found.metadata
        for uid, owner in self.owners.items():
            is_near = owner.metadata.namespace == metadata.namespace
            if is_near and selects(owner.spec.get("selector"))(metadata.labels):
                self._dirty.add(uid)

    def has_work(self) -> bool:
        """Whether some object is marked for work."""
        return bool(self._dirty) and not self._unlisted

    def work(self, now: float) -> list[tuple[UnstructuredObject, ControllerWork]]:
        """Each marked object with its work; `now` is Unix time (s).

        To be called when all requests of the last call have been answered.
        """
        if not self.has_work():
            return []
        dirty, self._dirty = sorted(self._dirty), set()
        self.dependents.all_answered()
        found = (self.owners.get(uid) for uid in dirty)
        return [(owner, self.work_for(owner, now)) for owner in found if owner is not None]
