"""What people are shown, whole and in portions."""

import msgspec
import numpy as np
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.events import (
    InventoryRead,
    NodeGone,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import PodGroup, Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.plugin import Depends, RowFilter
from kubeshare_py.scheduling.explain.explanation import (
    NODES_A_PORTION,
    PODS_A_PORTION,
    cluster_portions,
    cluster_view,
    why,
    why_steps,
)
from kubeshare_py.scheduling.explain.node_verdicts import MAX_CALLS, Shortfalls
from kubeshare_py.scheduling.explain.question import completed
from kubeshare_py.scheduling.machine import Machine
from tests.making import (
    GIB,
    Driver,
    a_claim,
    a_group,
    a_machine,
    a_node,
    a_pod,
    a_shape,
    a_share,
    members,
    some_gpus,
    whole,
)
from tests.making.devices import a_claim_of, device_driver
from tests.scheduling.test_volume_binding_of_pods import StorageDriver, mounting

NODES = 2 * NODES_A_PORTION + 1
SHAPE = a_shape(a_claim(500))


def test_the_view_lists_nodes_and_pods_by_name() -> None:
    driver = Driver({"n2": 1, "n1": 1})
    for name in ("b", "a"):
        driver.place(a_pod(name, SHAPE))
    view = cluster_view(driver.machine)
    assert [node.name for node in view.nodes] == ["n1", "n2"]
    assert [pod.name for pod in view.pods] == ["a", "b"]
    assert [
        tenant.name for node in view.nodes for card in node.cards for tenant in card.tenants
    ] == [
        "a",
        "b",
    ]


def test_a_pod_of_a_gang_names_it() -> None:
    driver = Driver({"n1": 1})
    for pod in (*members(a_group(2), 2), a_share("alone", 500)):
        driver.tell(PodSeen(pod))
    named = {pod.name: pod.gang for pod in cluster_view(driver.machine).pods}
    assert named == {"alone": "", "g-0": "g", "g-1": "g"}


def test_portions_add_up_to_all() -> None:
    driver = Driver({f"n{number}": 1 for number in range(NODES)})
    for number in range(PODS_A_PORTION + 1):
        driver.tell(PodSeen(a_pod(f"p{number}", SHAPE)))
    first, *others = cluster_portions(driver.machine)
    assert (first.ready, first.inventory, first.nodes, first.pods) == (True, "read", (), ())
    assert max(len(one.nodes) for one in others) == NODES_A_PORTION
    assert max(len(one.pods) for one in others) == PODS_A_PORTION
    assert sum(len(one.nodes) for one in others) == NODES
    assert sum(len(one.pods) for one in others) == PODS_A_PORTION + 1


def test_what_leaves_between_portions_is_left_out() -> None:
    driver = Driver({f"n{number:03}": 1 for number in range(NODES)})
    bind = driver.place(a_pod("a", SHAPE))
    portions = cluster_portions(driver.machine)
    next(portions)
    next(portions)
    last = f"n{NODES - 1:03}"
    driver.tell(NodeGone(NodeName(last)), PodGone(PodUid("uid-a")))
    rest = list(portions)
    assert last not in {node.name for one in rest for node in one.nodes}
    assert not [pod for one in rest for pod in one.pods]
    assert bind.node == "n000"


def test_pods_of_other_schedulers_are_not_shown() -> None:
    driver = Driver({"n1": 1})
    driver.tell(
        PodSeen(replace(a_pod("other"), scheduler_name="default", node_name=NodeName("n1")))
    )
    assert cluster_view(driver.machine).pods == ()


def test_who_stands_by_says_what_the_leader_says() -> None:
    leader, standby = (Driver({"n1": 1, "n2": 2}) for _ in range(2))
    for name, claim in (("big", whole(3)), ("huge", whole(9)), ("a", a_claim(500))):
        seen = PodSeen(a_pod(name, a_shape(claim)))
        leader.tell(seen)
        standby.tell(seen)
    assert "a" in {bind.key.name for bind in leader.decide()}
    said = {pod.name: pod.message for pod in cluster_view(standby.machine).pods}
    assert said == {
        "big": said["huge"].replace("9", "3"),
        "huge": "impossible: no node has 9 GPUs: the largest has 2 (node n2). "
        "0/2 nodes are available: 2 too few GPUs.",
        "a": "",
    }
    assert said == {pod.name: pod.message for pod in cluster_view(leader.machine).pods}
    shown = [why(driver.machine, PodKey("default", "big")) for driver in (leader, standby)]
    assert {view.message for view in shown if view is not None} == {said["big"]}


def test_a_member_can_be_asked_about_before_the_needs_of_its_gang_were_counted() -> None:
    driver = Driver({"n1": 1})
    group = PodGroup(name="g", headcount=2, min_available=2)
    driver.tell(PodSeen(a_pod("a", SHAPE, group=group, owner="g")))
    found = why(driver.machine, PodKey("default", "a"))
    assert found is not None
    assert [node.fits for node in found.nodes] == [True]


def test_what_several_plugins_say_of_a_node_is_there_once() -> None:
    driver = StorageDriver({"n1": 1})
    driver.show(mounting("p", "nope"))
    found = why(driver.machine, PodKey("default", "p"))
    assert found is not None
    (node,) = found.nodes
    assert 'persistentvolumeclaim "nope" not found' in node.reasons
    assert len(set(node.reasons)) == len(node.reasons)


def test_a_claim_that_holds_a_card_is_its_tenant() -> None:
    driver = device_driver({"n1": 1})
    driver.see(a_claim_of("gpu-0"))
    driver.show(a_pod("s", SHAPE))
    (node,) = cluster_view(driver.machine).nodes
    (card,) = node.cards
    assert [one.name for one in card.tenants] == ["resourceclaim/c"]
    assert card.lingering == ()
    assert why(driver.machine, PodKey("default", "s")) is not None


def full_nodes(count: int, machine: Machine | None = None) -> Driver:
    """Nodes of 8 cards, each of which has a pod."""
    driver = Driver({f"n{number:04}": 8 for number in range(count)}, machine=machine)
    for number in range(count):
        for card in range(8):
            uuid = GpuUuid(f"GPU-n{number:04}-{card}")
            held = Allocation(token=DecisionToken("t"), cards=(CardCharge(uuid, 600, GIB),))
            node = NodeName(f"n{number:04}")
            pod = a_pod(f"p{number}-{card}", SHAPE, node_name=node, allocation=held)
            driver.tell(PodSeen(pod))
    driver.seen(a_pod("big", a_shape(whole(1))))
    return driver


def test_where_all_nodes_differ_only_the_nearest_have_numbers() -> None:
    driver = full_nodes(3)
    record = driver.machine.records[PodUid("uid-big")]
    profile = driver.machine.reading().evaluators[record.pod.scheduler_name].profile
    shortfalls, columns = Shortfalls(profile, record), driver.machine.ledger.columns
    reasons = ("Insufficient GPU",)
    assert shortfalls.of(columns, 0, {"GpuFit"}, reasons) is not None
    shortfalls.calls = MAX_CALLS
    assert shortfalls.of(columns, 1, {"GpuFit"}, reasons) is not None  # it is like the first
    driver.seen(a_share("more", 100))
    differs = next(row for row in range(3) if columns.tenants[row].max() > 1)
    assert shortfalls.of(columns, differs, {"GpuFit"}, reasons) is None


def test_why_goes_on_after_what_it_is_about_has_left() -> None:
    driver = full_nodes(2)
    steps = why_steps(driver.machine, PodKey("default", "big"))
    next(steps)
    driver.tell(NodeGone(NodeName("n0000")))
    answer = completed(steps)
    assert answer is not None
    assert [node.name for node in answer.nodes] == ["n0001"]
    steps = why_steps(driver.machine, PodKey("default", "big"))
    next(steps)
    driver.tell(PodGone(PodUid("uid-big")))
    assert completed(steps) is None


def test_the_counts_are_of_the_same_instant_as_the_nodes() -> None:
    driver = full_nodes(2)
    reported = driver.machine.records[PodUid("uid-big")]
    (before,) = (one.message for one in cluster_view(driver.machine).pods if one.name == "big")
    assert "2 Insufficient GPU" in before
    driver.tell(PodGone(PodUid("uid-p1-3")))
    answer = why(driver.machine, reported.pod.key)
    assert answer is not None
    assert [node.fits for node in answer.nodes] == [False, True]
    assert answer.message.startswith("1 node has room for it now, and it is tried again; ")


def test_plugins_are_asked_once_for_nodes_that_look_alike() -> None:
    asked, sizes = [], []
    for count in (3, 60):
        driver = full_nodes(count)
        record = driver.machine.records[PodUid("uid-big")]
        profile = driver.machine.reading().evaluators[record.pod.scheduler_name].profile
        shortfalls, columns = Shortfalls(profile, record), driver.machine.ledger.columns
        for row in columns.row_of.values():
            assert shortfalls.of(columns, row, {"GpuFit"}, ()) is not None
        asked.append(shortfalls.calls)
        answer = why(driver.machine, record.pod.key)
        assert answer is not None
        (verdict,) = answer.nodes
        assert (verdict.name, len(verdict.alike)) == ("n0000", count - 1)
        assert [one.subject for one in verdict.shortfalls] == [f"GPU-n0000-{n}" for n in range(8)]
        names = sum(len(f'"{name}",') for name in verdict.alike)
        sizes.append(len(msgspec.json.encode(answer)) - names)
    assert asked[0] == asked[1]
    assert sizes[1] - sizes[0] < 20


class RowsAsked:
    """Counts the rows that its filter is asked about, since `rows` was set."""

    name = "RowsAsked"
    depends = Depends.ROW
    rows = 0

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        def ask(rows: Rows) -> IntArray:
            self.rows += len(rows.index)
            return np.zeros(len(rows.index), np.int64)

        return ask


@pytest.mark.slow
def test_a_step_asks_about_all_nodes_twice_at_most() -> None:
    plugin = RowsAsked()
    enabled = {"filter": {"enabled": [{"name": plugin.name}]}}
    document = read({"profiles": [{"plugins": enabled}]})
    factories = {**IN_TREE, plugin.name: lambda: plugin}
    driver = full_nodes(300, Machine(profiles(document, factories), "test"))
    asked = []
    plugin.rows = 0
    for _ in why_steps(driver.machine, PodKey("default", "big")):
        asked.append(plugin.rows)
        plugin.rows = 0
    rows = driver.machine.ledger.columns.rows
    assert sum(asked) > 6 * rows  # shares were tried one after the other
    assert max(asked) <= 2 * rows


def test_what_keeps_pods_off_nodes_and_cards_is_seen() -> None:
    machine = a_machine()
    taint = Taint("node.kubernetes.io/unreachable", effect="NoSchedule")
    nodes = (
        a_node("n10", taints=(taint,)),
        a_node("n2", unschedulable=True),
        a_node("n1", cordoned=(GpuUuid("GPU-n1-1"),)),
    )
    cards = tuple((node.name, some_gpus(node.name, 2)) for node in nodes)
    for event in (PodsListed((), 0.0), NodesListed(nodes), InventoryRead(cards)):
        machine.handle(event, 0.0)
    first, second, last = cluster_view(machine).nodes
    assert [one.name for one in (first, second, last)] == ["n1", "n2", "n10"]
    assert [card.cordoned for card in first.cards] == [False, True]
    assert [one.unschedulable for one in (first, second, last)] == [False, True, False]
    assert [one.not_ready for one in (first, second, last)] == [False, False, True]


def test_a_node_without_cards_does_not_look_like_one_with_a_card_that_is_not_in_the_inventory() -> (
    None
):
    """The flags of their first slots are the same. An answer for the other one was an error."""
    driver = Driver({"n1": 0, "n2": 0})
    gone = Allocation(token=DecisionToken("t"), cards=(CardCharge(GpuUuid("GPU-gone"), 500, 0),))
    driver.seen(a_pod("old", a_shape(a_claim(500)), node_name=NodeName("n1"), allocation=gone))
    driver.seen(a_share("new"))
    found = why(driver.machine, PodKey("default", "new"))
    assert found is not None
    subjects = {node.name: [one.subject for one in node.shortfalls] for node in found.nodes}
    assert subjects == {"n1": ["", "GPU-gone"], "n2": [""]}
