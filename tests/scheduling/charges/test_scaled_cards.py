"""Cards that give more or less than they have, from the inventory to the pods on them."""

from kubeshare_py.dialects.allocation import read_allocation, write_allocation
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.events import InventoryRead, PodSeen
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import cluster_view, why
from kubeshare_py.scheduling.explain.figures import card_figures, ledger_figures
from tests.making import (
    GIB,
    Driver,
    a_claim,
    a_gpu,
    a_group,
    a_machine,
    a_pod,
    a_shape,
    members,
    whole,
)

N1 = NodeName("n1")
TWICE = replace(a_gpu("GPU-n1-0"), cores_scaling=2000, memory_scaling=1500)


def driver() -> Driver:
    """One card of 40 GiB, for two GPUs and 60 GiB."""
    driver = Driver({"n1": 1})
    driver.tell(InventoryRead(((N1, (TWICE,)),)))
    return driver


def share(name: str, milli: int = 1000, gib: int = 20) -> Pod:
    return a_pod(name, a_shape(a_claim(milli, memory_bytes=gib * GIB)))


def test_pods_get_what_the_card_is_scaled_to_and_no_more() -> None:
    at = driver()
    at.place(share("a"))
    at.place(share("b", 700, 30))
    assert at.seen(share("c", 301, 1)) == []
    assert at.seen(share("d", 300, 11)) == []
    at.place(share("e", 300, 10))
    assert not list(at.machine.ledger.overcommitted())
    assert ledger_figures(at.machine).free_milli == 0


def test_a_whole_card_is_charged_in_full_and_is_so_after_a_restart() -> None:
    at = driver()
    pod = a_pod("a", a_shape(whole(1)))
    bind = at.place(pod)
    (charge,) = bind.allocation.cards
    assert (charge.milli, charge.memory_bytes) == (2000, 60 * GIB)
    read = read_allocation(write_allocation(bind.allocation))
    assert isinstance(read, Allocation)
    assert read.cards == (charge,)
    assert not cluster_view(at.machine).pods[0].asks_for_other
    again = Driver({"n1": 1}, machine=a_machine(name="again"))
    bound = replace(pod, node_name=bind.node, allocation=read)
    again.tell(InventoryRead(((N1, (TWICE,)),)), PodSeen(bound))
    assert again.machine.ledger.columns.free_milli[0, 0] == 0
    assert again.seen(share("b", 0, 0)) == []


def test_a_smaller_factor_leaves_pods_alone_and_is_reported() -> None:
    at = driver()
    at.place(share("a"))
    at.place(share("b"))
    at.tell(InventoryRead(((N1, (replace(TWICE, cores_scaling=1500),)),)))
    assert list(at.machine.ledger.overcommitted()) == [(N1, TWICE.uuid)]
    assert at.seen(share("c", 0, 1)) == []


def test_people_and_monitoring_see_what_is_scaled() -> None:
    at = driver()
    at.place(share("a"))
    (card,) = cluster_view(at.machine).nodes[0].cards
    assert (card.capacity_milli, card.used_milli) == (2000, 1000)
    assert (card.memory_bytes, card.memory_scaling) == (60 * GIB, 1500)
    (figures,) = card_figures(at.machine)
    assert [*figures.memory_scaling] == [1500]
    waiting = share("b", 1000, 50)
    at.seen(waiting)
    told = why(at.machine, waiting.key)
    assert told is not None
    assert told.nodes[0].scaled == ("0: memory 40 GiB x 1.5, cores x 2",)


def gang_of(count: int, claim: GpuClaim, cores: int) -> Driver:
    """A gang of these pods on two cards of so many cores."""
    at = Driver({"n1": 2})
    cards = tuple(a_gpu(f"GPU-n1-{n}", index=n, cores_scaling=cores) for n in range(2))
    at.tell(InventoryRead(((N1, cards),)))
    at.show(*members(a_group(count), count, claim))
    return at


def bound(at: Driver) -> int:
    return len(at.machine.ledger.pods_on(N1))


def test_a_gang_gets_what_its_cards_are_scaled_to() -> None:
    whole_share = a_claim(1000, memory_bytes=GIB)
    assert bound(gang_of(4, whole_share, 2000)) == 4
    assert bound(gang_of(2, whole(1), 2000)) == 2
    assert "no GPU has enough" not in gang_of(3, whole(1), 2000).told["g-0"]


def test_a_gang_that_asks_for_more_than_the_scaled_cluster_has_is_said_to() -> None:
    at = gang_of(5, a_claim(1000, memory_bytes=GIB), 2000)
    assert bound(at) == 0
    scaled = "with scaled cores for 4"
    assert (
        f"ask for 5 GPUs in all; the cluster has 2 that they may be put on, {scaled}"
        in (at.told["g-0"])
    )


def test_a_gang_of_parts_of_the_memory_gets_as_many_as_the_memory_holds() -> None:
    part = a_claim(100, memory_milli=400)
    assert bound(gang_of(4, part, 1000)) == 4
    at = gang_of(5, part, 1000)
    assert bound(at) == 0
    assert "the cluster has room for 4 of them" in at.told["g-0"]
