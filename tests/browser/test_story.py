"""The page before a whole cluster: what the scheduler really says, as it happens."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from kubeshare_py.programs.dashboard import DashboardSettings
from tests.browser.chromium import Tab, browser
from tests.browser.conftest import dashboard
from tests.conftest import NewCluster
from tests.stories.conftest import Stage, gpu

pytestmark = pytest.mark.tls
CLUSTER = 'nodes: [{name: "n{n}", count: 1, gpus: [{model: A100, count: 1, memory: 40GiB}]}]'
#: A pod, a Job's pods, a pod that is too large, and an object without pods.
MANIFESTS = """
apiVersion: v1
kind: Pod
metadata: {name: small, labels: {sharedgpu/gpu_request: "0.5", sharedgpu/gpu_limit: "1.0"}}
spec: {schedulerName: kubeshare-scheduler, containers: [{name: a, image: b}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  parallelism: 3
  template:
    metadata: {labels: {sharedgpu/gpu_request: "0.25", sharedgpu/gpu_limit: "1.0"}}
    spec:
      schedulerName: kubeshare-scheduler
      restartPolicy: Never
      containers: [{name: a, image: b}]
---
apiVersion: v1
kind: Pod
metadata: {name: large, labels: {sharedgpu/gpu_request: "2", sharedgpu/gpu_limit: "2"}}
spec: {schedulerName: kubeshare-scheduler, containers: [{name: a, image: b}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""
ANSWERS = "[...document.querySelectorAll('.answer')].map((e) => e.innerText)"


@pytest.fixture
async def seen(tmp_path: Path, new_cluster: NewCluster) -> AsyncIterator[tuple[Stage, Tab]]:
    """A cluster of one card with its scheduler, and the page that shows it."""
    nodes = read_cluster(CLUSTER)
    async with new_cluster(tmp_path, nodes) as cluster:
        stage, server = Stage(cluster, nodes, tmp_path), cluster.server
        kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
        settings = DashboardSettings(address="127.0.0.1", port=0, kubeconfig=kubeconfig)
        async with (
            stage.scheduler(),
            dashboard(settings) as url,
            browser(tmp_path / "profile") as open_tab,
            open_tab() as tab,
        ):
            await stage.warm_up()
            await tab.open(f"{url}/#token={server.tokens[ADMIN]}")
            await tab.until("document.querySelector('.tile')")
            yield stage, tab
            assert tab.errors == []


async def test_a_pod_waits_is_explained_and_runs_once_the_other_one_left(
    seen: tuple[Stage, Tab],
) -> None:
    stage, tab = seen
    await stage.create("blocker", gpu("1.0"))
    await stage.expect_running("blocker")
    await stage.create("train", gpu("0.5"))
    await tab.expect_text("1", "#queue-count")
    await tab.run("location.hash = '#/queue'; null")
    await tab.expect_text("train", ".long .row")
    await tab.click(".long .row a")
    await tab.expect_text("when default/blocker ends", "#details")
    await tab.expect_text("free 0", "#details")
    await stage.delete("blocker")
    await tab.expect_text("runs, or starts", "#details")
    await tab.until("document.querySelector('#queue-count').hidden")
    await tab.run("location.hash = '#/cards'; null")
    await tab.until("document.querySelector('[aria-label*=\"pods: default/train 0.5\"]')")


async def test_of_several_pasted_pods_each_has_its_place_or_its_reason(
    seen: tuple[Stage, Tab],
) -> None:
    _, tab = seen
    await tab.run("location.hash = '#/what-if'; null")
    await tab.until("document.querySelector('#manifest')")
    await tab.run(f"document.querySelector('#manifest').value = {MANIFESTS!r}; null")
    await tab.click(".actions .main")
    await tab.expect_text("Not looked at: configmap/settings", ".answers")
    assert "Each pod is asked about alone" in await tab.text(".answers")
    small, many, large = await tab.run(ANSWERS)
    assert "pod/small it would start now\n\nOn n1, GPU 0" in small
    assert "job/many it would start now\n\nOn n1, GPU 0" in many
    assert "one of its pods" in many
    assert "pod/large it would wait" in large
    assert "asks 2" in large
