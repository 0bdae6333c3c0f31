"""The DaemonSet: where its pods are, what they may do, and that they work with so little."""

from functools import partial
from pathlib import Path

import aiohttp
import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from tests.collector.collectors import Collector, capacity
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import Json
from tests.deploy.conftest import PODS, Release, expect_eventually, kubectl, restricted_namespace
from tests.deploy.container import Container, can_mount, unpack
from tests.each import each
from tests.fake_nvml.board import Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler
from tests.stories.conftest import NODES, Stage

pytestmark = pytest.mark.real_only("it needs controllers, kube-scheduler and Helm")

NAME = "kubeshare-collector"
DAEMONS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
#: Where it can write, as whom it runs, what it may do
#: (https://man7.org/linux/man-pages/man5/proc_pid_status.5.html).
WRITABLE = """
import os, pathlib
left = []
for folder in ("/", "/app", "/usr", "/var", "/tmp", "/driver", "/dev"):
    try:
        (pathlib.Path(folder) / "x").write_text("")
        left.append(folder)
    except OSError:
        pass
lines = pathlib.Path("/proc/self/status").read_text().splitlines()
said = dict(line.split(":", 1) for line in lines)
privileges = (said["CapBnd"].strip(), said["NoNewPrivs"].strip())
print(left, os.getuid(), os.getgid(), os.getgroups(), *privileges)
"""
SYSTEM_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")


async def available(client: KubeClient, nodes: int = 2) -> Json:
    """Wait until the newest pod is on each of so many nodes."""

    def settled(found: Json) -> bool:
        status = found.get("status", {})
        keys = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return current and {status.get(key, 0) for key in keys} == {nodes}

    return await expect_eventually(partial(client.get, DAEMONS), settled)


async def pods(client: KubeClient) -> list[Json]:
    found = await client.list_all(PODS, {"labelSelector": f"app.kubernetes.io/name={NAME}"})
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


async def places(client: KubeClient) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in await pods(client))


async def relabel(client: KubeClient, node: str, **labels: str | None) -> None:
    await client.merge_patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})


#: NVIDIA's GPU Operator labels nodes with what it runs on them.
DEPLOYED = {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.dcgm": "true"}


async def test_it_leaves_a_node_while_the_gpu_operator_pauses_it(
    stage: Stage, release: Release
) -> None:
    """What NVIDIA's driver manager, its MIG manager and others do before they need the driver."""
    client = stage.client
    await available(client)
    await relabel(client, "n1", **DEPLOYED)
    for why in ("driver-upgrade", "mig-change", "vgpu-change", "cc-mode-change"):
        for key in DEPLOYED:
            await relabel(client, "n1", **{**DEPLOYED, key: f"paused-for-{why}"})
            await available(client, nodes=1)
            assert await places(client) == ["n2"]
        await relabel(client, "n1", **DEPLOYED)
        await available(client)
        assert await places(client) == ["n1", "n2"]


async def test_its_pods_are_on_the_nodes_that_are_labelled_as_having_gpus(
    stage: Stage, release: Release
) -> None:
    client = stage.client
    plain = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": "plain"}
    await client.create(NODES, {"metadata": {"name": "plain", "labels": plain}})
    await available(client)
    assert await places(client) == ["n1", "n2"]
    await relabel(client, "n1", **{"nvidia.com/gpu.present": None})
    await available(client, 1)
    assert await places(client) == ["n2"]
    for label in ("SharedGPU", "feature.node.kubernetes.io/pci-0302_10de.present"):
        await relabel(client, "n1", **{label: "true"})
        await available(client)
        await relabel(client, "n1", **{label: "false"})
        await available(client, 1)


async def test_nodes_that_are_kept_free_from_everybody_have_one_too(
    stage: Stage, release: Release
) -> None:
    taints = [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "research", "effect": "NoExecute"},
    ]
    await stage.client.merge_patch(f"{NODES}/n1", {"spec": {"taints": taints}})
    await release.upgrade('image.tag="next"')
    await available(stage.client)
    assert await places(stage.client) == ["n1", "n2"]


