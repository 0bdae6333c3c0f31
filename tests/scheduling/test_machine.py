"""What the machine does with one event after another."""

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Bind, ReportScheduled, ReportWaiting
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    BindSlotsFree,
    BindUnknown,
    Bound,
    InventoryRead,
    NodeGone,
    NodeSeen,
    NodesListed,
    PodGone,
    PodSeen,
    PodsListed,
    Refusal,
    TimePassed,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.manifests.events import portions_of
from kubeshare_py.scheduling.machine import MAX_UNANSWERED, Machine, known_events
from kubeshare_py.scheduling.queue.waiting_reports import INVENTORY_PATIENCE_S, INVENTORY_UNREAD
from tests.making import (
    Driver,
    a_claim,
    a_cluster,
    a_node,
    a_pod,
    a_shape,
    a_share,
    of,
    some_gpus,
    whole,
)


def test_a_freed_card_wakes_the_pod_that_it_may_help_at_once() -> None:
    driver = Driver({"n1": 1})
    first = a_share("first", 700)
    driver.place(first)
    assert driver.seen(a_share("second", 600)) == []
    driver.tell(PodGone(first.uid))
    assert [bind.key.name for bind in driver.decide()] == ["second"]


def test_a_freed_card_wakes_nobody_whom_it_cannot_help() -> None:
    driver = Driver({"n1": 2})
    driver.place(a_share("a", 600))
    small = a_share("b", 600)
    driver.place(small)
    driver.seen(a_pod("big", a_shape(whole(2))))
    driver.tell(PodGone(small.uid))
    driver.decide()
    shape_queue = driver.machine.queue.queue_of(a_pod("big").uid)
    assert shape_queue is not None
    assert shape_queue.unschedulable


def test_nothing_is_placed_before_pods_and_nodes_are_known() -> None:
    driver = Driver(None)
    lists = a_cluster({"n1": 1})
    driver.tell(PodSeen(a_pod()))
    assert driver.tell(BindSlotsFree(9)) == []
    driver.tell(lists[0])
    driver.tell(PodSeen(a_pod()))
    assert driver.tell(BindSlotsFree(9)) == []
    driver.tell(lists[1])
    assert [type(effect) for effect in driver.tell(BindSlotsFree(9))] == [Bind]


@pytest.mark.parametrize("shares", [(500,), (500, 400)])
def test_without_inventory_gpu_pods_wait_and_others_are_placed(shares: tuple[int, ...]) -> None:
    driver = Driver(None)
    driver.tell(*a_cluster({"n1": 1})[:2])
    driver.tell(PodSeen(a_pod("gpu", a_shape(*map(a_claim, shares)))))
    driver.tell(PodSeen(a_pod("cpu")))
    effects = driver.tell(BindSlotsFree(9))
    assert [effect.key.name for effect in effects if isinstance(effect, Bind)] == ["cpu"]
    assert not of(ReportWaiting, effects)
    driver.tell(PodSeen(a_pod("later", a_shape(*map(a_claim, shares)))))
    effects = driver.tell(BindSlotsFree(9))
    assert not of(ReportWaiting, effects)
    driver.now = INVENTORY_PATIENCE_S
    effects = driver.tell(TimePassed())
    waiting = of(ReportWaiting, effects)
    assert [report.diagnosis.message for report in waiting] == [INVENTORY_UNREAD] * 2
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 2)),)))
    assert [type(effect) for effect in driver.tell(BindSlotsFree(9))] == [Bind, Bind]


def test_spec_priority_goes_before_label_priority_before_age_before_arrival() -> None:
    driver = Driver({"n1": 1})
    blocker = a_share("blocker")
    driver.place(blocker)
    shape = a_shape(a_claim(1000))
    pods = [
        a_pod("z-old", shape, created="1"),
        a_pod("y-new", shape, created="2"),
        a_pod("x-new", shape, created="2"),
        a_pod("label", shape, created="3", label_priority=100),
        a_pod("spec", shape, created="4", priority=1),
    ]
    for pod in pods:
        driver.tell(PodSeen(pod))
    order, last = [], blocker
    for _ in pods:
        driver.tell(PodGone(last.uid))
        (bind,) = driver.decide()
        order.append(bind.key.name)
        last = next(pod for pod in pods if pod.uid == bind.uid)
    assert order == ["spec", "label", "z-old", "y-new", "x-new"]


