"""Reasons as bits."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.framework.reasons import NO_CARD, NO_NODE, Reason, ReasonTable


def test_a_reason_has_one_bit_however_often_it_is_registered() -> None:
    table = ReasonTable()
    cpu = table.register("Fit", "Insufficient cpu")
    taint = table.register("Taints", "untolerated", resolvable=False)
    assert table.register("Fit", "Insufficient cpu") == cpu
    assert cpu & taint == 0
    assert table.of(cpu) == [Reason("Fit", "Insufficient cpu", True)]
    assert table.of(cpu | taint) == [
        Reason("Fit", "Insufficient cpu", True),
        Reason("Taints", "untolerated", False),
    ]
    assert table.of(0) == []


def test_the_same_words_of_two_plugins_are_two_reasons() -> None:
    table = ReasonTable()
    assert table.register("A", "full") != table.register("B", "full")
    assert table.register("A", "full", resolvable=False) != table.register("A", "full")


def test_reasons_come_in_the_order_of_registration() -> None:
    table = ReasonTable()
    masks = [table.register("A", text) for text in "abc"]
    assert masks == sorted(masks)


def test_marks_of_rows_are_no_reasons() -> None:
    table = ReasonTable()
    masks = [table.register("A", str(number)) for number in range(60)]
    assert all(mask & (NO_NODE | NO_CARD) == 0 for mask in masks)
    assert table.of(NO_NODE | NO_CARD) == []


@given(st.integers(61, 200))
def test_when_bits_are_used_up_the_last_one_is_shared_and_says_so(count: int) -> None:
    table = ReasonTable()
    masks = [table.register("A", f"reason {number}") for number in range(count)]
    assert len({*masks}) == 60
    assert sum({*masks}) + NO_NODE + NO_CARD == (1 << 62) - 1
    assert {*masks[59:]} == {masks[59]}
    assert [reason.text for reason in table.of(masks[-1])] == ["Insufficient other resources"]
    assert table.register("A", "reason 3") == masks[3]
    assert table.register("A", "reason 70") == masks[59]


def test_the_first_filter_that_refuses_is_the_one_that_counts() -> None:
    table = ReasonTable.ranked(["Taints", "Fit"])
    cpu, memory = table.register("Fit", "cpu"), table.register("Fit", "memory")
    taint, card = table.register("Taints", "taint"), table.register("GpuFit", "no GPU")
    assert [one.text for one in table.first(cpu | memory | taint | card)] == ["taint"]
    assert [one.text for one in table.first(cpu | memory | card)] == ["cpu", "memory"]
    assert [one.text for one in table.first(card)] == ["no GPU"]
    assert table.first(0) == []


def test_all_that_is_said_of_cards_comes_last_and_together() -> None:
    table = ReasonTable.ranked(["Fit"])
    fit, model = table.register("GpuFit", "too small"), table.register("GpuModel", "model")
    assert [one.text for one in table.first(fit | model)] == ["too small", "model"]


def test_a_node_that_was_left_out_is_refused_for_nothing_else() -> None:
    table = ReasonTable.ranked(["Taints", "NodeAffinity"])
    taint, left_out = table.register("Taints", "taint"), table.narrow("NodeAffinity")
    (reason,) = table.first(taint | left_out)
    assert reason.text == "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert not reason.resolvable


def test_of_reasons_about_the_pod_the_first_filters_counts() -> None:
    table = ReasonTable.ranked(["A", "B"])
    later, earlier = table.refuse("B", "late"), table.refuse("A", "early")
    other = table.register("A", "of a node")
    found = table.first_of_pod(later | earlier | other)
    assert found is not None
    assert found.text == "early"
    assert table.first_of_pod(other) is None
