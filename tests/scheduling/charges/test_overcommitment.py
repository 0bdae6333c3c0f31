"""Cards of which pods hold more than they have are told about: at once and not too often."""

import itertools

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import ReportOvercommit
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.quota import UNKNOWN_PARTS
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.charges.overcommitment import REMINDER_S, SPACING_S
from tests.making import GIB, Driver, a_gpu, a_node, a_pod, a_shape, of, some_gpus

N1 = NodeName("n1")
CARD = GpuUuid("GPU-n1-0")


def intruder(name: str, milli: int, card: GpuUuid = CARD, memory: int = GIB) -> Pod:
    """A pod that somebody else placed."""
    charge = CardCharge(card, milli, memory)
    allocation = Allocation(token=DecisionToken(name), cards=(charge,))
    return a_pod(name, scheduler_name="other", node_name=N1, allocation=allocation)


def native(name: str, count: int) -> Pod:
    shape = a_shape(resources=(("nvidia.com/gpu", count),))
    return a_pod(name, shape, scheduler_name="other", node_name=N1)


class Reports:
    """A machine on one node, and what it tells of cards."""

    def __init__(self, cards: int = 2) -> None:
        self.driver = Driver({"n1": cards})
        self.told: list[ReportOvercommit] = []

    def after(self, *events: Event, now: float | None = None) -> list[ReportOvercommit]:
        """What is told when these have happened, and by `now`."""
        if now is not None:
            self.driver.now = now
        effects = self.driver.tell(*events, BindSlotsFree(9))
        return of(ReportOvercommit, effects)


def test_it_is_told_at_once_with_who_holds_how_much() -> None:
    reports = Reports()
    assert reports.after(PodSeen(intruder("a", 800))) == []
    [told] = reports.after(PodSeen(intruder("b", 700)))
    assert (told.node, told.uuid, told.is_over) == (N1, CARD, True)
    assert told.note == (
        "GPU GPU-n1-0 is over-committed: default/a, default/b hold 1500 of 1000 thousandths"
    )


def test_memory_counts_as_well() -> None:
    reports = Reports()
    [told] = reports.after(PodSeen(intruder("a", 100, memory=41 * GIB)))
    assert f"default/a hold {41 * GIB} of {40 * GIB} bytes" in told.note


def test_a_card_that_shrinks_is_over_committed_too() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 500, memory=30 * GIB)))
    smaller = (a_gpu(CARD, memory_bytes=20 * GIB), some_gpus("n1", 2)[1])
    [told] = reports.after(InventoryRead(((N1, smaller),)))
    assert f"{30 * GIB} of {20 * GIB} bytes" in told.note


def test_the_end_is_told_ten_seconds_after_the_beginning_at_the_earliest() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 800)), PodSeen(intruder("b", 700)), now=100.0)
    assert reports.after(PodGone(PodUid("uid-b")), now=103.0) == []
    assert reports.driver.machine.wake_at(103.0) == 100.0 + SPACING_S
    [told] = reports.after(now=100.0 + SPACING_S)
    assert (told.uuid, told.is_over) == (CARD, False)
    assert told.note == "GPU GPU-n1-0 is not over-committed any more"


def test_whatever_happens_a_card_is_told_about_once_in_ten_seconds() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 800)), now=100.0)
    times = []
    for tenth in range(1, 350):
        now = 100.0 + tenth / 10
        other = intruder(f"b{tenth}", 700)
        events: list[Event] = [PodSeen(other), PodGone(PodUid(f"uid-b{tenth - 1}"))]
        times += [now] * len(reports.after(*events, now=now))
        if tenth % 3 == 0:
            times += [now] * len(reports.after(PodGone(other.uid), now=now))
    assert len(times) == 4
    assert all(later - earlier >= SPACING_S for earlier, later in itertools.pairwise(times))


def test_other_cards_do_not_wait_for_it() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 1000)), PodSeen(intruder("b", 1)), now=100.0)
    second = GpuUuid("GPU-n1-1")
    events = [PodSeen(intruder(name, 600, second)) for name in ("c", "d")]
    [told] = reports.after(*events, now=101.0)
    assert told.uuid == second


def test_other_holders_are_news_and_the_same_ones_a_reminder_after_half_an_hour() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 1000)), PodSeen(intruder("b", 1)), now=0.0)
    assert reports.after(PodSeen(intruder("c", 1)), now=5.0) == []
    [told] = reports.after(now=SPACING_S)
    assert "default/a, default/b, default/c hold 1002" in told.note
    assert reports.after(now=REMINDER_S) == []
    [again] = reports.after(now=SPACING_S + REMINDER_S)
    assert again == told