def test_a_high_priority_pod_of_another_shape_is_tried_first() -> None:
    driver = Driver({"n1": 1})
    blocker = a_share("blocker")
    driver.place(blocker)
    driver.tell(PodSeen(a_share("small", 600)))
    driver.seen(a_share("urgent", 700, priority=5))
    driver.tell(PodGone(blocker.uid))
    assert [bind.key.name for bind in driver.decide()] == ["urgent"]


def test_at_most_64_placements_are_unanswered() -> None:
    driver = Driver({"n1": 8, "n2": 8}, pods=1000)
    for number in range(80):
        driver.tell(PodSeen(a_share(f"{number}", 100)))
    binds = driver.decide(1000)
    assert len(binds) == MAX_UNANSWERED
    assert driver.decide(1000) == []
    driver.answer(binds[0], Bound())
    assert len(driver.decide(1000)) == 1


def test_a_malformed_label_is_told_once_and_nothing_else_stops() -> None:
    driver = Driver({"n1": 1})
    problem = InvalidRequest(field="sharedgpu/gpu_limit", value="x", rule="must be a number")
    pod = a_pod("typo", problem=problem)
    (report,) = driver.tell(PodSeen(pod))
    assert isinstance(report, ReportWaiting)
    assert report.diagnosis.message == 'sharedgpu/gpu_limit="x": must be a number'
    assert driver.tell(PodSeen(pod)) == []
    driver.place(a_share("other", 500))


def test_an_edited_label_of_a_waiting_pod_is_seen() -> None:
    driver = Driver({"n1": 1})
    assert driver.seen(a_pod("p", a_shape(whole(4)))) == []
    (bind,) = driver.seen(a_share("p", 100))
    assert [card.milli for card in bind.allocation.cards] == [100]


def test_a_status_update_of_a_waiting_pod_wakes_nobody() -> None:
    driver = Driver({"n1": 1})
    pod = a_pod("p", a_shape(whole(4)))
    driver.seen(pod)
    wake_at = driver.machine.wake_at(0.0)
    assert driver.tell(PodSeen(replace(pod))) == []
    assert driver.machine.wake_at(0.0) == wake_at


def test_unsupported_fields_are_named() -> None:
    driver = Driver({"n1": 1})
    (report,) = driver.tell(PodSeen(a_pod("p", unsupported=("spec.resourceClaims",))))
    assert isinstance(report, ReportWaiting)
    assert report.diagnosis.message == "not supported yet: spec.resourceClaims"
    assert driver.decide() == []


def test_an_unknown_outcome_is_resolved_by_the_same_binding() -> None:
    driver = Driver({"n1": 2})
    (bind,) = driver.seen(a_share("p", 600))
    driver.answer(bind, BindUnknown("timeout"))
    driver.now += 5
    assert driver.tell(TimePassed()) == [bind]
    (other,) = driver.seen(a_share("q", 600))
    assert other.allocation.cards[0].uuid != bind.allocation.cards[0].uuid


def test_a_binding_says_what_its_node_had_at_the_decision_each_time_that_it_is_sent() -> None:
    driver = Driver({"n1": 2, "n2": 0})
    driver.now = 3.5
    (bind,) = driver.seen(a_share("p", 600))
    decided = bind.decided
    assert (decided.at, decided.cards) == (3.5, some_gpus("n1", 2))
    assert dict(decided.allocatable)["pods"] > 0
    driver.answer(bind, BindUnknown("timeout"))
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 1)),)))
    driver.now += 5
    assert of(Bind, driver.tell(TimePassed())) == [bind]


def test_a_refused_pod_is_tried_again_after_a_backoff() -> None:
    driver = Driver({"n1": 1})
    (bind,) = driver.seen(a_share("p", 600))
    driver.answer(bind, BindRefused(Refusal.INVALID, "no"))
    assert driver.decide() == []
    assert driver.machine.wake_at(driver.now) == driver.now + 1
    driver.now += 1
    (again,) = driver.decide()
    assert again.allocation.token != bind.allocation.token


def test_a_refusal_for_a_pod_that_is_gone_is_legal() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p", 600)
    (bind,) = driver.seen(pod)
    driver.tell(PodGone(pod.uid))
    assert driver.answer(bind, BindRefused(Refusal.GONE, "gone")) == []
    assert driver.machine.unanswered == 0
    driver.place(a_share("q"))


