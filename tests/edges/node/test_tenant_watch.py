"""A pod as the agent of its node reads it."""

from typing import Any

import msgspec

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.results import ALLOCATION
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey
from kubeshare_py.edges.node.tenant_watch import tenant_of
from kubeshare_py.manifests.pods.node_pod import NodePod
from kubeshare_py.node_agent.tenants import NodeTenant

HALF = Allocation(token=DecisionToken("t"), cards=(CardCharge(GpuUuid("GPU-1"), 500, 2**30),))


def tenant(phase: str = "Running", node: str = "n1", **metadata: Any) -> NodeTenant | None:
    about = {"name": "a", "namespace": "ml", "uid": "u", **metadata}
    pod = {"metadata": about, "spec": {"nodeName": node}, "status": {"phase": phase}}
    return tenant_of(msgspec.json.decode(msgspec.json.encode(pod), type=NodePod))


def test_it_holds_what_its_annotation_says_and_not_what_its_labels_say() -> None:
    found = tenant(
        annotations={ALLOCATION: write_allocation(HALF)},
        labels={"sharedgpu/gpu_request": "0.9", "sharedgpu/gpu_limit": "1.0"},
    )
    assert found is not None
    assert (found.key, found.allocation, found.is_running) == (PodKey("ml", "a"), HALF, True)


def test_a_pod_holds_its_cards_from_its_binding_until_its_end() -> None:
    assert tenant("Pending") is not None
    assert tenant("Succeeded") is None
    assert tenant("Failed") is None
    assert tenant(node="") is None
    leaving = tenant(deletionTimestamp="2026-01-01T00:00:00Z")
    assert leaving is not None


def test_an_allocation_that_cannot_be_read_is_a_problem_of_this_pod() -> None:
    found = tenant(annotations={ALLOCATION: "{"})
    assert found is not None
    assert found.allocation is None
    assert found.problem.startswith("sharedgpu/allocation: ")
