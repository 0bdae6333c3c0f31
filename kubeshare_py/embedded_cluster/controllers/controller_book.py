"""What a simulated controller knows: its objects, what they own, and which need a look."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from kubeshare_py.embedded_cluster.controllers.controller_work import Role, Work
from kubeshare_py.embedded_cluster.controllers.dependents import Dependents
from kubeshare_py.embedded_cluster.controllers.loose_objects import LooseObject
from kubeshare_py.embedded_cluster.controllers.object_kinds import Kind
from kubeshare_py.embedded_cluster.controllers.ownership import controller_of
from kubeshare_py.embedded_cluster.protocol.label_selectors import selects


class ControllerBook(ABC):
    """Takes in what watches and answers show; says what is to be done once all lists are in.

    One whose selector gives it objects that nobody owns sets `adopts`.
    """

    role: ClassVar[Role]
    adopts: ClassVar[bool] = False

    def __init__(self) -> None:
        self.owners: dict[str, LooseObject] = {}
        self.dependents = Dependents(self.role.owner.kind, self.look_again)
        #: What was refused last, by the uid of whom it was for; and who waits for another try.
        self.refusals: dict[str, str] = {}
        self.resting: set[str] = set()
        self._unlisted = set(self.role.watched)
        self._dirty: set[str] = set()

    @abstractmethod
    def work_for(self, owner: LooseObject, now: float) -> Work:
        """What one object needs; `now` in Unix seconds."""

    def listed(self, kind: Kind, found: Sequence[LooseObject], asked_at: float) -> None:
        """Take in all objects of a kind there were after `asked_at`, of the clock of `created`."""
        self._unlisted.discard(kind)
        if kind == self.role.owner:
            self.owners = {one.uid: one for one in found}
            self._dirty.update(self.owners)
        elif kind == self.role.dependents:
            self.dependents.listed(found, asked_at)
            if self.adopts:
                self._dirty.update(self.owners)

    def seen(self, kind: Kind, found: LooseObject) -> None:
        """Take in an object as it is now."""
        if kind == self.role.owner:
            self.owners[found.uid] = found
            self._dirty.add(found.uid)
        elif kind == self.role.dependents:
            self.dependents.seen(found)
            if self.adopts and controller_of(found) is None:
                self.look_at_selectors_of(found)

    def gone(self, kind: Kind, uid: str) -> None:
        """Take in that an object was deleted."""
        if kind == self.role.owner:
            self.owners.pop(uid, None)
            self.refusals.pop(uid, None)
            self.resting.discard(uid)
        elif kind == self.role.dependents:
            self.dependents.gone(uid)

    def created(self, found: LooseObject, now: float) -> None:
        """Take in the answer to a creation; `now` in seconds of a clock that is never set."""
        self.dependents.created(found, now)

    def deleted(self, uid: str) -> None:
        """Take in that a deletion was accepted."""
        self.dependents.deleted(uid)

    def refused(self, uid: str, why: str) -> None:
        """Take in that something that an object needed was refused; `try_again` comes later."""
        self.refusals[uid] = why
        self.resting.add(uid)

    def settled(self, uid: str) -> None:
        """Take in that everything that an object needed was done."""
        if self.refusals.pop(uid, None) is not None:
            self._dirty.add(uid)

    def try_again(self, uid: str) -> None:
        """What was refused may be asked for once more."""
        self.resting.discard(uid)
        self._dirty.add(uid)

    def look_again(self, uid: str) -> None:
        """An object needs another look."""
        self._dirty.add(uid)

    def look_at_namespace(self, namespace: str) -> None:
        """All objects of a namespace need another look."""
        self._dirty.update(
            uid for uid, one in self.owners.items() if one.metadata.namespace == namespace
        )

    def look_at_selectors_of(self, found: LooseObject) -> None:
        """All objects that select this one need another look."""
        metadata = found.metadata
        for uid, owner in self.owners.items():
            is_near = owner.metadata.namespace == metadata.namespace
            if is_near and selects(owner.spec.get("selector"))(metadata.labels):
                self._dirty.add(uid)

    def has_work(self) -> bool:
        """Whether some object needs a look."""
        return bool(self._dirty) and not self._unlisted

    def work(self, now: float) -> list[tuple[LooseObject, Work]]:
        """Each object that needs a look, with what it needs; `now` in Unix seconds.

        To be called when everything that the last call asked for has been answered.
        """
        if not self.has_work():
            return []
        dirty, self._dirty = sorted(self._dirty), set()
        self.dependents.all_answered()
        found = (self.owners.get(uid) for uid in dirty)
        return [(owner, self.work_for(owner, now)) for owner in found if owner is not None]
