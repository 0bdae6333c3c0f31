"""Pods with `nvidia.com/gpu` where the dialect `nvidia` is enabled: cards chosen by the scheduler.

Only on nodes whose agent serves the name; on other nodes, and for other schedulers, it is native.
"""

from typing import Any

import msgspec
import pytest

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.nvidia_dialect import GPU, Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.effects import Bind, ReportWaiting
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodesListed,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import AGENT_ANNOTATION, Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.edges.process.plugin_entry_points import configured
from kubeshare_py.manifests.events import node_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.scheduling.machine import Machine
from tests.making import a_gpu, a_machine, some_gpus
from tests.manifests.written import pod_fields

OURS, INSTANCE = "kubeshare-scheduler", "nvidia.com/mig-1g.5gb"
DIALECTS = Dialects({OURS: (SHAREDGPU, Nvidia(mig=["1g.5gb"])), "plain": (SHAREDGPU,)})
N1 = NodeName("n1")


def a_node(*plugins: str, **allocatable: str) -> Node:
    words = msgspec.json.encode({"v": 1, "plugins": plugins}).decode()
    written = {
        "metadata": {"name": "n1", "annotations": {AGENT_ANNOTATION: words}},
        "status": {"allocatable": {"cpu": "8", "pods": "110", **allocatable}},
    }
    fields = msgspec.json.decode(msgspec.json.encode(written), type=NodeFields)
    return node_events(DIALECTS).reduce(fields)


def a_pod(name: str, *containers: dict[str, str], scheduler: str = OURS, node: str = "") -> Pod:
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "nodeName": node,
        "containers": [
            {"name": f"c{number}", "resources": {"limits": amounts}}
            for number, amounts in enumerate(containers)
        ],
    }
    return to_domain(pod_fields(spec, name=name, uid=f"uid-{name}"), DIALECTS)


def placed(node: Node, *pods: Pod, machine: Machine | None = None) -> dict[str, Bind | str]:
    """The Bindings of these pods; of a pod that waits, its message."""
    machine = machine or a_machine()
    instances = tuple(
        a_gpu(f"MIG-{n}", index=4, model="NVIDIA-A100-MIG-1g.5gb", parent="GPU-divided")
        for n in range(2)
    )
    cards = (*some_gpus("n1", 4), *instances)
    events: list[Event] = [PodsListed((), 0.0), NodesListed((node,)), InventoryRead(((N1, cards),))]
    found: dict[str, Bind | str] = {}
    for event in [*events, *map(PodSeen, pods), BindSlotsFree(99)]:
        for effect in machine.handle(event, 0.0):
            if isinstance(effect, Bind):
                found[effect.key.name] = effect
            if isinstance(effect, ReportWaiting):
                found.setdefault(effect.key.name, effect.diagnosis.message)
    return found


def test_each_container_has_whole_cards_of_its_own_where_the_agent_serves_them() -> None:
    node = a_node(GPU, **{GPU: "4"})
    bind = placed(node, a_pod("p", {GPU: "2"}, {"cpu": "1"}, {GPU: "1"}))["p"]
    assert isinstance(bind, Bind)
    held = bind.allocation
    assert held.dialect == "nvidia"
    assert [(str(one.container), len(one.cards)) for one in held.claims] == [
        ("container-0", 2),
        ("container-2", 1),
    ]
    assert len({card.uuid for card in held.cards}) == 3
    assert all(card.exclusive and card.uuid.startswith("GPU-") for card in held.cards)


def test_a_mig_instance_is_given_by_its_profile_and_no_card_beside_it() -> None:
    resource = "nvidia.com/mig-1g.5gb"
    node = a_node(GPU, resource, **{GPU: "4", resource: "2"})
    bind = placed(node, a_pod("p", {resource: "1"}))["p"]
    assert isinstance(bind, Bind)
    assert [card.uuid for card in bind.allocation.cards] in (["MIG-0"], ["MIG-1"])


