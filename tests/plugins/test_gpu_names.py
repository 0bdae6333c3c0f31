"""Cards with names, by which pods of one namespace share them."""

from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_names import ELSEWHERE, GpuNames
from kubeshare_plugins.kubernetes.node_affinity import NodeAffinity
from kubeshare_plugins.spread import Spread
from kubeshare_py.cluster.charge import refusal
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.gpu import CardTag, CardTags, TagKind
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import NodeTerm, Shape
from kubeshare_py.framework.claim_fit import OTHER_NAME
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_shape
from tests.scale import examples

NUMBERS = count()
CARDS = ("n1-0", "n1-1", "n2-0", "n2-1")


def name(word: str, namespace: str = "a") -> CardTags:
    return (CardTag(TagKind.NAME, namespace, word),)


def pod(milli: int, tags: CardTags, node: str = "") -> Shape:
    terms = (NodeTerm(fields=(Requirement("metadata.name", "In", (node,)),)),) if node else None
    return a_shape(a_claim(milli, memory_bytes=0, tags=tags), terms=terms)


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(GpuFit(), GpuNames(), NodeAffinity(), Spread())
    cluster.cards("n1", 2)
    cluster.cards("n2", 2)
    return cluster


def hold(cluster: SmallCluster, card: str, tags: CardTags, milli: int = 300) -> PodUid:
    uid = PodUid(f"p{next(NUMBERS)}")
    charge = CardCharge(GpuUuid(card), milli, 0, tags=tags)
    allocation = Allocation(token=DecisionToken(uid), cards=(charge,))
    cluster.ledger.charge(uid, NodeName(card.split("-", maxsplit=1)[0]), (), allocation)
    return uid


def test_pods_of_one_name_share_a_card_whatever_policies_say(cluster: SmallCluster) -> None:
    hold(cluster, "n1-1", name("abc"))
    assert cluster.best(pod(300, name("abc"))) == ("n1", ["n1-1"])
    assert cluster.where(pod(700, name("abc"))) == {"n1"}
    assert cluster.where(pod(300, name("xyz"))) == {"n1", "n2"}


def test_a_new_name_gets_a_card_without_pods(cluster: SmallCluster) -> None:
    for card in ("n1-0", "n1-1", "n2-0"):
        hold(cluster, card, ())
    assert cluster.best(pod(100, name("abc"))) == ("n2", ["n2-1"])
    last = hold(cluster, "n2-1", ())
    assert cluster.why(pod(100, name("abc"))) == {OTHER_NAME: 2}
    cluster.ledger.release(last)
    assert cluster.best(pod(100, name("abc"))) == ("n2", ["n2-1"])


def test_a_full_card_of_the_name_keeps_its_pods_waiting(cluster: SmallCluster) -> None:
    """kubeshare 71: the third exceeds the card, and is tried again."""
    first = hold(cluster, "n1-0", name("abc"), 800)
    assert cluster.why(pod(300, name("abc"))) == {"Insufficient GPU": 1, ELSEWHERE: 1}
    assert [one.reason for one in cluster.explain(pod(300, name("abc")), "n2")] == [ELSEWHERE]
    reasons = {one.subject: one.reason for one in cluster.explain(pod(300, name("abc")))}
    assert reasons == {"n1-0": "Insufficient GPU", "n1-1": OTHER_NAME}
    cluster.ledger.release(first)
    assert cluster.where(pod(300, name("abc"))) == {"n1", "n2"}


def test_a_name_is_a_namespaces_own(cluster: SmallCluster) -> None:
    hold(cluster, "n1-0", name("abc"))
    other = pod(300, name("abc", "b"))
    assert cluster.where(other) == {"n1", "n2"}
    assert cluster.best(other) != ("n1", ["n1-0"])


def test_a_pod_that_may_use_one_node_only_asks_about_that_one(cluster: SmallCluster) -> None:
    """As 1.0's pairs of a node and a GPUID."""
    hold(cluster, "n1-0", name("abc"))
    assert cluster.where(pod(300, name("abc"), "n2")) == {"n2"}
    hold(cluster, "n2-1", name("abc"))
    assert cluster.best(pod(300, name("abc"), "n2")) == ("n2", ["n2-1"])
    assert cluster.where(pod(300, name("abc"))) == {"n1", "n2"}


