"""Exclusive cards and pod-manager ports that forged allocations break into are told about."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import FIRST_PORT
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.effects import Overuse, ReportOvercommit
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodeSeen,
    PodGone,
    PodSeen,
)
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import AgentWords, KubeletPick
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.printable import MAX_MESSAGE
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.charges.overcommitment import SPACING_S
from kubeshare_py.scheduling.explain.figures import ledger_figures
from kubeshare_py.scheduling.explain.node_view import node_view
from tests.making import Driver, a_claim, a_node, a_pod, a_shape, a_share, of, some_gpus, whole
from tests.scale import examples

N1 = NodeName("n1")
CARDS = tuple(gpu.uuid for gpu in some_gpus("n1", 2))
BROKEN, SHARED = Overuse.EXCLUSIVITY, Overuse.PORT


def forged(
    name: str, *cards: GpuUuid, exclusive: bool = False, port: int | None = None, milli: int = 0
) -> Pod:
    """A pod that somebody else placed; it takes next to nothing of its cards."""
    allocation = Allocation(
        token=DecisionToken(name),
        cards=tuple(CardCharge(card, milli, 0, exclusive=exclusive) for card in cards),
        port=port,
    )
    return a_pod(name, scheduler_name="other", node_name=N1, allocation=allocation)


def gone(name: str) -> PodGone:
    return PodGone(PodUid(f"uid-{name}"))


@dataclass
class Reports:
    """A machine on one node with two cards, and what it told last of each card and port."""

    driver: Driver = field(default_factory=lambda: Driver({"n1": 2}))
    standing: dict[tuple[Overuse, object], str] = field(default_factory=dict)

    def after(self, *events: Event, later_s: float = 2 * SPACING_S) -> list[ReportOvercommit]:
        """What is told when these have happened and some time has passed."""
        found = []
        for step in (0.0, later_s, later_s):
            self.driver.now += step
            effects = self.driver.tell(*(events if not step else ()), BindSlotsFree(9))
            found += of(ReportOvercommit, effects)
        for one in found:
            subject = (one.kind, one.uuid if one.port is None else one.port)
            assert one.is_over or subject in self.standing, "ended, and never began"
            if one.is_over:
                self.standing[subject] = one.note
            else:
                del self.standing[subject]
        return found

    def counted(self) -> tuple[int, int]:
        figures = ledger_figures(self.driver.machine)
        return figures.unexclusive_cards, figures.shared_ports


def test_a_share_of_nothing_on_an_exclusive_card_is_told_and_its_end_too() -> None:
    reports = Reports()
    assert reports.after(PodSeen(forged("alone", *CARDS, exclusive=True, milli=1000))) == []
    [told] = reports.after(PodSeen(forged("share", CARDS[1])))
    assert (told.node, told.uuid, told.kind, told.is_over) == (N1, CARDS[1], BROKEN, True)
    assert told.note == (
        f"GPU {CARDS[1]} is held exclusively by default/alone, but also by default/share"
    )
    assert reports.counted() == (1, 0)
    [ended] = reports.after(gone("share"))
    assert (ended.uuid, ended.kind, ended.is_over) == (CARDS[1], BROKEN, False)
    assert reports.counted() == (0, 0)
    assert not reports.driver.machine.ledger.overdrafts.overdrawn


def test_a_note_is_not_as_long_as_all_the_names_in_it() -> None:
    reports = Reports()
    names = [f"{number}-" + 700 * "a" for number in range(8)]
    [told] = reports.after(
        PodSeen(forged("alone", *CARDS, exclusive=True, milli=1000)),
        *(PodSeen(forged(name, CARDS[1])) for name in names),
    )
    assert len(told.note) == MAX_MESSAGE + 1
    assert told.note.endswith("aaa…")


def test_that_a_card_is_exclusive_may_come_second() -> None:
    reports = Reports()
    reports.after(PodSeen(forged("share", CARDS[0], milli=10)))
    [told] = reports.after(PodSeen(forged("alone", CARDS[0], exclusive=True, milli=10)))
    assert "exclusively by default/alone, but also by default/share" in told.note


def test_two_exclusive_pods_on_one_card_are_told() -> None:
    reports = Reports()
    pods = [forged(name, CARDS[0], exclusive=True, milli=10) for name in "ab"]
    [told] = reports.after(*map(PodSeen, pods))
    assert told.note.endswith("is held exclusively by default/a, default/b, by each of them")


def test_a_port_that_two_pods_of_a_node_hold_is_told_and_its_end_too() -> None:
    reports = Reports()
    reports.after(PodSeen(forged("a", CARDS[0], port=FIRST_PORT, milli=100)))
    [told] = reports.after(PodSeen(forged("b", CARDS[1], port=FIRST_PORT, milli=100)))
    assert (told.uuid, told.port, told.kind, told.is_over) == (None, FIRST_PORT, SHARED, True)
    assert told.note == f"pod-manager port {FIRST_PORT} is held by default/a, default/b at once"
    assert reports.counted() == (0, 1)
    [ended] = reports.after(gone("a"))
    assert (ended.port, ended.kind, ended.is_over) == (FIRST_PORT, SHARED, False)
    assert reports.counted() == (0, 0)
    assert not reports.driver.machine.ledger.overdrafts.overdrawn


@pytest.mark.parametrize("port", [80, FIRST_PORT - 1, FIRST_PORT + 511])
def test_so_is_one_that_is_not_of_the_pool_also_without_cards(port: int) -> None:
    reports = Reports()
    [told] = reports.after(*(PodSeen(forged(name, port=port)) for name in "abc"))
    assert told.note.endswith("default/a, default/b, default/c at once")
    [fewer] = reports.after(gone("b"))
    assert fewer.note.endswith("default/a, default/c at once")
    [ended] = reports.after(gone("c"))
    assert not ended.is_over


def test_ports_of_different_nodes_and_what_this_scheduler_gives_are_no_trouble() -> None:
    reports = Reports(Driver({"n1": 2, "n2": 2}))
    away = replace(forged("b", port=FIRST_PORT), node_name=NodeName("n2"))
    assert reports.after(PodSeen(forged("a", port=FIRST_PORT)), PodSeen(away)) == []
    for number in range(4):
        reports.driver.place(a_pod(f"s{number}", a_shape(a_claim(300), needs_port=True)))
    reports.driver.place(a_pod("w", a_shape(whole(2))))
    assert reports.after() == []


def test_an_reservation_of_a_preemptor_breaks_nothing() -> None:
    driver = Driver({"n1": 1}, document={})
    reports = Reports(driver)
    for number in range(2):
        driver.place(a_share(f"s{number}", 500))
    driver.seen(a_pod("big", a_shape(whole(1)), priority=1000))
    assert driver.machine.ledger.reservations
    assert reports.after() == []
    assert reports.counted() == (0, 0)


@dataclass
class Plain:
    """Books of our own."""

    pods: dict[str, Pod] = field(default_factory=dict)
    cards: frozenset[GpuUuid] = frozenset(CARDS)

    def broken(self) -> set[tuple[Overuse, object]]:
        held = [pod.allocation for pod in self.pods.values() if pod.allocation is not None]
        found: set[tuple[Overuse, object]] = set()
        for uuid in self.cards:
            holders = [one for one in held if uuid in {card.uuid for card in one.cards}]
            if len(holders) > 1 and any(one.exclusive for one in holders):
                found.add((BROKEN, uuid))
        ports = [one.port for one in held if one.port is not None]
        return found | {(SHARED, port) for port in ports if ports.count(port) > 1}


COMES = st.tuples(
    st.just("comes"),
    st.sampled_from("abcdef"),
    st.sets(st.sampled_from(CARDS)),
    st.booleans(),
    st.sampled_from([None, 80, FIRST_PORT, FIRST_PORT + 1]),
)
LEAVES = st.tuples(st.just("leaves"), st.sampled_from("abcdef"))
SHOWN = st.tuples(st.just("shown"), st.integers(0, 2))


@examples(200)
@given(st.lists(st.one_of(COMES, COMES, LEAVES, SHOWN), min_size=1, max_size=20))
def test_what_stands_told_is_what_is_broken(history: list[tuple[object, ...]]) -> None:
    reports, plain = Reports(), Plain()
    for step in history:
        match step:
            case ("comes", str(name), set(cards), bool(exclusive), port):
                if name in plain.pods:
                    continue
                assert port is None or isinstance(port, int)
                pod = forged(name, *sorted(cards), exclusive=exclusive, port=port)
                plain.pods[name] = pod
                reports.after(PodSeen(pod))
            case ("leaves", str(name)):
                plain.pods.pop(name, None)
                reports.after(gone(name))
            case ("shown", int(count)):
                shown = some_gpus("n1", 2)[:count]
                plain.cards = frozenset(gpu.uuid for gpu in shown)
                reports.after(InventoryRead(((N1, shown),)))
            case _:
                raise AssertionError(step)
        broken = plain.broken()
        assert reports.standing.keys() == broken
        kinds = [kind for kind, _ in broken]
        assert reports.counted() == (kinds.count(BROKEN), kinds.count(SHARED))


# --- cards that two nodes claim -------------------------------------------------------------------


def told_after(driver: Driver, *events: Event) -> list[ReportOvercommit]:
    """What is told when these have happened and some time has passed."""
    found = driver.tell(*events, BindSlotsFree(9))
    driver.now += 2 * SPACING_S
    found += driver.tell(BindSlotsFree(9))
    return of(ReportOvercommit, found)


def test_both_nodes_are_told_of_cards_that_they_claim_once_and_of_the_end() -> None:
    driver, n2 = Driver({"n1": 2, "n2": 1}), NodeName("n2")
    driver.tell(PodSeen(forged("p", CARDS[0])))
    listing = (n2, (*some_gpus("n2", 1), *some_gpus("n1", 2)))
    told = told_after(driver, InventoryRead((listing,)))
    assert {one.node: one.note for one in told if one.is_over} == {
        N1: "cards are claimed by other nodes too: GPU-n1-0 (by n2, counts here), "
        "GPU-n1-1 (by n2, counts on neither)",
        n2: "cards are claimed by other nodes too: GPU-n1-0 (by n1, counts on n1), "
        "GPU-n1-1 (by n1, counts on neither)",
    }
    assert {(one.kind, one.uuid) for one in told} == {(Overuse.CLAIM, None)}
    assert ledger_figures(driver.machine).disputed_cards == 2
    assert told_after(driver, InventoryRead((listing,))) == []
    told = told_after(driver, InventoryRead(((n2, some_gpus("n2", 1)),)))
    assert [(one.node, one.is_over) for one in told] == [(N1, False), (n2, False)]


def test_a_node_that_claims_hundreds_of_cards_gets_one_short_sentence() -> None:
    driver = Driver({"n1": 60, "n2": 1})
    everything = (NodeName("n2"), some_gpus("n1", 60))
    told = told_after(driver, InventoryRead((everything,)))
    assert [one.node for one in told] == ["n1", "n2"]
    assert all(one.note.endswith(" and 52 more") and len(one.note) < 500 for one in told)


def test_no_pod_is_placed_on_a_card_that_two_nodes_claim() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    driver.tell(InventoryRead(((NodeName("n2"), some_gpus("n1", 1)),)))
    share = a_share("p", 500)
    assert driver.seen(share) == []
    driver.tell(InventoryRead(((NodeName("n2"), some_gpus("n2", 1)),)))
    (bind,) = driver.decide()
    assert bind.allocation.cards[0].uuid in {"GPU-n1-0", "GPU-n2-0"}


def said(agent: AgentWords) -> NodeSeen:
    return NodeSeen(replace(a_node("n1"), agent=agent))


def test_an_annotation_of_a_node_agent_that_cannot_be_used_is_told_and_its_end_too() -> None:
    reports = Reports()
    [told] = reports.after(said(AgentWords(problem="kubeshare.io/node-agent: v is 9")))
    assert (told.node, told.uuid, told.kind, told.is_over) == (N1, None, Overuse.AGENT, True)
    assert told.note == "kubeshare.io/node-agent: v is 9"
    [ended] = reports.after(said(AgentWords()))
    assert (ended.kind, ended.is_over) == (Overuse.AGENT, False)
    assert not reports.driver.machine.ledger.overdrafts.overdrawn


def test_an_agent_that_names_cards_of_other_nodes_is_told() -> None:
    reports = Reports(Driver({"n1": 2, "n2": 2}))
    far = some_gpus("n2", 1)[0].uuid
    [told] = reports.after(said(AgentWords(picks=(KubeletPick(PodUid("p"), (far,)),))))
    assert told.note == f"kubeshare.io/node-agent names cards of other nodes: {far}"
    assert reports.after(said(AgentWords(picks=(KubeletPick(PodUid("p"), (CARDS[0],)),))))


def test_a_native_pod_that_the_agent_names_on_a_card_of_ours_is_told_with_both_names() -> None:
    reports = Reports()
    driver = reports.driver
    driver.place(a_share("ours", 300))
    mine = driver.machine.ledger.charge_of(PodUid("uid-ours"))
    assert mine is not None
    assert mine.allocation is not None
    card = mine.allocation.cards[0].uuid
    native = a_pod(
        "native",
        Shape(resources=(("nvidia.com/gpu", 1),)),
        scheduler_name="default-scheduler",
        node_name=N1,
    )
    told = reports.after(
        PodSeen(native), said(AgentWords(picks=(KubeletPick(native.uid, (card,)),)))
    )
    assert {one.kind for one in told} == {Overuse.AMOUNT, Overuse.EXCLUSIVITY}
    assert all("default/native" in one.note and "default/ours" in one.note for one in told)
    [view] = [
        one for one in node_view(driver.machine, N1, topology=False).cards if one.uuid == card
    ]
    assert [(one.name, one.milli, one.exclusive) for one in view.tenants] == [
        ("native", 1000, True),
        ("ours", 300, False),
    ]
