"""Which back-ends are ready, and why not: from the collector's series to the cards, or nothing."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.card_reading import (
    NEEDY,
    READY,
    IsolationBackend,
    NotReadyReason,
    Readiness,
    ReadinessReport,
    of_labels,
)
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters import collector_metrics
from kubeshare_py.exporters.collector_metrics import OF_CARD, OF_NODE
from kubeshare_py.inventory.changes import InventoryStep
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import Series
from tests.inventory.vector import A, capacity, count, read, up
from tests.making import a_gpu

UUIDS = tuple(GpuUuid(f"GPU-{number}") for number in range(1, 5))
METRICS = {metric.name: metric for metric in (OF_NODE, OF_CARD)}
NO_DAEMON = of_labels((("mps", NotReadyReason.NO_DAEMON), ("driver", READY)))
DAEMON = of_labels((("mps", READY), ("driver", READY)))
some_told = st.lists(
    st.tuples(
        st.sampled_from([one.value for one in NEEDY]), st.sampled_from([READY, *NotReadyReason])
    ),
    unique_by=lambda pair: pair[0],
    max_size=3,
).map(of_labels)


def told(*cards: ReadinessReport, node: str = "a", **labels: str) -> list[Series]:
    """What a collector says of so many cards, and that it has them."""
    gpus = [a_gpu(uuid, readiness=one) for uuid, one in zip(UUIDS, cards, strict=False)]
    series = []
    for name, values in collector_metrics.isolation_values(NodeName(node), gpus).items():
        for values_of, value in values.items():
            own = dict(zip(METRICS[name].labels, values_of, strict=True))
            instance = {"__name__": name, "instance": f"{node}:9004", "job": "kubeshare-collector"}
            series.append(Series({**instance, **own, **labels}, value))
    listed = [capacity(node, one.uuid, value=1.0, **labels) for one in gpus]
    return [*series, count(node, len(gpus), **labels), *listed, up(node)]


def known(step: InventoryStep) -> list[ReadinessReport]:
    return [card.readiness for card in step.reading.cards[A]]


@given(st.lists(some_told, min_size=1, max_size=4), st.randoms())
def test_each_card_is_known_as_it_is_told_in_whatever_order(
    cards: list[ReadinessReport], order: random.Random
) -> None:
    vector = told(*cards)
    order.shuffle(vector)
    step = read(Reading(), *vector)
    assert known(step) == cards
    assert step.diagnostics == ()
    assert read(step.reading, *vector).changed == ()


@given(st.lists(some_told, min_size=1, max_size=4), st.data())
def test_series_that_were_lost_make_nothing_known_that_is_not_so(
    cards: list[ReadinessReport], data: st.DataObject
) -> None:
    vector = told(*cards)
    kept = data.draw(st.sets(st.sampled_from(range(len(vector)))))
    step = read(Reading(), *(vector[at] for at in sorted(kept)))
    right = dict(zip(UUIDS, cards, strict=False))
    for card in step.reading.cards.get(A, ()):
        assert card.readiness in ((), right[card.uuid])


def test_most_cards_are_told_by_one_series_and_the_others_by_name() -> None:
    series = told(DAEMON, DAEMON, NO_DAEMON, DAEMON)[:2]
    assert [(one.name, one.own("uuid"), one.own("mps"), one.value) for one in series] == [
        (OF_NODE.name, "", "ready", 3),
        (OF_CARD.name, "GPU-3", "no-daemon", 1),
    ]
    assert told(DAEMON)[0].own("gemini") == ""
    assert OF_NODE.name not in {one.name for one in told((), ())}


def test_a_daemon_that_dies_and_comes_back_is_news_each_time() -> None:
    first = read(Reading(), *told(DAEMON, DAEMON))
    dead = read(first.reading, *told(DAEMON, NO_DAEMON))
    assert known(dead) == [DAEMON, NO_DAEMON]
    back = read(dead.reading, *told(DAEMON, DAEMON))
    assert [node for node, _ in back.changed] == [A]
    assert known(back) == [DAEMON, DAEMON]


def test_a_collector_that_does_not_tell_any_more_leaves_nothing_known() -> None:
    first = read(Reading(), *told(DAEMON, DAEMON))
    assert known(read(first.reading, *told((), ()))) == [(), ()]


def test_of_a_node_that_is_silent_what_was_known_stays() -> None:
    first = read(Reading(), *told(NO_DAEMON))
    down = read(first.reading, up("a", 0))
    assert (down.changed, known(down)) == ((), [NO_DAEMON])


def test_a_card_whose_name_was_lost_is_said_not_to_be_known() -> None:
    vector = [one for one in told(DAEMON, DAEMON, NO_DAEMON) if one.name != OF_CARD.name]
    step = read(Reading(), *vector)
    assert known(step) == [(), (), ()]
    assert step.diagnostics == (
        "node a: kubeshare_collector_isolation counts other cards than have arrived: what "
        "isolation back-ends lack on those that are not named is not known",
    )


def test_two_losses_that_make_up_for_each_other_are_seen_all_the_same() -> None:
    lost = {("gpu_capacity", "GPU-1"), (OF_CARD.name, "GPU-3")}
    vector = [
        one for one in told(DAEMON, DAEMON, NO_DAEMON) if (one.name, one.own("uuid")) not in lost
    ]
    assert known(read(Reading(), *vector)) == [(), ()]


@pytest.mark.parametrize("order", [1, -1])
def test_of_collectors_that_differ_neither_is_believed(order: int) -> None:
    others: Sequence[Series] = told(NO_DAEMON, NO_DAEMON, instance="other:9004")
    vector = [*told(DAEMON, DAEMON), *others][::order]
    assert known(read(Reading(), *vector)) == [(), ()]


def test_two_words_on_one_card_are_none() -> None:
    twice = [Series({**one.labels, "mps": "ready"}, 1) for one in told(DAEMON, DAEMON, NO_DAEMON)]
    named = [one for one in twice if one.name == OF_CARD.name]
    step = read(Reading(), *told(DAEMON, DAEMON, NO_DAEMON), *named)
    assert known(step) == [DAEMON, DAEMON, ()]


def test_words_of_a_newer_collector_are_one_and_back_ends_of_its_own_are_left_out() -> None:
    [common, *rest] = told(DAEMON)
    newer = Series({**common.labels, "mps": "no-quota", "partitions": "ready"}, 1)
    [card] = read(Reading(), newer, *rest).reading.cards[A]
    assert Readiness(IsolationBackend.MPS, NotReadyReason.OTHER) in card.readiness
    assert len(card.readiness) == 2


def test_the_collectors_own_node_counts_where_the_scrape_adds_one() -> None:
    vector = [
        Series({**one.labels, "node": "target", "exported_node": "a"}, one.value)
        for one in told(NO_DAEMON)
    ]
    assert known(read(Reading(), *vector)) == [NO_DAEMON]


def test_cards_of_a_page_that_cannot_be_read_keep_what_was_known() -> None:
    first = read(Reading(), *told(DAEMON, NO_DAEMON))
    vector = [one for one in told(DAEMON, NO_DAEMON) if one.own("model") == ""]
    garbled = (capacity("a", "GPU-1", memory="x"), capacity("a", "GPU-2"))
    step = read(first.reading, *vector, *garbled)
    assert known(step) == [DAEMON, NO_DAEMON]
