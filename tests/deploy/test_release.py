"""One release through its life: what the cluster's own controllers make of it, and what is left."""

import asyncio
from functools import partial

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import MANIFESTS, Json
from tests.deploy.conftest import (
    DEPLOYMENT,
    NAME,
    PODS,
    Release,
    Thing,
    everything,
    expect_eventually,
    kubectl,
    restricted_namespace,
)
from tests.policies.environment import has_policies
from tests.stories.conftest import Stage

pytestmark = pytest.mark.real_only("it needs controllers, kube-scheduler and Helm")

BUDGET = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{NAME}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
REVISION = "kubeshare.io/fixed-configuration"


async def available(client: KubeClient, replicas: int = 2) -> Json:
    """Wait until the newest pods of the Deployment are all there, and no others."""

    def settled(found: Json) -> bool:
        status = found.get("status", {})
        counts = {status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")}
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return current and counts == {replicas}

    return await expect_eventually(partial(client.get, DEPLOYMENT), settled)


async def pods(client: KubeClient) -> list[Json]:
    return await client.list_all(PODS, {"labelSelector": f"app.kubernetes.io/name={NAME}"})


def revision(deployment: Json) -> str:
    """What changes when the pods must be new."""
    return str(deployment["spec"]["template"]["metadata"]["annotations"][REVISION])


async def expect_nothing_left(plane: ControlPlane, before: set[Thing]) -> None:
    """Wait until there is no more than before."""

    async def left() -> Json:
        return {"left": sorted(await everything(plane) - before)}

    await expect_eventually(left, lambda answer: not answer["left"])


async def evict(client: KubeClient, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await client.create(f"{PODS}/{name}/eviction", body)


async def test_two_replicas_run_on_two_nodes_and_answer_for_the_service(
    stage: Stage, release: Release
) -> None:
    await available(stage.client)
    found = await pods(stage.client)
    assert sorted(pod["spec"]["nodeName"] for pod in found) == ["n1", "n2"]
    assert {pod["spec"]["priorityClassName"] for pod in found} == {"system-cluster-critical"}
    selector = {"labelSelector": f"kubernetes.io/service-name={NAME}"}

    async def endpoints() -> Json:
        slices = await stage.client.list_all(SLICES, selector)
        return {"endpoints": [one for part in slices for one in part["endpoints"] or []]}

    def all_ready(answer: Json) -> bool:
        ready = [one for one in answer["endpoints"] if one["conditions"]["ready"]]
        names = sorted(one["targetRef"]["name"] for one in ready)
        return names == sorted(pod["metadata"]["name"] for pod in found)

    await expect_eventually(endpoints, all_ready)


async def test_a_drain_takes_one_replica_and_waits_for_another(
    stage: Stage, release: Release
) -> None:
    await available(stage.client)
    await expect_eventually(
        partial(stage.client.get, BUDGET),
        lambda budget: budget.get("status", {}).get("disruptionsAllowed") == 1,
    )
    first, second = (pod["metadata"]["name"] for pod in await pods(stage.client))
    await stage.client.merge_patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    await stage.client.merge_patch("/api/v1/nodes/n2", {"spec": {"unschedulable": True}})
    await evict(stage.client, first)
    with pytest.raises(KubeError) as refused:
        await evict(stage.client, second)
    assert refused.value.status == 429


async def test_the_pods_are_let_into_a_namespace_for_restricted_ones(
    stage: Stage, release: Release
) -> None:
    async with restricted_namespace(stage.client):
        await available(stage.client)
        [pod, _] = await pods(stage.client)
        again = {"metadata": {"name": "once-more"}, "spec": pod["spec"]}
        await stage.client.create(PODS, again, {"dryRun": "All"})
        del again["spec"]["containers"][0]["securityContext"]
        with pytest.raises(KubeError, match="violates PodSecurity"):
            await stage.client.create(PODS, again, {"dryRun": "All"})


async def test_new_profiles_need_no_new_pods_and_all_else_does(
    stage: Stage, release: Release
) -> None:
    before = revision(await available(stage.client))
    await release.upgrade(
        'config.profiles=[{"plugins": {"score": {"enabled": [{"name": "Spread"}]}}}]'
    )
    assert revision(await stage.client.get(DEPLOYMENT)) == before
    shown = await stage.client.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")
    assert "Spread" in shown["data"]["scheduler.yaml"]
    old = {pod["metadata"]["name"] for pod in await pods(stage.client)}
    await release.upgrade("config.parallelBinds=8")
    assert revision(await available(stage.client)) != before
    assert not old & {pod["metadata"]["name"] for pod in await pods(stage.client)}


async def test_another_schedulername_needs_new_pods(stage: Stage, release: Release) -> None:
    before = revision(await stage.client.get(DEPLOYMENT))
    await release.upgrade('config.profiles=[{"schedulerName": "other"}]')
    assert revision(await stage.client.get(DEPLOYMENT)) != before


@pytest.mark.parametrize("affinity", ["preferred", "required"])
async def test_an_upgrade_gets_through_with_as_many_nodes_as_replicas(
    stage: Stage, release: Release, affinity: str
) -> None:
    await release.upgrade(f'podAntiAffinity="{affinity}"', wait=True)
    await release.upgrade('image.tag="next"', wait=True)
    found = await pods(stage.client)
    assert {pod["spec"]["containers"][0]["image"] for pod in found} == {"kubeshare-scheduler:next"}


async def test_a_rollback_brings_the_configuration_back(stage: Stage, release: Release) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
    before = (await stage.client.get(path))["data"]
    await release.upgrade("config.parallelBinds=8")
    assert (await stage.client.get(path))["data"] != before
    done = await asyncio.to_thread(release.helm, "rollback", release.name)
    assert done.returncode == 0, done.stderr
    assert (await stage.client.get(path))["data"] == before


async def test_a_second_release_is_refused(release: Release) -> None:
    second = Release(plane=release.plane, home=release.home, name="second", namespace="default")
    with pytest.raises(AssertionError, match="invalid ownership metadata"):
        await second.install()


async def test_an_uninstall_leaves_nothing_but_the_lease(bare: ControlPlane, stage: Stage) -> None:
    before = await everything(bare) | {("Lease", NAMESPACE, NAME)}
    release = Release(plane=bare, home=stage.folder / "helm")
    await release.install('readers=[{"kind": "User", "name": "jane"}]')
    await available(stage.client)
    await release.uninstall()
    await expect_nothing_left(bare, before)


async def test_the_plain_manifests_do_as_well(bare: ControlPlane, stage: Stage) -> None:
    if not has_policies(bare):
        pytest.skip("the plain manifests are for Kubernetes 1.36 and newer")
    before = await everything(bare)
    manifests = ("--filename", str(MANIFESTS))
    await kubectl(bare, "apply", *manifests, silent=True)
    await available(stage.client)
    assert await kubectl(bare, "diff", *manifests) == ""
    await kubectl(bare, "delete", *manifests)
    await expect_nothing_left(bare, before)
