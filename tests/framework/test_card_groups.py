"""What cards are worth, and which group of them is best."""

import numpy as np
import pytest

from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.framework.card_groups import nth_best, tier_points
from kubeshare_py.testing import SmallCluster
from tests.making import a_gpu


@pytest.mark.parametrize(("count", "worth"), [(1, 90), (2, 50), (3, -1), (4, -1)])
def test_several_cards_are_worth_what_the_worst_of_them_is(count: int, worth: int) -> None:
    assert nth_best(np.array([[50, 90, -1]]), count).tolist() == [[worth]]


def test_points_fall_in_equal_steps_from_the_first_tier_to_the_last() -> None:
    cluster = SmallCluster()
    names = ("H100", "A100", "L40S", "T4")
    cluster.node("n1", *(a_gpu(name, index=at, model=name) for at, name in enumerate(names)))
    points = tier_points(PreferredModels(tiers=(("H100",), ("A100",), ("*",)), denied=("T4",)))
    assert points is not None
    by_card = dict(
        zip(
            cluster.ledger.columns.uuids[0],
            points.of(AllRows(cluster.ledger.columns))[0].tolist(),
            strict=True,
        )
    )
    assert by_card == {"H100": 100, "A100": 50, "L40S": 0, "T4": -1}


@pytest.mark.parametrize(
    "wish", [None, PreferredModels(denied=("T4",)), PreferredModels(tiers=(("A", "B"),))]
)
def test_who_has_no_order_prefers_nothing(wish: PreferredModels | None) -> None:
    assert tier_points(wish) is None
