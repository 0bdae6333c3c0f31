"""What several claims need of a node together, of what is free and of all that there is."""

import pytest

from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import CardRelation
from kubeshare_py.framework.claims.claim_fit import fits_claim
from kubeshare_py.framework.claims.joint_needs import JointAmount, joint_needs
from kubeshare_py.testing import SmallCluster
from tests.builders import GIB, a_claim, a_gpu, a_shape, whole

CARDS, SHARE, MEMORY = JointAmount
APART, SAME = CardRelation.DIFFERENT_CARDS, CardRelation.SAME_CARD


def a_cluster() -> SmallCluster:
    """One node with two cards of 40 GiB, of which one has 600 milli and 10 GiB left."""
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("c0", index=0), a_gpu("c1", index=1, model="T4"))
    cluster.hold("n1", "c0", 400, memory=30 * GIB)
    return cluster


def needs_of(shape: Shape, *, free: bool) -> list[tuple[JointAmount, int, int]]:
    rows = AllRows(a_cluster().ledger.columns)
    fitting = [fits_claim(claim)(rows) for claim in shape.claims]
    if not free:
        fitting = [fits | True for fits in fitting]
    found = joint_needs(shape, rows, fitting, free=free)
    return [(one.amount, one.needed.item(0), one.there.item(0)) for one in found]


@pytest.mark.parametrize(
    ("shape", "free", "all_there"),
    [
        (
            a_shape(a_claim(500, memory_bytes=GIB), a_claim(600, memory_bytes=GIB)),
            [(CARDS, 1, 2), (SHARE, 1100, 1600), (MEMORY, 2 * GIB, 50 * GIB)],
            [(CARDS, 1, 2), (SHARE, 1100, 2000), (MEMORY, 2 * GIB, 80 * GIB)],
        ),
        (
            # Only one card has 20 GiB left: the other is none of the claim's.
            a_shape(a_claim(500), a_claim(500), relation=APART),
            [(CARDS, 2, 1), (SHARE, 1000, 1000), (MEMORY, 40 * GIB, 40 * GIB)],
            [(CARDS, 2, 2), (SHARE, 1000, 2000), (MEMORY, 40 * GIB, 80 * GIB)],
        ),
        (
            a_shape(
                a_claim(100, memory_bytes=6 * GIB),
                a_claim(200, memory_bytes=6 * GIB),
                relation=SAME,
            ),
            [(CARDS, 1, 1)],
            [(CARDS, 1, 2)],
        ),
        (
            a_shape(whole(1), a_claim(100, memory_bytes=GIB, count=2)),
            [(CARDS, 3, 2), (SHARE, 1200, 1600), (MEMORY, 42 * GIB, 50 * GIB)],
            [(CARDS, 3, 2), (SHARE, 1200, 2000), (MEMORY, 42 * GIB, 80 * GIB)],
        ),
        (
            # A share of another model's card is what it is of the smallest part of a card here.
            a_shape(
                a_claim(500, share_of="A100", shares=(("A100", 500), ("T4", 300)), memory_bytes=1),
                a_claim(0, memory_bytes=1),
            ),
            [(CARDS, 1, 2), (SHARE, 300, 1600), (MEMORY, 2, 50 * GIB)],
            [(CARDS, 1, 2), (SHARE, 300, 2000), (MEMORY, 2, 80 * GIB)],
        ),
    ],
)
def test_each_need_is_compared_with_what_there_is(
    shape: Shape, free: list[object], all_there: list[object]
) -> None:
    assert needs_of(shape, free=True) == free
    assert needs_of(shape, free=False) == all_there
