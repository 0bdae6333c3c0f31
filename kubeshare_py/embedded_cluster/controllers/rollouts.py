"""The sizes of a Deployment's ReplicaSets: rolling updates, scaling, recreation.

After https://kubernetes.io/docs/concepts/workloads/controllers/deployment/.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kubeshare_py.embedded_cluster.controllers.unstructured import Json, UnstructuredObject
from kubeshare_py.embedded_cluster.protocol.int_or_percent import amount_of

ROLLING, RECREATE = "RollingUpdate", "Recreate"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

#: The wanted sizes, by uid; others stay as they are.
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """The wanted number of replicas, how many more there may be, and how many may be missing."""

    wanted: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        """The most pods."""
        return self.wanted + self.surge

    @property
    def least_available(self) -> int:
        """The least available pods."""
        return self.wanted - self.unavailable


def limits_of(spec: Json) -> Limits:
    """The limits in a Deployment's spec; with no surge, one pod may always be missing."""
    wanted: int = spec["replicas"]
    if spec["strategy"]["type"] != ROLLING:
        return Limits(wanted, 0, 0)
    rolling = spec["strategy"]["rollingUpdate"]
    surge = amount_of(rolling["maxSurge"], wanted, up=True)
    unavailable = amount_of(rolling["maxUnavailable"], wanted, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Limits(wanted, surge, min(unavailable, wanted))


def size(replica_set: UnstructuredObject) -> int:
    """Its wanted number of pods."""
    return int(replica_set.spec.get("replicas", 1))


def count(replica_set: UnstructuredObject, name: str) -> int:
    """A number in its status."""
    return int(replica_set.status.get(name, 0))


def active(sets: Sequence[UnstructuredObject]) -> list[UnstructuredObject]:
    """Those that should have pods, oldest first."""
    return sorted((one for one in sets if size(one)), key=_born)


def is_scaling(limits: Limits, sets: Sequence[UnstructuredObject]) -> bool:
    """Whether a ReplicaSet was sized for another number of replicas than the present one."""
    noted = (_noted(one, DESIRED) for one in active(sets))
    return any(number is not None and number != limits.wanted for number in noted)


def scaled_sizes(
    spec: Json, limits: Limits, new: UnstructuredObject | None, old: Sequence[UnstructuredObject]
) -> Sizes:
    """Sizes after a change of replicas: an ongoing rollout keeps its proportions."""
    sets = [*old, new] if new is not None else [*old]
    live = active(sets)
    if len(live) <= 1:
        latest = live[0] if live else new or max(old, key=_born, default=None)
        return {latest.uid: limits.wanted} if latest is not None else {}
    if new is not None and _is_saturated(new, limits):
        return {one.uid: 0 for one in active(old)}
    return _proportional(live, limits) if spec["strategy"]["type"] == ROLLING else {}


def first_size(limits: Limits, old: Sequence[UnstructuredObject]) -> int:
    """The first size of a new ReplicaSet beside older ones."""
    return min(limits.wanted, max(limits.most - sum(map(size, old)), 0))


def rolling_sizes(
    limits: Limits, new: UnstructuredObject, old: Sequence[UnstructuredObject]
) -> Sizes:
    """The next step of a rolling update; empty when there is none now."""
    grown = _grown(limits, new, old)
    return {new.uid: grown} if grown != size(new) else _shrunk(limits, new, active(old))


def _grown(limits: Limits, new: UnstructuredObject, old: Sequence[UnstructuredObject]) -> int:
    if size(new) >= limits.wanted:
        return limits.wanted
    room = limits.most - size(new) - sum(map(size, old))
    return min(size(new) + max(room, 0), limits.wanted)


def _shrunk(limits: Limits, new: UnstructuredObject, old: Sequence[UnstructuredObject]) -> Sizes:
    """Shrink old ones: unavailable pods first, then as many as the limits allow."""
    unavailable = size(new) - count(new, "availableReplicas")
    spare = size(new) + sum(map(size, old)) - limits.least_available - unavailable
    if spare <= 0:
        return {}
    sizes = {one.uid: size(one) for one in old}
    for one in old:
        idle = size(one) - count(one, "availableReplicas")
        given = max(min(spare, idle), 0)
        sizes[one.uid] -= given
        spare -= given
    spare = sum(count(one, "availableReplicas") for one in [*old, new]) - limits.least_available
    for one in old:
        given = max(min(spare, sizes[one.uid]), 0)
        sizes[one.uid] -= given
        spare -= given
    return {one.uid: sizes[one.uid] for one in old if sizes[one.uid] != size(one)}


def _proportional(live: Sequence[UnstructuredObject], limits: Limits) -> Sizes:
    """Distribute a change of size; the largest gets the rounding remainder."""
    allowed = limits.most if limits.wanted else 0
    to_add = allowed - sum(map(size, live))
    # Among equal ones the newer grow first, and the older shrink first.
    ranked = sorted(sorted(live, key=_born, reverse=to_add > 0), key=size, reverse=True)
    sizes, left = {one.uid: size(one) for one in ranked}, to_add
    for one in ranked:
        share = _share(one, limits)
        share = max(min(share, left), 0) if to_add > 0 else min(max(share, left), 0)
        sizes[one.uid] += share
        left -= share
    sizes[ranked[0].uid] = max(sizes[ranked[0].uid] + left, 0)
    return sizes


def _share(one: UnstructuredObject, limits: Limits) -> int:
    """Its change if all changed in proportion."""
    if not limits.wanted:
        return -size(one)
    before = _noted(one, MAX_REPLICAS)
    if not before:
        return 0
    # Half is rounded away from zero; all of this is positive.
    return (2 * size(one) * limits.most + before) // (2 * before) - size(one)


def _is_saturated(new: UnstructuredObject, limits: Limits) -> bool:
    return size(new) == _noted(new, DESIRED) == count(new, "availableReplicas") == limits.wanted


def _noted(one: UnstructuredObject, annotation: str) -> int | None:
    text = (one.metadata.annotations or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _born(one: UnstructuredObject) -> tuple[str, str]:
    return one.metadata.creationTimestamp or "", one.metadata.name
