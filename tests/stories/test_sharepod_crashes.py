"""Controller and scheduler killed at any point of SharePods' lives: no orphan, no lost card."""

import asyncio
import random
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from http import HTTPStatus
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable
from kubeshare_py.embedded_cluster.nodes.run_plan import RUN_SECONDS
from tests.programs.commands import running
from tests.scale import seeds
from tests.stories.conftest import PODS, Json, Stage, annotations
from tests.stories.crashing import CrashingProgram
from tests.stories.share_pods import (
    SHARE_PODS,
    amounts,
    condition,
    controller_of,
    create,
    define,
    expect_garbage_collection,
    expect_running,
    phase,
)
from tests.stories.test_sharepods import HALF, IN_BOTH

#: Of each history; there are 20 at full scale.
FAULTS = 25
NAMES = [f"s{number}" for number in range(6)]
#: Within this time (s) after the last fault, what SharePods show is right.
RIGHT_S = 5.0
#: Requests whose answers get lost.
SPOILT = [
    ("POST", "/pods$"), ("PATCH", "/status$"), ("PATCH", "/sharepods/"), ("POST", "/binding$")
]  # fmt: skip


@pytest.fixture
def nodes() -> str:
    return 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'


class CrashHistory:
    """Users, faults and kills, as a seed says."""

    def __init__(self, stage: Stage, group: asyncio.TaskGroup, seed: int) -> None:
        self.rng = random.Random(seed)
        self._stage = stage
        self.programs = [
            CrashingProgram(group, self._control), CrashingProgram(group, self._schedule)
        ]  # fmt: skip
        #: By uid of SharePod, uids of the pods that it ever had.
        self.pods: defaultdict[str, set[str]] = defaultdict(set)

    async def run(self) -> None:
        """Kill one of the programs FAULTS times, each time after some requests more."""
        for program in self.programs:
            program.start()
        for _ in range(FAULTS):
            for _ in range(self.rng.randrange(1, 4)):
                await self._act()
            if self.rng.random() < 0.3:
                self._spoil()
            await self._requests(self.rng.randrange(12))
            program = self.rng.choice(self.programs)
            await program.kill()
            program.start()

    async def end(self) -> None:
        """End both programs."""
        for program in self.programs:
            await program.kill()

    async def expect_right(self) -> None:
        """Within RIGHT_S there is no orphan, and each SharePod shows its pod."""
        wrong = ["not looked at"]
        try:
            async with asyncio.timeout(RIGHT_S):
                while wrong:
                    wrong = await self._wrong()
                    await asyncio.sleep(0.02)
        except TimeoutError as error:
            raise AssertionError(f"after {RIGHT_S} s: {wrong}") from error

    async def _wrong(self) -> list[str]:
        client = self._stage.client
        shares = {one["metadata"]["uid"]: one for one in await client.list_all(SHARE_PODS)}
        pods = {owner_of(one): one for one in await client.list_all(PODS)}
        found = [
            f"orphan {pod['metadata']['name']}" for uid, pod in pods.items() if uid not in shares
        ]
        for uid, share in shares.items():
            found += why_wrong(share, pods.get(uid))
        return found + overcommitted(pods.values())

    async def _control(self) -> None:
        async with controller_of(self._stage):
            await asyncio.Event().wait()

    async def _schedule(self) -> None:
        async with self._stage.scheduler(dialects=IN_BOTH):
            await asyncio.Event().wait()

    async def _requests(self, more: int) -> None:
        """Return after so many requests more, or when there are none."""
        wanted = len(self._stage.requests) + more
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await self._stage.expect_sent(lambda: len(self._stage.requests) >= wanted)

    def _spoil(self) -> None:
        method, path = self.rng.choice(SPOILT)
        self._stage.spoil(method=method, path=path, applies_first=self.rng.random() < 0.7)

    async def _act(self) -> None:
        name = self.rng.choice(NAMES)
        acts = [self._create] * 4 + [self._delete, self._delete_pod, self._edit]
        try:
            await self.rng.choice(acts)(name)
        except KubeError as error:
            # There is one already, or there is none.
            if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise
        except KubeUnreachable:
            return  # a fault that was meant for a program

    async def _create(self, name: str) -> None:
        asked = amounts(self.rng.choice(["0.3", "0.5", "0.7"]))
        plan = {RUN_SECONDS: self.rng.choice(["0", "0.1", "600"])}
        policy = self.rng.choice(["Always", "OnFailure", "Never"])
        await create(self._stage, name, asked | plan, restartPolicy=policy)

    async def _delete(self, name: str) -> None:
        policy = self.rng.choice(["Background", "Foreground"])
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        await self._stage.client.request("DELETE", f"{SHARE_PODS}/{name}", body=options)

    async def _delete_pod(self, name: str) -> None:
        await self._stage.delete(name)

    async def _edit(self, name: str) -> None:
        change = {"metadata": {"annotations": {"kubeshare/gpu_request": "0.4"}}}
        await self._stage.client.merge_patch(f"{SHARE_PODS}/{name}", change)


