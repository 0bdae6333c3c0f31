"""The scores of nodes that kube-scheduler gets are those of all plugins of the profile."""

import pytest

from kubeshare_py.domain.events import BindAsked, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import Order, PlacementPolicy
from kubeshare_py.scheduling.explain.extender_answers import scored
from tests.making import Driver, a_claim, a_pod, a_shape, whole

NAME = "hami-scheduler"
DOCUMENT = {"profiles": [{}, {"schedulerName": NAME, "extender": True}]}
NODES = tuple(map(NodeName, ("n1", "n2", "n3", "absent")))


def a_driver() -> Driver:
    """Nodes of one card: n1 is idle, n2 half full, n3 full."""
    driver = Driver({"n1": 1, "n2": 1, "n3": 1}, DOCUMENT)
    for node, claim in (("n2", a_claim(500)), ("n3", whole(1))):
        pod = a_pod(f"on-{node}", a_shape(claim), scheduler_name=NAME)
        driver.tell(PodSeen(pod), BindAsked(pod.uid, pod.key, NodeName(node)))
    return driver


def asking(policy: PlacementPolicy | None) -> Pod:
    return a_pod("p", a_shape(a_claim(100), policy=policy), scheduler_name=NAME)


@pytest.mark.parametrize(
    ("policy", "scores"),
    [
        (None, (0, 10, 0, 0)),
        (PlacementPolicy(node=Order.FULLEST), (0, 10, 0, 0)),
        (PlacementPolicy(node=Order.EMPTIEST), (10, 0, 0, 0)),
    ],
)
def test_the_pods_own_policy_of_nodes_counts_in_the_scores(
    policy: PlacementPolicy | None, scores: tuple[int, ...]
) -> None:
    found = scored(a_driver().machine, asking(policy), NODES)
    assert found == tuple(zip(NODES, scores, strict=True))
