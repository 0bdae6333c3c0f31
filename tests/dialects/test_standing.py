"""Priority and gang, whatever the dialect; `test_sharedgpu` has their values."""

import pytest

from kubeshare_py.dialects.standing import Standing, standing
from kubeshare_py.domain.pod import PodGroup

GANG = {
    "sharedgpu/group_name": "g",
    "sharedgpu/group_headcount": "3",
    "sharedgpu/group_threshold": "0.5",
}


@pytest.mark.parametrize("labels", [{}, {"app": "x"}, {"sharedgpu/priority": ""}])
def test_pods_without_such_labels_are_ordinary(labels: dict[str, str]) -> None:
    assert standing(labels) == Standing()


def test_priority_and_gang_are_understood_together() -> None:
    found = standing({**GANG, "sharedgpu/priority": "7"})
    assert found == Standing(7, PodGroup(name="g", headcount=3, min_available=2))


def test_a_bad_gang_comes_before_a_bad_priority_which_leaves_the_gang() -> None:
    both = standing({**GANG, "sharedgpu/group_headcount": "x", "sharedgpu/priority": "x"})
    assert both.problem is not None
    assert (both.problem.field, both.group) == ("sharedgpu/group_headcount", None)
    one = standing({**GANG, "sharedgpu/priority": "x"})
    assert one.problem is not None
    assert (one.problem.field, one.group is not None) == ("sharedgpu/priority", True)
