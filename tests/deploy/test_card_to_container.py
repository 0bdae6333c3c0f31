"""From the driver to the container: exactly its card and its share, whoever makes the pod.

A fake driver, simulated kubelets and no network; all the rest is real: collector, Prometheus,
scheduler, API server, controllers, and the chart's policies, all of them in force. The images are
made for CUDA: a container that is told nothing sees every card of its node.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import (
    RuntimeCards,
    folders,
    given,
    pod_environment,
)
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.isolation.containers import CAPABILITIES, DEVICE_VARIABLES
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy import whole as everything
from tests.deploy.conftest import NAME, Release, expect_eventually
from tests.deploy.whole import Whole, assembled, made
from tests.stories.conftest import PODS, Stage, annotations, gpu

pytestmark = pytest.mark.real_only("it needs controllers, kube-scheduler, Helm and a Prometheus")

A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"
CUDA = {"NVIDIA_VISIBLE_DEVICES": "all"}
LIBRARY = "/kubeshare/library/libgemhook.so.1"
SETTINGS = (
    'admission={"by": "policy", "others": true}',
    'config.profiles=[{"isolation": ["driver", "mps", "gemini", "none"]}]',
    "mps.external=true",
)
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
#: Each container has one variable of its own, which refers to ours, and a library.
OWN: list[Json] = [
    {"name": "MINE", "value": "cards $(NVIDIA_VISIBLE_DEVICES)"},
    {"name": "LD_PRELOAD", "value": "/mine.so"},
]
CONTAINERS = ("init", "sidecar", "main", "second")


@pytest.fixture
def described() -> str:
    return everything.described()


@pytest.fixture
async def whole(
    forgetful: ControlPlane, stage: Stage, release: Release, tmp_path: Path
) -> AsyncIterator[Whole]:
    """Everything runs, the scheduler knows all cards, and the policies are in force."""
    assert release.plane is forgetful
    async with assembled(stage, release, made(tmp_path), tmp_path, *SETTINGS) as found:
        probe = {"metadata": {"name": "probe"}, "spec": spec()}

        async def told() -> Json:
            answer = await stage.client.create(PODS, probe, {"dryRun": "All"})
            container: Json = answer["spec"]["containers"][0]
            return container

        await expect_eventually(told, lambda container: len(container["env"]) > len(OWN))
        yield found


def spec(**fields: object) -> Json:
    """Two containers, one that runs before them and one beside them from before."""
    first, sidecar, *others = ({"name": name, "image": "cuda", "env": OWN} for name in CONTAINERS)
    return {
        "schedulerName": "kubeshare-scheduler",
        "initContainers": [first, {**sidecar, "restartPolicy": "Always"}],
        "containers": others,
        **fields,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What pods ask for, and what each of their containers is told: `told` beside its cards."""

    labels: Mapping[str, str]
    cards: int = 1
    told: Mapping[str, str]
    folders: tuple[str, ...] = ()
    limit_mib: int | None = None


