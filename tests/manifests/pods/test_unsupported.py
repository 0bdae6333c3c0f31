from typing import Any

import pytest

from tests.manifests.written import container, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone"}
EVEN = {"maxSkew": 1, **TERM}


def node_affinity(**term: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            node_affinity(matchExpressions=[{"key": "a", "operator": "Near", "values": ["b"]}]),
            "spec.affinity.nodeAffinity (operator Near)",
        ),
        (
            node_affinity(matchFields=[{"key": "spec.x", "operator": "In", "values": ["b"]}]),
            "spec.affinity.nodeAffinity (matchFields spec.x)",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims[gpu]"),
        ({"resourceClaims": [{"name": "gpu", "other": 1}]}, "spec.resourceClaims"),
        ({"schedulingGroup": {}}, "spec.schedulingGroup"),
        ({"schedulingGroup": {"podGroupName": 7}}, "spec.schedulingGroup"),
        ({"schedulingGroup": {"podGroupName": "g", "other": 1}}, "spec.schedulingGroup"),
        ({"workloadRef": {"name": "w"}}, "spec.workloadRef"),
    ],
)
def test_a_field_that_nothing_implements_is_named(spec: dict[str, Any], named: str) -> None:
    assert pod(spec).unsupported == (named,)


@pytest.mark.parametrize("source", ["somethingOfALaterKubernetes", "persistentVolumeclaim"])
def test_a_volume_of_an_unknown_source_is_named(source: str) -> None:
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
    assert found.problem is not None
    assert found.problem.field == f"resources[{name}]"
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
        {"affinity": {kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}}}
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    ]
    + [
        *({"affinity": {kind: {REQUIRED: [TERM]}}} for kind in ("podAffinity", "podAntiAffinity")),
        *(
            {"topologySpreadConstraints": [EVEN | {"whenUnsatisfiable": action}]}
            for action in ("ScheduleAnyway", "DoNotSchedule")
        ),
        {"runtimeClassName": "nvidia"},
        {"containers": [{"name": "x", "ports": [{"containerPort": 80, "hostPort": 8080}]}]},
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


def test_all_of_them_are_named() -> None:
    found = pod(
        {
            "resourceClaims": [{"name": "gpu"}],
            "volumes": [{"name": "a", "quantumDisk": {}}, {"name": "b", "iscsi": {"iqn": 1}}],
        }
    )
    assert found.unsupported == (
        "spec.volumes[a].quantumDisk",
        "spec.volumes[b].iscsi",
        "spec.resourceClaims[gpu]",
    )


def test_a_bound_pod_waits_for_nothing() -> None:
    spec = {"nodeName": "n", "volumes": [{"name": "a", "quantumDisk": {}}]}
    assert pod(spec).unsupported == ()
