"""Pods that name nodes which the API server has not shown: tables, decisions and views."""

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import Event, InventoryRead, NodeGone, NodeSeen, PodGone, PodSeen
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import cluster_view, pod_portions, why
from kubeshare_py.scheduling.explain.figures import card_figures, ledger_figures, pod_figures
from tests.making import (
    GIB,
    PREEMPTION,
    Driver,
    a_claim,
    a_group,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    names,
    some_gpus,
)

MANY = 3000
N2 = NodeName("n2")


def far(name: str, node: str, uuid: str = "GPU-a", milli: int = 600) -> Pod:
    """A pod that says that it is placed there."""
    cards = (CardCharge(GpuUuid(uuid), milli, 0),)
    allocation = Allocation(token=DecisionToken("t"), cards=cards, port=50051)
    shape = a_shape(a_claim(milli))
    return a_pod(name, shape, node_name=NodeName(node), allocation=allocation)


@pytest.mark.slow
def test_thousands_of_them_leave_the_tables_and_the_decisions_as_they_were() -> None:
    driver = Driver({"n1": 1})
    columns = driver.machine.ledger.columns
    rows, width = columns.rows, columns.width
    for number in range(MANY):
        driver.tell(PodSeen(far(f"far-{number}", f"no-{number}")))
    assert (columns.rows, columns.width, {*columns.row_of}) == (rows, width, {"n1"})
    assert [bind.node for bind in driver.seen(a_share("plain", 700))] == ["n1"]
    assert driver.seen(a_share("more", 700)) == []
    waits = why(driver.machine, PodKey("default", "more"))
    assert waits is not None
    assert waits.message.startswith("0/1 nodes are available")
    for number in range(MANY):
        driver.tell(PodGone(PodUid(f"uid-far-{number}")))
    assert (columns.rows, columns.width, {*columns.row_of}) == (rows, width, {"n1"})


def test_people_and_metrics_are_shown_them_as_pods_of_a_node_that_is_not_there() -> None:
    driver = Driver({"n1": 1})
    driver.tell(PodSeen(far("far", "no-1")), PodSeen(far("near", "no-1")))
    machine = driver.machine
    found = why(machine, PodKey("default", "far"))
    assert found is not None
    assert (found.pod.node, found.pod.cards, found.ring) == ("no-1", ("GPU-a",), None)
    assert found.placement is not None
    assert (found.placement.rank, found.placement.others) == (0, ())
    view = cluster_view(machine)
    assert [node.name for node in view.nodes] == ["n1"]
    assert [pod.name for pod in view.pods] == ["far", "near"]
    portions = [*pod_portions(machine, "default")]
    assert [pod.name for one in portions for pod in one.pods] == ["far", "near"]
    assert [node for one in portions for node in one.nodes] == []
    figures = ledger_figures(machine)
    assert (figures.nodes, figures.cards, figures.shared_ports) == (1, 1, 0)
    assert {name for one in card_figures(machine) for name in one.nodes} == {"n1"}
    *_, pods = pod_figures(machine)
    assert pods.holding == 2


STORIES: dict[str, tuple[Event, ...]] = {
    "pod first": (
        PodSeen(far("far", "n2", "GPU-n2-0")),
        NodeSeen(a_node("n2")),
        InventoryRead(((N2, some_gpus("n2", 1)),)),
    ),
    "cards first": (
        InventoryRead(((N2, some_gpus("n2", 1)),)),
        PodSeen(far("far", "n2", "GPU-n2-0")),
        PodSeen(far("gone", "n2", "GPU-n2-0")),
        PodGone(PodUid("uid-gone")),
        NodeSeen(a_node("n2")),
    ),
    "node first": (
        NodeSeen(a_node("n2")),
        InventoryRead(((N2, some_gpus("n2", 1)),)),
        PodSeen(far("far", "n2", "GPU-n2-0")),
    ),
    "while it is away": (
        NodeSeen(a_node("n2")),
        InventoryRead(((N2, some_gpus("n2", 1)),)),
        NodeGone(N2),
        PodSeen(far("far", "n2", "GPU-n2-0")),
        NodeSeen(a_node("n2")),
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_they_hold_counts_once_their_node_is_there(story: str) -> None:
    driver = Driver({"n1": 0})
    driver.tell(*STORIES[story])
    assert driver.seen(a_share("large", 500)) == []
    (bind,) = driver.seen(a_share("small", 400))
    assert (bind.node, bind.allocation.port) == ("n2", 50052)
    (node,) = (one for one in cluster_view(driver.machine).nodes if one.name == "n2")
    assert [card.used_milli for card in node.cards] == [1000]


def test_a_pod_that_leaves_there_does_not_stand_in_the_way_of_preemption() -> None:
    driver = Driver({"n1": 1}, PREEMPTION)
    driver.fill(a_share("low", 1000, 1))
    driver.tell(PodSeen(replace(far("leaving", "no-1"), deleting=True)))
    driver.show(a_share("high", 1000, 9))
    assert driver.evicted == ["low"]
    assert [bind.key.name for bind in driver.gone("low")] == ["high"]


def test_a_gang_with_a_member_there_goes_whole_for_another() -> None:
    driver, group = Driver({"n1": 2}, PREEMPTION), a_group(2)
    here, there = members(group, 2)
    held = Allocation(
        token=DecisionToken("t"),
        cards=(CardCharge(GpuUuid("GPU-n1-0"), 1000, 16 * GIB),),
        group="g",
        min_available=2,
    )
    driver.show(
        replace(here, node_name=NodeName("n1"), allocation=held),
        replace(there, node_name=NodeName("no-1"), allocation=held),
    )
    driver.fill(a_share("low", 1000, -1))
    others = members(a_group(2, "h"), 2, priority=9)
    driver.show(*others)
    assert sorted(driver.evicted) == ["g-0", "g-1", "low"]
    assert names(driver.gone("g-0", "g-1", "low")) == ["h-0", "h-1"]


@pytest.mark.parametrize("within", ["", "zone"])
@pytest.mark.parametrize("minimum", [1, 3])
def test_members_of_a_gang_that_is_there_find_places_elsewhere(minimum: int, within: str) -> None:
    driver = Driver({"n1": 2, "n3": 2}, labels={"zone": "east"})
    group = replace(a_group(minimum, headcount=3), within=within)
    first, *others = members(group, 3)
    charge = CardCharge(GpuUuid("GPU-a"), 1000, 16 * GIB)
    held = Allocation(token=DecisionToken("t"), cards=(charge,), group="g", min_available=minimum)
    driver.show(replace(first, node_name=NodeName("no-1"), allocation=held))
    before = dict(driver.machine.ledger.columns.row_of)
    binds = driver.show(*others)
    assert names(binds) == ["g-1", "g-2"]
    assert len({bind.node for bind in binds}) == 1
    found = why(driver.machine, PodKey("default", "g-1"))
    assert found is not None
    assert driver.machine.ledger.columns.row_of == before
