"""The order of the queue."""

from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_py.domain.pod import Pod
from tests.making import a_pod

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def in_order(*pods: Pod) -> list[str]:
    return [pod.key.name for pod in sorted(pods, key=PrioritySort().key)]


def test_higher_priority_goes_first_however_young() -> None:
    low, high = a_pod("low", created=OLD), a_pod("high", priority=100, created=NEW)
    assert in_order(low, high) == ["high", "low"]
    assert in_order(a_pod("negative", priority=-1, created=OLD), a_pod("zero", created=NEW)) == [
        "zero",
        "negative",
    ]


def test_the_label_orders_what_the_priority_leaves_equal() -> None:
    plain = a_pod("plain", created=OLD)
    label = a_pod("label", label_priority=100, created=NEW)
    assert in_order(plain, label) == ["label", "plain"]


def test_the_label_never_beats_the_clusters_own_priority() -> None:
    labelled = a_pod("labelled", label_priority=100, created=OLD)
    important = a_pod("important", priority=1, created=NEW)
    assert in_order(labelled, important) == ["important", "labelled"]


def test_among_equals_the_older_pod_goes_first() -> None:
    assert in_order(a_pod("new", created=NEW), a_pod("old", created=OLD)) == ["old", "new"]


def test_pods_of_one_second_are_left_to_the_order_of_their_arrival() -> None:
    assert in_order(a_pod("b", created=OLD), a_pod("a", created=OLD)) == ["b", "a"]
    assert len({PrioritySort().key(a_pod(name, created=OLD)) for name in "abc"}) == 1
