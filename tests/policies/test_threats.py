"""What somebody tries who may edit one namespace, as docs/security.md lists it.

Environment and containers that are added later are in test_environment.
"""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.policies.conftest import (
    expect_accepted,
    expect_let_through,
    expect_refused,
    refused,
)
from tests.policies.environment import GUARDED, Clients, a_pod, clients, pods_of

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

PODS = pods_of(GUARDED)
SHARE = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
FORGED = {"sharedgpu/gpu_uuid": "GPU-of-somebody-else"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
DEV = {"name": "dev", "hostPath": {"path": "/dev"}}


@pytest.fixture
async def cluster(installed_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Clients]:
    async with clients(installed_plane, tmp_path) as found:
        yield found


def with_annotations(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "annotations": FORGED}}


@pytest.mark.parametrize("place", [{}, {"nodeName": "n1"}])
async def test_no_user_says_which_card_a_pod_has(cluster: Clients, place: Json) -> None:
    pod = with_annotations(a_pod(SHARE, **place))
    assert "only kubeshare-scheduler writes" in await refused(cluster.user.create(PODS, pod))
    await cluster.user.create(PODS, a_pod(SHARE, **place))
    asked = cluster.user.merge_patch(f"{PODS}/p", {"metadata": {"annotations": FORGED}})
    assert "only kubeshare-scheduler writes" in await refused(asked)
    await cluster.admin.delete(f"{PODS}/p", grace_period_s=0)


async def test_no_user_binds_pods(cluster: Clients) -> None:
    await cluster.user.create(PODS, a_pod(SHARE))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    with pytest.raises(KubeError, match='cannot create resource "pods/binding"'):
        await cluster.user.create(f"{PODS}/p/binding", binding)
    await cluster.admin.delete(f"{PODS}/p", grace_period_s=0)


async def test_no_user_says_who_leads(cluster: Clients) -> None:
    spec = {"holderIdentity": "jane", "leaseTransitions": 99}
    lease = {"metadata": {"name": "kubeshare-scheduler"}, "spec": spec}
    with pytest.raises(KubeError, match="cannot create resource"):
        await cluster.user.create(LEASES, lease)
    with pytest.raises(KubeError, match="cannot patch resource"):
        await cluster.user.merge_patch(f"{LEASES}/kubeshare-scheduler", {"spec": spec})


async def test_no_user_takes_a_policy_away(cluster: Clients) -> None:
    root = "/apis/admissionregistration.k8s.io/v1"
    for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        with pytest.raises(KubeError, match="cannot delete resource"):
            await cluster.user.delete(f"{root}/{kind}/kubeshare-pods")


@pytest.mark.parametrize(
    ("fields", "container", "words"),
    [
        ({}, {"securityContext": {"privileged": True}}, "privileged"),
        ({"volumes": [DEV]}, {"volumeMounts": [{"name": "dev", "mountPath": "/d"}]}, "hostPath"),
    ],
)
async def test_the_devices_of_a_node_are_kept_by_kubernetes_own_pod_security(
    cluster: Clients, fields: Json, container: Json, words: str
) -> None:
    pod = a_pod(SHARE, **fields)
    pod["spec"]["containers"][0].update(container)
    # Nothing of ours looks at it:
    await cluster.user.create(PODS, pod, {"dryRun": "All"})
    namespace = f"/api/v1/namespaces/{GUARDED}"
    enforced = "pod-security.kubernetes.io/enforce"
    await cluster.admin.merge_patch(namespace, {"metadata": {"labels": {enforced: "baseline"}}})
    said = await expect_refused(partial(cluster.user.create, PODS, pod, {"dryRun": "All"}))
    assert 'violates PodSecurity "baseline' in said
    assert words in said
    with pytest.raises(KubeError, match="cannot patch resource"):
        await cluster.user.merge_patch(namespace, {"metadata": {"labels": {enforced: None}}})
    await cluster.admin.merge_patch(namespace, {"metadata": {"labels": {enforced: None}}})
    await expect_let_through(partial(cluster.user.create, PODS, pod, {"dryRun": "All"}))


async def test_nothing_here_stops_who_calls_a_pod_urgent(cluster: Clients) -> None:
    await expect_accepted(
        cluster.user.create(PODS, a_pod({**SHARE, "sharedgpu/priority": "100"}), {"dryRun": "All"})
    )


async def test_nothing_here_stops_who_names_a_priority_class(cluster: Clients) -> None:
    pod = a_pod(SHARE, priorityClassName="system-node-critical")
    made = await cluster.user.create(PODS, pod, {"dryRun": "All"})
    assert made["spec"]["priority"] > 10**9
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
