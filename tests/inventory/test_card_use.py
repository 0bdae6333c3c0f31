"""What is really used of cards: from pages and from Prometheus, and how long it counts."""

from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import CARDS_OF_NODE
from kubeshare_py.inventory.card_use import (
    BUSY,
    IN_USE,
    MAX_AGE_S,
    CardUses,
    MeasuredUse,
    uses_of_page,
    uses_of_vector,
)
from kubeshare_py.inventory.collector_page import read_page
from tests.inventory.joined_cards import joined_cards
from tests.inventory.vector import A, told

ONE, TWO = GpuUuid("GPU-1"), GpuUuid("GPU-2")


def series(name: str, uuid: str, value: object, node: str = "a") -> str:
    return f'{name}{{node="{node}",uuid="{uuid}"}} {value}\n'


def test_a_page_says_how_busy_cards_are_and_what_memory_is_in_use() -> None:
    text = series(BUSY, ONE, 0.37) + series(IN_USE, ONE, 1.5e9) + series(IN_USE, TWO, 0)
    assert uses_of_page(text, A) == (
        MeasuredUse(ONE, 370, 1_500_000_000),
        MeasuredUse(TWO, None, 0),
    )
    page = joined_cards(A) + text
    assert read_page(page, A, "a:1").uses == ()
    assert len(read_page(page, A, "a:1", with_uses=True).uses) == 3


def test_odd_values_and_those_of_other_nodes_are_dropped() -> None:
    odd = ("NaN", "-0.1", "1.01", "+Inf", "-Inf", "1e300", "x", "")
    text = "".join(series(BUSY, ONE, value) for value in odd)
    text += "".join(series(IN_USE, ONE, value) for value in ("NaN", "-1", "1e300", "+Inf", "x"))
    text += series(BUSY, TWO, 0.5, node="b") + series(BUSY, "", 0.5) + f"{BUSY} 1\n{BUSY}{{}} 1\n"
    assert uses_of_page(text, A) == ()
    vector = [told(BUSY, "a", float(one), uuid=ONE) for one in odd[:6]]
    assert uses_of_vector(vector) == {A: ()}


def test_a_page_of_very_many_cards_is_not_kept_whole() -> None:
    text = "".join(series(BUSY, f"GPU-{at}", 1) for at in range(1000))
    assert len(uses_of_page(text, A)) == CARDS_OF_NODE.most


def test_prometheus_series_are_read_by_node_and_of_two_the_larger_counts() -> None:
    vector = [
        told(BUSY, "a", 0.2, uuid=ONE),
        told(BUSY, "a", 0.1, uuid=ONE),
        told(IN_USE, "b", 7.0, uuid=TWO),
        told("kubeshare_gpu_power_watts", "b", 7.0, uuid=TWO),
    ]
    assert uses_of_vector(vector) == {
        A: (MeasuredUse(ONE, 200),),
        NodeName("b"): (MeasuredUse(TWO, None, 7),),
    }


def test_values_that_are_too_old_are_not_shown_and_not_kept() -> None:
    uses, b = CardUses(), NodeName("b")
    uses.take([(A, (MeasuredUse(ONE, 1),))], 0.0)
    uses.take([(b, (MeasuredUse(TWO, 2),))], 1.0)
    assert uses.of(A, MAX_AGE_S) == {ONE: MeasuredUse(ONE, 1)}
    assert uses.of(A, MAX_AGE_S + 0.5) == {}
    uses.take([], MAX_AGE_S + 0.5)
    assert uses.of(A, 0.0) == {}
    assert uses.of(b, MAX_AGE_S) == {TWO: MeasuredUse(TWO, 2)}
