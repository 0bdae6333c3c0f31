"""Native pods on the cards that the kubelet picked, as the agents of their nodes name them.

A property test has books of its own: whole pods, plain loops, no columns.
"""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.columns import HELD_BACK
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from kubeshare_py.domain.node import AgentWords, KubeletPick, Node
from kubeshare_py.domain.quota import NATIVE_GPU
from kubeshare_py.domain.values import replace
from tests.making import a_gpu, a_node
from tests.scale import examples

N1, N2 = NodeName("n1"), NodeName("n2")
MIG = "nvidia.com/mig-1g.5gb"
PODS = tuple(PodUid(f"p{number}") for number in range(6))


def card(node: str, number: int) -> GpuUuid:
    return GpuUuid(f"GPU-{node}-{number}")


def a_named(node: NodeName, advertised: int | None, *picks: tuple[str, list[GpuUuid]]) -> Node:
    offered = () if advertised is None else ((NATIVE_GPU, advertised),)
    made = a_node(node)
    return replace(
        made,
        allocatable=tuple(sorted((*made.allocatable, *offered))),
        agent=AgentWords(picks=tuple(KubeletPick(PodUid(uid), (*c,)) for uid, c in picks)),
    )


def a_ledger(cards: int = 4) -> Ledger:
    ledger = Ledger()
    for node in (N1, N2):
        ledger.put_node(a_node(node))
        ledger.put_cards(node, tuple(a_gpu(card(node, n), index=n) for n in range(cards)))
    return ledger


def native(ledger: Ledger, uid: str, count: int = 1, node: NodeName = N1) -> None:
    ledger.charge(PodUid(uid), node, ((NATIVE_GPU, count),), None)


def ours(ledger: Ledger, uid: str, uuid: GpuUuid, milli: int = 500) -> None:
    held = Allocation(token=DecisionToken(uid), cards=(CardCharge(uuid, milli, 1),))
    ledger.charge(PodUid(uid), N1, (), held)


def open_cards(ledger: Ledger) -> list[int]:
    row = ledger.columns.row_of[N1]
    return [slot for slot, room in enumerate(ledger.columns.headroom[row].tolist()) if room >= 0]


def test_a_native_pod_is_charged_to_the_card_that_the_agent_names() -> None:
    ledger = a_ledger()
    native(ledger, "a")
    assert (open_cards(ledger), ledger.held_back_on(N1)) == ([0, 1, 2], 1)
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 1)])))
    assert (open_cards(ledger), ledger.held_back_on(N1)) == ([0, 2, 3], 0)
    (held,) = ledger.allocations_of(N1, card(N1, 1)).values()
    assert held.holds_alone(card(N1, 1))


def test_an_annotation_that_comes_before_the_pod_counts_from_the_pod_on() -> None:
    ledger = a_ledger()
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 0)])))
    assert open_cards(ledger) == [0, 1, 2, 3]
    native(ledger, "a")
    assert open_cards(ledger) == [1, 2, 3]
    ledger.release(PodUid("a"))
    assert open_cards(ledger) == [0, 1, 2, 3]


def test_a_withdrawn_annotation_holds_idle_cards_back_again() -> None:
    ledger = a_ledger()
    native(ledger, "a")
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 1)])))
    ledger.put_node(a_node(N1))
    assert (open_cards(ledger), ledger.held_back_on(N1)) == ([0, 1, 2], 1)


def test_only_cards_that_are_not_named_are_held_back() -> None:
    ledger = a_ledger()
    native(ledger, "a", 2)
    native(ledger, "b", 1)
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 0)])))
    assert (open_cards(ledger), ledger.held_back_on(N1)) == ([1], 2)


def test_words_about_pods_of_other_nodes_or_unknown_ones_count_nothing() -> None:
    ledger = a_ledger()
    native(ledger, "far", node=N2)
    ledger.put_node(a_named(N1, None, ("far", [card(N1, 0)]), ("nobody", [card(N1, 1)])))
    assert open_cards(ledger) == [0, 1, 2, 3]
    assert ledger.held_back_on(N2) == 1


def test_cards_of_other_nodes_count_nothing() -> None:
    ledger = a_ledger()
    native(ledger, "a")
    ledger.put_node(a_named(N1, None, ("a", [card(N2, 0)])))
    assert ledger.held_back_on(N1) == 1
    assert not ledger.allocations_of(N2, card(N2, 0))
    assert not ledger.allocations_of(N1, card(N2, 0))
    assert not ledger.claims.disputes


def test_more_cards_than_the_pod_requests_count_nothing() -> None:
    ledger = a_ledger()
    native(ledger, "a")
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 0), card(N1, 1)])))
    assert (open_cards(ledger), ledger.held_back_on(N1)) == ([0, 1, 2], 1)