def test_the_echo_of_our_own_bind_changes_no_row() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p", 600)
    (bind,) = driver.seen(pod)
    before = driver.machine.ledger.changed.end
    driver.answer(bind, Bound())
    driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation)))
    assert driver.machine.ledger.changed.end == before


@pytest.mark.parametrize("echo_first", [True, False])
def test_it_is_reported_once_that_a_pod_was_bound(echo_first: bool) -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p", 600)
    (bind,) = driver.seen(pod)
    echo = PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation))
    answer = BindAnswered(bind.uid, bind.allocation.token, Bound())
    effects = driver.tell(echo, answer) if echo_first else driver.tell(answer, echo)
    cards = driver.machine.ledger.inventory[bind.node]
    assert effects == [ReportScheduled(pod.uid, pod.key, bind.node, bind.allocation, cards)]


def test_an_old_list_does_not_undo_a_binding() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p", 600)
    (bind,) = driver.seen(pod)
    driver.now = 10.0
    driver.answer(bind, Bound())
    driver.tell(PodsListed((pod,), asked_at=9.0))
    assert driver.seen(a_share("q", 600)) == []


def test_a_list_asked_for_after_the_answer_does() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p", 600)
    (bind,) = driver.seen(pod)
    driver.now = 10.0
    driver.answer(bind, Bound())
    driver.tell(PodsListed((pod,), asked_at=11.0))
    driver.now = 12.0
    (again,) = driver.decide()
    assert again.uid == pod.uid


def test_pods_are_placed_once_a_list_in_portions_is_whole() -> None:
    driver = Driver(None)
    _, nodes, cards = a_cluster({"n1": 1})
    bound = replace(
        a_share("z", 600),
        node_name=NodeName("n1"),
        allocation=Allocation(
            token=DecisionToken("t"), cards=(CardCharge(GpuUuid("GPU-n1-0"), 600, 0),)
        ),
    )
    waits = a_share("a", 600)
    *portions, last = portions_of(PodsListed((waits, bound), 0.0), 1)
    driver.tell(nodes, cards, *portions)
    assert (driver.decide(), driver.machine.ready) == ([], False)
    driver.tell(last)
    assert (driver.decide(), driver.machine.ready) == ([], True)


def test_what_a_list_does_not_have_is_gone_with_its_first_portion_and_what_follows_is_not() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    gone, stays, comes = (a_share(name, 600) for name in ("gone", "stays", "comes"))
    places = {pod.uid: driver.place(pod) for pod in (gone, stays)}
    shown = replace(stays, node_name=places[stays.uid].node)
    *portions, last = portions_of(PodsListed((comes, shown), 1.0), 1)
    driver.tell(*portions)
    (bind,) = driver.decide()
    assert (bind.uid, bind.node) == (comes.uid, places[gone.uid].node)
    assert stays.uid in driver.machine.records, "it comes with the last portion"
    driver.tell(last)
    assert driver.machine.records.keys() == {comes.uid, stays.uid}


def test_a_restart_within_a_list_knows_what_came_of_it() -> None:
    """The event log may begin another session there."""
    *portions, last = portions_of(PodsListed((a_share("a", 600), a_share("b", 300)), 0.0), 1)
    driver, other = Driver(None), Driver(None)
    driver.tell(*portions)
    other.tell(*known_events(driver.machine, 1.0))
    assert not other.machine.synced.pods
    other.tell(last)
    assert other.machine.synced.pods
    assert len(other.machine.records) == 2


def test_an_unreadable_pod_of_a_list_stays_as_it_was() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p", 600)
    driver.place(pod)
    driver.tell(PodsListed((), asked_at=1.0, unreadable=frozenset({pod.uid})))
    assert driver.seen(a_share("q", 600)) == []


def test_an_unreadable_node_of_a_list_stays_as_it_was_and_its_pods_stay_charged() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    pod = a_share("p", 600)
    placed = driver.place(pod).node
    unreadable = frozenset({placed, NodeName("new")})
    driver.tell(NodesListed((a_node("n3"),), unreadable))
    assert sorted(driver.machine.ledger.columns.row_of) == sorted([placed, "n3"])
    assert driver.seen(a_share("large", 600)) == []
    small = a_share("small", 400)
    assert driver.place(small).node == placed


