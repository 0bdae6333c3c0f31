"""The state by way of kube-apiserver: installed by Helm, run as its pods run, asked by kubectl."""

import json
from pathlib import Path

import pytest

from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.certificates import API_SERVICES
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.deploy.conftest import NAME, Release, expect_eventually, kubectl
from tests.deploy.container import can_mount, unpack
from tests.deploy.pod import Pod
from tests.deploy.test_running import pod_of
from tests.programs.commands import expect_said
from tests.stories.conftest import Json, Stage, gpu
from tests.stories.people import ROOT

pytestmark = [
    pytest.mark.real_only("it needs an API server with an aggregation layer, and Helm"),
    pytest.mark.skipif(not can_mount(), reason="a container by hand needs the right to mount"),
]
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}"
OURS = f"{API_SERVICES}/v1.state.kubeshare.io"


@pytest.fixture
async def pod(bare: ControlPlane, stage: Stage, release: Release, tmp_path: Path) -> Pod:
    """Nothing is said of the fence, which would look at the Lease of an earlier test."""
    await release.upgrade("policies.fence=false")
    return await pod_of(release, stage, unpack(tmp_path / "image"))


async def leads_here(stage: Stage) -> None:
    """Let the Service lead to this machine: there is no network of pods and Services."""
    place = {"type": "ExternalName", "externalName": "localhost"}
    of_addresses = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    none = dict.fromkeys((*of_addresses, "internalTrafficPolicy"))
    await stage.client.merge_patch(SERVICE, {"spec": {**place, **none}})


async def test_kube_apiserver_forwards_requests_for_the_state(
    bare: ControlPlane, stage: Stage, release: Release, pod: Pod
) -> None:
    await leads_here(stage)

    async def served() -> Json:
        return await stage.client.get(OURS)

    async with pod.run() as process:
        await expect_said(process.stderr, '"leads"')
        found = await expect_eventually(served, is_available)
        await stage.create("a", gpu("0.6"))
        await stage.expect_running("a")
        shown = json.loads(await kubectl(bare, "get", "--raw", f"{ROOT}/gpus"))
        assert [one["name"] for one in shown["pods"]] == ["a"]
        raw = ("get", "--raw", f"{ROOT}/namespaces/default/pods/a")
        assert json.loads(await kubectl(bare, *raw))["pod"]["state"] == "bound"
        assert "state.kubeshare.io" in await kubectl(bare, "api-resources")
        assert "default/a" in await kubectl(bare, "get", "gpus")
        # Pods are Kubernetes' own unless the group is named.
        assert "READY" in await kubectl(bare, "get", "pods")
        with pytest.raises(AssertionError, match='User "jane" cannot get resource "pods"'):
            await kubectl(bare, *raw, "--as=jane")
        kubeconfig = bare.secrets.write_client_kubeconfig(stage.folder / "jane", bare.url, "jane")
        await kubectl(bare, "create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane")
        try:
            her = replace(bare, kubeconfig=kubeconfig)
            assert json.loads(await kubectl(her, *raw))["kind"] == "PodState"
        finally:
            await kubectl(bare, "delete", "rolebinding", "jane")
        # What the scheduler has written there is not the chart's to take away.
        await release.upgrade("replicas=1")
        assert (await served())["spec"]["caBundle"] == found["spec"]["caBundle"]


def is_available(service: Json) -> bool:
    conditions = service.get("status", {}).get("conditions", [])
    return any((one["type"], one["status"]) == ("Available", "True") for one in conditions)
