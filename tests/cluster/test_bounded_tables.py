"""Tables do not grow with names that come and go: not those of pods, nor those of nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.columns import (
    FIXED_RESOURCES,
    LABEL_COLUMNS_KEPT,
    SPARE_VALUES,
    Numbering,
)
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.usage_accounting import MAX_STRAYS
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.values import replace
from kubeshare_py.topology.card_sets import SPARE_BOARDS
from tests.making import a_gpu, a_node
from tests.scale import examples

N1, N2 = NodeName("n1"), NodeName("n2")
MANY = 5000


def a_ledger() -> Ledger:
    ledger = Ledger()
    for name in (N1, N2):
        ledger.put_node(a_node(name))
        ledger.put_cards(name, (a_gpu(f"{name}-0"),))
    return ledger


def test_resources_that_pods_ask_for_take_no_column() -> None:
    ledger = a_ledger()
    for number in range(MANY):
        asked = ((f"example.com/r{number}", 1),)
        ledger.vector(asked, False)
        ledger.charge(PodUid("p"), N1, asked, None)
    assert {*ledger.columns.resources} == {*FIXED_RESOURCES}
    assert ledger.columns.free.shape[1] == len(FIXED_RESOURCES)
    ledger.release(PodUid("p"))
    assert not ledger.columns.free[:, len(FIXED_RESOURCES) :].any()


def test_a_resource_that_a_node_offers_no_more_gives_its_column_to_the_next() -> None:
    ledger, node = a_ledger(), a_node("n1")
    for number in range(MANY):
        offered = (*node.allocatable, (f"example.com/r{number}", number))
        ledger.put_node(replace(node, allocatable=offered))
    columns = ledger.columns
    assert {*columns.resources} == {*FIXED_RESOURCES, f"example.com/r{MANY - 1}"}
    assert columns.free.shape[1] <= len(FIXED_RESOURCES) + 4
    ledger.drop_node(N1)
    assert {*columns.resources} == {*FIXED_RESOURCES}


def test_what_is_held_of_a_resource_counts_from_when_it_is_offered() -> None:
    ledger, node = a_ledger(), a_node("n1")
    ledger.charge(PodUid("p"), N1, (("example.com/nic", 3),), None)
    offering = replace(node, allocatable=(*node.allocatable, ("example.com/nic", 5)))
    for _ in range(3):
        ledger.put_node(offering)
        assert ledger.columns.free[0, ledger.columns.resources["example.com/nic"]] == 2
        ledger.put_node(node)
        assert "example.com/nic" not in ledger.columns.resources
    ledger.release(PodUid("p"))
    ledger.put_node(offering)
    assert ledger.columns.free[0, ledger.columns.resources["example.com/nic"]] == 5


def cards(count: int, begin: int = 0) -> Allocation:
    named = (CardCharge(GpuUuid(f"GPU-{at:05}"), 100, 7) for at in range(begin, begin + count))
    return Allocation(token=DecisionToken("t"), cards=tuple(named))


@pytest.mark.slow
def test_cards_that_a_node_does_not_have_take_few_slots() -> None:
    ledger = a_ledger()
    for number in range(40):
        ledger.charge(PodUid(f"p{number}"), N1, (), cards(512, number * 100))
    assert ledger.columns.width == 1 + MAX_STRAYS
    for number in range(40):
        ledger.release(PodUid(f"p{number}"))
    assert ledger.columns.uuids[0] == ["n1-0"]


def test_charges_beyond_these_slots_count_when_the_cards_appear() -> None:
    ledger = a_ledger()
    ledger.charge(PodUid("p"), N1, (), cards(100))
    ledger.charge(PodUid("q"), N1, (), cards(100))
    last = GpuUuid("GPU-00099")
    assert last not in ledger.columns.uuids[0]
    ledger.put_cards(N1, (a_gpu(last, memory_bytes=1000),))
    slot = ledger.columns.uuids[0].index(last)
    assert ledger.columns.free_milli[0, slot] == 800
    assert ledger.columns.free_bytes[0, slot] == 1000 - 14
    assert ledger.columns.tenants[0, slot] == 2


@pytest.mark.slow
def test_values_of_nodes_and_cards_are_forgotten_when_no_row_has_them() -> None:
    ledger = a_ledger()
    for number in range(MANY):
        key = f"example.com/{number}"
        ledger.put_node(
            a_node("n1", labels={"zone": str(number), key: ""}, taints=(Taint(key, ""),))
        )
        two = (PeerLink(1, "NV4", number),), (PeerLink(0, "NV4", number),)
        gpus = (a_gpu(f"n1-{at}", index=at, model=f"m{number}", links=two[at]) for at in (0, 1))
        ledger.put_cards(N1, tuple(gpus))
        assert ledger.columns.label("zone").codes[0] > 0
        assert ledger.columns.label(key).codes[0] == 1
    columns, most = ledger.columns, SPARE_VALUES + 32
    assert len(columns.model_names) <= most
    assert len(columns.taint_sets.values) <= most
    assert len(columns.label_keys) <= most
    assert len(columns.label("zone").values) <= most + 64
    assert len(columns.labels) <= LABEL_COLUMNS_KEPT
    assert len(columns.boards.sets) <= SPARE_BOARDS + 32
    assert columns.model_names[columns.model[0, 0]] == f"m{MANY - 1}"
    assert columns.taint_sets.values[columns.taint_set[0]][0].key == f"example.com/{MANY - 1}"
    zone = columns.label("zone")
    assert [*zone.values][zone.codes[0]] == f"{MANY - 1}"


@examples(40)
@given(st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4), min_size=1, max_size=8))
def test_values_keep_their_rows_when_they_are_numbered_anew(rounds: list[list[int]]) -> None:
    numbering: Numbering[str] = Numbering("")
    for values in rounds:
        texts = [f"v{value}" if value else "" for value in values]
        column = np.array([numbering.number(text) for text in texts], np.int64).reshape(2, 2)
        before = numbering.values
        column = numbering.renumber(column)
        assert [numbering.values[number] for number in column.ravel().tolist()] == texts
        assert {*numbering.values} == {"", *texts}
        assert numbering.values is not before
        assert numbering.number("") == 0


@pytest.mark.parametrize("count", [SPARE_VALUES - 1, 3 * SPARE_VALUES])
def test_values_in_use_are_kept_however_many(count: int) -> None:
    numbering: Numbering[int] = Numbering(0)
    column = np.array([numbering.number(value) for value in range(count)], np.int64)
    assert numbering.is_crowded == (count > SPARE_VALUES)
    column = numbering.renumber(column)
    assert [numbering.values[number] for number in column.tolist()] == [*range(count)]
    assert not numbering.is_crowded
