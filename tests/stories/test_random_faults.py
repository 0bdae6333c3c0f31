"""Everything at once: users, faults and restarts in random order; then calm, and all is well."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.errors import KubeFailure
from tests.scale import seeds
from tests.stories.conftest import PODS, Json, Stage, bound, card, gpu, scheduled_condition

STEPS = 60
CLUSTER = """
nodes:
  - {name: "n{n}", count: 3, gpus: [{model: T4, count: 2, memory: 16GiB}]}
"""


class RandomHistory:
    """One random history, as its seed says."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._rng = random.Random(seed)
        self._names: list[str] = []
        self._made = 0

    async def run(self) -> None:
        """Do this and that, then let all faults end."""
        steps = (
            [self._create] * 6 + [self._delete] * 3 + [self._spoil] * 3
            + [self._cordon, self._lose_answers_of_reports, self._lose_card, self._silence]
        )  # fmt: skip
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._stage.scheduler())
            for number in range(STEPS):
                await self._rng.choice(steps)()
                for _ in range(self._rng.choice([0, 0, 20, 100])):
                    await asyncio.sleep(0)
                if number == STEPS // 2:
                    self._stage.cluster.server.cut_watches()
                if number == STEPS * 2 // 3:
                    await stack.aclose()
                    await stack.enter_async_context(self._stage.scheduler())
        self._stage.faults.clear()

    async def end_faults(self) -> None:
        """Bring back whatever was taken away."""
        for node in ("n1", "n2", "n3"):
            await self._stage.patch_node(node, {"spec": {"unschedulable": None}})
            targets = self._stage.cluster.collectors.targets
            targets.bring_up(NodeName(node))
            for index in range(2):
                targets.restore_card(NodeName(node), index)

    async def _create(self) -> None:
        name = f"pod-{self._made}"
        self._made += 1
        request = self._rng.choice(["0.1", "0.25", "0.3", "0.5", "0.7", "1.0", "2"])
        labels = gpu(request, request if request == "2" else "1.0")
        plan = {"kubeshare.sim/run-seconds": str(self._rng.choice([0, 0.05, 60, 60, 60]))}
        stop = {"kubeshare.sim/stop-seconds": "0.05"} if self._rng.random() < 0.3 else {}
        try:
            await self._stage.create(
                name, labels, annotations={**plan, **stop}, restartPolicy="Never"
            )
        except KubeFailure:
            return  # a fault that was meant for somebody else
        self._names.append(name)

    async def _delete(self) -> None:
        if self._names:
            name = self._names.pop(self._rng.randrange(len(self._names)))
            grace = self._rng.choice([None, 0])
            await self._stage.client.delete(f"{PODS}/{name}", grace_period_s=grace)

    async def _spoil(self) -> None:
        rng = self._rng
        status = rng.choice([0, 0, 403, 429, 500])
        applies_first = rng.random() < 0.5 and status != 403  # after a refusal nothing is stored
        delay_s = rng.choice([0, 0, 0.05])
        self._stage.spoil_binds(status=status, applies_first=applies_first, delay_s=delay_s)

    async def _lose_answers_of_reports(self) -> None:
        self._stage.spoil(method="PATCH", path="/status$", status=self._rng.choice([500, 429]))

    async def _cordon(self) -> None:
        node, closed = self._rng.choice(["n1", "n2", "n3"]), self._rng.choice([True, None])
        await self._stage.patch_node(node, {"spec": {"unschedulable": closed}})

    async def _lose_card(self) -> None:
        node, index = NodeName(self._rng.choice(["n1", "n2", "n3"])), self._rng.randrange(2)
        targets = self._stage.cluster.collectors.targets
        change = self._rng.choice([targets.remove_card, targets.restore_card])
        change(node, index)

    async def _silence(self) -> None:
        node = NodeName(self._rng.choice(["n1", "n2", "n3"]))
        targets = self._stage.cluster.collectors.targets
        change = self._rng.choice([targets.take_down, targets.bring_up])
        change(node)


def live(pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def milli(pod: Json) -> int:
    return round(1000 * float(pod["metadata"]["labels"]["sharedgpu/gpu_request"]))


def nobody_waits_in_vain(stage: Stage) -> Callable[[list[Json]], bool]:
    """Whether all that fits is placed, and everybody else was told something."""

    def settled(pods: list[Json]) -> bool:
        used: Counter[str] = Counter()
        for pod in live(pods):
            for uuid in filter(None, card(pod).split(",")):
                used[uuid] += min(milli(pod), 1000)
        return all(
            scheduled_condition(pod).get("status") and not fits(pod, used)
            for pod in live(pods)
            if not bound([pod])
        )

    def fits(pod: Json, used: Counter[str]) -> bool:
        if milli(pod) > 1000:
            return any(all(not used[gpu.uuid] for gpu in node.cards) for node in stage.nodes)
        free = [1000 - used[gpu.uuid] for node in stage.nodes for gpu in node.cards]
        return max(free) >= milli(pod)

    return settled


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3))
async def test_after_random_faults_nothing_is_lost_and_all_cards_are_free_again(
    empty_stage: Stage, seed: int
) -> None:
    stage, history = empty_stage, RandomHistory(empty_stage, seed)
    await history.run()
    await history.end_faults()
    async with stage.scheduler():
        await stage.expect_all(nobody_waits_in_vain(stage))
        await stage.client.request("DELETE", PODS, query={"gracePeriodSeconds": 0})
        await stage.expect_all(lambda pods: not pods)
        for number in range(3):
            await stage.create(f"whole-{number}", gpu("2", "2"))
        await stage.expect_bound(3)