def test_a_node_without_such_an_agent_is_not_used() -> None:
    waits = placed(a_node("aliyun.com/gpu-mem", **{GPU: "4"}), a_pod("p", {GPU: "1"}))["p"]
    assert "0/1 nodes are available: 1 Insufficient nvidia.com/gpu of nvidia." in str(waits)


def test_a_pod_of_a_profile_without_the_dialect_and_its_own_pods_share_the_nodes_count() -> None:
    node = a_node(GPU, **{GPU: "2"})
    found = placed(node, a_pod("p", {GPU: "2"}), a_pod("q", {GPU: "1"}))
    assert isinstance(found["p"], Bind)
    assert "Insufficient nvidia.com/gpu" in str(found["q"])


def test_a_share_with_a_native_limit_stays_a_share() -> None:
    spec = {
        "schedulerName": OURS,
        "containers": [{"name": "a", "resources": {"limits": {GPU: "1"}}}],
    }
    labels = {"sharedgpu/gpu_limit": "0.5", "sharedgpu/gpu_request": "0.5"}
    share = to_domain(pod_fields(spec, name="s", uid="uid-s", labels=labels), DIALECTS)
    bind = placed(a_node("other.example/x", **{GPU: "4"}), share)["s"]
    assert isinstance(bind, Bind)
    assert [card.milli for card in bind.allocation.cards] == [500]


def test_a_native_pod_of_another_scheduler_is_native_there_too() -> None:
    machine = a_machine()
    native = a_pod("other", {GPU: "1"}, scheduler="default-scheduler", node="n1")
    assert native.allocation is None
    placed(a_node(GPU, **{GPU: "4"}), native, machine=machine)
    assert machine.ledger.held_back_on(N1) == 1


LABELS = ("sharedgpu/gpu_request", "sharedgpu/gpu_limit")
SHARED, NVSHARE, RENAMED = "nvidia.com/gpu.shared", "nvshare.com/gpu", "example.com/a100"


def a_pod_of_others(name: str, amounts: dict[str, str], dialects: Dialects = DIALECTS) -> Pod:
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"limits": amounts}}],
    }
    return to_domain(pod_fields(spec, name=name, uid=f"uid-{name}"), dialects)


@pytest.mark.parametrize(
    ("resource", "held_back"),
    [(SHARED, 2), (INSTANCE, 2), ("nvidia.com/mig-3g.20gb", 2), (NVSHARE, 0), (RENAMED, 0)],
)
def test_units_of_nvidias_names_hold_idle_cards_back(resource: str, held_back: int) -> None:
    machine = a_machine()
    placed(a_node(**{resource: "8"}), a_pod_of_others("p", {resource: "2"}), machine=machine)
    assert machine.ledger.held_back_on(N1) == held_back


@pytest.mark.parametrize("resource", [NVSHARE, RENAMED, "example.com/mig-1g", SHARED])
def test_so_do_units_of_the_configured_names(resource: str) -> None:
    document = {"nativeResources": [NVSHARE, RENAMED, "example.com/mig-*"]}
    machine, dialects = a_machine(), configured(read(document))
    pod = a_pod_of_others("p", {resource: "1", "example.com/other": "3"}, dialects)
    placed(a_node(), pod, machine=machine)
    assert machine.ledger.held_back_on(N1) == 1


def test_all_cards_wait_for_the_one_whose_slice_another_pod_has() -> None:
    theirs = a_pod_of_others("theirs", {SHARED: "1"})
    asked = {count: {key: str(count) for key in LABELS} for count in (5, 6)}
    some, every = (
        to_domain(pod_fields({"schedulerName": OURS}, name="p", labels=labels), DIALECTS)
        for labels in asked.values()
    )
    node = a_node(**{SHARED: "8"})
    assert isinstance(placed(node, theirs, some)["p"], Bind)
    waits = placed(node, theirs, every)["p"]
    assert isinstance(waits, str)
    assert "held back" in waits
