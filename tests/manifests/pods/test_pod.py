"""Pods as they come over the wire."""

import json
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey
from kubeshare_py.domain.pod import (
    DeviceClaimName,
    DeviceClaims,
    NodeRule,
    NodeTerm,
    Pod,
    PodGroup,
    Shape,
    Toleration,
)
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from tests.manifests.written import container, pod, pod_fields

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HALF = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_request": "0.5"}
#: The shape of a pod with one container that asks for nothing.
BARE = Shape(unrequested=(("unrequested cpu", 100), ("unrequested memory", 200 << 20)))
HELD = Allocation(
    token=DecisionToken("s-1"),
    dialect="sharedgpu",
    cards=(CardCharge(GpuUuid("GPU-a"), 500, 2**30, "T4"),),
    port=50051,
)


def test_a_key_that_is_not_known_holds_the_pod_until_it_is_bound() -> None:
    labels = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_requset": "0.5"}
    found = pod(labels=labels | {"sharedgpu/priority": "9"})
    assert str(found.problem) == (
        "label sharedgpu/gpu_requset is not known; did you mean sharedgpu/gpu_request?"
    )
    assert (found.request, found.shape.claim, found.label_priority) == (None, None, 9)
    annotations = {"sharedgpu/allocation": write_allocation(HELD)}
    bound = pod({"nodeName": "n"}, labels=labels, annotations=annotations)
    assert bound.problem is None
    assert bound.request is not None
    assert bound.allocation == HELD


def test_a_label_that_was_written_as_an_annotation_holds_the_pod() -> None:
    found = pod(annotations={"sharedgpu/gpu_request": "0.5"})
    assert str(found.problem) == "sharedgpu/gpu_request is a label, not an annotation"


def test_a_bare_pod() -> None:
    found = pod(creationTimestamp="2026-01-02T03:04:05Z")
    assert (found.uid, found.key) == ("u", PodKey("ns", "p"))
    assert found.created == "2026-01-02T03:04:05Z"
    assert found.shape == BARE
    assert (found.node_name, found.request, found.group, found.allocation) == (None,) * 4
    assert not found.deleting


def test_a_nominated_pod_says_for_which_node() -> None:
    found = pod(status={"nominatedNodeName": "n1"})
    assert (found.nominated, found.nominated_node) == (True, "n1")
    assert (pod().nominated, pod().nominated_node) == (False, None)


def test_a_typical_pod() -> None:
    found = pod(
        {
            "schedulerName": "kubeshare-scheduler",
            "priority": 7,
            "containers": [container(cpu="1", memory="1Gi")],
            "nodeSelector": {"zone": "b", "disk": "ssd"},
            "tolerations": [
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "team", "value": "a"},
                {"operator": "Exists"},
            ],
        },
        labels=HALF | {"sharedgpu/priority": "9"},
    )
    assert found.scheduler_name == "kubeshare-scheduler"
    assert (found.priority, found.label_priority) == (7, 9)
    assert found.request is not None
    assert found.shape == Shape(
        resources=(("cpu", 1000), ("memory", 2**30)),
        claims=(GpuClaim(milli=500),),
        guarantee=True,
        needs_port=True,
        node_selector=(("disk", "ssd"), ("zone", "b")),
        tolerations=(
            Toleration("gpu", "Exists", "", "NoSchedule"),
            Toleration("team", "Equal", "a", ""),
            Toleration("", "Exists", "", ""),
        ),
        node_rules=(NodeRule("SharedGPU", ("true",)),),
    )


def test_required_node_affinity_becomes_terms() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    exists = {"key": "gpu", "operator": "Exists"}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = [{"matchExpressions": [expression, exists]}, {"matchFields": [name]}, {}]
    found = pod({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})
    assert found.shape.terms == (
        NodeTerm(labels=(Requirement("zone", "In", ("a", "b")), Requirement("gpu", "Exists"))),
        NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),
        NodeTerm(),
    )


def test_required_node_affinity_without_terms_is_met_nowhere() -> None:
    found = pod({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}})
    assert found.shape.terms == ()


def test_a_preferred_node_affinity_is_no_term() -> None:
    assert pod({"affinity": {"nodeAffinity": {}}}).shape.terms is None


def test_pods_of_one_template_share_their_shape_whatever_their_names_and_nodes() -> None:
    spec = {"containers": [container(cpu="1")], "nodeSelector": {"a": "b"}}
    first = pod(spec, uid="1", name="a", labels=HALF | {"job": "1"})
    second = pod(spec | {"nodeName": "n"}, uid="2", name="b", labels={"job": "2"} | HALF)
    assert first.shape is second.shape


def test_the_order_of_a_selector_and_spelling_of_amounts_make_no_new_shape() -> None:
    first = pod({"containers": [container(cpu="1")], "nodeSelector": {"a": "b", "c": "d"}})
    second = pod({"containers": [container(cpu="1000m")], "nodeSelector": {"c": "d", "a": "b"}})
    assert first.shape is second.shape


