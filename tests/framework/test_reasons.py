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
