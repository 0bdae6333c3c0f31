import json
from typing import Any

import pytest

from kubeshare_py.dialects.allocation import NOTHING_HELD, ReadBack, read_back, write_allocation
from kubeshare_py.dialects.results import result_annotations
from kubeshare_py.domain.allocation import Allocation
from tests.dialects.test_allocation import ALLOCATION, BY_CONTAINER, FULL, OF_CONTAINERS

KEY = "sharedgpu/allocation"
UNKNOWN = "sharedgpu/allocation: version 3 is not known to this scheduler - at `$.v`"


def written(held: Allocation, **changes: str) -> dict[str, str]:
    """The annotations of a bound pod, some of them changed; underscores for dots and dashes."""
    told = {KEY: write_allocation(held), **result_annotations(held)}
    return told | {f"sharedgpu/{key}": text for key, text in changes.items()}


@pytest.mark.parametrize("held", [ALLOCATION, OF_CONTAINERS])
def test_a_placement_is_what_its_annotations_say(held: Allocation) -> None:
    assert read_back(written(held)) == ReadBack(held)


def test_without_the_annotation_nothing_is_held() -> None:
    assert read_back({}) == read_back({"a": "b"}) == NOTHING_HELD


@pytest.mark.parametrize(
    ("key", "told", "mismatch"),
    [
        ("gpu_uuid", "GPU-2", "sharedgpu/gpu_uuid says GPU-2, the allocation GPU-1,GPU-2"),
        (
            "init-1.gpu_uuid",
            "GPU-2",
            "sharedgpu/init-1.gpu_uuid says GPU-2, the allocation GPU-1",
        ),
        (
            "container-0.gpu_uuid",
            "",
            "sharedgpu/container-0.gpu_uuid says nothing, the allocation GPU-1,GPU-2",
        ),
        (
            "init-0.gpu_uuid",
            "GPU-1",
            "sharedgpu/init-0.gpu_uuid says GPU-1, the allocation nothing",
        ),
        ("init-0.gpu_uuid", "", ""),
        ("init-0.gpu_mem_mib", "7", ""),
        ("init-x.gpu_uuid", "GPU-1", ""),
    ],
)
def test_a_container_that_is_told_other_cards_is_a_mismatch(
    key: str, told: str, mismatch: str
) -> None:
    found = read_back(written(OF_CONTAINERS, **{key: told}))
    assert (found.mismatch, found.allocation) == (mismatch, OF_CONTAINERS)


def test_a_container_of_a_pod_wide_claim_has_no_cards_of_its_own() -> None:
    found = read_back(written(ALLOCATION, **{"container-0.gpu_uuid": "GPU-1"}))
    assert found.mismatch == "sharedgpu/container-0.gpu_uuid says GPU-1, the allocation nothing"
    assert read_back({"sharedgpu/init-0.gpu_uuid": "GPU-1"}).mismatch


def test_of_an_unknown_version_the_cards_are_held_and_the_problem_is_told() -> None:
    found = read_back(
        {KEY: json.dumps({**BY_CONTAINER, "v": 3}), "sharedgpu/gpu_uuid": "GPU-1,GPU-2"}
    )
    assert found.problem == UNKNOWN
    assert found.allocation is not None
    assert [(card.uuid, card.exclusive) for card in found.allocation.cards] == [
        ("GPU-1", True),
        ("GPU-2", True),
    ]
    assert found.mismatch == ""


@pytest.mark.parametrize("changes", [{"v": 3, "claims": [{}]}, {"claims": [{"uuid": "GPU-1"}]}])
def test_what_cannot_be_read_holds_nothing(changes: dict[str, Any]) -> None:
    found = read_back({KEY: json.dumps({**FULL, **changes})})
    assert found.allocation is None
    assert found.problem.startswith("sharedgpu/allocation: ")