def test_placement_of_a_named_card_depends_on_all_nodes() -> None:
    assert pod(1, name("abc")).is_cluster_wide
    assert not pod(1, ()).is_cluster_wide


def test_claims_that_name_no_card_are_not_asked_about() -> None:
    for tags in ((), (CardTag(TagKind.AFFINITY, "a", "red"),)):
        assert GpuNames().filter(pod(1, tags), ReasonTable()) is None


def test_a_name_that_leaves_in_a_trial_is_gone_there_alone(cluster: SmallCluster) -> None:
    rows = np.array([0, 1])
    uid = hold(cluster, "n1-0", name("abc"), 800)
    shape = pod(300, name("abc"))
    trial = cluster.ledger.what_if(rows)
    trial.be_one_plan()
    assert cluster.evaluator.fits(shape, trial).tolist() == [False, False]
    at = np.array([0])
    trial.add(at, cluster.ledger.amounts([[uid]]), at, -1)
    trial.derive(at)
    assert cluster.evaluator.fits(shape, trial).tolist() == [True, True]
    assert cluster.where(shape) == set()


def test_a_claim_with_a_name_is_of_one_card_and_alone() -> None:
    for wrong in ({"count": 2, "tags": name("abc")}, {"count": 2, "is_named": True}):
        with pytest.raises(ValueError, match="a card with a name"):
            a_claim(**wrong)
    with pytest.raises(ValueError, match="one name at most"):
        a_claim(tags=(*name("abc"), *name("xyz")))


def expected(
    books: dict[str, list[tuple[PodUid, int, CardTags]]], milli: int, tags: CardTags, node: str
) -> set[str]:
    """The cards that may take the pod, by the words of the manual."""
    allowed = [card for card in CARDS if node in ("", card[:2])]
    wanted = {*tags}
    has = {card for card in allowed if any(wanted & {*one[2]} for one in books.get(card, []))}
    if not tags:
        fitting = {*allowed}
    elif has:
        fitting = has
    else:
        fitting = {card for card in allowed if not books.get(card)}
    return {card for card in fitting if sum(one[1] for one in books.get(card, [])) + milli <= 1000}


def breaks(books: dict[str, list[tuple[PodUid, int, CardTags]]], card: str, tags: CardTags) -> bool:
    """Whether a node would have two cards of a name, or a card two names of a namespace."""
    if not tags:
        return False
    [own] = tags
    for other in CARDS:
        if other[:2] == card[:2]:
            there = {tag for one in books.get(other, []) for tag in one[2]}
            if (
                own in there
                if other != card
                else any(tag.namespace == own.namespace and tag != own for tag in there)
            ):
                return True
    return False


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([0, 300, 500]),
        st.sampled_from([(), name("abc"), name("abc", "b"), name("xyz")]),
        st.sampled_from(["", "", "n1", "n2"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


@examples(200)
@given(STEPS)
def test_each_card_takes_exactly_the_pods_that_its_name_allows(
    steps: list[tuple[int, int, CardTags, str, bool]],
) -> None:
    cluster = SmallCluster(GpuFit(), GpuNames(), NodeAffinity(), BinPack())
    cluster.cards("n1", 2)
    cluster.cards("n2", 2)
    books: dict[str, list[tuple[PodUid, int, CardTags]]] = {}
    for which, milli, tags, node, leaves in steps:
        card = CARDS[which]
        if leaves and books.get(card):
            cluster.ledger.release(books[card].pop()[0])
            continue
        takes = expected(books, milli, tags, node)
        shape = pod(milli, tags, node)
        assert cluster.where(shape) == {one[:2] for one in takes}
        for one in CARDS:
            assert (refused(cluster, one, tags) is not None) == breaks(books, one, tags)
        best = cluster.best(shape)
        if best is not None:
            [chosen] = best[1]
            assert chosen in takes
            books.setdefault(chosen, []).append((hold(cluster, chosen, tags, milli), milli, tags))


def refused(cluster: SmallCluster, card: str, tags: CardTags) -> str | None:
    row = cluster.ledger.columns.row_of[NodeName(card.split("-", maxsplit=1)[0])]
    charge = CardCharge(GpuUuid(card), 0, 0, tags=tags)
    allocation = Allocation(token=DecisionToken("t"), cards=(charge,))
    return refusal(cluster.ledger.columns, row, (), allocation, port=False)
