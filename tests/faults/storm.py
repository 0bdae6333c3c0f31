"""What users, nodes and fate do in one run: a random history, as its seed says."""

import asyncio
import random

from kubeshare_py.edges.kube_errors import KubeError
from tests.faults.arena import PODS, Arena, pod

REQUESTS = ["0.1", "0.2", "0.25", "0.3", "0.5", "0.5", "0.7", "1.0", "2"]
#: Loop seconds that pass between two steps, at most.
LONGEST_STEP_S = 1.0


class Storm:
    """Creations, deletions, ends, cordons, lost cards, compactions, outages and killings."""

    def __init__(self, arena: Arena, seed: int, schedulers: int = 1) -> None:
        self._arena = arena
        self._schedulers = schedulers
        self._rng = random.Random(seed)
        self._names: list[str] = []
        self._closed: set[str] = set()
        self.made = self.kills = self.outages = 0

    async def blow(self, steps: int) -> None:
        """Take so many steps, with a scheduler that is killed now and then."""
        choices = (
            [self._create] * 12 + [self._delete] * 6 + [self._cordon, self._lose_card] * 2
            + [self._kill, self._compact, self._cut, self._outage]
        )  # fmt: skip
        for _ in range(self._schedulers):
            self._arena.start()
        for _ in range(steps):
            await self._rng.choice(choices)()
            await asyncio.sleep(self._rng.random() * LONGEST_STEP_S)

    async def calm(self) -> None:
        """End all faults and bring back whatever was taken away."""
        self._arena.proxy.calm()
        await self._arena.proxy.accept()
        for name in sorted(self._closed):
            await self._set_closed(name, closed=False)
        self._arena.lost.clear()
        self._arena.cards_file()

    async def _create(self) -> None:
        for _ in range(self._rng.choice([1, 1, 3, 8])):
            name = f"pod-{self.made}"
            self.made += 1
            asked = self._rng.choice(REQUESTS)
            labels = {
                "sharedgpu/gpu_request": asked,
                "sharedgpu/gpu_limit": asked if asked == "2" else "1.0",
            }
            if asked != "2" and self._rng.random() < 0.2:
                labels["sharedgpu/gpu_mem"] = str(self._rng.choice([1, 4, 9]) << 30)
            plan = {"kubeshare.sim/run-seconds": str(self._rng.choice([0, 1, 4, 15, 600]))}
            if self._rng.random() < 0.3:
                plan["kubeshare.sim/stop-seconds"] = "1.5"
            await self._arena.cluster.client.create(PODS, pod(name, labels, plan))
            self._names.append(name)

    async def _delete(self) -> None:
        if not self._names:
            return
        name = self._names.pop(self._rng.randrange(len(self._names)))
        try:
            await self._arena.cluster.client.delete(
                f"{PODS}/{name}", grace_period_s=self._rng.choice([None, None, 0])
            )
        except KubeError as error:
            if error.status != 404:
                raise

    async def _cordon(self) -> None:
        name = str(self._rng.choice(self._arena.nodes).name)
        await self._set_closed(name, closed=name not in self._closed)

    async def _set_closed(self, name: str, *, closed: bool) -> None:
        body = {"spec": {"unschedulable": closed or None}}
        await self._arena.cluster.client.merge_patch(f"/api/v1/nodes/{name}", body)
        (self._closed.add if closed else self._closed.discard)(name)

    async def _lose_card(self) -> None:
        uuid = str(self._rng.choice(self._rng.choice(self._arena.nodes).cards).uuid)
        self._arena.lost ^= {uuid}
        self._arena.cards_file()

    async def _kill(self) -> None:
        self.kills += 1
        await self._arena.kill(self._rng.randrange(self._schedulers))
        await asyncio.sleep(self._rng.choice([0, 0, 2]))
        self._arena.start()

    async def _compact(self) -> None:
        self._arena.cluster.server.compact()

    async def _cut(self) -> None:
        self._arena.proxy.cut()

    async def _outage(self) -> None:
        self.outages += 1
        await self._arena.proxy.refuse()
        await asyncio.sleep(self._rng.choice([0.5, 3]))
        await self._arena.proxy.accept()
