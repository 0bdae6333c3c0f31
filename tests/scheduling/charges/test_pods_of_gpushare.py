"""Pods that gpushare's own scheduler bound, as the API server shows them, in a machine's ledger."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.effects import Bind, PodWarning, ReportPodWarning
from kubeshare_py.domain.events import BindSlotsFree, Event, InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.manifests.events import node_events, pod_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod_fields import PodFields
from tests.dialects.gpushare_pods import GIB, MEM, MIB
from tests.making import Driver, a_claim, a_gpu, a_pod, a_shape

N1 = NodeName("n1")
KEYS = ("IDX", "DEV", "POD", "ASSIGNED", "ASSUME_TIME")
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Gpushare())})
PODS, NODES = pod_events(DIALECTS), node_events(DIALECTS)
CARDS = tuple(a_gpu(f"GPU-{index}", index=index, memory_bytes=16276 * MIB) for index in range(2))


def annotations(
    index: object = 0, units: object = 3, device: object = 15, assigned: str = "true"
) -> dict[str, str]:
    values = (index, device, units, assigned, "1700000000123456789")
    return {f"ALIYUN_COM_GPU_MEM_{key}": str(one) for key, one in zip(KEYS, values, strict=True)}


def event(
    name: str,
    limit: int = 3,
    notes: Mapping[str, str] | None = None,
    change: str = "MODIFIED",
    **of: Any,
) -> Event:
    """A line of a watch about a pod; `of` has fields of spec, status and metadata."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {
        "schedulerName": of.get("scheduler", "default-scheduler"),
        "nodeName": of.get("node", "n1"),
        "containers": [{"name": "main", "resources": {"limits": {MEM: str(limit)}}}],
    }
    body = {
        "metadata": {**metadata, "annotations": dict(notes or {}), **of.get("metadata", {})},
        "spec": spec,
        "status": {"phase": of.get("phase", "Running")},
    }
    fields = msgspec.json.decode(msgspec.json.encode(body), type=PodFields)
    found = PODS.event(change, fields)
    assert found is not None
    return found


def node_seen() -> Event:
    offered = {"cpu": "8", "memory": "64Gi", "pods": "110", MEM: "30"}
    metadata = {"name": "n1", "uid": "uid-n1", "labels": {"gpushare": "true"}}
    body = {"metadata": metadata, "status": {"capacity": offered, "allocatable": offered}}
    found = NODES.event("ADDED", msgspec.json.decode(msgspec.json.encode(body), type=NodeFields))
    assert found is not None
    return found


def a_driver() -> Driver:
    driver = Driver({})
    driver.tell(node_seen(), InventoryRead(((N1, CARDS),)))
    driver.decide()
    return driver


def used(driver: Driver) -> list[int]:
    """The bytes that are charged of each card, in the order of their indices."""
    columns = driver.machine.ledger.columns
    row = columns.row_of[N1]
    return [
        card.memory_bytes - columns.free_bytes.item(row, columns.uuids[row].index(card.uuid))
        for card in CARDS
    ]


def warned(driver: Driver, *events: Event) -> dict[PodWarning, str]:
    effects = driver.tell(*events)
    return {one.warning: one.note for one in effects if isinstance(one, ReportPodWarning)}


def test_use_of_a_card_is_the_sum_of_what_its_pods_hold() -> None:
    """Two pods with 3 GiB are on GPU 0, one with 8138 MiB on GPU 1."""
    driver = a_driver()
    mib = annotations(1, 8138, 16276)
    driver.tell(event("a", 3, annotations()), event("b", 3, annotations()), event("c", 8138, mib))
    assert used(driver) == [6 * GIB, 8138 * MIB]


def test_the_larger_of_annotation_and_limits_is_charged_and_told() -> None:
    """The annotation says 1, the limits 9."""
    driver = a_driver()
    told = warned(driver, event("a", 9, annotations(units=1)))
    assert used(driver) == [9 * GIB, 0]
    note = f"its annotations say {GIB} bytes, its spec {9 * GIB}"
    assert note in told[PodWarning.DIFFERENCE]
    driver.tell(event("b", 1, annotations(1, 9)))
    assert used(driver) == [9 * GIB, 9 * GIB]


