"""Resources that dialects own: the dialect decides, and the kubelet bounds what it knows."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.effects import Bind, PodWarning, ReportPodWarning, ReportWaiting
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodesListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.quantity import NODE_RESOURCES
from kubeshare_py.domain.request import ContainerRef, GpuClaim
from kubeshare_py.manifests.events import node_events, pod_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.effective_requests import container_amounts
from kubeshare_py.manifests.pods.pod import to_domain
from tests.dialects.halves import CARDS, DIALECTS, GPU, HALF, REGISTER
from tests.making import a_machine, some_gpus
from tests.manifests.written import container, pod_fields, sidecar

OURS = "kubeshare-scheduler"


def a_pod(name: str = "p", node: str = "", scheduler: str = OURS, **amounts: int) -> Pod:
    """A pod of one container with some halves (`half`) or GPUs (`gpu`)."""
    names = {"half": HALF, "gpu": GPU}
    asked = {names[one]: str(count) for one, count in amounts.items()}
    spec = {
        "schedulerName": scheduler,
        "nodeName": node,
        "containers": [{"name": "main", "resources": {"limits": asked}}],
    }
    return to_domain(pod_fields(spec, name=name, uid=f"uid-{name}"), DIALECTS)


def a_node(name: str, *annotations: str, **allocatable: str) -> Node:
    names = {"half": HALF, "gpu": GPU}
    amounts = {names.get(one, one): text for one, text in allocatable.items()}
    written = {
        "metadata": {"name": name, "annotations": dict.fromkeys(annotations, "x")},
        "status": {"allocatable": {"cpu": "8", "pods": "110", **amounts}},
    }
    fields = msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)
    return node_events(DIALECTS).reduce(fields)


def placed(nodes: list[Node], pods: list[Pod], cards: int = 4) -> dict[str, str]:
    """Where the machine binds these pods; for a pod that waits, its reasons."""
    machine = a_machine()
    inventory = tuple((node.name, some_gpus(node.name, cards)) for node in nodes)
    found: dict[str, str] = {}
    events: list[Event] = [PodsListed((), 0.0), NodesListed(tuple(nodes)), InventoryRead(inventory)]
    for event in [*events, *map(PodSeen, pods), BindSlotsFree(99)]:
        for effect in machine.handle(event, 0.0):
            if isinstance(effect, Bind):
                found[effect.key.name] = str(effect.node)
            if isinstance(effect, ReportWaiting):
                found.setdefault(effect.key.name, effect.diagnosis.message)
    return found


def test_what_each_container_asks_is_read_init_containers_and_sidecars_too() -> None:
    init = {"initContainers": [container("i", **{HALF: "1"}), sidecar("s", cpu="1")]}
    main = {"containers": [{"name": "a", "resources": {"limits": {HALF: "2", "cpu": "1"}}}]}
    spec = pod_fields({**init, **main}).spec
    found = container_amounts(spec.init_containers, spec.containers, frozenset({HALF}))
    assert [(one.name, one.container, one.sidecar, one.amounts) for one in found] == [
        ("i", ContainerRef(True, 0), False, ((HALF, 1),)),
        ("s", ContainerRef(True, 1), True, ()),
        ("a", ContainerRef(False, 0), False, ((HALF, 2),)),
    ]


def test_what_is_no_quantity_is_left_to_the_pods_demand() -> None:
    spec = {"schedulerName": OURS, "containers": [container(**{HALF: "many"})]}
    found = to_domain(pod_fields(spec), DIALECTS)
    assert found.request is None
    assert found.unsupported[0].startswith("resources[example.com/half]: ")


def test_an_owned_resource_becomes_a_claim() -> None:
    found = a_pod(half=1)
    assert (found.problem, found.unsupported) == (None, ())
    assert found.shape.claims == (GpuClaim(milli=500),)


def test_where_the_profile_lacks_the_dialect_such_a_pod_is_not_understood() -> None:
    found = a_pod(scheduler="other", half=1)
    assert (found.request, found.unsupported) == (None, ())
    assert str(found.problem) == (
        "resources[example.com/half] is not read by profile other, but by another one: "
        "name that as schedulerName (docs/dialects.md)"
    )
    assert str(a_pod(scheduler="other", gpu=1).problem) == (
        "resources[nvidia.com/gpu] is not read by profile other: add the dialect nvidia (whole "
        "cards) or hami (shares) to it, or helm upgrade RELEASE CHART --reset-then-reuse-values "
        "--set dialects=all, or take schedulerName out so that kube-scheduler places the pod "
        "(docs/dialects.md)"
    )


def test_the_ledger_decides_where_no_node_offers_the_resource() -> None:
    nodes = [a_node("n1")]
    pods = [a_pod(f"p{number}", half=1) for number in range(3)]
    found = placed(nodes, pods, cards=1)
    assert [found["p0"], found["p1"]] == ["n1", "n1"]
    assert "Insufficient" in found["p2"] or "GPU" in found["p2"]


def test_a_node_that_offers_the_resource_must_have_enough_left() -> None:
    nodes = [a_node("n1", half="1")]
    found = placed(nodes, [a_pod("a", half=1), a_pod("b", half=1)])
    assert found["a"] == "n1"
    assert "Insufficient example.com/half" in found["b"]


def test_a_node_whose_plugin_has_gone_offers_none() -> None:
    found = placed([a_node("n1", half="0"), a_node("n2")], [a_pod("a", half=1)])
    assert found == {"a": "n2"}


def test_pods_that_another_bound_count_against_the_kubelets_bound() -> None:
    held = a_pod("held", node="n1", scheduler="default-scheduler", half=1)
    found = placed([a_node("n1", half="1")], [held, a_pod("a", half=1)])
    assert "Insufficient example.com/half" in found["a"]


def test_a_contested_name_is_the_dialects_on_its_own_nodes_alone() -> None:
    native, own = a_node("native", gpu="4"), a_node("own", REGISTER)
    assert placed([native, own], [a_pod("a", gpu=1)]) == {"a": "own"}
    found = placed([native], [a_pod("a", gpu=1)])
    assert "Insufficient nvidia.com/gpu of halves" in found["a"]


def test_the_kubelet_bounds_a_contested_name_too() -> None:
    own = a_node("own", REGISTER, gpu="1")
    found = placed([own], [a_pod("a", gpu=1), a_pod("b", gpu=1)])
    assert found["a"] == "own"
    assert "Insufficient nvidia.com/gpu" in found["b"]


def test_native_pods_still_hold_back_cards() -> None:
    native = a_pod("native", node="n1", scheduler="default-scheduler", gpu=1)
    found = placed([a_node("n1", gpu="1")], [native, a_pod("a", half=1)], cards=1)
    assert "a" in found
    assert found["a"] != "n1"


@pytest.mark.parametrize("name", [HALF, GPU])
def test_owned_names_count_on_nodes_with_many_others(name: str) -> None:
    many = {f"a.example/{number}": "1" for number in range(2 * NODE_RESOURCES.most)}
    amounts: dict[str, Any] = {**many, name: "7"}
    assert dict(a_node("n", **amounts).allocatable)[name] == 7


def test_pods_and_nodes_without_dialects_are_as_ever() -> None:
    fields = pod_fields({"containers": [container(**{"example.com/nic": "1"})]})
    assert pod_events(DIALECTS).reduce(fields) == to_domain(fields)
    assert NodeName("n1") == a_node("n1").name


def test_what_another_scheduler_gave_a_pod_is_charged_and_a_difference_told() -> None:
    spec = {
        "schedulerName": "default-scheduler",
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"limits": {HALF: "1"}}}],
    }
    notes = {CARDS: "GPU-n1-0=300"}
    held = to_domain(pod_fields(spec, name="held", uid="uid-held", annotations=notes), DIALECTS)
    assert held.allocation is not None
    assert [card.milli for card in held.allocation.cards] == [500]
    machine = a_machine()
    nodes = (a_node("n1"),)
    inventory = ((nodes[0].name, some_gpus("n1", 1)),)
    events: list[Event] = [PodsListed((), 0.0), NodesListed(nodes), InventoryRead(inventory)]
    told = [
        effect
        for event in [*events, PodSeen(held)]
        for effect in machine.handle(event, 0.0)
        if isinstance(effect, ReportPodWarning)
    ]
    assert PodWarning.DIFFERENCE in {one.warning for one in told}
    found = placed(list(nodes), [held, a_pod("a", half=1), a_pod("b", half=1)], cards=1)
    assert [found[name] == "n1" for name in "ab"] == [True, False]


def test_our_own_allocation_goes_before_another_schedulers() -> None:
    notes = {CARDS: "GPU-x=500", "sharedgpu/allocation": "{"}
    spec = {"schedulerName": OURS, "nodeName": "n1"}
    found = to_domain(pod_fields(spec, annotations=notes), DIALECTS)
    assert found.allocation is None
    assert found.allocation_problem.startswith("sharedgpu/allocation: ")


def test_pods_of_a_dialect_go_where_its_marks_are() -> None:
    """A node that counts in another unit takes none of gpushare's pods, and says so."""
    gib = Dialects({OURS: (SHAREDGPU, Gpushare())})

    def node(name: str, **allocatable: str) -> Node:
        names = {"mem": "aliyun.com/gpu-mem", "count": "aliyun.com/gpu-count"}
        amounts = {names[one]: text for one, text in allocatable.items()}
        written = {
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "8", "pods": "110", **amounts}},
        }
        fields = msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)
        return node_events(gib).reduce(fields)

    limits = {"aliyun.com/gpu-mem": "3"}
    spec = {"schedulerName": OURS, "containers": [container("main", **limits)]}
    pod = to_domain(pod_fields(spec, name="p", uid="uid-p"), gib)
    in_mib, in_gib = node("in-mib", mem="32552", count="2"), node("in-gib", mem="30", count="2")
    assert placed([in_mib], [pod]) == {
        "p": "impossible: no node has any aliyun.com/gpu-mem in GiB."
        " 0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem in GiB."
    }
    assert placed([in_mib, in_gib], [pod]) == {"p": "in-gib"}
    assert placed([node("unknown")], [pod]) == {"p": "unknown"}