async def test_each_is_an_endpoint_of_its_own(stage: Stage, release: Release) -> None:
    await available(stage.client)
    selector = {"labelSelector": f"kubernetes.io/service-name={NAME}"}

    async def endpoints() -> Json:
        slices = await stage.client.list_all(SLICES, selector)
        listed = [one["nodeName"] for part in slices for one in part["endpoints"] or []]
        return {"nodes": sorted(listed), "ports": [part["ports"] for part in slices]}

    found = await expect_eventually(endpoints, lambda answer: answer["nodes"] == ["n1", "n2"])
    assert {(port["name"], port["port"]) for ports in found["ports"] for port in ports} == {
        ("metrics", 9004)
    }


async def test_an_upgrade_replaces_them_and_without_it_they_go(
    stage: Stage, release: Release
) -> None:
    await available(stage.client)
    old = {pod["metadata"]["uid"] for pod in await pods(stage.client)}
    await release.upgrade('collector.image={"repository": "own", "tag": "v2"}', wait=True)
    await available(stage.client)
    found = await pods(stage.client)
    assert not old & {pod["metadata"]["uid"] for pod in found}
    assert {pod["spec"]["containers"][0]["image"] for pod in found} == {"own:v2"}
    await release.upgrade("collector.enabled=false")

    async def left() -> Json:
        return {"pods": await pods(stage.client)}

    await expect_eventually(left, lambda answer: not answer["pods"])


async def test_they_get_no_token(stage: Stage, release: Release) -> None:
    await available(stage.client)
    for pod in each(await pods(stage.client)):
        assert pod["spec"]["serviceAccountName"] == NAME
        assert "volumes" not in pod["spec"]
        assert "volumeMounts" not in pod["spec"]["containers"][0]


async def test_their_account_has_the_rights_of_any_account(
    bare: ControlPlane, stage: Stage, release: Release
) -> None:
    async def rights(account: str) -> list[str]:
        groups = [f"--as-group={one}" for one in ("system:authenticated", *SYSTEM_GROUPS)]
        who = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
        shown = await kubectl(bare, "auth", "can-i", "--list", who, *groups)
        return sorted(shown.splitlines())

    own = await rights(NAME)
    assert own == await rights("nobody-knows-this-one")
    assert own != await rights("kubeshare-scheduler")


async def test_they_are_let_into_a_namespace_for_restricted_ones(
    stage: Stage, release: Release
) -> None:
    async with restricted_namespace(stage.client):
        await release.upgrade('image.tag="next"')
        await available(stage.client)
        [pod, _] = await pods(stage.client)
        again = {"metadata": {"name": "once-more"}, "spec": pod["spec"]}
        await stage.client.create(PODS, again, {"dryRun": "All"})
        again["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] = ["SYS_ADMIN"]
        del again["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"]
        with pytest.raises(KubeError, match="violates PodSecurity"):
            await stage.client.create(PODS, again, {"dryRun": "All"})


@pytest.mark.skipif(not can_mount(), reason="a container by hand needs the right to mount")
async def test_it_reads_cards_with_what_it_may(
    stage: Stage, release: Release, tmp_path: Path
) -> None:
    program = compiler()
    if program is None:
        pytest.skip(NO_COMPILER)
    driver = tmp_path / "driver"
    driver.mkdir()
    board = Board("hgx-h100-mig", driver, build(driver, program))
    daemons = await stage.client.get(DAEMONS)
    container = Container(
        spec=daemons["spec"]["template"]["spec"],
        app=unpack(tmp_path),
        folder=tmp_path,
        # What NVIDIA's runtime brings in, and what the kubelet makes of the field's reference.
        volumes={"/driver": driver},
        environment={
            "LD_LIBRARY_PATH": "/driver",
            "FAKE_NVML_BOARD": f"/driver/{board.path.name}",
            "NODE_NAME": "n1",
        },
    )
    [port] = free_ports(1)
    where = ("--address", "127.0.0.1", "--port", str(port))
    async with container.run(*where) as process, aiohttp.ClientSession() as session:
        found = Collector(process, session)
        await found.listens()
        await found.expect_eventually(bool)
        _, text = await found.get()
        assert await found.end() == 0
    listed = capacity(text)
    assert len(listed) == 9
    assert {one["node"] for one in listed} == {"n1"}
    assert await container.output(WRITABLE) == f"[] 65532 65532 [] {0:016x} 1"
