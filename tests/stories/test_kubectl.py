"""People at a terminal: a stock kubectl, and the plugin that comes with the scheduler."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kubeshare_py.embedded_cluster.programs.demo_cluster import define
from kubeshare_py.embedded_cluster.serving.demo_files import find, read_nodes, read_workloads
from tests.conftest import NewCluster
from tests.patience import PATIENCE_S
from tests.stories.conftest import Stage

KUBECTL = shutil.which("kubectl")
pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.tls,  # otherwise kubectl sends no token
]


class Kubectl:
    """kubectl with a home of its own, and this installation's plugin on its PATH."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "PATH": path,
        }

    async def __call__(self, *arguments: str) -> str:
        code, output = await self._run(*arguments)
        assert code == 0, output
        return output

    async def expect_eventually(self, wanted: Callable[[str], bool], *arguments: str) -> str:
        """Call kubectl until it succeeds and prints what is wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                code, output = await self._run(*arguments)
                if code == 0 and wanted(output):
                    return output

    async def _run(self, *arguments: str) -> tuple[int | None, str]:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()


@pytest.fixture
async def stage(tmp_path: Path, new_cluster: NewCluster) -> AsyncIterator[Stage]:
    """The demo's cluster, with a scheduler and nothing to do."""
    nodes = read_nodes(None)
    async with new_cluster(tmp_path, nodes) as cluster:
        stage = Stage(cluster, nodes, tmp_path)
        await define(cluster)
        async with stage.scheduler():
            await stage.warm_up()
            yield stage


@pytest.fixture
def kubectl(stage: Stage, tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path, stage.cluster.kubeconfig)


@pytest.mark.slow
async def test_the_demos_workloads_from_apply_to_why(kubectl: Kubectl) -> None:
    applied = await kubectl("apply", "-f", str(find("demo-workloads.yaml")))
    assert "pod/mnist created" in applied
    assert "job.batch/lstm created" in applied
    await kubectl("wait", "--for=condition=Ready", "pod/mnist", f"--timeout={PATIENCE_S:.0f}s")
    listed = await kubectl("get", "pods", "-o", "wide")
    [mnist] = [line.split() for line in listed.splitlines() if line.startswith("mnist ")]
    assert mnist[2] == "Running"
    described = await kubectl.expect_eventually(
        lambda text: "Successfully assigned default/mnist to" in text, "describe", "pod", "mnist"
    )
    assert "kubeshare-scheduler" in described
    assert "sharedgpu/gpu_uuid: GPU-" in described
    described = await kubectl.expect_eventually(
        lambda text: "FailedScheduling" in text, "describe", "pod", "typo"
    )
    assert 'sharedgpu/gpu_limit="half"' in described


@pytest.mark.long
async def test_the_plugin_says_why_a_pod_waits(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", str(find("demo-workloads.yaml")))
    await kubectl(
        "wait", "--for=condition=PodScheduled=false", "pod/preview", f"--timeout={PATIENCE_S:.0f}s"
    )
    why = await kubectl("kubeshare", "why", "preview")
    assert "Insufficient GPU" in why
    assert "default/render" in why
    assert "rtx-1" in await kubectl("kubeshare", "gpus")
    assert "mnist" in await kubectl("kubeshare", "pods")
    assert "GPU 0 (GPU-" in await kubectl("kubeshare", "why", "mnist")
    assert "lstm-" in await kubectl("kubeshare", "why", "job/lstm")
    # As the script of `kubectl completion bash` asks.
    found = await kubectl.expect_eventually(
        lambda text: "mnist" in text, "__complete", "kubeshare", "why", "mn"
    )
    assert {"mnist", ":4"} <= {*found.splitlines()}


@pytest.mark.slow
async def test_stock_kubectl_reads_cards_as_other_resources(stage: Stage, kubectl: Kubectl) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await stage.cluster.state_served()
    names = (await kubectl("get", "gpus", "-o", "name")).split()
    assert len(names) == 26
    assert all(name.startswith("gpu.state.kubeshare.io/GPU-") for name in names)
    assert "State:" in await kubectl("describe", names[0])
    assert (await kubectl("describe", "gpus")).count("Kind:") == len(names)
    assert "kind: GPU\n" in await kubectl("get", names[0], "-o", "yaml")
    # kube-apiserver fetches the group's schemas by itself, a minute later if once refused.
    await kubectl.expect_eventually(lambda text: "usedMilli" in text, "explain", "gpus.status")


@pytest.mark.slow
async def test_apply_again_changes_nothing_and_delete_takes_all_away(kubectl: Kubectl) -> None:
    file = str(find("demo-workloads.yaml"))
    await kubectl("apply", "-f", file)
    await kubectl("wait", "--for=condition=Ready", "pod/mnist", f"--timeout={PATIENCE_S:.0f}s")
    again = await kubectl("apply", "-f", file)
    assert {line.split()[-1] for line in again.splitlines()} == {"unchanged"}
    await kubectl("delete", "-f", file, f"--timeout={PATIENCE_S:.0f}s")
    await kubectl.expect_eventually(lambda text: "No resources" in text, "get", "pods")


@pytest.mark.slow
async def test_applying_what_the_demo_applied_changes_and_warns_of_nothing(
    stage: Stage, kubectl: Kubectl
) -> None:
    for workload in read_workloads(None):
        await stage.cluster.apply(workload)
    again = await kubectl("apply", "-f", str(find("demo-workloads.yaml")))
    assert {line.split()[-1] for line in again.splitlines()} == {"unchanged"}


@pytest.mark.slow
async def test_the_pod_of_the_readme_waits_until_the_cards_it_waits_for_are_freed(
    stage: Stage, kubectl: Kubectl
) -> None:
    workloads = {one["metadata"]["name"]: one for one in read_workloads(None)}
    assert "annotations" not in workloads["render"]["metadata"]  # it runs until it is deleted
    await kubectl("apply", "-f", str(find("demo-workloads.yaml")))
    await kubectl(
        "wait", "--for=condition=PodScheduled=false", "pod/preview", f"--timeout={PATIENCE_S:.0f}s"
    )
    await kubectl("delete", "pod", "render", f"--timeout={PATIENCE_S:.0f}s")
    await kubectl("wait", "--for=condition=Ready", "pod/preview", f"--timeout={PATIENCE_S:.0f}s")
