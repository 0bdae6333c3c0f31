"""By choice, nobody but kubelets and controllers deletes pods with cards by force."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from tests.controlplane.build import TESTED, build
from tests.controlplane.cleaning import clean
from tests.controlplane.helm import PLAIN_FOR, template
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import POLICIES, Json, write
from tests.patience import PATIENCE_S
from tests.policies.conftest import PODS, pod

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

NAME, BREAKERS = "kubeshare-forced-deletion", "breakers"
FORCE = ("--force", "--grace-period=0", "--wait=false")
REFUSED = "delete it without --force"
CARDS = {"sharedgpu/gpu_uuid": "GPU-1"}
CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:pod-garbage-collector",
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:namespace-controller",
)


def policies(*settings: str) -> list[Json]:
    """The policy and its binding, as the chart renders them."""
    text = template(*settings, kubernetes=PLAIN_FOR)
    objects = [one for one in yaml.safe_load_all(text) if one and one["kind"] in POLICIES]
    return [one for one in objects if one["metadata"]["name"] == NAME]


@dataclass(frozen=True)
class Cluster:
    """Pods, and users who may delete every pod as far as RBAC is asked."""

    plane: ControlPlane
    admin: KubeClient

    async def bound(self, name: str, annotations: Json | None = None, **spec: object) -> None:
        """A pod on node n1, as far as the API server knows; with a card unless it is said."""
        body = pod(name, annotations=CARDS if annotations is None else annotations)
        body["spec"] |= {"nodeName": "n1", **spec}
        await self.admin.create(PODS, body)

    async def kubectl(self, *arguments: str, user: str, groups: tuple[str, ...] = ()) -> str:
        """What a user is told; RBAC lets members of system:masters do everything."""
        as_groups = [f"--as-group={group}" for group in ("system:masters", *groups)]
        process = await asyncio.create_subprocess_exec(
            *(str(self.plane.kubectl), f"--kubeconfig={self.plane.kubeconfig}"),
            *(f"--as={user}", *as_groups, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return output.decode()

    async def delete(self, name: str, user: str = "jane", *groups: str) -> str:
        return await self.kubectl("delete", "pod", name, *FORCE, user=user, groups=groups)

    async def is_there(self, name: str) -> bool:
        return name in {one["metadata"]["name"] for one in await self.admin.list_all(PODS)}


@pytest.fixture(scope="module")
def guarded(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane with the policy."""
    assert plane is not None
    build(TESTED)
    groups = f"--set-json=policies.forcedDeletionGroups={json.dumps([BREAKERS])}"
    objects = policies("--set=policies.forcedDeletion=true", groups)
    file = write(objects, tmp_path_factory.mktemp("forced") / "policy.yaml")
    plane.create(file)
    yield plane
    plane.delete(file)


@pytest.fixture
async def cluster(guarded: ControlPlane) -> AsyncIterator[Cluster]:
    """The policy is in force, and `p` has a card."""
    async with KubeClient(load(str(guarded.kubeconfig))) as admin:
        await clean(admin)
        found = Cluster(guarded, admin)
        await found.bound("p")
        dry = partial(found.kubectl, "delete", "pod", "p", *FORCE, "--dry-run=server")
        async with asyncio.timeout(PATIENCE_S):
            while "may run on" not in await dry(user="jane"):
                pass
        yield found
        for one in await admin.list_all(PODS):
            await found.delete(one["metadata"]["name"], CONTROLLERS[0])


def test_it_is_there_by_choice_only() -> None:
    build(TESTED)
    assert policies() == []
    assert len(policies("--set=policies.forcedDeletion=true")) == len(POLICIES)


async def test_a_user_does_not_delete_a_pod_with_cards_by_force(cluster: Cluster) -> None:
    assert REFUSED in await cluster.delete("p")
    # Kubernetes' own admission refuses it to kubelets of other nodes before any policy is asked.
    refused = await cluster.delete("p", "system:node:n2", "system:nodes")
    assert 'node "n2" can only delete pods with spec.nodeName set to itself' in refused
    assert await cluster.is_there("p")
    collection = ("delete", "pods", "--all", *FORCE)
    assert REFUSED in await cluster.kubectl(*collection, user="jane")
    assert await cluster.is_there("p")
    raw = ("delete", "--raw", f"{PODS}?gracePeriodSeconds=0")
    assert REFUSED in await cluster.kubectl(*raw, user="jane")
    assert await cluster.is_there("p")


async def test_a_deletion_that_is_under_way_is_not_cut_short(cluster: Cluster) -> None:
    await cluster.kubectl("delete", "pod", "p", "--wait=false", user="jane")
    found = await cluster.admin.get(f"{PODS}/p")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    assert REFUSED in await cluster.delete("p")
    await cluster.kubectl("delete", "pod", "p", "--now", "--wait=false", user="jane")
    found = await cluster.admin.get(f"{PODS}/p")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize("user", CONTROLLERS)
async def test_controllers_that_clean_up_may(cluster: Cluster, user: str) -> None:
    await cluster.delete("p", user)
    assert not await cluster.is_there("p")


async def test_a_kubelet_ends_pods_of_its_own_node(cluster: Cluster) -> None:
    await cluster.kubectl("delete", "pod", "p", "--wait=false", user="jane")
    await cluster.delete("p", "system:node:n1", "system:nodes")
    assert not await cluster.is_there("p")


async def test_who_was_chosen_may(cluster: Cluster) -> None:
    await cluster.delete("p", "jane", BREAKERS)
    assert not await cluster.is_there("p")


@pytest.mark.parametrize(
    "spec", [{"terminationGracePeriodSeconds": 0}, {"annotations": {}}, {"nodeName": None}]
)
async def test_a_pod_without_cards_grace_or_node_is_anybodys_to_delete(
    cluster: Cluster, spec: Json
) -> None:
    await cluster.bound("other", **spec)
    await cluster.delete("other")
    assert not await cluster.is_there("other")


async def test_what_has_ended_is_anybodys_to_delete(cluster: Cluster) -> None:
    await cluster.admin.merge_patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}})
    await cluster.delete("p")
    assert not await cluster.is_there("p")


def eviction(grace_s: int | None) -> Json:
    options = {} if grace_s is None else {"deleteOptions": {"gracePeriodSeconds": grace_s}}
    metadata = {"name": "p", "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, **options}


async def test_an_eviction_has_grace(cluster: Cluster, tmp_path: Path) -> None:
    async def evict(grace_s: int | None, user: str) -> str:
        file = tmp_path / "eviction.json"
        file.write_text(json.dumps(eviction(grace_s)))
        raw = ("create", "--raw", f"{PODS}/p/eviction", "-f", str(file))
        return await cluster.kubectl(*raw, user=user)

    assert "evict without --grace-period=0" in await evict(0, "jane")
    assert "Success" in await evict(None, "jane")
    found = await cluster.admin.get(f"{PODS}/p")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "Success" in await evict(0, CONTROLLERS[1])
    assert not await cluster.is_there("p")
