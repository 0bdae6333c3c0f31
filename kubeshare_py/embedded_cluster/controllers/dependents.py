"""Objects of one kind, indexed by the controller that owns them."""

from collections.abc import Callable, Iterable

import msgspec

from kubeshare_py.embedded_cluster.controllers.ownership import controller_of
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject

#: Stands for the time of an accepted deletion that was not seen yet.
_ACCEPTED = "accepted"

#: All of one owner ("owner", uid), or all unowned ones ("namespace", name).
_DependentGroup = tuple[str, str]


class Dependents:
    """The known objects, including requested ones that no watch has shown yet."""

    def __init__(self, owner_kind: str, touched: Callable[[str], None]) -> None:
        """`touched` is called with the uid of every owner, of that kind, that needs work."""
        self._owner_kind = owner_kind
        self._touched = touched
        self._known: dict[str, UnstructuredObject] = {}
        self._groups: dict[_DependentGroup, set[str]] = {}
        self._spaces: dict[str, set[str]] = {}
        self._created: dict[str, float] = {}
        self._deleted: set[str] = set()
        self._gone: set[str] = set()

    def listed(self, found: Iterable[UnstructuredObject], asked_at: float) -> None:
        """Take in all objects as of after `asked_at` (s), of the clock of `created`.

        One that was created later may be missing from the list and is kept.
        """
        present = {one.uid: one for one in found}
        for uid in [uid for uid in self._known if uid not in present]:
            if self._created.get(uid, asked_at - 1) < asked_at:
                self._forget(uid)
        for one in present.values():
            self._take(one)

    def seen(self, found: UnstructuredObject) -> None:
        """Take in an object as it is now."""
        self._created.pop(found.uid, None)
        self._take(found)

    def created(self, found: UnstructuredObject, now: float) -> None:
        """Take in the answer to a creation; the watch may have shown it before, or its end."""
        if found.uid not in self._known and found.uid not in self._gone:
            self._created[found.uid] = now
            self._take(found)

    def deleted(self, uid: str) -> None:
        """Record an accepted deletion: from now on the object is being deleted."""
        if uid in self._known:
            self._deleted.add(uid)
            self._take(self._known[uid])

    def gone(self, uid: str) -> None:
        """Record that an object was deleted."""
        self._gone.add(uid)
        self._forget(uid)

    def all_answered(self) -> None:
        """Record that no creation is under way any more."""
        self._gone.clear()

    def of(self, owner: str) -> list[UnstructuredObject]:
        """The objects that the owner with this uid controls."""
        return self._group(("owner", owner))

    def unowned(self, namespace: str) -> list[UnstructuredObject]:
        """The objects of a namespace without a controller."""
        return self._group(("namespace", namespace))

    def get(self, uid: str) -> UnstructuredObject | None:
        """The object with this uid, whatever its controller."""
        return self._known.get(uid)

    def within(self, namespace: str) -> list[UnstructuredObject]:
        """All objects of a namespace, whatever their controllers."""
        return [self._known[uid] for uid in sorted(self._spaces.get(namespace, ()))]

    def names(self, namespace: str) -> frozenset[str]:
        """The names in use in a namespace."""
        return frozenset(one.metadata.name for one in self.within(namespace))

    def _take(self, found: UnstructuredObject) -> None:
        if found.uid in self._known:
            self._unlink(found.uid)
        if found.uid in self._deleted and found.metadata.deletionTimestamp is None:
            doomed = msgspec.structs.replace(found.metadata, deletionTimestamp=_ACCEPTED)
            found = msgspec.structs.replace(found, metadata=doomed)
        self._known[found.uid] = found
        self._spaces.setdefault(found.metadata.namespace, set()).add(found.uid)
        group = self._group_of(found)
        if group is not None:
            self._groups.setdefault(group, set()).add(found.uid)
            self._touch(group)

    def _forget(self, uid: str) -> None:
        self._created.pop(uid, None)
        self._deleted.discard(uid)
        if uid in self._known:
            self._unlink(uid)
            self._spaces[self._known[uid].metadata.namespace].discard(uid)
            del self._known[uid]

    def _unlink(self, uid: str) -> None:
        group = self._group_of(self._known[uid])
        if group is not None:
            members = self._groups[group]
            members.discard(uid)
            if not members:
                del self._groups[group]
            self._touch(group)

    def _group(self, group: _DependentGroup) -> list[UnstructuredObject]:
        return [self._known[uid] for uid in sorted(self._groups.get(group, ()))]

    def _group_of(self, found: UnstructuredObject) -> _DependentGroup | None:
        controller = controller_of(found)
        if controller is None:
            return "namespace", found.metadata.namespace
        return ("owner", controller.uid) if controller.kind == self._owner_kind else None

    def _touch(self, group: _DependentGroup) -> None:
        kind, uid = group
        if kind == "owner":
            self._touched(uid)
