"""The ledger after any history: it says what books of our own say."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.columns import ABSENT, CARD_COLUMNS, COLUMNS
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import Node, Taint
from tests.cluster.history import NAMES, PODS, STEPS, History, Step
from tests.cluster.reference_model import ReferenceModel
from tests.making import a_gpu, a_node
from tests.scale import examples, seeds


def expect_right_columns(history: History) -> None:
    ledger, reference = history.ledger, history.reference
    columns = ledger.columns
    assert columns.row_of.keys() == reference.kept
    assert columns.resources.keys() == reference.offered()
    assert len({*columns.resources.values()}) == len(columns.resources)
    assert len({*columns.row_of.values()}) == len(columns.row_of)
    for name, row in columns.row_of.items():
        assert columns.names[row] == name
        check_node(history, name, row)
        if name in reference.nodes:  # the ledger ignores cards of a node that it has not seen
            check_cards(reference, ledger, name, row)
    assert {*ledger.overcommitted()} == reference.overcommitted()
    rows_with: dict[str, set[int]] = {}
    for row, uuids in enumerate(columns.uuids):
        for uuid in uuids:
            rows_with.setdefault(uuid, set()).add(row)
    assert {uuid: {*rows} for uuid, rows in columns.rows_with.items()} == rows_with
    for row in range(columns.rows):
        if row not in columns.row_of.values():
            check_unused(ledger, row)


def check_node(history: History, name: NodeName, row: int) -> None:
    ledger, reference = history.ledger, history.reference
    columns = ledger.columns
    assert columns.present[row] == (name in reference.nodes)
    for table, expected in (
        (columns.allocatable, reference.allocatable(name)),
        (columns.free, reference.free(name)),
    ):
        for resource, at in columns.resources.items():
            assert table[row, at] == expected.get(resource, 0)
        assert not np.delete(table[row], [*columns.resources.values()]).any()
    node = reference.nodes.get(name)
    if node is not None:
        assert columns.nodes[row] == node
        assert columns.unschedulable[row] == node.unschedulable
        assert columns.taint_sets.values[columns.taint_set[row]] == node.taints
        assert columns.feature_sets.values[columns.feature_set[row]] == node.features
        zones = columns.label("zone")
        assert zones.values[node.labels.get("zone")] == zones.codes[row]


def check_cards(reference: ReferenceModel, ledger: Ledger, name: NodeName, row: int) -> None:
    columns = ledger.columns
    totals = columns.gpu_count[row], columns.gpu_free_milli[row], columns.gpu_used_percent[row]
    assert totals == reference.gpu_totals(name)
    assert columns.uuids[row] == reference.uuids(name)
    for slot, uuid in enumerate(reference.uuids(name)):
        expected = {**reference.card(name, uuid), **reference.joined(name, uuid)}
        found = {column: getattr(columns, column)[row, slot].item() for column in expected}
        assert found == expected
        tags = columns.tag_sets.values[columns.tag_set.item(row, slot)]
        assert dict(tags) == reference.tags(name, uuid)
        gpu = reference.known(name).get(uuid)
        assert columns.model_names[columns.model[row, slot]] == (gpu.model if gpu else "")
    idle = [uuid for uuid in reference.known(name) if reference.card(name, uuid)["idle"]]
    assert columns.idle_cards[row] == sum(
        reference.joined(name, uuid)["position_bit"] for uuid in idle
    )
    for slot in range(len(reference.uuids(name)), columns.width):
        check_empty(ledger, row, slot)


def check_unused(ledger: Ledger, row: int) -> None:
    columns = ledger.columns
    assert columns.names[row] is None
    assert columns.nodes[row] is None
    assert not columns.present[row]
    assert not columns.free[row].any()
    assert not columns.allocatable[row].any()
    assert columns.gpu_count[row] == columns.gpu_free_milli[row] == 0
    assert columns.board[row] == columns.idle_cards[row] == 0
    assert columns.uuids[row] == []
    for slot in range(columns.width):
        check_empty(ledger, row, slot)


def check_empty(ledger: Ledger, row: int, slot: int) -> None:
    for column in CARD_COLUMNS:
        value = getattr(ledger.columns, column)[row, slot]
        assert value == COLUMNS[column].empty
    assert ledger.columns.flags[row, slot] == ABSENT


@examples(120)
@given(STEPS)
def test_columns_are_what_was_told_added_up(steps: list[Step]) -> None:
    history = History()
    for step in steps:
        history.step(step)
        expect_right_columns(history)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4))
def test_columns_are_right_in_long_histories_too(seed: int) -> None:
    # Pods that linger, and what happens to their nodes and cards, take more than a few steps.
    numbers, lingering = random.Random(seed), 0
    for _ in range(12):
        history = History()
        for _ in range(60):
            sizes = (13, 4, 12, 7)
            action, which, what, how = (numbers.randrange(size) for size in sizes)
            history.step((action, which, what, how))
            expect_right_columns(history)
            lingering += len(history.ledger.lingering)
    assert lingering > 50


@examples(100)
@given(STEPS)
def test_nothing_is_left_of_a_history_that_is_undone(steps: list[Step]) -> None:
    history = History()
    for step in steps:
        history.step(step)
    for number in range(len(PODS)):
        history.release(0, number, 0)
        history.dissolve(0, number, 0)
        history.end_lingering(0, number, 0)
    for name in NAMES:
        history.drop_node(NAMES.index(name), 0, 0)
        history.ledger.put_cards(name, ())
        history.reference.cards[name] = {}
    history.reference.settle()
    expect_right_columns(history)
    assert history.ledger.columns.row_of == {}
    assert sorted(history.ledger.columns.free_rows) == [*range(history.ledger.columns.rows)]


@examples(60)
@given(STEPS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_charges_that_are_taken_back_have_never_been(
    steps: list[Step], tries: list[tuple[int, int]]
) -> None:
    history = History()
    for step in steps:
        history.step(step)
    ledger = history.ledger
    known = sorted(ledger.columns.row_of)
    before = everything(ledger)
    improved, charged = ledger.improved.end, []
    for number, (which, slot) in enumerate(tries if known else []):
        name = known[which % len(known)]
        uuids = ledger.columns.uuids[ledger.columns.row_of[name]]
        cards = tuple(CardCharge(uuid, 100, 1000) for uuid in uuids[slot : slot + 1])
        token, uid = DecisionToken(f"try-{number}"), PodUid(f"try-{number}")
        allocation = Allocation(token=token, cards=cards, port=ledger.next_port(name))
        ledger.charge(uid, name, (("cpu", 1),), allocation)
        charged.append(uid)
    for uid in reversed(charged):
        ledger.undo_charge(uid)
    assert everything(ledger) == before
    assert ledger.improved.end == improved


def everything(ledger: Ledger) -> dict[str, object]:
    """What anybody can see of the ledger, as plain values."""
    columns = ledger.columns
    tables = ("free", "gpu_free_milli", "gpu_used_percent", *CARD_COLUMNS)
    found: dict[str, object] = {name: getattr(columns, name).tolist() for name in tables}
    found["ports"] = [ledger.next_port(name) for name in sorted(columns.row_of)]
    return found


@examples(100)
@given(STEPS)
def test_a_restarted_ledger_is_the_same_in_whatever_order_it_hears(steps: list[Step]) -> None:
    history = History()
    for step in steps:
        history.step(step)
    for number in range(len(PODS)):  # nobody tells a restarted one of pods that are gone
        history.end_lingering(0, number, 0)
    again = History()
    again.reference = history.reference
    for uid, held in sorted(history.reference.held.items(), reverse=True):
        put = again.ledger.reserve if held.is_reservation else again.ledger.charge
        put(uid, held.node, held.resources, held.allocation)
    for name, cards in sorted(history.reference.cards.items()):
        again.ledger.put_cards(name, tuple(cards.values()))
    for node in history.reference.nodes.values():
        again.ledger.put_node(node)
    again.reference.kept.clear()
    again.reference.settle()
    expect_right_columns(again)


def a_ledger(node: Node | None = None) -> Ledger:
    ledger = Ledger()
    ledger.put_node(node or a_node("n1"))
    ledger.put_cards(NodeName("n1"), (a_gpu("a"),))
    return ledger


def hold(ledger: Ledger, uid: str, card: str, milli: int = 300, **fields: Any) -> None:
    charges = (CardCharge(GpuUuid(card), milli, 0),)
    allocation = Allocation(token=DecisionToken(uid), cards=charges, **fields)
    ledger.charge(PodUid(uid), NodeName("n1"), (("cpu", 100),), allocation)


def test_a_charge_on_an_unknown_node_counts_from_when_the_node_appears() -> None:
    ledger = Ledger()
    hold(ledger, "early", "a", 600)
    assert ledger.columns.row_of == {}
    ledger.put_cards(NodeName("n1"), (a_gpu("a"),))
    ledger.put_node(a_node("n1", cpu=1000))
    row = ledger.columns.row_of[NodeName("n1")]
    assert ledger.columns.free_milli[row, 0] == 400
    assert ledger.columns.free[row, 0] == 900


def test_a_charge_on_an_unknown_card_counts_from_when_the_card_appears() -> None:
    ledger = a_ledger()
    hold(ledger, "p", "b", 600)
    row = ledger.columns.row_of[NodeName("n1")]
    assert ledger.columns.gpu_free_milli[row] == 1000
    ledger.put_cards(NodeName("n1"), (a_gpu("a"), a_gpu("b", index=1)))
    assert ledger.columns.gpu_free_milli[row] == 1400


def test_a_charge_survives_its_card_and_its_node() -> None:
    ledger = a_ledger()
    hold(ledger, "p", "a", 600)
    ledger.put_cards(NodeName("n1"), ())
    ledger.drop_node(NodeName("n1"))
    ledger.put_node(a_node("n1"))
    ledger.put_cards(NodeName("n1"), (a_gpu("a"),))
    assert ledger.columns.free_milli[ledger.columns.row_of[NodeName("n1")], 0] == 400


def test_the_row_of_a_node_that_left_is_used_again_and_clean() -> None:
    ledger = a_ledger(a_node("n1", labels={"zone": "east"}, taints=(Taint("k"),)))
    row = ledger.columns.row_of[NodeName("n1")]
    assert ledger.columns.label("zone").codes[row] != 0
    ledger.drop_node(NodeName("n1"))
    ledger.put_node(a_node("n2"))
    assert ledger.columns.row_of == {"n2": row}
    assert ledger.columns.label("zone").codes[row] == 0
    assert ledger.columns.gpu_count[row] == ledger.columns.taint_set[row] == 0


def test_the_cards_of_a_node_that_comes_back_are_still_known() -> None:
    ledger = a_ledger()
    ledger.drop_node(NodeName("n1"))
    ledger.put_node(a_node("n1"))
    assert ledger.columns.gpu_count[ledger.columns.row_of[NodeName("n1")]] == 1


def test_a_pod_that_is_charged_again_is_charged_once() -> None:
    ledger = a_ledger()
    hold(ledger, "p", "a", 600)
    hold(ledger, "p", "a", 100)
    row = ledger.columns.row_of[NodeName("n1")]
    assert ledger.columns.free_milli[row, 0] == 900
    assert ledger.columns.tenants[row, 0] == 1


def test_the_same_node_again_changes_nothing() -> None:
    ledger = a_ledger()
    logs = (ledger.changed, ledger.improved, ledger.relabelled)
    before = [log.end for log in logs]
    ledger.put_node(a_node("n1"))
    assert [log.end for log in logs] == before


def test_ports_belong_to_a_node_and_come_back() -> None:
    ledger = a_ledger()
    name = NodeName("n1")
    assert ledger.next_port(name) == 50051
    hold(ledger, "p", "a", port=50051)
    assert ledger.next_port(name) == 50052
    assert ledger.next_port(NodeName("n2")) == 50051
    hold(ledger, "q", "a", port=50561)
    assert ledger.next_port(name) == 50052
    ledger.release(PodUid("p"))
    assert ledger.next_port(name) == 50051


def test_who_is_on_a_node_can_be_asked() -> None:
    ledger = a_ledger()
    hold(ledger, "p", "a")
    assert {*ledger.pods_on(NodeName("n1"))} == {"p"}
    charge = ledger.charge_of(PodUid("p"))
    assert charge is not None
    assert charge.node == "n1"
    assert ledger.charge_of(PodUid("q")) is None
    assert ledger.pods_on(NodeName("n9")) == {}
