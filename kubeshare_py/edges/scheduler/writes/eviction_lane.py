"""Sends evictions and nominations beside the Bindings, a few at once.

One plan may evict hundreds of pods, with two writes each. All at once they would be in flight
before the Bindings that are decided next.
"""

from collections.abc import Callable

from kubeshare_py.domain.effects import Evict, Nominate
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.scheduler.writes.evictions import evict, nominate
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites
from kubeshare_py.edges.scheduler.writes.fair_semaphore import FairSemaphore

#: The most pods that are written to at the same time.
AT_ONCE = 4


class EvictionLane:
    """The preemptors' namespaces take turns, so that none waits long for another."""

    def __init__(
        self, client: KubeClient, failures: FailedWrites, *, at_once: int = AT_ONCE
    ) -> None:
        """At most `at_once` pods are written to at the same time."""
        self._client, self._failures = client, failures
        self._turns = FairSemaphore(at_once)
        self._evicting: set[PodUid] = set()

    async def evict(self, effect: Evict, is_wanted: Callable[[], bool]) -> str:
        """Evict the pod, if that is still wanted when its turn comes.

        Returns why that failed, "" if it did not. Does nothing while an eviction of the same pod
        waits or is sent.
        """
        if effect.uid in self._evicting:
            return ""
        self._evicting.add(effect.uid)
        try:
            async with self._turns.slot(effect.on_behalf_of):
                return await evict(self._client, effect, self._failures) if is_wanted() else ""
        finally:
            self._evicting.discard(effect.uid)

    async def nominate(self, effect: Nominate) -> None:
        """Nominate the pod, or clear its nomination."""
        async with self._turns.slot(effect.key.namespace):
            await nominate(self._client, effect, self._failures)
