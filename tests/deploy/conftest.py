"""A control plane that has never heard of the scheduler, and a release of the chart on it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.cluster import cluster_around
from tests.controlplane.build import TESTED, build
from tests.controlplane.cleaning import clean
from tests.controlplane.front import front
from tests.controlplane.helm import CHART, NAMESPACE, RELEASE, helm
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane, control_plane
from tests.controlplane.shipped import RUNTIME_CLASS, Json, write
from tests.patience import PATIENCE_S
from tests.stories.conftest import PODS as USERS_PODS
from tests.stories.conftest import Stage

NODES = """
nodes:
  - name: n1
    labels: {topology.kubernetes.io/zone: east, nvidia.com/gpu.present: "true"}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
  - name: n2
    labels: {topology.kubernetes.io/zone: west, nvidia.com/gpu.present: "true"}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
"""
NAME = "kubeshare-scheduler"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
#: What comes and goes by itself, or is written about others.
_NOT_LISTED = {"Event", "PodMetrics", "ComponentStatus"}

#: Results of other dialects than our own.
_RESULTS = ("ALIYUN_COM_GPU_MEM_IDX", "elasticgpu.io/assumed", "hami.io/vgpu-node")

Thing = tuple[str, str, str]


@pytest.fixture(scope="package")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with kube-scheduler and nothing of ours; Helm is built as well."""
    binaries, folder = build(TESTED), tmp_path_factory.mktemp("bare")
    with control_plane(binaries, folder, identity=False) as running:
        running.create(write([RUNTIME_CLASS], folder / "runtime-class.yaml"))
        flags = ["--leader-elect=false", "--secure-port=0", f"--kubeconfig={running.kubeconfig}"]
        with process([binaries / "kube-scheduler", *flags], folder / "kube-scheduler.log"):
            yield running


@pytest.fixture
def forgetful(bare: ControlPlane) -> ControlPlane:
    """The API server knows nothing of the Lease that an earlier test's fence looked at."""
    bare.start_server_again()
    return bare


@pytest.fixture
def described() -> str:
    """The nodes, as a cluster file; override it in the module."""
    return NODES


@pytest.fixture
async def stage(bare: ControlPlane, tmp_path: Path, described: str) -> AsyncIterator[Stage]:
    """Simulated nodes with cards, Prometheus, and nobody who knows about cards."""
    nodes = read_cluster(described)
    async with KubeClient(load(str(bare.kubeconfig))) as admin:
        await clean(admin)
        await _expect_no_policy(admin)
    async with (
        front(bare, tmp_path) as server,
        cluster_around(server, tmp_path, nodes, controllers=False) as cluster,
    ):
        yield Stage(cluster, nodes, tmp_path)
        assert not server.forbidden


@dataclass(slots=True, kw_only=True)
class Release:
    """One release of the chart, as a user at a terminal has it; `home` is Helm's own folder."""

    plane: ControlPlane
    home: Path
    name: str = RELEASE
    namespace: str = NAMESPACE
    chart: Path = CHART
    values: list[str] = field(default_factory=list)

    def helm(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run Helm against the control plane."""
        place = [f"--kubeconfig={self.plane.kubeconfig}", f"--namespace={self.namespace}"]
        return helm(*arguments, *place, home=self.home)

    async def install(self, *settings: str) -> str:
        """Install the chart with these `--set`; what Helm says. Raises AssertionError."""
        return await self._done("install", "--create-namespace", *self._chart(settings))

    async def upgrade(self, *settings: str, wait: bool = False) -> str:
        """Change it: what was set before stays."""
        waits = ["--wait", "--timeout=90s"] if wait else []
        return await self._done("upgrade", *self._chart(settings), *waits)

    async def uninstall(self) -> str:
        """Take it away."""
        return await self._done("uninstall", self.name)

    def _chart(self, settings: tuple[str, ...]) -> list[str | Path]:
        self.values += [f"--set-json={setting}" for setting in settings]
        return [self.name, self.chart, *self.values]

    async def _done(self, *arguments: str | Path) -> str:
        done = await asyncio.to_thread(self.helm, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
async def release(stage: Stage, bare: ControlPlane, tmp_path: Path) -> AsyncIterator[Release]:
    """The chart with its defaults, but for where Prometheus is; taken away in the end."""
    found = Release(plane=bare, home=tmp_path / "helm")
    await found.install(f'config.inventory.url="{stage.cluster.collectors.url}"')
    yield found
    await found.uninstall()
    # The nodes have something to do until then.
    await expect_eventually(partial(stage.client.get, PODS), lambda listed: not listed["items"])


async def _expect_no_policy(admin: KubeClient) -> None:
    """Wait until what an earlier release refused is let through: servers notice it late."""
    forged = {"sharedgpu/gpu_uuid": "GPU-1", **dict.fromkeys(_RESULTS, "1")}
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "annotations": forged},
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "automountServiceAccountToken": False,
        },
    }

    async def refused() -> Json:
        try:
            await admin.create(USERS_PODS, probe, {"dryRun": "All"})
        except KubeError as error:
            return {"refused": error.message}
        return {}

    await expect_eventually(refused, lambda answer: not answer)


async def expect_eventually(
    ask: Callable[[], Awaitable[Json]],
    wanted: Callable[[Json], bool],
    timeout_s: float = PATIENCE_S,
) -> Json:
    """Ask until the answer is wanted; the last one is in the error."""
    last: Json = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                last = await ask()
                if wanted(last):
                    return last
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise AssertionError(f"it is still {json.dumps(last)[:3000]}") from error


@asynccontextmanager
async def restricted_namespace(client: KubeClient) -> AsyncIterator[None]:
    """The release's namespace takes only pods of the Pod Security Standard "restricted"."""

    async def enforce(level: str | None) -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        path = f"/api/v1/namespaces/{NAMESPACE}"
        await client.merge_patch(path, {"metadata": {"labels": labels}})

    await enforce("restricted")
    try:
        yield
    finally:
        await enforce(None)


async def everything(plane: ControlPlane) -> set[Thing]:
    """Kind, namespace and name of every object that there is."""
    kinds = await kubectl(plane, "api-resources", "--verbs=list", "--output=name")
    wanted = ",".join(sorted(kinds.split()))
    listed = json.loads(await kubectl(plane, "get", wanted, "--all-namespaces", "--output=json"))
    return {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in listed["items"]
        if one["kind"] not in _NOT_LISTED
    }


async def kubectl(
    plane: ControlPlane, *arguments: str | Path, given: str = "", silent: bool = False
) -> str:
    """What it prints; `given` is its standard input. Raises AssertionError.

    With `silent` a warning is an error as well.
    """
    command = [plane.kubectl, f"--kubeconfig={plane.kubeconfig}", *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, text=True, input=given
    )
    assert done.returncode == 0, done.stderr
    assert not (silent and done.stderr), done.stderr
    return str(done.stdout)
