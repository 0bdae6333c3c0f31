"""Who gives way to whom."""

import pytest

from kubeshare_plugins.default_preemption import DefaultPreemption
from kubeshare_py.domain.effects import Preemptor
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import a_pod

GUARANTEE = Preemptor(namespace="default", name="p", priority=5, guarantee=True)


def gives_way(pod: Pod, preemptor: Preemptor = GUARANTEE, word: str = "Namespace") -> bool:
    return DefaultPreemption(word).post_filter(preemptor)(pod)


def test_lower_priorities_give_way_wherever_they_are() -> None:
    elsewhere = replace(a_pod(priority=4, label_priority=9), key=PodKey("elsewhere", "p"))
    assert gives_way(elsewhere)
    assert not gives_way(a_pod(priority=6))


def test_among_equals_opportunistic_pods_of_the_same_namespace_do() -> None:
    equal = a_pod(priority=5)
    assert gives_way(equal)
    assert not gives_way(replace(equal, key=PodKey("elsewhere", "p")))
    assert not gives_way(replace(equal, label_priority=1))
    assert not gives_way(equal, replace(GUARANTEE, guarantee=False))


def test_the_argument_says_never_or_everywhere() -> None:
    elsewhere = replace(a_pod(priority=5), key=PodKey("elsewhere", "p"))
    assert gives_way(elsewhere, word="Everywhere")
    assert not gives_way(a_pod(priority=5), word="Never")
    with pytest.raises(ValueError, match="must be Namespace, Never or Everywhere"):
        DefaultPreemption("Sometimes")
