"""How long others wait while a port is flooded, and the flood."""

import asyncio
import json
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec, ListResult
from tests.attacks.attack import CREATE_S, Attack, Json, gpu_pod, pods_of
from tests.attacks.attacked_cluster import VICTIM
from tests.patience import PATIENCE_S

#: What others may wait while a port is flooded (s): half of them, and 99 of 100 of many or 90 of
#: 100 of few; where they wait long without a flood as well, since other programs use the machine,
#: so many times as long. A flood begins with dozens of handshakes at once, a second of processor
#: time on a busy machine: those that come with it wait for it, and are 5 of 60. While the client
#: itself gets no processor, no port is why.
MOST_S, TIMES, MANY = 0.5, 6.0, 200
_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Waits:
    """What some waited (s), the shortest first, and for how long their client could not run (s)."""

    sorted_s: tuple[float, ...]
    stalled_s: float = 0.0

    def p(self, percent: int) -> float:
        """The wait that so many are within."""
        return self.sorted_s[math.ceil(len(self.sorted_s) * percent / 100) - 1]

    def __str__(self) -> str:
        """As figures."""
        shown = " ".join(f"p{one} {1000 * self.p(one):.0f}" for one in (50, 99, 100))
        stalled = f", client stalled for {1000 * self.stalled_s:.0f} ms"
        return f"{shown} ms of {len(self.sorted_s)}{stalled if self.stalled_s > _EVERY_S else ''}"

    def __add__(self, others: "Waits") -> "Waits":
        """These and the others."""
        longest_s = max(self.stalled_s, others.stalled_s)
        return Waits(tuple(sorted(self.sorted_s + others.sorted_s)), longest_s)

    def expect_little_beside(self, rest: "Waits") -> None:
        """Raises AssertionError if these wait too long, given those at rest."""
        for percent in (50, 99 if len(self.sorted_s) >= MANY else 90):
            allowed_s = max(MOST_S, TIMES * rest.p(percent)) + self.stalled_s
            assert self.p(percent) < allowed_s, f"{self}; at rest {rest}"


async def waits_of(ask: Callable[[int], Awaitable[object]], number: int) -> Waits:
    """So many ask, ten a second, whether the ones before them were answered or not."""
    loop = asyncio.get_running_loop()
    took: list[float] = []

    async def one(at: int) -> None:
        began = loop.time()
        await ask(at)
        took.append(loop.time() - began)

    stalled_s = 0.0
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for at in range(number):
            group.create_task(one(at))
            due = loop.time() + _EVERY_S
            await asyncio.sleep(_EVERY_S)
            stalled_s = max(stalled_s, loop.time() - due)
    return Waits(tuple(sorted(took)), stalled_s)


class Victims:
    """Pods of a hundredth of a card in another namespace."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self._bound: dict[str, asyncio.Event] = {}
        self._number = 0

    @classmethod
    @asynccontextmanager
    async def of(cls, attack: Attack) -> AsyncIterator["Victims"]:
        """Watched while entered."""
        victims = cls(attack)
        watching = asyncio.create_task(victims._watch())
        try:
            yield victims
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def wait(self, number: int) -> Waits:
        """From the creation of each until it is seen bound."""
        return await waits_of(self._ask, number)

    async def wait_for_nobody(self, number: int) -> Waits:
        """The same with pods without GPUs, which the administrator binds without any scheduler."""
        return await waits_of(self._ask_nobody, number)

    async def _ask(self, _: int) -> None:
        await self._until_bound(gpu_pod(self._next_name()))

    async def _ask_nobody(self, _: int) -> None:
        name = self._next_name()
        node = self._attack.attacked_cluster.nodes[0].name
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"metadata": {"name": name}, "target": target}
        await self._until_bound(gpu_pod(name, {}, schedulerName="nobody"), binding)

    def _next_name(self) -> str:
        self._number += 1
        return f"waits-{self._number}"

    async def _until_bound(self, body: Json, binding: Json | None = None) -> None:
        """Create it, bind it if a Binding is given, and delete it once it is seen bound."""
        name, path = body["metadata"]["name"], pods_of(VICTIM)
        seen = self._bound[name] = asyncio.Event()
        client = self._attack.victor
        await client.request("POST", path, body=body, timeout_s=CREATE_S)
        if binding is not None:
            await self._attack.admin.create(f"{path}/{name}/binding", binding)
        await seen.wait()
        await client.delete(f"{path}/{name}")

    async def _watch(self) -> None:
        async with aclosing(
            follow(self._attack.admin, pods_of(VICTIM), Codec(PodFields))
        ) as stream:
            async for news in stream:
                found = (
                    news.items
                    if isinstance(news, ListResult)
                    else [line.item for line in news.changed if line.item is not None]
                )
                for pod in found:
                    if pod.spec.node_name and pod.metadata.name in self._bound:
                        self._bound[pod.metadata.name].set()


@asynccontextmanager
async def flooded(kind: str, port: int) -> AsyncIterator[dict[int, int]]:
    """Flood the port while entered; the answers by status are there at the end."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.attacks.port_flood", kind, str(port))
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    answers: dict[int, int] = {}
    try:
        yield answers
        out, _ = await process.communicate(b"")
        answers |= {int(status): number for status, number in json.loads(out).items()}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
