"""Which places members of a gang are kept to."""

import pytest

from kubeshare_plugins.coscheduling import Coscheduling
from kubeshare_py.topology.topology_labels import LABELS


def test_the_usual_labels_unless_others_are_given() -> None:
    assert Coscheduling().places() == LABELS
    assert Coscheduling(labels=["example.com/row"]).places() == ("example.com/row",)


@pytest.mark.parametrize("labels", ["zone", [1], [""], ["a", "a"]])
def test_what_are_no_labels_is_refused(labels: object) -> None:
    with pytest.raises(ValueError, match="labels must be"):
        Coscheduling(labels=labels)  # type: ignore[arg-type]
