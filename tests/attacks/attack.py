"""What attackers and victims do on the cluster, and what must be true after each attack."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from kubeshare_py.edges.kube.client import KubeClient, decode
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from tests.attacks.attacked_cluster import (
    ADA,
    ATTACKER,
    LAX,
    MALLORY,
    NAME,
    RITA,
    VICTIM,
    VICTOR,
    AttackedCluster,
)
from tests.controlplane.helm import NAMESPACE
from tests.patience import PATIENCE_S
from tests.stories.conftest import scheduled_condition

Json = dict[str, Any]

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
STATE = "/apis/state.kubeshare.io/v1"
#: In which a pod of another namespace has to be bound, whatever goes on; generous, for few cores
#: that attackers, API server and scheduler share. benchmarks/fairness.py measures it alone.
BIND_S = 30.0
#: An attacker waits longer for the API server, which floods of large pods keep busy.
CREATE_S = 120.0
WHOLE = 1000
_POLL_S = 0.05
_NUMBERS = count()


def pods_of(namespace: str) -> str:
    """The path of its pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def gpu_pod(name: str, labels: dict[str, Any] | None = None, **spec: Any) -> Json:
    """A pod of ours for a hundredth of a card, or with `labels`; deleted, it is gone at once."""
    annotations = spec.pop("annotations", {})
    asked = {"gpu_request": "0.01", "gpu_limit": "1.0"} if labels is None else labels
    given = {
        "schedulerName": NAME,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "busybox"}],
        **spec,
    }
    ours = {key if "/" in key else f"sharedgpu/{key}": value for key, value in asked.items()}
    metadata = {"name": name, "labels": ours, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": given}


@dataclass(slots=True, kw_only=True)
class Attack:
    """Clients of all roles, and what was true before the attack."""

    attacked_cluster: AttackedCluster
    admin: KubeClient
    mallory: KubeClient
    ada: KubeClient
    victor: KubeClient
    rita: KubeClient
    transitions: int
    log_from: int

    async def create(self, body: Json, namespace: str = ATTACKER) -> Json:
        """Mallory creates a pod."""
        path = pods_of(namespace)
        answer = await self.mallory.request("POST", path, body=body, timeout_s=CREATE_S)
        return decode(answer.body)

    async def pod(self, name: str, namespace: str = ATTACKER) -> Json:
        return await self.admin.get(f"{pods_of(namespace)}/{name}")

    async def flood(self, bodies: list[Json], namespace: str = ATTACKER) -> list[Any]:
        """Mallory creates them all, many at a time; what was refused is in the answers."""
        created = (self.create(one, namespace) for one in bodies)
        answers = await asyncio.gather(*created, return_exceptions=True)
        for one in answers:
            if isinstance(one, BaseException) and not isinstance(one, KubeError):
                raise one
        return answers

    async def expect_victim_bound(self, within_s: float = BIND_S) -> float:
        """A pod of another namespace gets its card in time: after how long (s)."""
        name = f"v{next(_NUMBERS)}"
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.victor.create(pods_of(VICTIM), gpu_pod(name))
        await self.expect_eventually(name, VICTIM, lambda pod: "nodeName" in pod["spec"], within_s)
        took = loop.time() - began
        await self.victor.delete(f"{pods_of(VICTIM)}/{name}")
        return took

    async def pods(self, namespace: str = ATTACKER) -> list[Json]:
        return await self.admin.list_all(pods_of(namespace))

    async def victor_takes_all_but_two_cards(self) -> list[str]:
        """With pods of two whole cards each; their names."""
        names = [f"whole{number}" for number in range(2 * len(self.attacked_cluster.nodes) - 1)]
        for name in names:
            whole = {"gpu_request": "2", "gpu_limit": "2"}
            await self.victor.create(pods_of(VICTIM), gpu_pod(name, whole))
        for name in names:
            await self.expect_bound(name, VICTIM)
        return names

    async def expect_eventually(
        self, name: str, namespace: str, wanted: Callable[[Json], bool], within_s: float = BIND_S
    ) -> Json:
        """The pod, once it looks like this."""
        return await expect_eventually(lambda: self.pod(name, namespace), wanted, within_s)

    async def expect_waiting(self, name: str, namespace: str = ATTACKER, text: str = "") -> str:
        """The reason that the pod's condition gives, once there is one with this text."""

        def told(pod: Json) -> bool:
            condition = scheduled_condition(pod)
            return bool(condition.get("message")) and text in condition["message"]

        found = await self.expect_eventually(name, namespace, told, PATIENCE_S)
        return str(scheduled_condition(found)["message"])

    async def expect_bound(self, name: str, namespace: str = ATTACKER) -> Json:
        """The pod, once it has a node."""
        return await self.expect_eventually(name, namespace, lambda pod: "nodeName" in pod["spec"])

    async def why(self, client: KubeClient, name: str, namespace: str = ATTACKER) -> Json:
        """What `kubectl kubeshare why` is answered."""
        return await client.get(f"{STATE}/namespaces/{namespace}/pods/{name}")

    async def expect_unharmed(self) -> None:
        """Whatever was tried, another tenant is served, and the scheduler is as it was."""
        await self.expect_victim_bound()
        await self.expect_no_card_given_twice()
        spec = (await self.admin.get(LEASE))["spec"]
        assert spec.get("leaseTransitions", 0) == self.transitions
        assert spec["holderIdentity"]
        assert self.attacked_cluster.scheduler.is_running()
        said = self.said()
        assert "Traceback" not in said
        assert "taken over" not in said

    def said(self) -> str:
        """What the scheduler logged since the attack began."""
        return self.attacked_cluster.log.read_bytes()[self.log_from :].decode(errors="replace")

    async def expect_no_card_given_twice(self) -> None:
        """Add up what pods' annotations say that they have: books that are not the scheduler's."""
        known = {
            str(card.uuid): card.memory_bytes
            for node in self.attacked_cluster.nodes
            for card in node.cards
        }
        milli: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        for pod in await self.admin.list_all("/api/v1/pods"):
            text = pod["metadata"].get("annotations", {}).get("sharedgpu/allocation")
            if text is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            for claim in json.loads(text)["claims"]:
                milli[claim["uuid"]] += claim["milli"]
                memory[claim["uuid"]] += claim["bytes"]
        assert {*milli} <= {*known}
        assert all(used <= WHOLE for used in milli.values()), milli
        assert all(used <= known[uuid] for uuid, used in memory.items()), memory

    async def clean(self) -> None:
        """Take all pods away, finalizers or not."""
        for namespace in (ATTACKER, LAX, VICTIM):
            for pod in await self.admin.list_all(pods_of(namespace)):
                if pod["metadata"].get("finalizers"):
                    path = f"{pods_of(namespace)}/{pod['metadata']['name']}"
                    await self.admin.merge_patch(path, {"metadata": {"finalizers": None}})
            query = {"gracePeriodSeconds": 0}
            await self.admin.request("DELETE", pods_of(namespace), query=query, timeout_s=60)


@asynccontextmanager
async def attack_on(attacked_cluster: AttackedCluster) -> AsyncIterator[Attack]:
    """Before an attack; afterwards all is well, and the pods are gone."""
    async with AsyncExitStack() as stack:
        paths = [
            attacked_cluster.admin,
            *(attacked_cluster.kubeconfig(one) for one in (MALLORY, ADA, VICTOR, RITA)),
        ]
        admin, mallory, ada, victor, rita = [
            await stack.enter_async_context(KubeClient(load(str(path)))) for path in paths
        ]
        lease = (await admin.get(LEASE))["spec"]
        attack = Attack(
            attacked_cluster=attacked_cluster,
            admin=admin,
            mallory=mallory,
            ada=ada,
            victor=victor,
            rita=rita,
            transitions=lease.get("leaseTransitions", 0),
            log_from=len(attacked_cluster.log.read_bytes()),
        )
        await in_force(attack)
        yield attack
        try:
            await attack.expect_unharmed()
        finally:
            await attack.clean()


async def in_force(attack: Attack) -> None:
    """Wait until accounts are there, and policies refuse: servers notice them late."""
    forged = gpu_pod("probe", annotations={"sharedgpu/gpu_uuid": "GPU-1"})
    wrong = gpu_pod("probe", {"gpu_request": "x"})
    own = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    others = gpu_pod(
        "probe",
        {},
        schedulerName="default-scheduler",
        containers=[{"name": "main", "image": "busybox", "env": own}],
    )
    for body in (forged, wrong, others):
        await expect_refused(attack.mallory, ATTACKER, body)


async def expect_refused(client: KubeClient, namespace: str, body: Json) -> None:
    """Ask for a dry run until a policy refuses the pod."""

    async def asked() -> Json:
        try:
            await client.create(pods_of(namespace), body, {"dryRun": "All"})
        except KubeError as error:
            policy = re.search("ValidatingAdmissionPolicy", error.message)
            return {"refused": bool(policy), "message": error.message}
        return {"refused": False}

    await expect_eventually(asked, lambda answer: bool(answer["refused"]), 60)


async def expect_eventually(
    ask: Callable[[], Awaitable[Json]], wanted: Callable[[Json], bool], within_s: float
) -> Json:
    """Ask until the answer is wanted; the last one is in the error."""
    last: Json = {}
    try:
        async with asyncio.timeout(within_s):
            while True:
                last = await ask()
                if wanted(last):
                    return last
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise AssertionError(f"after {within_s} s it is still {json.dumps(last)[:3000]}") from error


async def refusal(asked: Awaitable[Any]) -> KubeError:
    """Why the API server refused it. Raises AssertionError if it did not."""
    try:
        answer = await asked
    except KubeError as error:
        return error
    raise AssertionError(f"it was let through: {json.dumps(answer)[:1000]}")
