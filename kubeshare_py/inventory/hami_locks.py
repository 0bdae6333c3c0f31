"""Which locks of nodes are to be freed, because the plugin will not do it.

A plugin frees the lock when it has given the pod its devices, or could not. If it ended in between,
if the pod is gone or was never bound, or if the value is malformed, the node would take no pod any
more; HAMi's scheduler waits for five minutes, and for ever if the value is malformed. Where a pod
is bound and its plugin does not answer, the lock stays for these five minutes here too: the
kubelet may still ask, and the plugin must not find another pod then.

All times are Unix time (s). An age counts from when the text was first seen, and from the time in
it if that is earlier.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kubeshare_py.dialects.cambricon import DSMLU_LOCK, DSMLU_OLDEST_S
from kubeshare_py.dialects.hami.annotations import FAILED, SUCCESS, HeldLock, read_lock
from kubeshare_py.domain.identity import NodeName

#: The age (s) at which any lock is freed: HAMi's `--node-lock-timeout`, and what it does with the
#: lock of Cambricon's plugin.
OLDEST_S = 300.0
_OLDEST_S = {DSMLU_LOCK: DSMLU_OLDEST_S}
#: The age (s) at which the pod is looked at for the first time, and then again and again. A plugin
#: needs milliseconds, and a watch that is behind must not make a new pod a missing one.
LOOK_S = 1.0
#: The age (s) at which a lock is freed whose pod is on no node, or on another: a scheduler that
#: took it may still be about to bind the pod.
UNBOUND_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """The pod that a lock names: its node ("" for none), its plugin's phase, whether it ended."""

    node: str = ""
    phase: str = ""
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLock:
    """A lock of a node; `held` is None if its text is malformed."""

    node: NodeName
    key: str
    text: str
    held: HeldLock | None
    seen_at: float

    def age_s(self, now: float) -> float:
        """Its age."""
        if self.held is None or self.held.since > now:
            return now - self.seen_at
        return now - min(self.seen_at, self.held.since)


class LockAges:
    """The locks of all nodes."""

    def __init__(self) -> None:
        self._locks: dict[tuple[NodeName, str], KnownLock] = {}
        self._look_at: dict[tuple[NodeName, str], float] = {}

    @property
    def next_at(self) -> float:
        """When to look at a lock; infinity if there is none."""
        return min(self._look_at.values(), default=math.inf)

    def take(self, node: NodeName, key: str, text: str, now: float) -> bool:
        """A node has this lock, "" for none; whether that is new."""
        at = (node, key)
        known = self._locks.get(at)
        if (known.text if known is not None else "") == text:
            return False
        if not text:
            self._forget(at)
            return True
        held = read_lock(text)
        self._locks[at] = KnownLock(node=node, key=key, text=text, held=held, seen_at=now)
        self._look_at[at] = now if held is None else now + LOOK_S
        return True

    def gone(self, node: NodeName) -> None:
        """A node is gone."""
        for at in [at for at in self._locks if at[0] == node]:
            self._forget(at)

    def only(self, nodes: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        there = {*nodes}
        for at in [at for at in self._locks if at[0] not in there]:
            self._forget(at)

    def due(self, now: float) -> list[KnownLock]:
        """The locks whose pods are to be looked at, and then `judge`d; later again."""
        found = [at for at, look_at in self._look_at.items() if look_at <= now]
        self._look_at.update(dict.fromkeys(found, now + LOOK_S))
        return [self._locks[at] for at in found]

    def judge(self, lock: KnownLock, owner: LockOwner | None, now: float) -> bool:
        """Whether to free a lock; `owner` is None if its pod does not exist, or none is named."""
        age_s = lock.age_s(now)
        if lock.held is None or age_s >= _OLDEST_S.get(lock.key, OLDEST_S):
            return True
        if lock.held.owner is None:
            return False
        if owner is None or owner.is_over:
            return now >= lock.seen_at + LOOK_S
        if owner.node != lock.node:
            return now >= lock.seen_at + UNBOUND_S
        return owner.phase in (SUCCESS, FAILED)

    def _forget(self, at: tuple[NodeName, str]) -> None:
        self._locks.pop(at, None)
        self._look_at.pop(at, None)
