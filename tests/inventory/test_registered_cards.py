"""Cards from the register annotation of HAMi's device plugin, in its encodings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.hami.annotations import MIB, RegisteredCard, write_json, write_records
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import CARDS_OF_NODE
from kubeshare_py.inventory.hami_plugins import RegisteredCards, registered_cards

SEED = "GPU-ebe7c3f7,10,7680,100,NVIDIA-Tesla P4,0,true:GPU-b,10,7680,100,NVIDIA-Tesla P4,1,true:"
TODAY = (
    '[{"id":"GPU-a","count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100-SXM4-40GB",'
    '"mode":"hami-core","health":true},{"id":"GPU-b","index":1,"count":10,"devmem":49152,'
    '"devcore":200,"type":"NVIDIA A100-SXM4-40GB","numa":1,"mode":"hami-core","health":true}]\n'
)


def found(text: str) -> RegisteredCards:
    read = registered_cards(text)
    assert isinstance(read, RegisteredCards)
    return read


def card(**fields: object) -> RegisteredCard:
    known = {"uuid": "GPU-a", "count": 10, "memory_mib": 1024, "cores": 100, "health": True}
    return RegisteredCard(**{"type": "NVIDIA T4", "mode": "hami-core", **known, **fields})  # type: ignore[arg-type]


def test_todays_json_says_memory_cores_split_count_numa_node_and_index() -> None:
    first, second = found(TODAY).cards
    assert first == Gpu(
        uuid=GpuUuid("GPU-a"), index=0, model="NVIDIA-A100-SXM4-40GB",
        memory_bytes=40960 * MIB, max_tenants=10, numa_node=0,
    )  # fmt: skip
    # A key that is left out is 0 or false; cores of 200 are scaled.
    assert (second.index, second.numa_node, second.capacity_milli) == (1, 1, 2000)
    assert second.memory_bytes == second.capacity_bytes == 49152 * MIB


def test_the_ancestors_cards_have_their_places_as_indices() -> None:
    read = found(SEED)
    assert [(one.uuid, one.index, one.numa_node) for one in read.cards] == [
        ("GPU-ebe7c3f7", 0, 0),
        ("GPU-b", 1, 1),
    ]
    assert {one.model for one in read.cards} == {"NVIDIA-Tesla-P4"}


def test_a_vendor_that_is_there_twice_counts_once() -> None:
    (one,) = found(write_records([card(type="NVIDIA-NVIDIA A100")], as_seed=True)).cards
    assert one.model == "NVIDIA-A100"


def test_both_encodings_mean_the_same() -> None:
    cards = [card(), card(uuid="GPU-b", index=3, numa=1, health=False)]
    assert found(write_json(cards)) == found(write_records(cards))


def test_a_card_without_health_is_unhealthy() -> None:
    (one,) = found('[{"id":"GPU-a","count":1,"devmem":1,"type":"T4"}]').cards
    assert not one.healthy


def test_cores_of_0_are_not_divided() -> None:
    (one,) = found(write_json([card(cores=0)])).cards
    assert one.capacity_milli == 1000


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"mode": "mig"}, "its mode is mig"),
        ({"count": 0}, "no pod may be on it, its count is 0"),
        ({"count": -1}, "its count is 0"),
    ],
)
def test_a_card_that_takes_no_pods_is_there_and_unhealthy(
    odd: dict[str, object], words: str
) -> None:
    """One in mode mig among them, which HAMi divides anew for each pod."""
    read = found(write_json([card(), card(uuid="GPU-b", index=1, **odd)]))
    assert [one.healthy for one in read.cards] == [True, False]
    (problem,) = read.problems
    assert problem.startswith("[1]: 'GPU-b': ")
    assert words in problem


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"memory_mib": 0}, "memory 0 is not within"),
        ({"memory_mib": -1}, "memory -1048576 is not within"),
        ({"index": 5000}, "index 5000 is not within"),
        ({"cores": 20_000}, "is not within"),
        ({"cores": -1}, "is not within"),
        ({"numa": 5000}, "NUMA node 5000 is not within"),
        ({"uuid": "all"}, "uuid 'all' is not GPU-"),
        ({"uuid": "GPU-a", "index": 7}, "is there twice"),
    ],
)
def test_a_card_that_cannot_be_is_left_out_and_others_count(
    odd: dict[str, object], words: str
) -> None:
    read = found(write_json([card(), card(**{"uuid": "GPU-b", "index": 1, **odd})]))
    assert [one.uuid for one in read.cards] == ["GPU-a"]
    assert words in read.problems[0]


def test_of_too_many_cards_the_first_count() -> None:
    many = [card(uuid=f"GPU-{number}", index=number) for number in range(CARDS_OF_NODE.most + 7)]
    read = found(write_json(many))
    assert (len(read.cards), len(read.problems)) == (CARDS_OF_NODE.most, 1)
    assert "number of cards 135 is not within 0…128" in read.problems[0]


@pytest.mark.parametrize("text", ["garbage", "garbage:", "a,b:", "[{", '{"id":"GPU-a"}', "[1]"])
def test_a_text_of_neither_form_is_a_sentence(text: str) -> None:
    assert isinstance(registered_cards(text), str)


@pytest.mark.parametrize("text", [":", "::", "[]", "null"])
def test_an_empty_list_has_no_cards(text: str) -> None:
    assert found(text) == RegisteredCards(())


@given(st.text(max_size=60))
def test_any_text_is_cards_or_a_sentence(text: str) -> None:
    read = registered_cards(text)
    assert isinstance(read, (str, RegisteredCards))


@given(st.integers(-5, 300), st.integers(-(2**31), 2**31 - 1), st.integers(-10, 20_000))
def test_any_amounts_make_a_card_or_a_problem(count: int, memory: int, cores: int) -> None:
    read = found(write_json([card(count=count, memory_mib=memory, cores=cores)]))
    assert len(read.cards) + len(read.problems) >= 1