def test_nothing_is_left_of_it_in_the_end() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 1000)), PodSeen(intruder("b", 1)), now=0.0)
    [ended] = reports.after(PodGone(PodUid("uid-b")), now=50.0)
    assert not ended.is_over
    assert reports.after(now=50.0 + SPACING_S) == []
    assert reports.after(now=REMINDER_S) == []
    assert reports.driver.machine.wake_at(REMINDER_S) is None
    assert not reports.driver.machine.ledger.overdrafts.overdrawn


def test_a_card_or_a_node_that_leaves_is_not_over_committed() -> None:
    for leaving in (InventoryRead(((N1, some_gpus("n1", 2)[1:]),)), NodeGone(N1)):
        reports = Reports()
        events = [PodSeen(intruder("a", 1000)), PodSeen(intruder("b", 1))]
        reports.after(*events, now=0.0)
        gone = [PodGone(PodUid("uid-a")), PodGone(PodUid("uid-b"))]
        [told] = reports.after(leaving, *(gone if leaving == NodeGone(N1) else ()), now=60.0)
        assert not told.is_over


def test_before_the_cards_are_known_nothing_is_said() -> None:
    reports = Reports(cards=0)
    events = [PodSeen(intruder("a", 1000)), PodSeen(intruder("b", 1000)), PodSeen(native("c", 3))]
    assert reports.after(*events) == []
    told = reports.after(InventoryRead(((N1, some_gpus("n1", 1)),)))
    assert [one.uuid for one in told] == [None, CARD]


def test_native_pods_with_fewer_cards_than_they_hold_are_told_about() -> None:
    reports = Reports(cards=2)
    assert reports.after(PodSeen(intruder("share", 300)), PodSeen(native("a", 1)), now=0.0) == []
    [told] = reports.after(PodSeen(native("b", 1)), now=1.0)
    assert (told.uuid, told.is_over) == (None, True)
    assert told.note.startswith("default/a, default/b hold 2 nvidia.com/gpu, but only 1 cards are")
    [ended] = reports.after(PodGone(PodUid("uid-share")), now=20.0)
    assert (ended.uuid, ended.is_over) == (None, False)


def parts(name: str, count: int) -> Pod:
    shape = a_shape(unrequested=((UNKNOWN_PARTS, count),))
    return a_pod(name, shape, scheduler_name="other", node_name=N1)


def test_more_parts_than_cards_are_told_about_only_if_no_card_is_left_for_them() -> None:
    """Time slices: all of them may be of one card."""
    reports = Reports(cards=2)
    events = [PodSeen(parts("a", 5)), PodSeen(parts("b", 3)), PodSeen(intruder("share", 300))]
    assert reports.after(*events, now=0.0) == []
    second = PodSeen(intruder("too", 300, GpuUuid("GPU-n1-1")))
    [told] = reports.after(second, now=1.0)
    assert told.note == (
        "default/a, default/b hold 1 GPUs of device plugins, but only 0 cards are without other"
        " pods: some card may be in use twice"
    )
    [ended] = reports.after(PodGone(PodUid("uid-too")), now=20.0)
    assert not ended.is_over


def test_nor_are_time_slices_that_were_not_renamed() -> None:
    """The plugin advertises more units than there are cards."""
    reports = Reports(cards=2)
    node = a_node("n1")
    node = replace(node, allocatable=(*node.allocatable, ("nvidia.com/gpu", 8)))
    events: list[Event] = [NodeSeen(node), PodSeen(native("a", 5)), PodSeen(intruder("share", 300))]
    assert reports.after(*events, now=0.0) == []
    [told] = reports.after(PodSeen(intruder("too", 300, GpuUuid("GPU-n1-1"))), now=1.0)
    assert told.is_over


def test_an_unhealthy_card_may_well_be_a_native_pods() -> None:
    reports = Reports(cards=1)
    sick = (a_gpu(CARD, healthy=False),)
    assert reports.after(InventoryRead(((N1, sick),)), PodSeen(native("a", 1))) == []


def test_many_nodes_have_their_turns_one_after_the_other() -> None:
    driver = Driver({f"n{number}": 1 for number in range(120)})
    told = []
    for number in range(120):
        node = NodeName(f"n{number}")
        charge = CardCharge(GpuUuid(f"GPU-n{number}-0"), 1001 - 1, 50 * GIB)
        allocation = Allocation(token=DecisionToken("t"), cards=(charge,))
        pod = a_pod(f"p{number}", scheduler_name="x", node_name=node, allocation=allocation)
        driver.tell(PodSeen(pod))
    turns = 0
    while driver.machine.wake_at(0.0) == 0.0:
        turns += 1
        told += driver.tell(BindSlotsFree(9))
    assert (len(told), turns) == (120, 3)


def test_a_node_that_leaves_and_comes_back_with_its_pods_is_no_news() -> None:
    reports = Reports()
    reports.after(PodSeen(intruder("a", 1000)), PodSeen(intruder("b", 1)), now=0.0)
    assert reports.after(NodeGone(N1), now=20.0) == []
    assert reports.after(NodeSeen(a_node("n1")), now=40.0) == []