def test_a_pod_of_ours_keeps_its_cards_and_the_conflict_is_over_commitment() -> None:
    ledger = a_ledger()
    ours(ledger, "ours", card(N1, 0))
    native(ledger, "a")
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 0)]), ("ours", [card(N1, 3)])))
    assert [*ledger.overcommitted()] == [(N1, card(N1, 0))]
    assert [*ledger.unexclusive()] == [(N1, card(N1, 0))]
    assert {*ledger.allocations_of(N1, card(N1, 0))} == {"ours", "a"}
    assert not ledger.allocations_of(N1, card(N1, 3))


def test_no_more_is_held_back_than_the_device_plugin_advertises() -> None:
    ledger = a_ledger()
    native(ledger, "a", 3)
    ledger.put_node(a_named(N1, 2))
    assert ledger.held_back_on(N1) == 2
    ledger.put_node(a_named(N1, 2, ("a", [card(N1, 0)])))
    assert ledger.held_back_on(N1) == 1


def test_a_device_plugin_that_is_gone_frees_no_card() -> None:
    ledger = a_ledger()
    native(ledger, "a", 3)
    ledger.put_node(a_named(N1, 4))
    ledger.put_node(a_named(N1, 0))
    assert ledger.held_back_on(N1) == 3


def test_a_card_that_the_inventory_shows_later_counts_from_then_on() -> None:
    ledger = a_ledger(1)
    native(ledger, "a")
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 1)])))
    assert open_cards(ledger) == []
    ledger.put_cards(N1, tuple(a_gpu(card(N1, n), index=n) for n in range(2)))
    assert (open_cards(ledger), ledger.held_back_on(N1)) == ([0], 0)


def test_a_mig_instance_is_charged_too() -> None:
    ledger = a_ledger()
    parts = tuple(a_gpu(f"MIG-{n}", index=n, parent=GpuUuid("GPU-big")) for n in range(2))
    ledger.put_cards(N1, (*parts, a_gpu(card(N1, 2), index=2)))
    ledger.charge(PodUid("a"), N1, ((NATIVE_GPU, 1), (MIG, 1)), None)
    ledger.put_node(a_named(N1, None, ("a", [GpuUuid("MIG-1")])))
    # One more card is a whole GPU that the agent does not name yet.
    assert [*ledger.allocations_of(N1, GpuUuid("MIG-1"))] == ["a"]
    assert ledger.held_back_on(N1) == 1
    ledger.put_node(a_named(N1, None, ("a", [GpuUuid("MIG-1"), card(N1, 2)])))
    assert ledger.held_back_on(N1) == 0


def test_a_lingering_pod_keeps_its_named_cards() -> None:
    ledger = a_ledger()
    native(ledger, "a")
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 0)])))
    assert ledger.linger(PodUid("a"))
    assert open_cards(ledger) == [1, 2, 3]
    ledger.put_node(a_node(N1))
    assert open_cards(ledger) == [0, 1, 2]
    ledger.end_lingering(PodUid("a"))
    assert open_cards(ledger) == [0, 1, 2, 3]


def test_an_agents_words_decide_no_dispute_about_a_card() -> None:
    ledger = a_ledger()
    both = tuple(a_gpu(card(N1, n), index=n) for n in range(4))
    ledger.put_cards(N2, both)
    native(ledger, "liar", node=N2)
    ledger.put_node(a_named(N2, None, ("liar", [card(N1, 0)])))
    assert ledger.claims.disputes[card(N1, 0)].keeper is None
    ours(ledger, "ours", card(N1, 0))
    assert ledger.claims.disputes[card(N1, 0)].keeper == N1


def test_without_a_pod_on_named_cards_no_more_is_held_back_than_is_advertised() -> None:
    ledger = a_ledger()
    native(ledger, "a", 1)
    native(ledger, "b", 3)
    ledger.put_node(a_named(N1, 2, ("a", [card(N1, 0)])))
    at, row = np.array([0]), ledger.columns.row_of[N1]
    what_if = ledger.what_if(np.array([row]))
    for uid, rooms in (("", 2), ("a", 2), ("b", 3)):
        tried = what_if.take(at)
        if uid:
            tried.add(at, ledger.amounts([[PodUid(uid)]]), at, -1)
        tried.derive(at)
        assert int((tried.headroom[0] >= 0).sum()) == rooms


# --- any history -------------------------------------------------------------------------------