def test_gates_are_listed() -> None:
    found = pod({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": "b"}]})
    assert found.gates == ("kueue.x-k8s.io/admission", "b")


def test_a_pod_being_deleted_is_known_to_be() -> None:
    assert pod(deletionTimestamp="2026-01-02T03:04:05Z").deleting


def test_a_request_that_cannot_be_understood_is_a_problem_of_the_pod() -> None:
    found = pod(labels={"sharedgpu/gpu_mem": "1"})
    assert found.request is None
    assert found.shape.claim is None
    assert found.problem is not None
    assert found.problem.field == "sharedgpu/gpu_mem"


def test_a_member_knows_its_group() -> None:
    labels = {
        "sharedgpu/group_name": "g",
        "sharedgpu/group_headcount": "5",
        "sharedgpu/group_threshold": "0.2",
    }
    assert pod(labels=labels).group == PodGroup(name="g", headcount=5, min_available=1)


def bound(annotation: str) -> Pod:
    return pod({"nodeName": "n"}, annotations={"sharedgpu/allocation": annotation})


def test_a_bound_pods_allocation_is_read_back() -> None:
    found = bound(write_allocation(HELD))
    assert (found.node_name, found.allocation, found.allocation_problem) == ("n", HELD, "")
    assert found.stale_results == ()


def test_a_bound_pods_broken_allocation_is_a_problem() -> None:
    found = bound('{"v":1}')
    assert found.allocation is None
    assert found.allocation_problem.startswith("sharedgpu/allocation: Object missing required")


@pytest.mark.parametrize("annotations", [{}, {"note": "x"}, {"sharedgpu/allocation": ""}])
def test_a_bound_pod_without_an_allocation_holds_no_cards(annotations: dict[str, str]) -> None:
    found = pod({"nodeName": "n"}, annotations=annotations, labels=HALF)
    assert (found.allocation, found.allocation_problem) == (None, "")


def test_results_on_a_pod_without_a_node_count_for_nothing_and_will_be_overwritten() -> None:
    forged = {"sharedgpu/gpu_uuid": "GPU-x", "sharedgpu/allocation": write_allocation(HELD)}
    found = pod(annotations=forged | {"sharedgpu/gpu_limit": "1", "note": "mine"})
    assert found.allocation is None
    assert found.stale_results == ("sharedgpu/allocation", "sharedgpu/gpu_uuid")


def test_fields_nobody_needs_may_be_anything() -> None:
    found = pod(
        {"dnsPolicy": 7, "x": [[]]}, managedFields=json.loads('[{"fieldsV1": {"f:a": {}}}]')
    )
    assert found.shape == BARE


def told(uuids: str | None, held: Allocation | None) -> Pod:
    """A bound pod whose containers are told these cards."""
    annotations = {} if uuids is None else {"sharedgpu/gpu_uuid": uuids}
    if held is not None:
        annotations["sharedgpu/allocation"] = write_allocation(held)
    return pod({"nodeName": "n"}, annotations=annotations)


@pytest.mark.parametrize(
    ("uuids", "mismatch"),
    [
        ("GPU-a", ""),
        ("GPU-b", "sharedgpu/gpu_uuid says GPU-b, the allocation GPU-a"),
        (None, "sharedgpu/gpu_uuid says nothing, the allocation GPU-a"),
    ],
)
def test_cards_that_containers_are_told_and_the_pod_does_not_hold_are_named(
    uuids: str | None, mismatch: str
) -> None:
    assert told(uuids, HELD).mismatch == mismatch


@pytest.mark.parametrize(
    ("port", "mismatch"),
    [
        ("50051", ""),
        ("", ""),
        ("50052", "sharedgpu/gpu_manager_port says 50052, the allocation 50051"),
        ("x", "sharedgpu/gpu_manager_port says x, the allocation 50051"),
    ],
)
def test_a_port_that_containers_are_told_and_the_pod_does_not_hold_is_named(
    port: str, mismatch: str
) -> None:
    held = replace(HELD, port=50051)
    annotations = {
        "sharedgpu/gpu_uuid": "GPU-a",
        "sharedgpu/allocation": write_allocation(held),
        "sharedgpu/gpu_manager_port": port,
    }
    assert pod({"nodeName": "n"}, annotations=annotations).mismatch == mismatch


def test_cards_without_any_allocation_are_named_too() -> None:
    assert told("GPU-b", None).mismatch == "sharedgpu/gpu_uuid says GPU-b, the allocation nothing"
    assert told("", None).mismatch == told(None, None).mismatch == ""


def test_annotations_of_any_length_make_no_long_sentences() -> None:
    long = {"sharedgpu/gpu_uuid": "GPU-" * 10_000}
    found = pod({"nodeName": "n"}, annotations=long)
    assert "GPU-GPU-" in found.mismatch
    assert len(found.mismatch) < 1000


# --- How long containers of a bound pod may run on after its deletion, and whether they have ended.


ENDED = {"state": {"terminated": {"exitCode": 0}}}
RUNS = {"state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
LEAVES: dict[str, Any] = {
    "deletionTimestamp": "2026-01-02T03:04:05Z",
    "deletionGracePeriodSeconds": 600,
}
FORCED: dict[str, Any] = {**LEAVES, "deletionGracePeriodSeconds": 0}


def spec(**fields: Any) -> dict[str, Any]:
    return {"nodeName": "n", "containers": [{"name": "a"}], **fields}


@pytest.mark.parametrize(
    ("given", "metadata", "grace_s"),
    [
        (600, {}, 600),
        (None, {}, 30),  # what the API server writes where nothing is said
        (0, {}, 2),  # a kubelet gives every container two seconds
        (1, {}, 2),
        (600, {**LEAVES, "deletionGracePeriodSeconds": 20}, 20),  # kubectl delete --grace-period=20
        (30, LEAVES, 600),
        (600, FORCED, 600),  # a kubelet that does not hear of it knows only what was before
    ],
)
def test_the_grace_period_is_that_of_the_deletion_or_that_of_the_spec(
    given: int | None, metadata: dict[str, Any], grace_s: int
) -> None:
    fields = pod_fields(spec(terminationGracePeriodSeconds=given), **metadata)
    assert to_domain(fields).grace_s == grace_s


def test_a_pod_without_a_node_has_no_containers() -> None:
    pod = to_domain(pod_fields({"terminationGracePeriodSeconds": 600}, **LEAVES))
    assert (pod.grace_s, pod.stopped) == (0, False)


@pytest.mark.parametrize(
    ("metadata", "status", "stopped"),
    [
        (LEAVES, {"containerStatuses": [ENDED]}, True),
        (LEAVES, {"containerStatuses": [RUNS]}, False),
        (LEAVES, {"containerStatuses": [WAITS]}, False),
        (LEAVES, {"containerStatuses": [{}]}, False),
        (LEAVES, {}, False),
        (LEAVES, {"containerStatuses": [ENDED], "initContainerStatuses": [RUNS]}, False),
        (LEAVES, {"containerStatuses": [ENDED], "ephemeralContainerStatuses": [RUNS]}, False),
        (LEAVES, {"containerStatuses": [ENDED], "initContainerStatuses": [ENDED]}, True),
        ({}, {"containerStatuses": [ENDED]}, False),  # it is started again
        (FORCED, {"containerStatuses": [ENDED]}, False),  # that it had ended may be old news
    ],
)
def test_a_pod_has_stopped_when_all_its_containers_ended_in_its_deletion(
    metadata: dict[str, Any], status: dict[str, Any], *, stopped: bool
) -> None:
    assert to_domain(pod_fields(spec(), status=status, **metadata)).stopped is stopped


def test_a_container_without_a_status_may_run() -> None:
    two = spec(containers=[{"name": "a"}, {"name": "b"}])
    fields = pod_fields(two, status={"containerStatuses": [ENDED]}, **LEAVES)
    assert not to_domain(fields).stopped


# --- Which ResourceClaims a pod uses --------------------------------------------------------------


def _read(claims: Any, statuses: Any = None, node: str = "") -> Any:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"resourceClaims": claims, "nodeName": node},
        "status": {"resourceClaimStatuses": statuses},
    }
    return to_domain(msgspec.json.decode(msgspec.json.encode(body), type=PodFields))


def test_a_pod_names_claims_and_gets_those_of_templates() -> None:
    claims = [
        {"name": "a", "resourceClaimName": "one"},
        {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimTemplateName": "t"},
        {"name": "d", "resourceClaimTemplateName": "t"},
    ]
    pod = _read(claims, [{"name": "b", "resourceClaimName": "p-b-x"}, {"name": "d"}])

    assert pod.unsupported == ()
    assert pod.shape.is_cluster_wide
    assert pod.shape.device_claims == DeviceClaims(
        namespace="ns",
        pod="p",
        uid="u",
        names=(
            DeviceClaimName("a", "one"),
            DeviceClaimName("b", "p-b-x", generated=True),
            DeviceClaimName("c", "", generated=True),
        ),
    )
    assert pod.placed.device_claims == pod.shape.device_claims
    assert _read(claims, node="n").placed.device_claims is None


def test_a_pod_without_claims_has_none() -> None:
    assert _read(None).shape.device_claims is None
    assert _read([]).shape.device_claims is None


@pytest.mark.parametrize(
    ("claims", "named"),
    [
        ([{"name": "a"}], "spec.resourceClaims[a]"),
        ([{"name": "a", "resourceClaimName": "c", "novelty": 1}], "spec.resourceClaims"),
        ([{"name": f"c{n}", "resourceClaimName": "c"} for n in range(65)], "spec.resourceClaims"),
    ],
)
def test_names_what_is_not_understood(claims: Any, named: str) -> None:
    pod = _read(claims)

    assert pod.unsupported == (named,)
    assert pod.shape.device_claims is None
