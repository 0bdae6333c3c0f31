from dataclasses import replace

import pytest

from kubeshare_py.dialects.results import is_result, result_annotations
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid

TOKEN = DecisionToken("t")


def card(uuid: str, memory_bytes: int, model: str = "M") -> CardCharge:
    return CardCharge(GpuUuid(uuid), 500, memory_bytes, model)


def test_a_shared_pod_is_told_its_card_its_memory_and_its_port() -> None:
    allocation = Allocation(token=TOKEN, cards=(card("GPU-a", 4255350784),), port=50051)
    assert result_annotations(allocation) == {
        "sharedgpu/gpu_uuid": "GPU-a",
        "sharedgpu/gpu_model": "M",
        "sharedgpu/gpu_mem": "4255350784",
        "sharedgpu/gpu_manager_port": "50051",
    }


def test_several_cards_are_listed_in_one_order_without_a_comma_at_the_end() -> None:
    cards = (card("GPU-b", 3, "X"), card("GPU-a", 4, "Y"))
    assert result_annotations(Allocation(token=TOKEN, cards=cards)) == {
        "sharedgpu/gpu_uuid": "GPU-b,GPU-a",
        "sharedgpu/gpu_model": "X,Y",
        "sharedgpu/gpu_mem": "7",
    }


def test_cells_are_named_where_cards_are_in_some() -> None:
    a, b = card("GPU-a", 1), card("GPU-b", 1)
    cards = (replace(a, cell="1/juno/2"), b)
    results = result_annotations(Allocation(token=TOKEN, cards=cards))
    assert results["sharedgpu/cell_id"] == "1/juno/2,"
    alone = result_annotations(Allocation(token=TOKEN, cards=cards[:1]))
    assert alone["sharedgpu/cell_id"] == "1/juno/2"


def test_a_placement_without_cards_has_no_results() -> None:
    assert result_annotations(Allocation(token=TOKEN)) == {}


@pytest.mark.parametrize(
    "key",
    [
        *("allocation", "gpu_uuid", "gpu_model", "gpu_mem", "cell_id", "gpu_manager_port", "fence"),
        *("container-0.gpu_uuid", "init-12.gpu_uuid"),
        *("gpu_mem_mib", "mps_thread_percentage", "mps_memory"),
    ],
)
def test_results_are_the_schedulers_to_write(key: str) -> None:
    assert is_result(f"sharedgpu/{key}")


@pytest.mark.parametrize(
    "key",
    [
        *("sharedgpu/gpu_limit", "sharedgpu/note", "gpu_uuid", "other/gpu_uuid"),
        *("sharedgpu/container-x.gpu_uuid", "sharedgpu/container-0.gpu_uuid.y"),
    ],
)
def test_other_annotations_are_the_users(key: str) -> None:
    assert not is_result(key)