@dataclass
class Books:
    """What is there, in plain words: nothing is added up before it is asked for."""

    nodes: dict[NodeName, Node] = field(default_factory=dict)
    cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    #: Pods by uid: node, nvidia.com/gpu requested, cards that a decision gave (milli 400 of each).
    pods: dict[PodUid, tuple[NodeName, int, tuple[GpuUuid, ...]]] = field(default_factory=dict)

    def named(self, uid: PodUid) -> list[GpuUuid]:
        """The cards that the kubelet picked for a pod, as far as its node may say so."""
        node, asked, decided = self.pods[uid]
        if decided or node not in self.nodes:
            return []
        for pick in self.nodes[node].agent.picks or ():
            if pick.uid == uid and len(pick.cards) <= asked:
                own = [gpu.uuid for gpu in self.cards.get(node, ())]
                return [uuid for uuid in pick.cards if uuid in own]
        return []

    def sharing(self, node: NodeName, card: GpuUuid) -> list[PodUid]:
        """The pods for which the node's agent names a card, in its order."""
        return [pick.uid for pick in self.nodes[node].agent.picks or () if card in pick.cards]

    def held_back(self, node: NodeName) -> int:
        """How many idle cards are held back: those requested, as far as they are not named."""
        there = [uid for uid, pod in self.pods.items() if pod[0] == node and not pod[2]]
        asked = sum(self.pods[uid][1] for uid in there)
        named = sum(len(self.named(uid)) for uid in there)
        advertised = dict(self.nodes[node].allocatable).get(NATIVE_GPU, 0)
        return max(0, min(asked, advertised or asked) - named) if asked > named else 0

    def expect_in(self, ledger: Ledger) -> None:
        """The ledger says the same of every card of every node."""
        columns = ledger.columns
        for node in self.nodes:
            row = columns.row_of[node]
            assert ledger.held_back_on(node) == self.held_back(node)
            there = [uid for uid, pod in self.pods.items() if pod[0] == node]
            idle = 0
            for gpu in self.cards.get(node, ()):
                slot = columns.uuids[row].index(gpu.uuid)
                decided = sum(gpu.uuid in self.pods[uid][2] for uid in there)
                picked = sum(gpu.uuid in self.named(uid) for uid in there)
                sharing = self.sharing(node, gpu.uuid)
                whole = picked
                if len(sharing) > 1:  # the first pod is charged the card, and no pod has it alone
                    whole = sharing[0] in there and gpu.uuid in self.named(sharing[0])
                taken = 400 * decided + 1000 * whole
                assert columns.tenants.item(row, slot) == decided + picked
                assert columns.exclusive.item(row, slot) == (picked if len(sharing) < 2 else 0)
                assert columns.free_milli.item(row, slot) == 1000 - taken
                is_open = columns.headroom.item(row, slot) >= 0
                held_back = bool(columns.flags.item(row, slot) & HELD_BACK)
                assert not (is_open and (picked or held_back or taken > 1000))
                idle += not decided and not picked
                if is_open:
                    assert taken <= 1000
            open_idle = int(columns.idle[row].sum())
            assert open_idle == max(0, idle - self.held_back(node))


def run(ledger: Ledger, books: Books, steps: list[tuple[int, int, int, int]]) -> None:
    for what, which, how, more in steps:
        node = (N1, N2)[which % 2]
        if what <= 2:
            picks = {
                PODS[(how + n) % 6]: [
                    card((N1, N2)[(more + n) % 3 == 2], (how * n + more + i) % 5)
                    for i in range(1 + (how + n) % 2)
                ]
                for n in range(more % 4)
            }
            named = a_named(node, (None, 0, 1, 3, 4)[how % 5], *picks.items())
            if more == 7:
                named = replace(named, agent=AgentWords(problem="odd"))
            ledger.put_node(named)
            books.nodes[node] = named
        elif what == 3:
            gpus = tuple(a_gpu(card(node, n), index=n) for n in range(how % 6))
            ledger.put_cards(node, gpus)
            books.cards[node] = gpus
        elif what <= 6:
            uid, count = PODS[how % 6], 1 + more % 3
            ledger.charge(uid, node, ((NATIVE_GPU, count),), None)
            books.pods[uid] = node, count, ()
        elif what == 7:
            uid, uuid = PODS[how % 6], card(node, more % 4)
            if uuid not in [gpu.uuid for gpu in books.cards.get(node, ())]:
                continue
            held = Allocation(token=DecisionToken("t"), cards=(CardCharge(uuid, 400, 0),))
            ledger.charge(uid, node, ((NATIVE_GPU, more % 2),), held)
            books.pods[uid] = node, more % 2, (uuid,)
        else:
            ledger.release(PODS[how % 6])
            books.pods.pop(PODS[how % 6], None)


STEPS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(0, 9), st.integers(0, 7)),
    min_size=5,
    max_size=30,
)


