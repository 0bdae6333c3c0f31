"""Pods that gpushare's own scheduler bound."""

import pytest

from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import index_of
from tests.dialects.gpushare_pods import GIB, MEM, MIB, a_node, an_allocation, container, request

IDX, POD, DEV = (f"ALIYUN_COM_GPU_MEM_{name}" for name in ("IDX", "POD", "DEV"))
SECOND = "scheduler.framework.gpushare.allocation"


def read(annotations: dict[str, str], dialect: Gpushare | None = None) -> Allocation | str | None:
    return (dialect or Gpushare()).read_back(PodAsk({}, annotations))


def held(
    annotations: dict[str, str], dialect: Gpushare | None = None
) -> list[tuple[int | None, int]]:
    """Cards by their index, with bytes."""
    found = read(annotations, dialect)
    assert isinstance(found, Allocation), found
    return [(index_of(card.uuid), card.memory_bytes) for card in found.cards]


def first(idx: str = "1", pod: str = "3", dev: str = "15") -> dict[str, str]:
    return {
        **{IDX: idx, POD: pod, DEV: dev},
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000123456789",
    }


def test_the_first_generation_names_one_card() -> None:
    """IDX is the index of the card, and POD the units that the pod holds on it."""
    assert held(first()) == [(1, 3 * GIB)]
    assert read({}) is None
    assert read({"ALIYUN_COM_GPU_MEM_ASSIGNED": "false"}) is None


def test_the_unit_follows_from_the_cards_total() -> None:
    """16276 and 8138 are MiB, whatever the profile's unit is."""
    assert held(first("0", "8138", "16276")) == [(0, 8138 * MIB)]
    assert held(first("0", "8", "15"), Gpushare(unit="MiB")) == [(0, 8 * GIB)]


def test_the_second_generation_goes_first() -> None:
    both = {**first(), SECOND: '{"0":{"0":4,"1":4},"1":{"1":7}}'}
    assert held(both) == [(0, 4 * GIB), (1, 11 * GIB)]
    found = read(both)
    assert isinstance(found, Allocation)
    assert [(str(one.container), len(one.cards)) for one in found.claims] == [
        ("container-0", 2),
        ("container-1", 1),
    ]
    percent = {
        SECOND: '{"0":{"2":4}}',
        "gpushare.alibabacloud.com/core-percentage": '{"0":{"2":30}}',
    }
    found = read(percent)
    assert isinstance(found, Allocation)
    assert [(card.milli, card.memory_bytes) for card in found.cards] == [(300, 4 * GIB)]
    total = {SECOND: '{"0":{"0":4096}}', "gpushare.alibabacloud.com/device-resource": '{"0":16276}'}
    assert held(total) == [(0, 4096 * MIB)]


@pytest.mark.parametrize("text", ["{", "[]", '{"a":{"0":1}}', '{"0":{"0":-1}}', '{"0":{"x":1}}'])
def test_of_a_second_generation_that_cannot_be_read_the_first_counts(text: str) -> None:
    assert held({**first(), SECOND: text}) == [(1, 3 * GIB)]
    assert str(read({SECOND: text})).startswith(f"{SECOND}: ")


@pytest.mark.parametrize("text", ["", "{}", '{"0":{}}'])
def test_an_empty_second_generation_says_nothing(text: str) -> None:
    assert read({SECOND: text}) is None


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (first(idx="abc"), f"{IDX}: 'abc' is no number"),
        (first(idx="-1"), f"{IDX}: '-1' is no number"),
        (first(idx="5000"), f"{IDX}: 5000 is not within 0…4095"),
        (first(pod=""), f"{POD}: nothing is no number"),
        (first(dev="0"), f"{DEV}: a card of 0 units"),
        (first(pod=str(2**60)), f"{POD}: "),
        ({IDX: "0"}, f"{POD}: nothing is no number"),
    ],
)
def test_what_makes_no_sense_is_said(annotations: dict[str, str], said: str) -> None:
    """Such a pod holds no card that can be known."""
    assert str(read(annotations)).startswith(said)


def test_an_index_that_the_node_may_not_have_is_kept() -> None:
    """The ledger reports it."""
    assert held(first(idx="5")) == [(5, 3 * GIB)]


def test_the_larger_of_annotation_and_spec_counts() -> None:
    """POD says 1, limits 9."""
    table = DialectTable((Gpushare(),))
    pod = PodAsk({}, first(pod="1"), (container(0, {MEM: 4}), container(1, {MEM: 5})))
    found = held_by_predecessor(table, pod, request({MEM: 4}, {MEM: 5}))
    assert found.allocation is not None
    assert [card.memory_bytes for card in found.allocation.cards] == [9 * GIB]
    assert f"its annotations say {GIB} bytes, its spec {9 * GIB}" in found.difference


@pytest.mark.parametrize("unit", ["GiB", "MiB"])
def test_what_is_written_is_read_back(unit: str) -> None:
    each = {"GiB": GIB, "MiB": MIB}[unit]
    dialect = Gpushare(unit=unit)
    placed = an_allocation((0, {0: (100, 2 * each), 1: (100, 2 * each)}), (2, {1: (0, 3 * each)}))
    written = dict(dialect.results(placed, a_node(16276, 16276)))
    assert held(written, dialect) == [(0, 2 * each), (1, 5 * each)]
    single = dict(dialect.results(an_allocation((0, {1: (0, 2 * each)})), a_node(16276, 16276)))
    del single[SECOND]
    assert held(single, dialect) == [(1, 2 * each)]
