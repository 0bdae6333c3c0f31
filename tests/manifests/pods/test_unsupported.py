from typing import Any

import pytest

from tests.manifests.written import container, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(**term: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, "spec.affinity.podAffinity"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}}, "spec.affinity.podAntiAffinity"),
        (
            node_affinity(matchExpressions=[{"key": "a", "operator": "Near", "values": ["b"]}]),
            "spec.affinity.nodeAffinity (operator Near)",
        ),
        (
            node_affinity(matchFields=[{"key": "spec.x", "operator": "In", "values": ["b"]}]),
            "spec.affinity.nodeAffinity (matchFields spec.x)",
        ),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints (DoNotSchedule)",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"schedulingGroup": {}}, "spec.schedulingGroup"),
        ({"schedulingGroup": {"podGroupName": 7}}, "spec.schedulingGroup"),
        ({"schedulingGroup": {"podGroupName": "g", "other": 1}}, "spec.schedulingGroup"),
        ({"workloadRef": {"name": "w"}}, "spec.workloadRef"),
        (
            {"containers": [{"name": "x", "ports": [{"containerPort": 80, "hostPort": 8080}]}]},
            "spec.containers[x].ports[80].hostPort",
        ),
        (
            {"hostNetwork": True, "containers": [{"name": "x", "ports": [{"containerPort": 80}]}]},
            "spec.containers[x].ports[80].hostPort",
        ),
        (
            {
                "initContainers": [
                    {
                        "name": "s",
                        "restartPolicy": "Always",
                        "ports": [{"containerPort": 9, "hostPort": 9}],
                    }
                ]
            },
            "spec.initContainers[s].ports[9].hostPort",
        ),
    ],
)
def test_a_field_that_nothing_implements_is_named(spec: dict[str, Any], named: str) -> None:
    assert pod(spec).unsupported == (named,)


@pytest.mark.parametrize(
    "source",
    [
        *("persistentVolumeClaim", "ephemeral", "csi", "awsElasticBlockStore", "gcePersistentDisk"),
        *("iscsi", "rbd", "azureDisk", "somethingOfALaterKubernetes"),
    ],
)
def test_a_volume_that_may_bind_a_pod_to_places_is_named(source: str) -> None:
    volumes = [{"name": "ok", "emptyDir": {}}, {"name": "data", source: {"claimName": "c"}}]
    assert pod({"volumes": volumes}).unsupported == (f"spec.volumes[data].{source}",)


@pytest.mark.parametrize(
    "source",
    ["configMap", "secret", "emptyDir", "hostPath", "projected", "downwardAPI", "nfs"],
)
def test_a_volume_that_is_anywhere_does_not_matter(source: str) -> None:
    assert pod({"volumes": [{"name": "data", source: {}}]}).unsupported == ()


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpumem", "aliyun.com/gpu-mem"),
        *(
            "elasticgpu.io/gpu-core",
            "amd.com/gpu",
            "nano-gpu/gpu-percent",
            "volcano.sh/vgpu-number",
        ),
        *("limits.nvidia.com/mig-x", "tke.cloud.tencent.com/qgpu-core", "gpu.intel.com/i915"),
        *("deviceclass.resource.kubernetes.io/any",),
    ],
)
def test_a_gpu_asked_for_in_another_dialect_is_named(name: str) -> None:
    limits = {"name": "x", "resources": {"limits": {name: "1"}}}
    found = pod({"containers": [limits]})
    assert found.unsupported == (f"resources[{name}]",)
    assert (name, 1) in found.shape.resources
    assert pod({"containers": [limits], "nodeName": "n"}).unsupported == ()
    none = {"name": "x", "resources": {"limits": {name: "0"}}}
    assert pod({"containers": [none]}).unsupported == ()


@pytest.mark.parametrize(
    "name",
    [
        *("example.com/foo", "rdma/hca", "smarter-devices/fuse", "cpu"),
        *("nvidia.com/hostdev", "nvidia.com/rdma_shared_device_a", "nvidia.com/mlnx_sriov_rdma"),
    ],
)
def test_other_extended_resources_are_ordinary(name: str) -> None:
    limits = {"name": "x", "resources": {"limits": {name: "1"}}}
    assert pod({"containers": [limits]}).unsupported == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {kind: {PREFERRED: [{"weight": 1}]}}}
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    ]
    + [
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
        {"runtimeClassName": "nvidia"},
        {"containers": [{"name": "x", "ports": [{"containerPort": 80}]}]},
        node_affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}]),
        *(
            node_affinity(matchExpressions=[{"key": "a", "operator": operator, "values": ["1"]}])
            for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        ),
        {"containers": [container(cpu="1", memory="1Gi")]},
    ],
)
def test_preferences_and_what_is_implemented_keep_no_pod_waiting(spec: dict[str, Any]) -> None:
    assert pod(spec).unsupported == ()


def test_a_port_of_an_ordinary_init_container_is_free_again_when_the_pod_runs() -> None:
    ports = [{"containerPort": 9, "hostPort": 9}]
    assert pod({"initContainers": [{"name": "i", "ports": ports}]}).unsupported == ()


def test_all_of_them_are_named() -> None:
    found = pod(
        {
            "resourceClaims": [{"name": "gpu"}],
            "volumes": [{"name": "a", "persistentVolumeClaim": {}}, {"name": "b", "csi": {}}],
            "affinity": {"podAffinity": {REQUIRED: [{}]}},
        }
    )
    assert found.unsupported == (
        "spec.affinity.podAffinity",
        "spec.volumes[a].persistentVolumeClaim",
        "spec.volumes[b].csi",
        "spec.resourceClaims",
    )


def test_a_bound_pod_waits_for_nothing() -> None:
    spec = {"nodeName": "n", "volumes": [{"name": "a", "persistentVolumeClaim": {}}]}
    assert pod(spec).unsupported == ()
