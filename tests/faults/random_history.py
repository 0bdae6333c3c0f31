"""What users, nodes and fate do in one run: a random history, as its seed says."""

import asyncio
import random
import re
from collections.abc import Callable
from functools import partial

from kubeshare_py.configuration.leader_election import seconds
from kubeshare_py.embedded_cluster.serving.api_access import persist
from tests.faults.chaos_cluster import CLASSES, ChaosCluster, pod, share
from tests.faults.gang_reference import leaves
from tests.faults.schedulers import Processes

GANG_REQUESTS = ["0.3", "0.5", "1.0", "2"]
REQUESTS = ["0.1", "0.2", "0.25", "0.3", "0.5", "0.5", "0.7", "1.0", "2"]
HELD = "example.org/held"
#: Without faults for so many steps no scheduler can be alive.
MAX_STEPS_A_FAULT = 10
#: Creations, one after the other, while nobody can renew the Lease.
_BURSTS = 20


class RandomHistory:
    """Creations, deletions, ends, cordons, lost cards, compactions, outages and killings."""

    def __init__(self, chaos_cluster: ChaosCluster, seed: int, schedulers: int = 1) -> None:
        self._cluster = chaos_cluster
        self._schedulers = schedulers
        self._rng = random.Random(seed)
        self._ranks = ["", "", *CLASSES] if chaos_cluster.reference.preempts else []
        self._names: list[str] = []
        self._gangs: list[list[str]] = []
        self._closed: set[str] = set()
        self._paused: dict[int, Callable[[], None]] = {}
        self.made = self.kills = self.outages = self.pauses = 0

    @property
    def kept(self) -> set[str]:
        """Pods that were created and that neither anybody deleted nor the scheduler evicted."""
        return set(self._names) - self._cluster.reference.evictions.names()

    async def run(self, faults: int) -> None:
        """Go on until so many faults have happened; schedulers are killed now and then."""
        user_actions = (
            [self._create] * 12 + [self._delete] * 6 + [self._cordon, self._lose_card] * 2
        )
        user_actions += [self._create_gang] * 3 + [self._delete_gang] * 2
        user_actions += [self._budget] if self._ranks else []
        choices = user_actions * self._cluster.durations.user_actions + [
            self._kill, self._pause, self._compact, self._cut, self._outage
        ]  # fmt: skip
        if self._schedulers > 1:
            choices.append(self._lose_lease)
        for number in range(self._schedulers):
            self._cluster.schedulers.start(number)
        for _ in range(MAX_STEPS_A_FAULT * faults):
            if self._cluster.proxy.counts.total() >= faults:
                return
            await self._rng.choice(choices)()
            await asyncio.sleep(self._rng.random() * self._cluster.durations.longest_step_s)
        raise AssertionError(f"only {self._cluster.proxy.counts.total()} of {faults} faults")

    async def release_finalizers(self) -> None:
        """Take away what keeps deleted pods there, a while later, for ever."""
        while True:
            held = [
                pod["metadata"]["name"]
                for pod in self._cluster.reference.pods.values()
                if leaves(pod) and pod["metadata"].get("finalizers")
            ]
            for name in held:
                await self._cluster.release(name)
            await asyncio.sleep(self._rng.random() * self._cluster.durations.longest_pause_s)

    async def end_faults(self) -> None:
        """End all faults and bring back whatever was taken away."""
        self._cluster.proxy.end_faults()
        await self._cluster.proxy.accept()
        for go_on in self._paused.values():
            go_on()
        for name in sorted(self._closed):
            await self._set_closed(name, closed=False)
        self._cluster.cards.lost.clear()
        self._cluster.cards.write()

    async def _create(self) -> None:
        for _ in range(self._rng.choice([1, 1, 3, 8])):
            name = f"pod-{self.made}"
            self.made += 1
            asked = self._rng.choice(REQUESTS)
            labels = share(asked)
            if asked != "2" and self._rng.random() < 0.2:
                labels |= share(asked, gpu_mem=str(self._rng.choice([1, 4, 9]) << 30))
            if self._rng.random() < 0.3:
                labels |= share(asked, priority=self._rng.choice(["1", "50", "100"]))
            runs_s = self._rng.choice([0, 1, 4, 15, 600]) * self._cluster.durations.life
            plan = {"kubeshare.sim/run-seconds": str(runs_s)}
            if self._rng.random() < 0.3:
                plan["kubeshare.sim/stop-seconds"] = "1.5"
            held = [HELD] if self._ranks and self._rng.random() < 0.2 else []
            await self._cluster.create(pod(name, labels, plan, held, **self._rank()))
            self._names.append(name)

    async def _create_gang(self) -> None:
        """Pods of one shape, all or half of which must start together."""
        size, asked = self._rng.choice([2, 3, 4, 6]), self._rng.choice(GANG_REQUESTS)
        threshold = self._rng.choice(["1.0", "1.0", "0.5"])
        name, headcount = f"gang-{self.made}", str(size)
        group = {"group_name": name, "group_headcount": headcount, "group_threshold": threshold}
        runs_s = self._rng.choice([1, 15, 600]) * self._cluster.durations.life
        plan = {"kubeshare.sim/run-seconds": str(runs_s)}
        members = [f"{name}-{number}" for number in range(size)]
        self.made += size
        self._gangs.append(members)
        rank = self._rank()
        for member in members:
            await self._cluster.create(pod(member, share(asked, **group), plan, **rank))

    def _rank(self) -> dict[str, str]:
        """The class of the next pod or gang, where there are classes."""
        rank = self._rng.choice(self._ranks) if self._ranks else ""
        return {"priorityClassName": rank} if rank else {}

    async def _budget(self) -> None:
        """Now and then other pods are to be disturbed no further."""
        least = {"minAvailable": self._rng.choice([1, 3])}
        rank = self._rng.choice(["1", "50", "100"])
        await self._cluster.protect({"matchLabels": {"sharedgpu/priority": rank}}, least)

    async def _delete_gang(self) -> None:
        if self._gangs:
            for member in self._gangs.pop(self._rng.randrange(len(self._gangs))):
                await self._cluster.delete(member, self._rng.choice([None, 0]))

    async def _delete(self) -> None:
        if not self._names:
            return
        name = self._names.pop(self._rng.randrange(len(self._names)))
        await self._cluster.delete(name, self._rng.choice([None, None, 0]))

    async def _cordon(self) -> None:
        name = str(self._rng.choice(self._cluster.nodes).name)
        await self._set_closed(name, closed=name not in self._closed)

    async def _set_closed(self, name: str, *, closed: bool) -> None:
        body = {"spec": {"unschedulable": closed or None}}
        patch = self._cluster.api_server.client.merge_patch
        await persist(partial(patch, f"/api/v1/nodes/{name}", body))
        (self._closed.add if closed else self._closed.discard)(name)

    async def _lose_card(self) -> None:
        uuid = str(self._rng.choice(self._rng.choice(self._cluster.nodes).cards).uuid)
        self._cluster.cards.lost ^= {uuid}
        self._cluster.cards.write()

    async def _kill(self) -> None:
        self.kills += 1
        number = self._rng.randrange(self._schedulers)
        self._paused.pop(number, None)
        await self._cluster.schedulers.kill(number)
        await asyncio.sleep(self._rng.choice([0, 0, 1]) * self._cluster.durations.longest_pause_s)
        self._cluster.schedulers.start(number)

    async def _pause(self) -> None:
        """Let a process stand still, or go on: longer than its Lease lasts, or shorter."""
        number = self._rng.randrange(self._schedulers)
        if number in self._paused:
            self._paused.pop(number)()
        elif isinstance(self._cluster.schedulers, Processes):
            self.pauses += 1
            self._paused[number] = self._cluster.schedulers.pause(number)

    async def _lose_lease(self) -> None:
        """Nobody can renew any more while everything else passes: who leads must stop in time."""
        proxy, lasts_s = (
            self._cluster.proxy,
            seconds(self._cluster.durations.election.lease_duration),
        )
        proxy.blocked = re.compile("/leases/")
        for _ in range(_BURSTS):
            await self._create()
            await self._delete()
            await self._delete()
            await asyncio.sleep(lasts_s / _BURSTS)
        proxy.blocked = None

    async def _compact(self) -> None:
        await self._cluster.api_server.compact()

    async def _cut(self) -> None:
        self._cluster.proxy.cut()

    async def _outage(self) -> None:
        self.outages += 1
        await self._cluster.proxy.refuse()
        await asyncio.sleep(self._rng.choice([0.2, 1]) * self._cluster.durations.longest_pause_s)
        await self._cluster.proxy.accept()
