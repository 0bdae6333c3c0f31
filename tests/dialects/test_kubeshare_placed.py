"""Pods that KubeShare 2.0 placed, by the annotations that it wrote."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.sharedgpu_dialect import placed_by_kubeshare
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields

V100 = 34_089_730_048
HALF = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
PLACED = {
    "sharedgpu/cell_id": "nodeA/2",
    "sharedgpu/gpu_uuid": "GPU-a",
    "sharedgpu/gpu_model": "Tesla-V100",
    "sharedgpu/gpu_mem": str(V100 // 2),
    "sharedgpu/gpu_manager_port": "50051",
}


def read(labels: dict[str, str], **changed: str) -> Allocation | str | None:
    annotations = PLACED | {f"sharedgpu/{key}": value for key, value in changed.items()}
    return placed_by_kubeshare(annotations, sharedgpu.read(labels))


def test_a_share_is_its_labels_on_the_card_of_the_annotation() -> None:
    held = read(HALF)
    assert isinstance(held, Allocation)
    assert held.cards == (CardCharge(GpuUuid("GPU-a"), 500, V100 // 2, "Tesla-V100", "nodeA/2"),)
    assert held.port == 50051


def test_whole_cards_are_in_lists_with_a_comma_at_the_end() -> None:
    held = read(
        {"sharedgpu/gpu_request": "2.0", "sharedgpu/gpu_limit": "2.0"},
        gpu_uuid="GPU-a,GPU-b,",
        gpu_model="Tesla-V100,Tesla-V100,",
        cell_id="nodeA/1,nodeA/2,",
        gpu_mem=str(2 * V100),
        gpu_manager_port="",
    )
    assert isinstance(held, Allocation)
    assert [(card.uuid, card.milli, card.memory_bytes, card.cell) for card in held.cards] == [
        ("GPU-a", 1000, V100, "nodeA/1"),
        ("GPU-b", 1000, V100, "nodeA/2"),
    ]
    assert held.exclusive
    assert held.port is None


def test_the_memory_of_unequal_whole_cards_is_not_divided() -> None:
    held = read(
        {"sharedgpu/gpu_request": "2.0", "sharedgpu/gpu_limit": "2.0"},
        gpu_uuid="GPU-a,GPU-b,",
        gpu_model="T4,Tesla-V100,",
    )
    assert isinstance(held, Allocation)
    assert [(card.memory_bytes, card.exclusive) for card in held.cards] == [(0, True), (0, True)]


def test_a_restart_of_kubeshare_leaves_a_comma_or_nothing_as_cell() -> None:
    for cell, read_as in (("nodeA/2,", "nodeA/2"), ("", "")):
        held = read(HALF, cell_id=cell)
        assert isinstance(held, Allocation)
        assert held.cards[0].cell == read_as


def test_a_card_of_unreadable_labels_is_held_wholly() -> None:
    held = read({"sharedgpu/gpu_limit": "much"})
    assert isinstance(held, Allocation)
    assert [(card.milli, card.exclusive) for card in held.cards] == [(1000, True)]


def test_a_port_that_is_none_is_left_out() -> None:
    for port in ("", "x", "0", "65536", "-1"):
        held = read(HALF, gpu_manager_port=port)
        assert isinstance(held, Allocation)
        assert held.port is None


@pytest.mark.parametrize("uuid", ["", ","])
def test_without_a_card_nothing_is_held(uuid: str) -> None:
    assert read(HALF, gpu_uuid=uuid) is None


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"gpu_mem": "8Gi"}, "sharedgpu/gpu_mem: must be a whole number of bytes, not '8Gi'"),
        ({"gpu_mem": "-1"}, "sharedgpu/gpu_mem: must be a whole number of bytes, not '-1'"),
        (
            {"gpu_uuid": "x" * 254},
            "sharedgpu/gpu_uuid: names too many GPUs, or one with too long a name",
        ),
        (
            {"gpu_uuid": ",".join(map(str, range(129)))},
            "sharedgpu/gpu_uuid: names too many GPUs, or one with too long a name",
        ),
    ],
)
def test_what_cannot_be_read_is_said(changed: dict[str, str], problem: str) -> None:
    assert read(HALF, **changed) == problem


def a_pod(annotations: dict[str, str], **meta: Any) -> PodFields:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "annotations": annotations}
    spec = {"nodeName": "n1", "schedulerName": "kubeshare-scheduler", "containers": []}
    body = {"metadata": metadata | {"labels": HALF} | meta, "spec": spec}
    return msgspec.convert(body, PodFields)


def test_a_pod_of_kubeshare_is_charged_as_it_says() -> None:
    pod = to_domain(a_pod(PLACED))
    assert pod.allocation is not None
    assert pod.allocation.dialect == "sharedgpu"
    assert [(card.uuid, card.milli) for card in pod.allocation.cards] == [("GPU-a", 500)]
    assert (pod.allocation_problem, pod.mismatch, pod.difference) == ("", "", "")


def test_of_label_and_annotation_the_larger_memory_is_charged() -> None:
    labels = HALF | {"sharedgpu/gpu_mem": str(V100)}
    pod = to_domain(a_pod(PLACED, labels=labels))
    assert pod.allocation is not None
    assert pod.allocation.memory_bytes == V100
    assert pod.difference == (
        f"of GPU GPU-a its annotations say {V100 // 2} bytes, its spec {V100}"
    )


def test_a_pod_without_labels_of_kubeshare_holds_nothing_by_such_annotations() -> None:
    pod = to_domain(a_pod(PLACED, labels={}))
    assert pod.allocation is None
    assert pod.mismatch == "sharedgpu/gpu_uuid says GPU-a, the allocation nothing"
