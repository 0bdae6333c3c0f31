"""The scheduler as its pods run it: shipped arguments, rights and policies, nothing writable."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane, free_ports
from tests.deploy.conftest import LEASE, NAME, Release
from tests.deploy.container import can_mount, unpack
from tests.deploy.pod import ConfigMapVolume, Pod
from tests.patience import PATIENCE_S
from tests.programs.commands import expect_said
from tests.stories.conftest import PODS, Json, Stage, annotations, gpu

pytestmark = [
    pytest.mark.real_only("it needs an API server with policies, and Helm"),
    pytest.mark.skipif(not can_mount(), reason="a container by hand needs the right to mount"),
]
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
_ONLY_SPREAD = {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]}
SPREAD = {"plugins": {"score": _ONLY_SPREAD, "cardScore": _ONLY_SPREAD}}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("image"))


async def pod_of(release: Release, stage: Stage, app: Path, object_name: str = NAME) -> Pod:
    """A pod of the release, on a port that is free, with its account's own token."""
    [port] = free_ports(1)
    await release.upgrade(f"config.server.port={port}")
    server, space = stage.cluster.server, f"namespaces/{release.namespace}"
    token = await asyncio.to_thread(release.plane.token_of, release.namespace, object_name)
    # The proxy before the API server notes what the scheduler is refused.
    server.tokens[SCHEDULER] = token
    config = ConfigMapVolume(stage.folder / "config")
    shown = await stage.client.get(f"/api/v1/{space}/configmaps/{object_name}")
    config.write(shown["data"])
    return Pod(
        deployment=await stage.client.get(f"/apis/apps/v1/{space}/deployments/{object_name}"),
        app=app,
        config=config,
        server=server,
        token=token,
        folder=stage.folder,
    )


@pytest.fixture
async def pod(stage: Stage, release: Release, app: Path) -> Pod:
    """One with the default names."""
    return await pod_of(release, stage, app)


async def lease(stage: Stage) -> Json:
    return dict((await stage.client.get(LEASE))["spec"])


async def test_it_leads_places_pods_and_ends_in_order(stage: Stage, pod: Pod) -> None:
    async with pod.run() as process:
        await expect_said(process.stderr, '"leads"')
        for name in ("a", "b"):
            await stage.create(name, gpu("0.6"))
        placed = [await stage.expect_running(name) for name in ("a", "b")]
        held = await lease(stage)
        term = f"{held['holderIdentity']}/{held['leaseTransitions']}"
        assert {annotations(one)["sharedgpu/fence"] for one in placed} == {term}
        await stage.create("big", gpu("9", "9"))
        await stage.expect_waiting("big", "too few GPUs")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0
        assert (await lease(stage)).get("holderIdentity", "") == ""


async def test_it_can_write_nothing_but_tmp(pod: Pod) -> None:
    tried = """
import os, pathlib
left = []
for folder in ("/", "/app", "/etc/kubeshare", "/usr", "/var", "/tmp"):
    try:
        (pathlib.Path(folder) / "x").write_text("")
        left.append(folder)
    except OSError:
        pass
print(left, os.getuid(), os.getgid(), os.getgroups())
"""
    shown = await pod.output(tried)
    assert shown == "['/tmp'] 65532 65532 []"


async def test_new_profiles_reach_it_without_a_new_start(
    stage: Stage, release: Release, pod: Pod
) -> None:
    async with pod.run() as process:
        await expect_said(process.stderr, '"leads"')
        await stage.create("first", gpu("0.2"))
        node, card = await stage.place("first")
        await release.upgrade(f"config.profiles=[{json.dumps(SPREAD)}]")
        pod.config.write((await stage.client.get(CONFIG))["data"])
        await expect_said(process.stderr, '"configuration"')
        await stage.create("second", gpu("0.2"))
        assert (await stage.place("second"))[1] != card
        assert node in ("n1", "n2")


async def test_another_name_in_another_namespace_does_as_well(
    bare: ControlPlane, stage: Stage, app: Path
) -> None:
    release = Release(plane=bare, home=stage.folder / "helm", namespace="gpu")
    url = stage.cluster.collectors.url
    await release.install('name="ours"', f'config.inventory.url="{url}"')
    try:
        pod = await pod_of(release, stage, app, "ours")
        async with pod.run() as process:
            await expect_said(process.stderr, '"leads"')
            await stage.create("a", gpu("0.6"))
            placed = await stage.expect_running("a")
            path = "/apis/coordination.k8s.io/v1/namespaces/gpu/leases/ours"
            found = await stage.client.get(path)
            holder = found["spec"]["holderIdentity"]
            assert annotations(placed)["sharedgpu/fence"].startswith(f"{holder}/")
            change = {"metadata": {"annotations": {"sharedgpu/gpu_uuid": "GPU-1"}}}
            with pytest.raises(KubeError, match="only kubeshare-scheduler writes"):
                await stage.client.merge_patch(f"{PODS}/a", change)
    finally:
        await release.uninstall()
