"""Gangs as Kubernetes 1.36 describes them: `spec.schedulingGroup`, and PodGroups of its own API.

The API is behind a feature gate: these stories have an API server of their own.
"""

from collections.abc import Iterator

import pytest

from tests.conftest import NewCluster, clusters_of
from tests.controlplane.running import ControlPlane
from tests.controlplane.second_server import second_server
from tests.stories.conftest import Stage, bound, gpu

pytestmark = pytest.mark.real_only("the embedded server has no alpha APIs")

POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
FLAGS = (
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)


@pytest.fixture(scope="module")
def gated(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with second_server(plane, tmp_path_factory.mktemp("gated"), *FLAGS) as server:
        yield server


@pytest.fixture
def new_cluster(gated: ControlPlane) -> NewCluster:
    return clusters_of(gated)


async def pod_group(stage: Stage, name: str, **spec: object) -> None:
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }
    await stage.client.create(POD_GROUPS, body)


async def members(stage: Stage, name: str, count: int) -> None:
    for number in range(count):
        await stage.create(f"m{number}", gpu("1.0"), schedulingGroup={"podGroupName": name})


async def test_pods_wait_for_their_group_and_then_start_together(stage: Stage) -> None:
    await members(stage, "late", 2)
    missing = 'PodGroup "late" of scheduling.k8s.io is not there'
    assert await stage.expect_waiting("m1") == missing
    await pod_group(stage, "late", schedulingPolicy={"gang": {"minCount": 3}})
    await stage.expect_waiting("m1", 'pod group "late" needs 3 pods to start together; there are 2')
    await stage.create("m2", gpu("1.0"), schedulingGroup={"podGroupName": "late"})
    await stage.expect_bound(3)


async def test_the_basic_policy_makes_no_gang(stage: Stage) -> None:
    await pod_group(stage, "basic", schedulingPolicy={"basic": {}})
    await members(stage, "basic", 1)
    assert await stage.expect_bound(1) == ["m0"]


async def test_a_topology_constraint_keeps_the_group_together(stage: Stage) -> None:
    rack = "topology.kubernetes.io/rack"
    gang = {"gang": {"minCount": 2}}
    constraints = {"topology": [{"key": rack}]}
    await pod_group(stage, "racked", schedulingPolicy=gang, schedulingConstraints=constraints)
    await members(stage, "racked", 2)
    await stage.expect_waiting(
        "m1", f"needs 2 pods to start together in one {rack}; no node has this label"
    )
    await stage.patch_node("n1", {"metadata": {"labels": {rack: "r1"}}})
    pods = await stage.expect_all(lambda pods: len(bound(pods)) == 2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"n1"}
