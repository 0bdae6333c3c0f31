"""What a placed pod is shown to hold, whether its labels still ask for it, and why it is there."""

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.events import PodSeen
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import (
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.charges.holdings import asks_for_other
from kubeshare_py.scheduling.explain.explanation import cluster_view, why
from kubeshare_py.views.view import HoldingView, PlacementView, PodView
from tests.making import GIB, MODEL, Driver, a_claim, a_pod, a_shape, whole

HALF = a_shape(a_claim(500, memory_bytes=10 * GIB))


def view_of(driver: Driver, name: str) -> PodView:
    return next(pod for pod in cluster_view(driver.machine).pods if pod.name == name)


def placement_of(driver: Driver, name: str, *seen: str) -> PlacementView:
    """As a reader sees it who may see these namespaces, or all."""
    sees = {"default", *seen}.__contains__ if seen else (lambda namespace: True)
    found = why(driver.machine, PodKey("default", name), sees)
    assert found is not None
    assert found.placement is not None
    return found.placement


def test_a_placed_pod_holds_a_part_of_a_card_with_its_index() -> None:
    driver = Driver({"n1": 2})
    driver.tell(PodSeen(a_pod("waits", a_shape(whole(3)))))
    bind = driver.place(a_pod("a", HALF))
    assert bind.allocation is not None
    (card,) = bind.allocation.cards
    index = [gpu.uuid for gpu in driver.machine.ledger.inventory[NodeName("n1")]].index(card.uuid)
    assert view_of(driver, "a").holds == (
        HoldingView(
            uuid=card.uuid, index=index, model=MODEL, milli=500, memory_bytes=10 * GIB
        ),
    )  # fmt: skip
    assert view_of(driver, "waits").holds == ()


@pytest.mark.parametrize(
    ("shape", "differs"),
    [
        (HALF, False),
        (a_shape(a_claim(800, memory_bytes=10 * GIB)), True),
        (a_shape(a_claim(500, memory_bytes=GIB)), True),
        # Not said, it was the share's part when it was bound: nothing to compare with.
        (a_shape(a_claim(500)), False),
        (a_shape(whole(1)), True),
        (a_shape(whole(2)), True),
        (a_shape(a_claim(500, memory_bytes=10 * GIB, count=2)), True),
        (a_shape(), True),
        (a_shape(a_claim(500, memory_bytes=10 * GIB, share_of="T4")), False),
    ],
)
def test_labels_that_were_changed_after_the_bind_are_noticed(shape: Shape, differs: bool) -> None:
    driver = Driver({"n1": 2})
    pod = a_pod("a", HALF)
    bind = driver.place(pod)
    bound = replace(pod, node_name=NodeName("n1"), allocation=bind.allocation)
    driver.tell(PodSeen(bound))
    assert not view_of(driver, "a").asks_for_other
    driver.tell(PodSeen(replace(bound, shape=shape)))
    assert view_of(driver, "a").asks_for_other is differs
    assert view_of(driver, "a").holds[0].milli == 500


def test_labels_that_cannot_be_understood_any_more_are_other_ones() -> None:
    driver = Driver({"n1": 1})
    pod = a_pod("a", HALF)
    bound = replace(pod, node_name=NodeName("n1"), allocation=driver.place(pod).allocation)
    problem = InvalidRequest(field="gpu_limit", value="half", rule="must be a number")
    driver.tell(PodSeen(replace(bound, problem=problem)))
    assert view_of(driver, "a").asks_for_other


def a_request(*claims: tuple[GpuClaim, int]) -> GpuRequest:
    """Of claims, and the containers that they are of."""
    found = (
        ContainerClaim(claim=claim, container=ContainerRef(False, index)) for claim, index in claims
    )
    return GpuRequest(claims=tuple(found), dialect="d")


SMALL, LARGE = a_claim(200), a_claim(500, memory_bytes=GIB)


@pytest.mark.parametrize(
    ("asked", "differs"),
    [
        (a_request((SMALL, 0), (LARGE, 2)), False),
        (a_request((SMALL, 0), (a_claim(300, memory_bytes=GIB), 2)), True),
        (a_request((SMALL, 0), (a_claim(500, memory_bytes=2 * GIB), 2)), True),
        (a_request((SMALL, 0), (LARGE, 1)), True),
        (a_request((LARGE, 0), (SMALL, 2)), True),
        (a_request((SMALL, 0)), True),
        (a_request((SMALL, 0), (whole(1), 2)), True),
        (a_request((SMALL, 0), (LARGE, 2), (SMALL, 3)), True),
        (GpuRequest.of_pod(a_claim(700), dialect="d", limit_milli=0), True),
        (None, True),
    ],
)
def test_each_container_is_compared_with_what_it_holds(
    asked: GpuRequest | None, differs: bool
) -> None:
    card = GpuUuid("GPU-n1-0")
    parts = (CardCharge(card, 200, 5), CardCharge(card, 500, GIB))
    claims = tuple(
        ClaimCharge(container=ContainerRef(False, index), cards=(part,))
        for index, part in zip((0, 2), parts, strict=True)
    )
    held = Allocation(token=DecisionToken("t"), cards=summed(parts), claims=claims)
    shape = a_shape() if asked is None else Shape(claims=tuple(one.claim for one in asked.claims))
    driver = Driver({"n1": 1})
    pod = a_pod("a", shape, node_name=NodeName("n1"), allocation=held, request=asked)
    driver.tell(PodSeen(pod))
    record = driver.machine.records[pod.uid]
    assert asks_for_other(record) is differs
    record.pod = replace(pod, allocation_problem="version 3 is not known")
    assert not asks_for_other(record)


def test_a_bound_pods_node_is_ranked_as_if_it_were_placed_now() -> None:
    driver = Driver({"n1": 1, "n2": 1, "n3": 1})
    driver.place(a_pod("full", a_shape(whole(1))))
    bind = driver.place(a_pod("a", HALF))
    found = placement_of(driver, "a")
    assert (found.rank, found.fitting) == (1, 2)
    assert found.score == sum(one.points * one.weight for one in found.scores)
    assert {one.name for one in found.others} == {"n2", "n3"} - {bind.node}
    assert all(one.score <= found.score for one in found.others)
    # A card that it has alone would be too full for it, if it were not taken away first.
    assert placement_of(driver, "full").rank == 1
    # Its own charge is taken away for the question, and is there again after it.
    assert placement_of(driver, "a") == found


def test_neighbours_are_named_to_readers_who_may_see_them() -> None:
    driver = Driver({"n1": 1})
    for name, namespace in (("a", "default"), ("b", "default"), ("c", "team")):
        pod = a_pod(name, a_shape(a_claim(250, memory_bytes=GIB)))
        driver.place(replace(pod, key=PodKey(namespace, name)))
    named = [(one.namespace, one.name) for one in placement_of(driver, "a").neighbours]
    assert named == [("default", "b"), ("team", "c")]
    assert placement_of(driver, "a").neighbours[0].holds[0].milli == 250
    hidden = placement_of(driver, "a", "other").neighbours
    assert [(one.namespace, one.name) for one in hidden] == [("", ""), ("default", "b")]


def test_cards_that_are_named_come_with_their_indexes() -> None:
    driver = Driver({"n1": 2})
    for name in ("a", "b"):
        driver.place(a_pod(name, HALF))
    driver.seen(a_pod("big", a_shape(whole(2))))
    indexes = {str(gpu.uuid): gpu.index for gpu in driver.machine.ledger.inventory[NodeName("n1")]}
    found = why(driver.machine, PodKey("default", "big"))
    assert found is not None
    subjects = {one.subject for node in found.nodes for one in node.shortfalls if one.subject}
    assert subjects
    assert found.indexes == {uuid: indexes[uuid] for uuid in subjects}
    placed = why(driver.machine, PodKey("default", "a"))
    assert placed is not None
    assert placed.indexes == {one.uuid: one.index for one in placed.pod.holds}
