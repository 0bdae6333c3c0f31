"""Which cards a claim takes by their UUIDs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_uuids import GpuUuids
from kubeshare_plugins.numa_binding import NumaBinding
from kubeshare_py.cluster.columns import ABSENT
from kubeshare_py.cluster.rows import AllRows, OneRow, SomeRows
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.diagnosis import impossible
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_gpu, a_shape, whole
from tests.plugins.random_clusters import NODES, Nodes, random_cluster
from tests.scale import examples

UUIDS = st.lists(st.sampled_from([f"n{n}-{slot}" for n in range(3) for slot in range(4)]))


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(GpuFit(), GpuUuids(), NumaBinding())
    cluster.cards("n1", 2)
    cluster.cards("n2", 2)
    cluster.node("none")
    return cluster


def of(*uuids: str) -> Shape:
    return a_shape(a_claim(uuids=tuple(sorted(uuids))))


def without(*uuids: str) -> Shape:
    return a_shape(a_claim(denied_uuids=tuple(sorted(uuids))))


def test_a_claim_that_names_no_card_is_not_asked_about() -> None:
    assert GpuUuids().card_filter(a_shape(a_claim()), ReasonTable()) is None
    assert GpuUuids().card_filter(a_shape(), ReasonTable()) is None


def test_only_named_cards_are_taken(cluster: SmallCluster) -> None:
    assert cluster.where(of("n2-1")) == {"n2"}
    assert cluster.best(of("n2-1", "n9-9")) == ("n2", ["n2-1"])
    cluster.hold("n2", "n2-1", 900)
    assert cluster.why(of("n2-1")) == {
        "Insufficient GPU": 1,
        "no GPU": 1,
        "no GPU of a UUID that the pod names": 1,
    }


def test_denied_cards_are_not_taken_even_if_they_are_named(cluster: SmallCluster) -> None:
    assert cluster.best(without("n1-0", "n2-0", "n2-1")) == ("n1", ["n1-1"])
    assert cluster.where(without("n1-0", "n1-1")) == {"n2"}
    both = a_shape(a_claim(uuids=("n1-0",), denied_uuids=("n1-0",)))
    assert cluster.where(both) == set()
    every = without("n1-0", "n1-1", "n2-0", "n2-1")
    assert cluster.why(every) == {"GPU of a UUID that the pod denies": 2, "no GPU": 1}


def test_several_cards_are_all_named(cluster: SmallCluster) -> None:
    assert cluster.where(a_shape(whole(2, uuids=("n1-0", "n1-1", "n2-0")))) == {"n1"}


def test_a_card_that_appears_later_or_moves_counts(cluster: SmallCluster) -> None:
    shape = of("new")
    assert cluster.where(shape) == set()
    cluster.ledger.put_cards(NodeName("n1"), tuple(a_gpu(u, index=0) for u in ("a", "new", "z")))
    assert cluster.best(shape) == ("n1", ["new"])
    # The rows are laid out anew: the slot of the card is another one.
    cluster.ledger.put_cards(NodeName("n1"), (a_gpu("new"),))
    assert cluster.best(shape) == ("n1", ["new"])
    cluster.ledger.put_cards(NodeName("n1"), ())
    cluster.ledger.put_cards(NodeName("n2"), (a_gpu("new"),))
    assert cluster.where(shape) == {"n2"}


def test_the_best_numa_node_is_one_with_enough_named_cards() -> None:
    cluster = SmallCluster(GpuFit(), GpuUuids(), NumaBinding())
    gpus = [a_gpu(f"g{n}", index=n, numa_node=0 if n < 2 else 1) for n in range(5)]
    cluster.node("n1", *gpus)
    claim = whole(2, one_numa_node=True, uuids=("g2", "g3", "g4"))
    assert cluster.where(a_shape(claim)) == {"n1"}


def test_it_is_explained_which_cards_are_others(cluster: SmallCluster) -> None:
    assert cluster.explain(of("n1-0"), "n1") == [
        Shortfall(reason="is not one that the pod names", subject="n1-1")
    ]
    assert cluster.explain(of("n1-0"), "n2") == [
        Shortfall(reason="it has none of the GPUs that the pod names")
    ]
    assert cluster.explain(without("n1-0"), "n1") == [
        Shortfall(reason="is one that the pod denies", subject="n1-0")
    ]


def test_rows_without_a_named_card_are_not_worth_a_question(cluster: SmallCluster) -> None:
    columns = cluster.ledger.columns
    hints = [
        GpuUuids().queueing_hint(of("n2-0"), OneRow(columns, columns.row_of[NodeName(name)]))
        for name in ("n1", "n2")
    ]
    assert hints == [False, True]


def test_cards_that_no_node_has_are_impossible(cluster: SmallCluster) -> None:
    ledger = cluster.ledger
    assert impossible(of("n1-0"), ledger) == ""
    assert impossible(of("gone"), ledger) == "impossible: no node has a GPU of a UUID that it takes"
    two = a_shape(whole(2, uuids=("n1-0", "n2-0")))
    assert impossible(two, ledger).startswith("impossible: no node has 2 GPUs of a UUID that it")


@pytest.mark.parametrize("field", ["uuids", "denied_uuids"])
def test_uuids_are_sorted_distinct_and_bounded(field: str) -> None:
    for wrong in (("b", "a"), ("a", "a"), tuple(f"{n:03}" for n in range(129))):
        fields: dict[str, Any] = {field: wrong}
        with pytest.raises(ValueError, match=field):
            a_claim(**fields)


@examples(150)
@given(NODES, UUIDS, UUIDS)
def test_each_card_is_taken_or_not_whatever_rows_are_asked_about(
    nodes: Nodes, named: list[str], denied: list[str]
) -> None:
    columns = random_cluster(nodes).ledger.columns
    claim = a_claim(uuids=tuple(sorted({*named})), denied_uuids=tuple(sorted({*denied})))
    question = GpuUuids().card_filter(a_shape(claim), ReasonTable())
    if question is None:
        return
    index = np.array([2, 0, 0, 1])
    every = question.fits(AllRows(columns))
    some = question.fits(SomeRows(columns, index))
    assert some.tolist() == every[index].tolist()
    for row, uuids in enumerate(columns.uuids):
        assert question.fits(OneRow(columns, row)).tolist() == [every[row].tolist()]
        for slot, uuid in enumerate(uuids):
            if not columns.flags[row, slot] & ABSENT:
                taken = uuid not in denied and (not named or uuid in named)
                assert every[row, slot] == taken
