"""The chart with `dialects: all`, and each predecessor's README pods, all at once on one ledger.

The files are those of tests/stories/test_first_day.py, which the embedded cluster runs. Here the
API server, its policies, the controllers and kube-scheduler are real.
"""

from pathlib import Path

import msgspec
import pytest
import yaml

from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import Release, expect_eventually, kubectl
from tests.deploy.test_sharepods import controlling, kubeconfig
from tests.deploy.whole import scheduler
from tests.stories.conftest import EVENTS, PODS, Stage, bound, card

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

FOLDER = Path(__file__).parents[1] / "stories/first_day"
#: Of each predecessor, and of none: how many pods its file makes.
FILES = {"kubeshare2": 6, "kubeshare1": 1, "gpushare": 3, "nano-gpu": 3, "vgpu": 2, "native": 3}
#: Pods of the files that ask for no GPU; kube-scheduler places them.
PLAIN = "web-"


@pytest.fixture
def described() -> str:
    """As in the demo: nvidia.com/gpu counts slices on two nodes, and whole cards on the third."""
    slices, whole = (
        f"""annotations: {{kubeshare.io/node-agent: '{{"v":1,"plugins":["{served}"]}}'}}"""
        for served in ("nvidia.com/gpu as slices", "nvidia.com/gpu")
    )
    return f"""
nodes:
  - name: t4
    labels: {{SharedGPU: "true"}}
    {slices}
    allocatable: {{nvidia.com/gpu: 20}}
    gpus: [{{model: Tesla-T4, count: 2, memory: 15360MiB}}]
  - name: a100
    labels: {{SharedGPU: "true"}}
    {slices}
    allocatable: {{nvidia.com/gpu: 80}}
    gpus: [{{model: NVIDIA-A100-SXM4-40GB, count: 8, memory: 40GiB}}]
  - name: rtx
    labels: {{SharedGPU: "true"}}
    {whole}
    allocatable: {{nvidia.com/gpu: 2}}
    gpus: [{{model: NVIDIA-GeForce-RTX-4090, count: 2, memory: 24564MiB}}]
"""


async def test_pods_of_every_readme_are_bound_by_the_chart_for_all_dialects(
    forgetful: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    release = Release(plane=forgetful, home=tmp_path / "helm")
    url = stage.cluster.collectors.url
    inventory = f'{{"source": "prometheus", "url": "{url}", "intervalSeconds": 0.5}}'
    try:
        await release.install('dialects="all"', f"config.inventory={inventory}")
        await kubectl(
            forgetful, "wait", "--for=condition=Established", "crd/sharepods.kubeshare.nthu"
        )
        await expect_taken(stage)
        async with (
            scheduler(stage, forgetful, tmp_path),
            controlling(kubeconfig(forgetful, tmp_path)),
        ):
            for name in FILES:
                for document in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()):
                    await stage.cluster.apply(document)
            pods = await stage.expect_all(lambda found: len(bound(found)) == sum(FILES.values()))
            refused = await stage.client.list_all(EVENTS)
    finally:
        await release.uninstall()
    assert len(pods) == sum(FILES.values())
    assert [one for one in refused if one["reason"] == "FailedCreate"] == []
    plain = {pod["metadata"]["name"] for pod in pods if not card(pod)}
    assert len(plain) == 2
    assert all(name.startswith(PLAIN) for name in plain)
    assert {pod["spec"]["schedulerName"] for pod in pods if not card(pod)} == {"default-scheduler"}
    # No card has given away more than it has, whatever language it was asked in.
    stage.observer.listed(msgspec.convert(pods, list[UnstructuredObject]))
    assert not stage.observer.problems


async def expect_taken(stage: Stage) -> None:
    """Wait until pods that name no scheduler get this one: policies take a moment."""
    limits = {"limits": {"aliyun.com/gpu-mem": "2"}}
    container = {"name": "main", "image": "x", "resources": limits}
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}}

    async def tried() -> Json:
        pod = {**probe, "spec": {"containers": [container]}}
        return await stage.client.create(PODS, pod, {"dryRun": "All"})

    await expect_eventually(
        tried, lambda found: found["spec"]["schedulerName"] == "kubeshare-scheduler"
    )
