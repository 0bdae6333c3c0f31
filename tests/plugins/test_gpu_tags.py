"""Cards with or without pods of the pod's tags."""

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.bin_pack import BinPack
from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_plugins.gpu_tags import NO_FRIEND, RIVAL, GpuTags
from kubeshare_plugins.spread import Spread
from kubeshare_py.cluster.charge import refusal
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import CardTag, CardTags, TagKind, exclusions, tag_of
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.claim_fit import OTHER_EXCLUSION
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing import SmallCluster
from tests.making import a_claim, a_shape, whole
from tests.scale import examples

NUMBERS = count()
AFFINITY, ANTI, EXCLUSION = TagKind.AFFINITY, TagKind.ANTI_AFFINITY, TagKind.EXCLUSION


def tags(*pairs: tuple[TagKind, str], namespace: str = "a") -> CardTags:
    return tuple(sorted(CardTag(kind, namespace, word) for kind, word in pairs))


RED, NOT_RED, ONLY_RED = (tags((kind, "red")) for kind in (AFFINITY, ANTI, EXCLUSION))
THEIRS = tags((EXCLUSION, "red"), namespace="b")
MIXED = tags((AFFINITY, "red"), (ANTI, "red"), (EXCLUSION, "blue"))
ALL = [(), RED, NOT_RED, ONLY_RED, THEIRS, MIXED, tags((ANTI, "red"), namespace="b")]


def pod(milli: int, tagged: CardTags) -> Shape:
    return a_shape(a_claim(milli, memory_bytes=0, tags=tagged))


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(GpuFit(), GpuTags(), BinPack(), weights={"GpuTags": 10})
    cluster.cards("n1", 2)
    return cluster


def hold(cluster: SmallCluster, card: str, tagged: CardTags, milli: int = 300) -> PodUid:
    uid = PodUid(f"p{next(NUMBERS)}")
    charge = CardCharge(GpuUuid(card), milli, 0, tags=tagged)
    allocation = Allocation(token=DecisionToken(uid), cards=(charge,))
    cluster.ledger.charge(uid, NodeName(card.split("-", maxsplit=1)[0]), (), allocation)
    return uid


def test_claims_without_affinity_are_not_asked_about() -> None:
    for tagged in ((), ONLY_RED):
        assert GpuTags().card_filter(pod(1, tagged), ReasonTable()) is None
        assert GpuTags().card_score(pod(1, tagged)) is None
        assert GpuTags().score(pod(1, tagged)) is None


def test_pods_of_an_affinity_tag_share_a_card_or_get_an_idle_one(cluster: SmallCluster) -> None:
    hold(cluster, "n1-0", ())
    assert cluster.best(pod(300, RED)) == ("n1", ["n1-1"])
    hold(cluster, "n1-1", RED)
    assert cluster.best(pod(300, RED)) == ("n1", ["n1-1"])
    assert cluster.why(pod(800, RED)) == {"Insufficient GPU": 1}
    other = pod(300, tags((AFFINITY, "red"), namespace="b"))
    assert cluster.why(other) == {NO_FRIEND: 1}
    assert [one.reason for one in cluster.explain(other)] == [NO_FRIEND, NO_FRIEND]


def test_a_card_with_friends_comes_before_an_idle_one_on_whatever_node() -> None:
    cluster = SmallCluster(GpuFit(), GpuTags(), Spread(), weights={"GpuTags": 10})
    cluster.cards("n1", 1)
    cluster.cards("n2", 3)
    hold(cluster, "n2-1", RED)
    assert cluster.best(pod(300, RED)) == ("n2", ["n2-1"])
    assert cluster.best(pod(800, RED)) == ("n1", ["n1-0"])


def test_pods_of_an_anti_affinity_tag_get_different_cards(cluster: SmallCluster) -> None:
    first = hold(cluster, "n1-0", NOT_RED)
    assert cluster.best(pod(300, NOT_RED)) == ("n1", ["n1-1"])
    hold(cluster, "n1-1", NOT_RED)
    assert cluster.why(pod(300, NOT_RED)) == {RIVAL: 1}
    assert cluster.where(pod(300, RED)) == set()  # kinds have nothing in common
    cluster.ledger.release(first)
    assert cluster.best(pod(300, NOT_RED)) == ("n1", ["n1-0"])


def test_a_card_of_an_exclusion_tag_takes_only_pods_of_it(cluster: SmallCluster) -> None:
    hold(cluster, "n1-0", ())
    assert cluster.best(pod(300, ONLY_RED)) == ("n1", ["n1-1"])
    hold(cluster, "n1-1", ONLY_RED)
    assert cluster.best(pod(300, ONLY_RED)) == ("n1", ["n1-1"])
    assert cluster.why(pod(300, THEIRS)) == {OTHER_EXCLUSION: 1}
    assert cluster.where(pod(300, RED)) == set()
    assert cluster.where(pod(800, ())) == set()
    assert cluster.best(pod(300, ())) == ("n1", ["n1-0"])
    assert cluster.where(a_shape(whole(1, tags=ONLY_RED))) == set()
    (lack,) = cluster.explain(pod(300, ()))
    assert (lack.subject, lack.reason) == ("n1-1", OTHER_EXCLUSION)