#: An A100 has 40960 MiB.
ASKS = {
    "driver": Ask(
        labels=gpu("0.125", "0.5", gpu_model=A100),
        told={"NVIDIA_GPU_MEMORY_REQUEST": "5120", "NVIDIA_GPU_MEMORY_LIMIT": "5120"},
        limit_mib=5120,
    ),
    "mps": Ask(
        labels=gpu("0.05", "0.5", gpu_model=A100, gpu_mem=str(2**31), isolation="mps"),
        told={
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2048M",
            "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        },
        folders=("/tmp/nvidia-mps pipe", "/dev/shm shm"),
    ),
    "gemini": Ask(
        labels=gpu("0.05", "0.5", gpu_model=A100, isolation="gemini"),
        told={
            "POD_MANAGER_PORT": "{port}",
            "KUBESHARE_NAMESPACE": "default",
            "KUBESHARE_NAME": "{name}",
            "POD_NAME": "default/{name}",
            "LD_PRELOAD": f"{LIBRARY}:/mine.so",
        },
    ),
    "none": Ask(labels=gpu("0.05", gpu_model=A100, isolation="none"), told={}),
    "whole": Ask(labels=gpu("2", "2", gpu_model=H100), cards=2, told={}),
    "nothing": Ask(labels={}, cards=0, told={}),
}
#: How many pods each kind of owner makes of shares.
OWNERS = {"Pod": 1, "Job": 2, "Deployment": 2}


async def create(stage: Stage, owner: str, name: str, ask: Ask) -> int:
    """Somebody creates the pods, or a controller for him; how many there will be."""
    labels = {**ask.labels, "of": name}
    metadata = {"name": name}
    count = 1 if ask.cards > 1 else OWNERS[owner]
    if owner == "Pod":
        await stage.client.create(
            PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec()}
        )
    elif owner == "Job":
        template = {"metadata": {"labels": labels}, "spec": spec(restartPolicy="Never")}
        of_job = {"template": template, "parallelism": count, "completions": count}
        await stage.client.create(JOBS, {"metadata": metadata, "spec": of_job})
    else:
        template = {"metadata": {"labels": labels}, "spec": spec()}
        selector = {"matchLabels": {"of": name}}
        of_deployment = {"template": template, "replicas": count, "selector": selector}
        await stage.client.create(DEPLOYMENTS, {"metadata": metadata, "spec": of_deployment})
    return count


async def running(stage: Stage, name: str, count: int) -> list[Json]:
    """So many pods of this owner, once they run."""

    async def listed() -> Json:
        return {"pods": await stage.client.list_all(PODS, {"labelSelector": f"of={name}"})}

    def all_run(found: Json) -> bool:
        return [pod["status"].get("phase") for pod in found["pods"]] == ["Running"] * count

    found: list[Json] = (await expect_eventually(listed, all_run))["pods"]
    return found


def started(pod: Json) -> dict[str, dict[str, str]]:
    """What the kubelet gave to each container when it started them."""
    found: dict[str, dict[str, str]] = json.loads(annotations(pod)["kubeshare.sim/env"])
    return found


def check(pod: Json, ask: Ask, board: set[str]) -> list[str]:
    """Each container has exactly its cards and its share; the pod's cards."""
    results = annotations(pod)
    cards = results.get("sharedgpu/gpu_uuid", "")
    words = {"port": results.get("sharedgpu/gpu_manager_port"), "name": pod["metadata"]["name"]}
    visible = cards or "void"
    expected = {
        "NVIDIA_VISIBLE_DEVICES": visible,
        "MINE": f"cards {visible}",
        "LD_PRELOAD": "/mine.so",
        **({one.name: one.value for one in (CAPABILITIES, *DEVICE_VARIABLES)} if ask.cards else {}),
        **{name: value.format(**words) for name, value in ask.told.items()},
    }
    environments = started(pod)
    assert environments == dict.fromkeys(CONTAINERS, expected)
    named = cards.split(",") if cards else []
    assert len({*named}) == ask.cards
    assert board.issuperset(named)
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        environment = environments[container["name"]]
        assert given(environment, CUDA) == RuntimeCards(tuple(named), ask.limit_mib)
        found = {f"{path} {below}" for path, below in folders(container, environment).items()}
        assert found == {one.replace(" ", f" {cards}/") for one in ask.folders}
    return named


async def test_each_container_has_exactly_its_card_and_its_share(whole: Whole) -> None:
    stage = whole.stage
    counts = {
        (owner, kind): await create(stage, owner, f"{kind}-{owner.lower()}", ask)
        for kind, ask in ASKS.items()
        for owner in OWNERS
    }
    tenants: dict[str, list[str]] = {}
    for (owner, kind), count in counts.items():
        board = whole.cards("hgx" if kind == "whole" else "dgx")
        for pod in await running(stage, f"{kind}-{owner.lower()}", count):
            for card in check(pod, ASKS[kind], board):
                tenants.setdefault(card, []).append(kind)
    # Six whole H100 in three pods of two, nobody twice; the A100 are shared.
    alone = [kinds for kinds in tenants.values() if "whole" in kinds]
    assert alone == [["whole"]] * 6
    assert sum(map(len, tenants.values())) == 6 + 4 * sum(OWNERS.values())


