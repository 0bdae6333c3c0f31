"""The books in numbers, compared with the same numbers worked out the plain way."""

from hypothesis import given

from kubeshare_py.domain.events import BindSlotsFree, InventoryRead, PodSeen
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.scheduling.explain.explanation import cluster_view
from kubeshare_py.scheduling.explain.figures import card_figures, ledger_figures, pod_figures
from tests.making import a_cluster, a_machine, a_share
from tests.making.world import Step, World
from tests.scale import examples
from tests.scheduling.test_any_history import STEPS


@examples(60)
@given(STEPS)
def test_figures_say_what_the_view_says(steps: list[Step]) -> None:
    machine = World().follow(steps).machine
    view = cluster_view(machine)
    cards = [(node.name, card) for node in view.nodes for card in node.cards]
    told = {
        (portion.nodes[i], portion.uuids[i]): (
            portion.models[i],
            portion.capacity_bytes[i],
            portion.allocated_milli[i],
            portion.allocated_bytes[i],
            portion.tenants[i],
            bool(portion.healthy[i]),
        )
        for portion in card_figures(machine)
        for i in range(len(portion.nodes))
    }
    assert told == {
        (name, card.uuid): (
            card.model,
            card.memory_bytes,
            card.used_milli,
            card.used_bytes,
            len(card.tenants),
            card.known and card.healthy,
        )
        for name, card in cards
    }
    ledger = ledger_figures(machine)
    usable = [card for _, card in cards if card.known and card.healthy]
    free = [max(0, WHOLE_MILLI - card.used_milli) for card in usable]
    broken = [left for left, card in zip(free, usable, strict=True) if card.tenants]
    assert ledger.cards == len([card for _, card in cards if card.known])
    assert ledger.idle_cards == len([card for card in usable if not card.tenants])
    assert ledger.overcommitted_cards == len(view.overcommitted)
    assert (ledger.free_milli, ledger.broken_milli) == (sum(free), sum(broken))


@examples(60)
@given(STEPS)
def test_every_pod_that_waits_is_in_one_queue(steps: list[Step]) -> None:
    machine = World().follow(steps).machine
    pods = list(cluster_view(machine).pods)
    *_, figures = pod_figures(machine)
    waiting = [pod for pod in pods if pod.state == "waiting"]
    assert figures.active + figures.unschedulable == len(waiting)
    assert figures.backoff == len([pod for pod in pods if pod.state == "backoff"])
    assert figures.gated <= len([pod for pod in pods if pod.state == "gated"])


def test_a_card_that_only_pods_know_has_no_capacity() -> None:
    machine = a_machine()
    pod = a_share("p", 500)
    for event in (*a_cluster({"n1": 1}), PodSeen(pod), BindSlotsFree(1)):
        machine.handle(event, 0.0)
    machine.handle(InventoryRead(((NodeName("n1"), ()),)), 0.0)
    [cards] = card_figures(machine)
    assert (list(cards.capacity_milli), list(cards.allocated_milli)) == ([0], [500])
    assert (list(cards.tenants), list(cards.healthy)) == ([1], [0])
    assert ledger_figures(machine).cards == 0
