"""Placed pods whose ResourceClaims are not allocated: their devices are chosen, but not written."""

from collections import Counter
from collections.abc import Mapping

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.devices.resource_claim import ResourceClaim
from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.device_claims import DeviceClaims

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
