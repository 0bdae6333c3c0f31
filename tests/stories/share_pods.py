"""SharePods in stories: their definition, their controller, and KubeShare 1.0's samples."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.scheduler.leadership import OnlyScheduler
from kubeshare_py.manifests.share_pods import API_VERSION, KIND
from kubeshare_py.programs import controller
from kubeshare_py.programs.controller import ELECTION, ControllerSettings
from tests.patience import PATIENCE_S
from tests.stories.conftest import Json, Stage

CRD = Path(__file__).parents[2] / "deploy/chart/kubeshare/sharepod-crd.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHARE_PODS = f"/apis/{API_VERSION}/namespaces/default/sharepods"
GIB = 1 << 30
ALONE = ControllerSettings(
    address="127.0.0.1",
    port=0,
    scheduler="kubeshare-scheduler",
    election=msgspec.structs.replace(ELECTION, leader_elect=False),
)


def amounts(request: str, limit: str = "1.0", mem: str = str(GIB), **more: str) -> dict[str, str]:
    """The annotations of a SharePod with a GPU; further ones by their names without prefix."""
    found = {"gpu_request": request, "gpu_limit": limit, "gpu_mem": mem, **more}
    return {f"kubeshare/{name.replace('anti_', 'anti-')}": value for name, value in found.items()}


def share_pod(
    name: str,
    annotations: dict[str, str] | None = None,
    *,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A SharePod as in doc/yaml of KubeShare 1.0."""
    container = {
        "name": "cuda",
        "image": "nvidia/cuda:9.0-base",
        "command": ["sh", "-c", "nvidia-smi -L; sleep infinity"],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }


async def define(stage: Stage) -> None:
    """Install the definition of SharePods, as the chart has it."""
    definition = yaml.safe_load(CRD.read_text())
    name = definition["metadata"]["name"]
    await stage.client.create(DEFINITIONS, definition)
    await stage.expect_in(
        DEFINITIONS,
        name,
        lambda found: any(
            (one["type"], one["status"]) == ("Established", "True")
            for one in found.get("status", {}).get("conditions") or []
        ),
    )


async def expect_garbage_collection(stage: Stage) -> None:
    """Wait until the garbage collector knows SharePods: it looks for new kinds every 30 s.

    Before that a SharePod that is deleted in the foreground stays, and so do pods of one that is
    gone. No controller may run: the SharePod that is tried gets no pod.
    """
    await create(stage, "tried")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    await stage.client.request("DELETE", f"{SHARE_PODS}/tried", body=options)
    await stage.expect_all(lambda found: not found, SHARE_PODS)


@asynccontextmanager
async def controller_of(stage: Stage, settings: ControllerSettings = ALONE) -> AsyncIterator[str]:
    """A controller in this process, while entered; yields the URL of its server."""
    async with (
        KubeClient(load(str(stage.cluster.kubeconfig))) as client,
        asyncio.TaskGroup() as group,
    ):
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        leads, ready = OnlyScheduler(), url.set_result
        running = group.create_task(controller.run(settings, client, leads, "controller-1", ready))
        try:
            yield await url
        finally:
            running.cancel()


def controller_options(stage: Stage, identity: str) -> tuple[str, ...]:
    """The arguments of a controller as a process, with this name on its Lease."""
    return (
        "--kubeconfig", str(stage.cluster.kubeconfig), "--lease-identity", identity,
        "--address", "127.0.0.1", "--port", "0",
    )  # fmt: skip


async def create(stage: Stage, name: str, *arguments: Any, **fields: Any) -> Json:
    """Create one; its answer."""
    return await stage.client.create(SHARE_PODS, share_pod(name, *arguments, **fields))


async def expect(
    stage: Stage, name: str, wanted: Callable[[Json], bool], timeout_s: float = PATIENCE_S
) -> Json:
    """Wait until a SharePod looks like this."""
    return await stage.expect_in(SHARE_PODS, name, wanted, timeout_s)


def phase(share: Json) -> str:
    """The phase of its pod, as it shows it."""
    return str(share.get("status", {}).get("PodStatus", {}).get("phase", ""))


def condition(share: Json, kind: str = "Synced") -> Json:
    """A condition of it, {} if there is none."""
    found: list[Json] = share.get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


async def expect_running(stage: Stage, name: str) -> Json:
    """Wait until its pod runs, and it says so."""
    return await expect(stage, name, lambda share: phase(share) == "Running")


async def expect_failing(stage: Stage, name: str, reason: str) -> str:
    """Wait until it says so; the message."""
    share = await expect(stage, name, lambda found: condition(found).get("reason") == reason)
    assert condition(share)["status"] == "False"
    return str(condition(share)["message"])


async def expect_gone(stage: Stage, path: str, name: str) -> None:
    """Wait until there is no such object."""
    await stage.expect_all(
        lambda found: all(one["metadata"]["name"] != name for one in found), path
    )
