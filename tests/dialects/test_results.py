import pytest

from kubeshare_py.dialects.results import is_result, result_annotations
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace

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


def test_where_containers_differ_each_is_told_its_own_cards_and_the_pod_all_of_them() -> None:
    a, b, c = (card(f"GPU-{name}", 1) for name in "abc")
    parts = {ContainerRef(False, 1): (c, a), ContainerRef(True, 0): (b,)}
    claims = tuple(ClaimCharge(container=ref, cards=cards) for ref, cards in parts.items())
    cards = summed(card for one in claims for card in one.cards)
    assert result_annotations(Allocation(token=TOKEN, cards=cards, claims=claims)) == {
        "sharedgpu/gpu_uuid": "GPU-c,GPU-a,GPU-b",
        "sharedgpu/gpu_model": "M,M,M",
        "sharedgpu/gpu_mem": "3",
        "sharedgpu/container-1.gpu_uuid": "GPU-c,GPU-a",
        "sharedgpu/init-0.gpu_uuid": "GPU-b",
    }


def test_containers_that_share_a_card_are_both_told_it() -> None:
    claims = tuple(
        ClaimCharge(container=ContainerRef(False, index), cards=(card("GPU-a", 2),))
        for index in (0, 1)
    )
    cards = summed(card for one in claims for card in one.cards)
    found = result_annotations(Allocation(token=TOKEN, cards=cards, claims=claims))
    assert found["sharedgpu/gpu_uuid"] == "GPU-a"
    assert found["sharedgpu/gpu_mem"] == "4"
    assert found["sharedgpu/container-0.gpu_uuid"] == found["sharedgpu/container-1.gpu_uuid"]


def test_a_placement_without_cards_has_no_results() -> None:
    assert result_annotations(Allocation(token=TOKEN)) == {}


@pytest.mark.parametrize(
    "key",
    [
        *("allocation", "gpu_uuid", "gpu_model", "gpu_mem", "cell_id", "gpu_manager_port", "fence"),
        *("container-0.gpu_uuid", "init-12.gpu_uuid"),
        *("init-0.gpu_mem_mib", "container-7.mps_thread_percentage", "init-1.mps_memory"),
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
        *("sharedgpu/container-0.fence", "sharedgpu/init-0-gpu_uuid", "x/init-0.gpu_uuid"),
    ],
)
def test_other_annotations_are_the_users(key: str) -> None:
    assert not is_result(key)