def test_a_list_of_nodes_in_portions_counts_when_it_is_whole() -> None:
    driver = Driver(None)
    driver.tell(PodsListed((), 0.0))
    driver.tell(NodesListed((a_node("n2"),), more=True))
    assert not driver.machine.ready
    driver.tell(NodesListed((a_node("n1"),)))
    assert driver.machine.ready
    assert sorted(driver.machine.node_names()) == ["n1", "n2"]
    driver.tell(NodesListed((a_node("n2"),), more=True))
    assert sorted(driver.machine.node_names()) == ["n1", "n2"], "n1 may be in the next portion"
    driver.tell(NodesListed((a_node("n3"),)))
    assert sorted(driver.machine.node_names()) == ["n2", "n3"]
    driver.tell(NodesListed((a_node("n3"),)))
    assert sorted(driver.machine.node_names()) == ["n3"], "portions of former lists do not count"


def test_whoever_edits_the_allocation_of_a_bound_pod_frees_nothing() -> None:
    driver = Driver({"n1": 1})
    pod = a_share("p")
    bind = driver.place(pod)
    forged = replace(bind.allocation, cards=())
    driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=forged)))
    assert driver.seen(a_share("q", 100)) == []


def test_a_resize_of_a_bound_pod_is_charged() -> None:
    driver = Driver({"n1": 0})
    pod = a_pod("p", a_shape(cpu=1_000))
    bind = driver.place(pod)
    grown = replace(pod, shape=a_shape(cpu=60_000), node_name=bind.node, allocation=bind.allocation)
    driver.tell(PodSeen(grown), PodSeen(a_pod("q", a_shape(cpu=10_000))))
    assert driver.decide() == []


def test_pods_of_other_schedulers_are_charged_and_never_placed() -> None:
    driver = Driver({"n1": 0})
    foreign = a_pod("f", a_shape(cpu=60_000), scheduler_name="default-scheduler")
    assert driver.seen(foreign) == []
    driver.tell(PodSeen(replace(foreign, node_name=NodeName("n1"))))
    assert driver.seen(a_pod("q", a_shape(cpu=10_000))) == []


def test_charges_on_cards_not_known_yet_count_when_they_appear() -> None:
    driver = Driver(None)
    charge = CardCharge(GpuUuid("GPU-n1-0"), 800, 1)
    allocation = Allocation(token=DecisionToken("t"), cards=(charge,), port=50051)
    bound = a_share("old", 800, node_name=NodeName("n1"), allocation=allocation)
    driver.tell(PodsListed((bound,), 0.0))
    driver.tell(NodesListed((a_node("n1"),)))
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 1)),)))
    driver.tell(PodSeen(a_share("new", 300)))
    assert not any(isinstance(e, Bind) for e in driver.tell(BindSlotsFree(9)))
    driver.tell(PodSeen(a_share("fits", 200)))
    (bind,) = driver.decide(9)
    assert bind.allocation.port == 50052


def test_a_node_that_returns_still_carries_its_pods() -> None:
    driver = Driver({"n1": 1})
    driver.place(a_share("p", 800))
    driver.tell(NodeGone(NodeName("n1")))
    driver.tell(NodeSeen(a_node("n1")))
    assert driver.seen(a_share("q", 800)) == []


def test_a_line_of_waiting_pods_is_reported_in_portions() -> None:
    driver = Driver({"n1": 1})
    for number in range(1200):
        driver.tell(PodSeen(a_pod(f"{number}", a_shape(whole(4)))))
    counts = [len(driver.tell(BindSlotsFree(64))) for _ in range(4)]
    assert counts == [500, 500, 200, 0]


def test_the_same_reasons_are_told_again_after_ten_seconds_at_most() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    one, two = (a_share(name) for name in ("one", "two"))
    driver.place(one)
    driver.place(two)
    (report,) = driver.tell(PodSeen(a_share("p", 500)), BindSlotsFree(64))
    assert isinstance(report, ReportWaiting)
    assert report.diagnosis.message == "0/2 nodes are available: 2 Insufficient GPU."
    driver.tell(NodeGone(NodeName("n2")))
    driver.tell(NodeSeen(a_node("n3")))
    assert driver.tell(InventoryRead(((NodeName("n3"), some_gpus("n3", 1)),))) == []
    (bind,) = driver.decide()
    assert bind.node == "n3"


class Quota:
    """A Reserve plugin that counts."""

    name = "Quota"

    def __init__(self) -> None:
        self.held: list[str] = []

    def reserve(self, pod: Pod, node: NodeName, allocation: Allocation | None) -> None:
        self.held.append(pod.key.name)

    def unreserve(self, pod: Pod, node: NodeName) -> None:
        self.held.remove(pod.key.name)


