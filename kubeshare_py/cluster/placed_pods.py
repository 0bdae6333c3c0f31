"""The pods that are placed, by row, as the placement of other pods depends on them.

Their claims of devices may still be pending: chosen, but not written.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.mounted_volumes import MountedVolumes, PlacedVolumes
from kubeshare_py.cluster.pod_kinds import HeldTerm, HeldTerms, KindFlags, PodKinds
from kubeshare_py.domain.cluster_objects import Labels, ObjectKey
from kubeshare_py.domain.device import ResourceClaim
from kubeshare_py.domain.pod import DeviceClaims, HostPort, PlacedPod, PodSelector

# Placed pods whose ResourceClaims are not allocated: their devices are chosen, but not written.


#: A pod that uses claims, and its row.
ClaimUser = tuple[int, DeviceClaims]


class PendingClaims:
    """Follows placed pods and claims; the only one that follows these claims."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._pods: Counter[ClaimUser] = Counter()
        self._users: dict[ObjectKey, dict[ClaimUser, None]] = {}
        self._pending: dict[ClaimUser, int] = {}

    def add(self, row: int, claims: DeviceClaims, sign: int) -> None:
        """A pod with claims is placed on a row (sign 1), or leaves it (-1)."""
        user = row, claims
        self._pods[user] += sign
        is_there = bool(self._pods[user])
        if not is_there:
            del self._pods[user]
        for key in claims.objects():
            if is_there:
                self._users.setdefault(key, {})[user] = None
            elif user in (users := self._users.get(key, {})):
                del users[user]
                if not users:
                    del self._users[key]
        self._look(user)

    def pending(self) -> Mapping[ClaimUser, int]:
        """The pods with a claim that is not allocated, in any order; 1 for each."""
        changed = self._objects.claims_changed
        for key in changed:
            for user in self._users.get(key, ()):
                self._look(user)
        changed.clear()
        return self._pending

    def _look(self, user: ClaimUser) -> None:
        known = self._objects.of(ResourceClaim)
        found = (known.get(key) for key in user[1].objects())
        if user in self._pods and any(one and one.allocation is None for one in found):
            self._pending[user] = self._pods[user]
        else:
            self._pending.pop(user, None)


# The pods that are placed, by row, as the placement of other pods depends on them.
#
# How many pods a selector selects on each row is counted once and then kept up to date. Nothing is
# counted before the first such question.


#: The most selectors whose counts are kept.
COUNTS_KEPT = 512
#: Behind by more changes, counts are made anew.
MAX_BEHIND = 512
#: Kinds of pods that are gone are forgotten when there are more of them than this and than others.
SPARE_KINDS = 4096

AllSelectors = tuple[PodSelector, ...]


class PodIndex(Protocol):
    """The placed pods of the tables, or of an overlay. Arrays are (rows,) int64."""

    @property
    def changes(self) -> int:
        """A number that is another one after every change."""

    def counts(self, selectors: AllSelectors, rows: int, *, terminating: bool) -> NDArray[np.int64]:
        """How many pods of each of the first `rows` rows all these selectors select, (rows,).

        Without `terminating`, pods that are being deleted do not count.
        """

    def selecting(self, namespace: str, labels: Labels) -> Sequence[HeldTerm]:
        """The terms of placed pods that select a pod of this namespace with these labels."""

    def names(self, key: str) -> bool:
        """Whether a term of a placed pod names this label key."""

    def holders(self, held: HeldTerm, rows: int) -> NDArray[np.int64]:
        """How many pods on each of the first `rows` rows hold a term, (rows,)."""

    def host_ports(self, row: int) -> Mapping[HostPort, int]:
        """How many pods of a row have each port of the host."""

    @property
    def volumes(self) -> MountedVolumes:
        """What the pods mount."""

    def device_claims(self) -> Mapping[tuple[int, DeviceClaims], int]:
        """Pods with a ResourceClaim that is not allocated yet: their rows; 1 for each."""


