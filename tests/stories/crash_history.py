"""SharePods' users, faults and kills of their programs, and the books of what is right."""

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fractions import Fraction
from http import HTTPStatus

from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable
from kubeshare_py.embedded_cluster.nodes.kubelet import RUN_SECONDS
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from tests.stories.conftest import PODS, Json, Stage, annotations
from tests.stories.crashing import Killable
from tests.stories.share_pods import (
    SHARE_PODS,
    amounts,
    condition,
    create,
    expect_running,
    phase,
)

NAMES = [f"s{number}" for number in range(6)]
#: So many looks, a moment (s) apart, after the programs work again, what SharePods show is right.
#: Programs and API server share the loop with the looks: a busy machine makes all of them slower.
LOOKS, MOMENT_S = 250, 0.02
#: Requests whose answers get lost.
SPOILT = [
    ("POST", "/pods$"), ("PATCH", "/status$"), ("PATCH", "/sharepods/"), ("POST", "/binding$")
]  # fmt: skip
#: What is written, by programs and kubelets, at each step of a SharePod's life.
_STEP = re.compile(r"/pods$|/pods/[^/]+/(binding|status)$|/sharepods/")


class CrashHistory:
    """As a seed says. `longest_s` is how long (s) programs get at most before one is killed."""

    def __init__(
        self, stage: Stage, programs: Sequence[Killable], seed: int, *, longest_s: float = 0.3
    ) -> None:
        self.rng = random.Random(seed)
        self._stage = stage
        self._programs = programs
        self._longest_s = longest_s

    @property
    def kills(self) -> int:
        """Of both programs so far."""
        return sum(program.kills for program in self._programs)

    async def run(self, faults: int) -> None:
        """Start the programs, and kill one of them as often, each time at some request."""
        for program in self._programs:
            await program.start()
        for _ in range(faults):
            for _ in range(self.rng.randrange(1, 4)):
                await self._act()
            if self.rng.random() < 0.3:
                self._spoil()
            await self._go_on()
            program = self.rng.choice(self._programs)
            await program.kill()
            await program.start()
        self._stage.faults.clear()

    async def end(self) -> None:
        """End both programs."""
        for program in self._programs:
            await program.kill()

    async def expect_right(self) -> None:
        """Within so many LOOKS there is no orphan, and each SharePod shows its pod."""
        for _ in range(LOOKS):
            if not (wrong := await self._wrong()):
                return
            await asyncio.sleep(MOMENT_S)
        raise AssertionError(f"after {LOOKS} looks: {wrong}")

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

    async def _go_on(self) -> None:
        """Return at one of the next requests of any kind, or of the steps of SharePods' lives."""
        requests, before = self._stage.requests, len(self._stage.requests)
        only_steps = self.rng.random() < 0.5
        more = self.rng.randrange(4 if only_steps else 12)

        def done() -> bool:
            return sum(not only_steps or is_step(one) for one in requests[before:]) > more

        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_s):
                await self._stage.expect_sent(done)

    def _spoil(self) -> None:
        method, path = self.rng.choice(SPOILT)
        self._stage.spoil(method=method, path=path, applies_first=self.rng.random() < 0.7)

    async def _act(self) -> None:
        name = self.rng.choice(NAMES)
        acts = [self._create] * 4 + [self._delete, self._delete_pod] * 2 + [self._edit]
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


def is_step(request: ApiRequest) -> bool:
    """Whether it is a step of a SharePod's life."""
    return request.method != "GET" and _STEP.search(request.path) is not None


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