def begun() -> tuple[Ledger, Books]:
    ledger, books = a_ledger(), Books()
    for node in (N1, N2):
        books.nodes[node] = a_node(node)
        books.cards[node] = tuple(a_gpu(card(node, n), index=n) for n in range(4))
    return ledger, books


@examples(150)
@given(STEPS)
def test_any_words_of_agents_give_what_own_books_say(
    steps: list[tuple[int, int, int, int]],
) -> None:
    ledger, books = begun()
    for step in steps:
        run(ledger, books, [step])
        books.expect_in(ledger)


@examples(80)
@given(STEPS)
def test_a_restart_gives_the_same_ledger(steps: list[tuple[int, int, int, int]]) -> None:
    ledger, books = begun()
    run(ledger, books, steps)
    again = Ledger()
    for node in reversed(books.nodes.values()):
        again.put_node(node)
    for uid in sorted(books.pods, reverse=True):
        charge = ledger.charge_of(uid)
        assert charge is not None
        told = charge.unpicked or charge
        again.charge(uid, told.node, told.resources, told.allocation)
    for name, gpus in books.cards.items():
        again.put_cards(name, gpus)
    books.expect_in(again)
    for uid in books.pods:
        assert again.charge_of(uid) == ledger.charge_of(uid)


@examples(80)
@given(STEPS)
def test_what_ifs_without_a_pod_are_as_when_it_ended(
    steps: list[tuple[int, int, int, int]],
) -> None:
    ledger, books = begun()
    run(ledger, books, steps)
    for uid in [*books.pods][:3]:
        node = books.pods[uid][0]
        row = ledger.columns.row_of[node]
        charge = ledger.charge_of(uid)
        assert charge is not None
        overlay, what_if = Overlay(ledger), ledger.what_if(np.array([row]))
        overlay.remove(row, charge)
        at = np.array([0])
        what_if.add(at, ledger.amounts([[uid]]), at, -1)
        what_if.derive(at)
        headroom, flags = what_if.headroom[0].tolist(), what_if.flags[0].tolist()
        tried = overlay.columns.headroom[row].tolist()
        ledger.release(uid)
        width = len(ledger.columns.uuids[row])
        now = ledger.columns.headroom[row].tolist()[:width]
        assert headroom[:width] == tried[:width] == now
        assert flags[:width] == ledger.columns.flags[row].tolist()[:width]
        return


def parts(ledger: Ledger, uid: str, count: int = 1, name: str = "nvshare.com/gpu") -> None:
    ledger.charge(PodUid(uid), N1, ((name, count),), None)


def test_what_the_kubelet_gave_counts_whatever_the_resource_is_called() -> None:
    ledger = a_ledger()
    parts(ledger, "a", 2)
    assert open_cards(ledger) == [0, 1, 2, 3]
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 1), card(N1, 3)])))
    assert open_cards(ledger) == [0, 2]
    (held,) = ledger.allocations_of(N1, card(N1, 1)).values()
    assert held.holds_alone(card(N1, 1))
    ledger.release(PodUid("a"))
    assert open_cards(ledger) == [0, 1, 2, 3]


def test_a_card_of_several_native_pods_is_charged_once_and_closed_to_others() -> None:
    ledger = a_ledger(2)
    row, named = ledger.columns.row_of[N1], [card(N1, 0)]
    for uid in ("a", "b", "c"):
        parts(ledger, uid)
    ledger.put_node(a_named(N1, None, ("a", named), ("b", named), ("c", named)))
    assert {*ledger.allocations_of(N1, card(N1, 0))} == {"a", "b", "c"}
    assert ledger.columns.free_milli[row].tolist()[:2] == [0, 1000]
    assert (open_cards(ledger), [*ledger.overcommitted()], [*ledger.unexclusive()]) == ([1], [], [])
    ledger.release(PodUid("a"))
    assert (open_cards(ledger), [*ledger.overcommitted()]) == ([1], [])
    ledger.put_node(a_named(N1, None, ("b", named)))
    assert ledger.columns.free_milli[row].tolist()[:2] == [0, 1000]
    ledger.release(PodUid("b"))
    assert open_cards(ledger) == [0, 1]
    ledger.release(PodUid("c"))
    assert ledger.columns.free_milli[row].tolist()[:2] == [1000, 1000]


def test_native_pods_on_a_card_of_a_pod_of_ours_are_over_commitment() -> None:
    ledger = a_ledger()
    ours(ledger, "ours", card(N1, 0))
    for uid in ("a", "b"):
        parts(ledger, uid)
    ledger.put_node(a_named(N1, None, ("a", [card(N1, 0)]), ("b", [card(N1, 0)])))
    assert [*ledger.overcommitted()] == [(N1, card(N1, 0))]