class _SelectorCounts:
    """The counts of some selectors, and how far they have followed the log."""

    __slots__ = ("kinds", "namespaces", "rows", "seen")

    def __init__(self, rows: int) -> None:
        self.rows = np.zeros(rows, np.int64)
        self.kinds: KindFlags = np.zeros(0, np.bool_)
        self.seen = -1
        self.namespaces = -1


class PlacedPods:
    """The placed pods of the tables; see PodIndex. Only the ledger changes them."""

    def __init__(self, objects: ClusterObjects, spare_kinds: int = SPARE_KINDS) -> None:
        self._spare_kinds = spare_kinds
        self.objects = objects
        self.terms = HeldTerms(objects)
        self.volumes: MountedVolumes = (mounted := PlacedVolumes())
        self._mounted = mounted
        self._ports: dict[int, Counter[HostPort]] = {}
        self._device_claims = PendingClaims(objects)
        self._kinds = PodKinds(objects)
        #: The number of pods of each kind on each row, as entries of arrays.
        self._entry_of: dict[tuple[int, int], int] = {}
        self._free: list[int] = []
        self._kind_at, self._row_at, self._pods_at = np.zeros((3, 64), np.int64)
        self._entries = 0
        #: Changes since the entry with the number `_forgotten`: kind, row, sign.
        self._log: list[tuple[int, int, int]] = []
        self._forgotten = 0
        self._counts: OrderedDict[tuple[AllSelectors, bool], _SelectorCounts] = OrderedDict()
        self._is_counting = False
        #: Whether the kinds, entries and counts are those of the pods now.
        self._is_counted = False
        self.changes = 0
        #: All placed pods with their rows; the ledger says.
        self.all: Callable[[], Iterable[tuple[int, PlacedPod]]] = tuple

    def for_reading(self) -> "PlacedPods":
        """The same pods until the next change; what is asked of it is counted apart."""
        same = PlacedPods(self.objects)
        same.terms, same.all = self.terms.for_reading(), self.all
        same._ports, same.changes = self._ports, self.changes
        same.volumes = same._mounted = self._mounted
        same._device_claims = self._device_claims
        return same

    @property
    def is_counting(self) -> bool:
        """Whether anything was asked that depends on placed pods."""
        return self._is_counting or bool(self.terms) or bool(self._mounted)

    def add(self, row: int, pod: PlacedPod, sign: int) -> None:
        """A pod is placed on a row (sign 1), or leaves it (-1)."""
        if pod.terms is not None:
            self.terms.add(row, pod.terms, sign)
        if pod.host_ports:
            self._add_ports(row, pod.host_ports, sign)
        if pod.volumes is not None:
            self._mounted.add(row, pod, sign)
        if pod.device_claims is not None:
            self._device_claims.add(row, pod.device_claims, sign)
        self.changes += 1
        if self._is_counted:
            self._count(self._kinds.number(pod), row, sign)
            if self._has_spare_kinds():  # there was no question for long
                self._forget()

    def host_ports(self, row: int) -> Mapping[HostPort, int]:
        """See PodIndex."""
        return self._ports.get(row, Counter())

    def device_claims(self) -> Mapping[tuple[int, DeviceClaims], int]:
        """See PodIndex."""
        return self._device_claims.pending()

    def selecting(self, namespace: str, labels: Labels) -> Sequence[HeldTerm]:
        """See PodIndex."""
        return self.terms.selecting(namespace, labels)

    def names(self, key: str) -> bool:
        """See PodIndex."""
        return self.terms.names(key)

    def holders(self, held: HeldTerm, rows: int) -> NDArray[np.int64]:
        """See PodIndex, (rows,)."""
        found, by_row = np.zeros(rows, np.int64), self.terms.rows_of(held)
        count = len(by_row)
        index = np.fromiter(by_row.keys(), np.int64, count)
        found[index] = np.fromiter(by_row.values(), np.int64, count)
        return found

    def counts(self, selectors: AllSelectors, rows: int, *, terminating: bool) -> NDArray[np.int64]:
        """See PodIndex, (rows,)."""
        self._is_counting = True
        if not self._is_counted:
            self._count_anew()
        key = (selectors, terminating)
        known = self._counts.get(key)
        if known is None or len(known.rows) != rows:
            known = self._counts[key] = _SelectorCounts(rows)
            if len(self._counts) > COUNTS_KEPT:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key)
        self._follow(known, selectors, terminating)
        found = known.rows.view()
        found.setflags(write=False)
        return found

    # --- inside --------------------------------------------------------------------------------

    def _add_ports(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        held = self._ports.setdefault(row, Counter())
        for port in ports:
            held[port] += sign
            if not held[port]:
                del held[port]
        if not held:
            del self._ports[row]

    def _count(self, kind: int, row: int, sign: int) -> None:
        entry = self._entry_of.get((kind, row))
        if entry is None:
            entry = self._entry_of[kind, row] = self._new_entry()
            self._kind_at[entry], self._row_at[entry] = kind, row
        self._pods_at[entry] += sign
        if not self._pods_at[entry]:
            del self._entry_of[kind, row]
            self._free.append(entry)
        self._log.append((kind, row, sign))
        if len(self._log) > 2 * MAX_BEHIND:
            del self._log[:MAX_BEHIND]
            self._forgotten += MAX_BEHIND

    def _new_entry(self) -> int:
        if self._free:
            return self._free.pop()
        if self._entries == len(self._kind_at):
            grown = 2 * self._entries
            # Doubled, so that n entries cost n writes in all, and not n for each new one.
            self._kind_at, self._row_at, self._pods_at = (
                np.concatenate((column, np.zeros(grown - len(column), np.int64)))
                for column in (self._kind_at, self._row_at, self._pods_at)
            )
        self._entries += 1
        return self._entries - 1

    def _has_spare_kinds(self) -> bool:
        return len(self._kinds) > self._spare_kinds + 2 * len(self._entry_of)

    def _forget(self) -> None:
        """Forget all counts and kinds until the next question."""
        self._is_counted = False
        self._kinds = PodKinds(self.objects)
        self._entry_of.clear()
        self._free.clear()
        self._entries = 0
        self._pods_at.fill(0)
        self._counts.clear()

    def _count_anew(self) -> None:
        """Number the kinds of all pods."""
        self._is_counted = True
        for row, pod in self.all():
            self._count(self._kinds.number(pod), row, 1)

    def _follow(self, known: _SelectorCounts, selectors: AllSelectors, terminating: bool) -> None:
        namespaces = self._kinds.namespaces_version
        end = self._forgotten + len(self._log)
        if known.namespaces != namespaces:
            known.kinds, known.seen = np.zeros(0, np.bool_), -1
            known.namespaces = namespaces
        new = len(known.kinds)
        if new < len(self._kinds):
            fresh = np.ones(len(self._kinds) - new, np.bool_)
            for selector in selectors:
                fresh &= self._kinds.matching(selector, new)
            if not terminating:
                fresh &= ~self._kinds.terminating(new)
            known.kinds = np.concatenate((known.kinds, fresh))
        behind = end - known.seen
        if known.seen < self._forgotten or behind > MAX_BEHIND:
            self._sum(known)
        elif behind:
            chosen = known.kinds
            for kind, row, sign in self._log[known.seen - self._forgotten :]:
                if chosen[kind]:
                    known.rows[row] += sign
        known.seen = end

    def _sum(self, known: _SelectorCounts) -> None:
        last = self._entries
        pods = self._pods_at[:last] * known.kinds[self._kind_at[:last]]
        sums = np.bincount(self._row_at[:last], weights=pods, minlength=len(known.rows))
        known.rows[:] = sums[: len(known.rows)]