def test_reserve_plugins_hear_of_pods_that_were_bound_before_the_start() -> None:
    quota = Quota()
    document = {"profiles": [{"plugins": {"reserve": {"enabled": [{"name": "Quota"}]}}}]}
    factories = {**IN_TREE, "Quota": lambda: quota}
    driver = Driver(None, machine=Machine(profiles(read(document), factories), "test"))
    bound = a_pod("old", a_shape(), node_name=NodeName("n1"))
    foreign = a_pod("other", a_shape(), node_name=NodeName("n1"), scheduler_name="x")
    driver.tell(PodsListed((bound, foreign), 0.0))
    assert quota.held == ["old"]
    driver.tell(PodGone(bound.uid))
    driver.tell(PodGone(foreign.uid))
    assert quota.held == []


def test_a_text_that_nobody_asked_about_is_brought_up_to_date_now_and_then() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    for name in ("one", "two"):
        driver.place(a_share(name))
    (report,) = driver.tell(PodSeen(a_share("p", 500)), BindSlotsFree(64))
    assert isinstance(report, ReportWaiting)
    driver.tell(NodeGone(NodeName("n2")))
    wake_at = driver.machine.wake_at(driver.now)
    assert wake_at is not None
    driver.now = wake_at
    (again,) = driver.tell(TimePassed())
    assert isinstance(again, ReportWaiting)
    assert again.diagnosis.message == "0/1 nodes are available: 1 Insufficient GPU."
    driver.now += 1000
    assert driver.tell(TimePassed()) == []


def test_the_server_says_when_to_try_a_bind_again() -> None:
    driver = Driver({"n1": 1})
    (bind,) = driver.seen(a_share("p", 600))
    driver.answer(bind, BindUnknown("429", retry_after_s=7.0))
    driver.now = 6.9
    assert driver.tell(TimePassed()) == []
    driver.now = 7.0
    assert driver.tell(TimePassed()) == [bind]


def test_who_waits_for_the_first_time_is_not_told_an_old_story() -> None:
    driver = Driver({"n1": 1, "n2": 0})
    first = a_share("first")
    driver.tell(InventoryRead(((NodeName("n1"), ()),)), PodSeen(first))
    (report,) = driver.tell(BindSlotsFree(64))
    assert isinstance(report, ReportWaiting)
    assert report.diagnosis.message == (
        "no GPU of any node is known. 0/2 nodes are available: 2 no GPU."
    )
    driver.now = 1.0
    driver.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 1)),)))
    assert len(driver.decide()) == 1
    driver.now = 2.0
    (report,) = driver.tell(PodSeen(a_pod("second", first.shape)), BindSlotsFree(64))
    assert isinstance(report, ReportWaiting)
    assert report.diagnosis.message == "0/2 nodes are available: 1 Insufficient GPU, 1 no GPU."


@pytest.mark.parametrize("echo_first", [True, False])
def test_lost_answers_of_pods_that_were_seen_bound_use_up_no_slots(echo_first: bool) -> None:
    driver = Driver({f"n{number}": 8 for number in range(20)})
    for number in range(MAX_UNANSWERED + 1):
        pod = a_share(f"{number}")
        (bind,) = driver.seen(pod)
        echo = PodSeen(replace(pod, node_name=bind.node, allocation=bind.allocation))
        lost = BindAnswered(bind.uid, bind.allocation.token, BindUnknown("timeout"))
        driver.tell(*((echo, lost) if echo_first else (lost, echo)))
    assert driver.machine.unanswered == 0


def test_new_numbers_are_reported_once_to_each_pod_newcomers_included() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    ones = [a_share(name) for name in ("one", "two")]
    for pod in ones:
        driver.place(pod)
    driver.tell(PodSeen(a_pod("p", a_shape(whole(2)))), BindSlotsFree(64))
    driver.tell(NodeSeen(a_node("n3")))
    driver.now = 2.0
    # A line that is woken and blocked again, with somebody new in it and one more node.
    shape_queue = driver.machine.queue.queue_of(a_pod("p").uid)
    assert shape_queue is not None
    driver.machine.queue.activate(shape_queue)
    effects = driver.tell(PodSeen(a_pod("q", a_shape(whole(2)))), BindSlotsFree(64))
    told = [effect.key.name for effect in effects if isinstance(effect, ReportWaiting)]
    assert sorted(told) == ["p", "q"]