async def bound_past(stage: Stage, name: str, labels: Mapping[str, str], **more: str) -> Json:
    """Somebody puts a pod on a node of his choice."""
    metadata = {"name": name, "labels": labels, "annotations": more}
    return await stage.client.create(PODS, {"metadata": metadata, "spec": spec(nodeName="dgx")})


async def test_who_goes_past_the_scheduler_sees_no_card(whole: Whole) -> None:
    stage = whole.stage
    forged = {"sharedgpu/gpu_uuid": min(whole.cards("dgx"))}
    with pytest.raises(KubeError, match="only kubeshare-scheduler writes sharedgpu/gpu_uuid"):
        await bound_past(stage, "forged", ASKS["driver"].labels, **forged)
    for kind in ("driver", "none", "whole"):
        await bound_past(stage, kind, ASKS[kind].labels)
        for environment in started(await stage.expect_running(kind)).values():
            assert environment["NVIDIA_VISIBLE_DEVICES"] == ""
            assert given(environment, CUDA) == RuntimeCards()
    await bound_past(stage, "mps", ASKS["mps"].labels)
    pod = await stage.expect_eventually("mps", lambda pod: "containerStatuses" in pod["status"])
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "'/pipe' leads out of its volume" in waiting["message"]


async def of_scheduler(plane: ControlPlane, folder: Path) -> KubeClient:
    """A client with the scheduler's rights, past the stage: there it must be refused nothing."""
    token = await asyncio.to_thread(plane.token_of, NAMESPACE, NAME)
    secrets = replace(plane.secrets, tokens={SCHEDULER: token})
    kubeconfig = secrets.write_kubeconfig(folder / "past-the-stage", plane.url, SCHEDULER)
    return KubeClient(load(str(kubeconfig)))


async def test_who_asks_for_no_card_gets_none_and_the_fence_stands(
    whole: Whole, bare: ControlPlane, tmp_path: Path
) -> None:
    stage = whole.stage
    await create(stage, "Pod", "sharing", ASKS["driver"])
    pod = await stage.expect_running("sharing")
    assert len(given(started(pod)["main"], CUDA).cards) == 1
    # A container that is added to a pod with a card.
    debug = {"name": "debug", "image": "cuda", "env": OWN[:1]}
    added = {"spec": {"ephemeralContainers": [debug]}}
    await stage.client.strategic_patch(f"{PODS}/sharing/ephemeralcontainers", added)
    pod = await stage.pod("sharing")
    environment = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")["debug"]
    assert environment == {"NVIDIA_VISIBLE_DEVICES": "void", "MINE": "cards void"}
    assert given(environment, CUDA) == RuntimeCards()
    # A pod of kube-scheduler's.
    plain = {"metadata": {"name": "plain"}, "spec": spec(schedulerName="default-scheduler")}
    await stage.client.create(PODS, plain)
    told = started(await stage.expect_running("plain"))
    assert {given(environment, CUDA) for environment in told.values()} == {RuntimeCards()}
    # A Binding of a scheduler that does not lead.
    await stage.client.create(
        PODS, {"metadata": {"name": "late"}, "spec": spec(schedulerName="nobody")}
    )
    late = {
        "metadata": {"name": "late", "annotations": {"sharedgpu/allocation": "{}"}},
        "target": {"kind": "Node", "name": "dgx"},
    }
    async with await of_scheduler(bare, tmp_path) as client:
        with pytest.raises(KubeError, match="this scheduler does not lead"):
            await client.create(f"{PODS}/late/binding", late)
