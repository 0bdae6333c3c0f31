"""Deployments spread over zones, with pods that keep their distance."""

from collections import Counter
from typing import Any

import pytest

from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.stories.conftest import PODS, Json, Stage, bound, gpu

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
#: Two zones of two nodes, and one of one.
CLUSTER = """
nodes:
  - name: "a{n}"
    count: 2
    labels: {topology.kubernetes.io/zone: a}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
  - name: "b{n}"
    count: 2
    labels: {topology.kubernetes.io/zone: b}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
  - name: c1
    labels: {topology.kubernetes.io/zone: c}
    gpus: [{model: A100, count: 2, memory: 40GiB}]
"""


def deployment(replicas: int, share: str = "0.5", **spec: Any) -> Json:
    labels = {"app": "web", **(gpu(share) if share else {})}
    pod = {
        "schedulerName": "kubeshare-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "x"}],
        **spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


SELECTOR = {"labelSelector": {"matchLabels": {"app": "web"}}}
OVER_ZONES = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **SELECTOR}]
#: A profile that spreads what belongs together, whatever pods say.
BY_DEFAULT: Json = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultConstraints": [
                            {
                                "maxSkew": 1,
                                "topologyKey": ZONE,
                                "whenUnsatisfiable": "DoNotSchedule",
                            }
                        ]
                    },
                }
            ]
        }
    ]
}
SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **SELECTOR}]
    }
}


def zones(pods: list[Json]) -> Counter[str]:
    """How many pods each zone has; the first letter of a node is its zone."""
    return Counter(pod["spec"]["nodeName"][0] for pod in pods if pod["spec"].get("nodeName"))


@pytest.mark.slow
@pytest.mark.parametrize("share", ["0.5", ""])
async def test_replicas_spread_over_zones(stage: Stage, share: str) -> None:
    await stage.cluster.apply(deployment(6, share, topologySpreadConstraints=OVER_ZONES))
    pods = await stage.expect_all(lambda found: len(bound(found)) == 6)
    assert zones(pods) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.slow
async def test_replicas_keep_apart_and_one_too_many_waits(stage: Stage) -> None:
    await stage.cluster.apply(deployment(6, affinity=APART))
    pods = await stage.expect_all(lambda found: len(bound(found)) == 5 and len(found) == 6)
    nodes = {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
    assert len(nodes) == 5
    [left] = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    await stage.expect_waiting(left, "didn't match pod anti-affinity rules")
    placed = next(pod for pod in pods if pod["spec"].get("nodeName"))
    await stage.client.merge_patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}})
    await stage.expect_all(lambda found: len(found) == 5 and len(bound(found)) == 5)
    assert placed["metadata"]["name"] in bound(await stage.all_pods())


@pytest.mark.slow
async def test_spread_and_distance_hold_together(stage: Stage) -> None:
    spec: Json = {"topologySpreadConstraints": OVER_ZONES, "affinity": APART}
    await stage.cluster.apply(deployment(4, **spec))
    # c has one node only: a fourth replica goes to a or b, a fifth too, a sixth nowhere.
    pods = await stage.expect_all(lambda found: len(bound(found)) == 4)
    assert sorted(zones(pods).values()) == [1, 1, 2]
    await stage.client.merge_patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 6}})
    pods = await stage.expect_all(lambda found: len(found) == 6 and len(bound(found)) == 5, PODS)
    assert zones(pods) == {"a": 2, "b": 2, "c": 1}


@pytest.mark.slow
async def test_a_profile_spreads_the_pods_of_services(empty_stage: Stage) -> None:
    stage = empty_stage
    await stage.cluster.apply(SERVICE)
    async with stage.scheduler(BY_DEFAULT):
        await stage.cluster.apply(deployment(6, "0.1"))
        await stage.create("alone", gpu("0.1"))
        pods = await stage.expect_all(lambda found: len(bound(found)) == 7)
    (alone,) = [pod for pod in pods if pod["metadata"]["name"] == "alone"]
    counts = zones(pods)
    counts[alone["spec"]["nodeName"][0]] -= 1
    assert counts == {"a": 2, "b": 2, "c": 2}


@pytest.mark.slow
async def test_the_default_profile_reads_no_services(stage: Stage) -> None:
    await stage.cluster.apply(SERVICE)
    await stage.cluster.apply(deployment(3, "0.1"))
    pods = await stage.expect_all(lambda found: len(bound(found)) == 3)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
    for resource in ("services", "replicasets", "statefulsets", "replicationcontrollers"):
        asked = [one for one in stage.sent("GET", f"/{resource}") if one.user.name == SCHEDULER]
        assert asked == []