def test_what_a_claim_asks_of_a_card_of_its_tag_is_counted(cluster: SmallCluster) -> None:
    hold(cluster, "n1-0", (), 1000)
    hold(cluster, "n1-1", ONLY_RED, 700)
    assert cluster.where(pod(300, ONLY_RED)) == {"n1"}
    assert cluster.may_fit(pod(300, ONLY_RED))
    shape = pod(301, ONLY_RED)
    assert cluster.why(shape)["Insufficient GPU"] == 1
    assert cluster.evaluator.fits(shape, cluster.ledger.what_if(_first())).tolist() == [False]


def test_without_pods_that_are_evicted_their_tags_are_gone(cluster: SmallCluster) -> None:
    ledger = cluster.ledger
    rivals = [hold(cluster, f"n1-{slot}", NOT_RED) for slot in (0, 1)]
    rows, at = ledger.what_if(_first()), _first()
    assert cluster.evaluator.fits(pod(300, NOT_RED), rows).tolist() == [False]
    rows.add(at, ledger.amounts([rivals[:1]]), at, -1)
    rows.derive(at)
    assert cluster.evaluator.fits(pod(300, NOT_RED), rows).tolist() == [True]
    assert cluster.evaluator.fits(pod(300, NOT_RED), rows.take(at)).tolist() == [True]
    rows.add(at, ledger.amounts([rivals[:1]]), at)
    rows.derive(at)
    assert cluster.evaluator.fits(pod(300, NOT_RED), rows).tolist() == [False]
    assert cluster.where(pod(300, NOT_RED)) == set()


@pytest.mark.slow
def test_endless_tags_leave_nothing_behind(cluster: SmallCluster) -> None:
    for number in range(5000):
        uid = hold(cluster, "n1-0", tags((AFFINITY, f"t{number}")))
        cluster.ledger.release(uid)
    assert len(cluster.ledger.columns.tag_sets.values) < 3000
    hold(cluster, "n1-0", RED)
    assert cluster.best(pod(300, RED)) == ("n1", ["n1-0"])


@pytest.mark.parametrize("text", ["affinity=a/", "friend=a/red", "exclusion=a", "affinity=A/red"])
def test_a_tag_has_a_kind_a_namespace_and_a_word(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a"):
        tag_of(text)


def test_tags_of_a_claim_are_sorted_and_one_is_an_exclusion() -> None:
    for wrong in ((*ONLY_RED, *RED), RED + RED, tags((EXCLUSION, "a"), (EXCLUSION, "b"))):
        with pytest.raises(ValueError, match="tags"):
            a_claim(tags=wrong)
    assert tag_of(str(RED[0])) == RED[0]


def plain(there: Sequence[CardTags], free: int, milli: int, tagged: CardTags) -> bool:
    """Whether a card with these pods takes one more, by the words of the documentation."""
    present = {tag for one in there for tag in one}
    friends = {tag for tag in tagged if tag.kind is AFFINITY}
    rivals = {tag for tag in tagged if tag.kind is ANTI}
    apart = all({*exclusions(one)} == {*exclusions(tagged)} for one in there)
    affine = not there or friends <= present
    return free >= milli and apart and affine and not rivals & present


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from([0, 300, 500]), st.sampled_from(ALL), st.booleans()
    ),
    min_size=1,
    max_size=14,
)


@examples(200)
@given(STEPS)
def test_each_card_takes_exactly_the_pods_that_its_tags_allow(
    steps: list[tuple[int, int, CardTags, bool]],
) -> None:
    cluster = SmallCluster(GpuFit(), GpuTags(), BinPack(), weights={"GpuTags": 10})
    cluster.cards("n1", 2)
    cluster.cards("n2", 2)
    books: dict[str, list[tuple[PodUid, int, CardTags]]] = {}
    for which, milli, tagged, leaves in steps:
        if leaves and books.get(card := f"n{1 + which // 2}-{which % 2}"):
            cluster.ledger.release(books[card].pop()[0])
            continue
        takes = {}
        for name in ("n1-0", "n1-1", "n2-0", "n2-1"):
            held = books.get(name, [])
            free = 1000 - sum(one[1] for one in held)
            takes[name] = plain([one[2] for one in held], free, milli, tagged)
        shape = pod(milli, tagged)
        assert cluster.where(shape) == {name.split("-")[0] for name, fit in takes.items() if fit}
        for name in takes:
            allowed = all(
                {*exclusions(one[2])} == {*exclusions(tagged)} for one in books.get(name, [])
            )
            assert (refused(cluster, name, tagged) is None) == allowed
        best = cluster.best(shape)
        if best is not None:
            (card,) = best[1]
            assert takes[card]
            fitting = [name for name, fit in takes.items() if fit]
            friends = [name for name in fitting if _has_friends(books, name, tagged)]
            assert card in friends or not friends
            books.setdefault(card, []).append((hold(cluster, card, tagged, milli), milli, tagged))


def refused(cluster: SmallCluster, card: str, tagged: CardTags) -> str | None:
    row = cluster.ledger.columns.row_of[NodeName(card.split("-", maxsplit=1)[0])]
    charge = CardCharge(GpuUuid(card), 0, 0, tags=tagged)
    allocation = Allocation(token=DecisionToken("t"), cards=(charge,))
    return refusal(cluster.ledger.columns, row, (), allocation, port=False)


def _has_friends(
    books: dict[str, list[tuple[PodUid, int, CardTags]]], card: str, tagged: CardTags
) -> bool:
    friends = {tag for tag in tagged if tag.kind is AFFINITY}
    return bool(friends) and friends <= {tag for one in books.get(card, []) for tag in one[2]}


def _first() -> IntArray:
    return np.array([0])