def test_a_pod_whose_annotations_are_stripped_keeps_its_charge_until_it_ends() -> None:
    """gpushare's extender forgets such a pod's card, and never frees its memory."""
    driver = a_driver()
    told = warned(driver, event("a", 3, annotations(1)), event("a", 3))
    assert PodWarning.CHANGED in told
    assert used(driver) == [0, 3 * GIB]
    driver.tell(event("a", 3, phase="Succeeded"))
    assert used(driver) == [0, 0]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminating_pod_keeps_its_charge_and_a_finished_one_has_none(phase: str) -> None:
    """gpushare frees memory as soon as the deletion begins, while containers may still use it."""
    driver = a_driver()
    ending = {"deletionTimestamp": "2026-11-23T12:00:00Z", "deletionGracePeriodSeconds": 30}
    driver.tell(event("a", 3, annotations()), event("a", 3, annotations(), metadata=ending))
    assert used(driver) == [3 * GIB, 0]
    driver.tell(event("a", 3, annotations(), phase=phase, metadata=ending))
    assert used(driver) == [0, 0]


def test_a_pod_without_a_node_counts_nothing_and_its_annotations_are_overwritten() -> None:
    """The former scheduler wrote annotations, and its Binding failed."""
    driver = a_driver()
    seen = event("a", 3, annotations(1, assigned="false"), node="", scheduler="kubeshare-scheduler")
    driver.tell(seen)
    assert used(driver) == [0, 0]
    (bind,) = (one for one in driver.tell(BindSlotsFree(1)) if isinstance(one, Bind))
    assert {f"ALIYUN_COM_GPU_MEM_{key}" for key in KEYS} <= {*bind.stale_results}
    assert sorted(used(driver)) == [0, 3 * GIB]


def test_an_index_that_the_node_does_not_have_is_told_and_charged_to_no_card() -> None:
    """gpushare ignores such a pod, and gives its memory away again."""
    driver = a_driver()
    told = warned(driver, event("a", 3, annotations(5)))
    assert told[PodWarning.UNKNOWN_CARDS] == "n1 does not have index 5: charged once it has them"
    assert used(driver) == [0, 0]


def test_an_index_that_is_no_number_is_told_and_charged_to_no_card() -> None:
    """Such a pod has no card that can be known."""
    driver = a_driver()
    told = warned(driver, event("a", 3, annotations("abc")))
    assert "ALIYUN_COM_GPU_MEM_IDX: 'abc' is no number" in told[PodWarning.UNREADABLE]
    assert used(driver) == [0, 0]


def test_no_pod_is_placed_on_memory_that_is_in_use_when_the_cards_return() -> None:
    """The node has no card for a while, as when its kubelet restarts."""
    driver = a_driver()
    driver.tell(event("a", 14, annotations(0, 14)), event("b", 14, annotations(1, 14)))
    driver.tell(InventoryRead(((N1, ()),)))
    waits = a_pod("p", a_shape(a_claim(0, memory_bytes=4 * GIB)))
    assert driver.seen(waits) == []
    driver.tell(InventoryRead(((N1, CARDS),)))
    assert driver.decide() == []
    assert used(driver) == [14 * GIB, 14 * GIB]
    driver.tell(event("b", 14, annotations(1, 14), phase="Failed"))
    (bind,) = driver.decide()
    assert [card.uuid for card in bind.allocation.cards] == ["GPU-1"]


def test_a_restarted_scheduler_charges_the_same_pods_alike() -> None:
    lines = [
        event("a", 3, annotations()),
        event("b", 9, annotations(1, 1)),
        event("c", 3, annotations(7)),
    ]
    first, second = a_driver(), Driver({})
    first.tell(*lines)
    second.tell(*reversed(lines))
    second.tell(InventoryRead(((N1, CARDS),)), node_seen())
    assert used(first) == used(second) == [3 * GIB, 9 * GIB]