def owner_of(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")


def why_wrong(share: Json, pod: Json | None) -> list[str]:
    """What a SharePod does not show as it is."""
    name, status = share["metadata"]["name"], share.get("status", {})
    if "deletionTimestamp" in share["metadata"]:
        return [f"{name} is still being deleted"]
    if pod is None:
        policy = share["spec"]["restartPolicy"]
        ended = phase(share) == "Succeeded" and policy != "Always"
        return [] if ended else [f"{name} has no pod"]
    shown = status.get("PodObjectMeta", {})
    found = []
    if shown.get("resourceVersion") != pod["metadata"]["resourceVersion"]:
        found.append(f"{name} shows an older state")
    if phase(share) != pod.get("status", {}).get("phase"):
        found.append(f"{name} shows {phase(share)}")
    if status.get("BoundDeviceID", "") != annotations(pod).get("sharedgpu/gpu_uuid", ""):
        found.append(f"{name} shows another card")
    if condition(share).get("status") != "True":
        found.append(f"{name} is not synced")
    return found


def overcommitted(pods: Iterable[Json]) -> list[str]:
    """Cards of which more than all is given to pods that have not ended."""
    held: defaultdict[str, Fraction] = defaultdict(Fraction)
    for pod in pods:
        card = annotations(pod).get("sharedgpu/gpu_uuid")
        if card and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            held[card] += Fraction(annotations(pod)["kubeshare/gpu_request"])
    return [f"{card} has {given} pods" for card, given in held.items() if given > 1]


async def expect_all_cards_free(stage: Stage, history: CrashHistory) -> None:
    """Without SharePods there are no pods, and each card has room for a whole one."""
    for share in await stage.client.list_all(SHARE_PODS):
        await stage.client.delete(f"{SHARE_PODS}/{share['metadata']['name']}")
    await stage.expect_all(lambda found: not found)
    for name in ("whole-1", "whole-2"):
        await create(stage, name, amounts("1.0"))
    cards = [await expect_running(stage, name) for name in ("whole-1", "whole-2")]
    assert len({one["status"]["BoundDeviceID"] for one in cards}) == 2
    await history.expect_right()


@pytest.mark.parametrize("seed", seeds(20))
async def test_kills_at_any_point_leave_no_orphan_and_lose_no_card(
    empty_stage: Stage, seed: int
) -> None:
    """500 faults at full scale."""
    stage = empty_stage
    await define(stage)
    await expect_garbage_collection(stage)
    async with asyncio.TaskGroup() as group:
        history = CrashHistory(stage, group, seed)
        await history.run()
        stage.faults.clear()
        await history.expect_right()
        await expect_all_cards_free(stage, history)
        await history.end()
    assert sum(program.kills for program in history.programs) == FAULTS + 2


async def test_a_controller_that_is_killed_goes_on_when_its_lease_is_free(
    empty_stage: Stage, tmp_path: Path
) -> None:
    """The command itself, by SIGKILL, with a Lease."""
    stage = empty_stage
    await define(stage)
    options = (
        *("--kubeconfig", str(stage.cluster.kubeconfig), "--address", "127.0.0.1", "--port", "0"),
        *("--lease-duration", "2s", "--renew-deadline", "1500ms", "--retry-period", "200ms"),
    )
    async with stage.scheduler(dialects=IN_BOTH):
        for number in range(2):
            async with running(tmp_path, "controller", *options) as process:
                await create(stage, f"one-{number}", HALF)
                share = await expect_running(stage, f"one-{number}")
                process.send_signal(signal.SIGKILL)
                await process.wait()
                assert condition(share)["reason"] == "Synced"
    assert len(await stage.all_pods()) == 2
