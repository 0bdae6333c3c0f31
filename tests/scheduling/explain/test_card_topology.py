"""How cards are joined, as people see it."""

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import cluster_portions, cluster_view, why
from kubeshare_py.terminal.gpu_tables import topology_tables
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import IslandView, TopologyView
from tests.making import Driver, a_pod, a_shape, a_share, whole
from tests.topology.boards import BOARDS

N1 = NodeName("n1")


def on(board: str) -> Driver:
    """A cluster of one such node."""
    driver = Driver({"n1": 1})
    cards = tuple(replace(card, memory_bytes=40 * 2**30, model="V100") for card in BOARDS[board])
    driver.tell(InventoryRead(((N1, cards),)))
    return driver


def told(driver: Driver) -> TopologyView:
    *_, view = (
        node.topology
        for portion in cluster_portions(driver.machine, topology=True)
        for node in portion.nodes
    )
    assert view is not None
    return view


def island(view: TopologyView, *positions: int) -> IslandView:
    cards = tuple(view.cards[at] for at in positions)
    return next(one for one in view.islands if one.cards == cards)


def test_only_those_who_ask_are_told() -> None:
    (node,) = cluster_view(on("dgx-1v").machine).nodes
    assert node.topology is None


def test_links_and_islands_are_those_that_decisions_are_made_by() -> None:
    driver = on("dgx-1v")
    view = told(driver)
    assert len(view.links) == 28
    first = view.links[0]
    assert (first.uuid, first.peer, first.kind) == (view.cards[0], view.cards[1], "NV1")
    assert first.bandwidth == 52_000
    assert island(view, 0, 1, 2, 3).intact
    driver.place(a_share("share", 100))
    view = told(driver)
    assert [island(view, *quad).intact for quad in ((0, 1, 2, 3), (4, 5, 6, 7))].count(True) == 1


def test_why_names_the_links_of_a_pod_s_cards() -> None:
    driver = on("dgx-1v")
    driver.place(a_pod("four", a_shape(whole(4))))
    driver.place(a_share("one", 100))
    found = why(driver.machine, PodKey("default", "four"))
    assert found is not None
    assert found.ring is not None
    assert (found.ring.slowest_hop, len(found.ring.links)) == (52_000, 6)
    assert (
        "Its cards are joined: 3 pairs by NV1, 3 pairs by NV2; the slowest hop of their best ring "
        "has 52 GB/s." in why_report(found, None).plain
    )
    single = why(driver.machine, PodKey("default", "one"))
    assert single is not None
    assert single.ring is None
    assert "joined" not in why_report(single, None).plain


def test_cards_that_left_are_not_spoken_of() -> None:
    driver = on("dgx-1v")
    bind = driver.place(a_pod("two", a_shape(whole(2))))
    gone = bind.allocation.cards[0].uuid
    rest = tuple(card for card in BOARDS["dgx-1v"] if card.uuid != gone)
    driver.tell(InventoryRead(((N1, rest),)))
    found = why(driver.machine, PodKey("default", "two"))
    assert found is not None
    assert found.ring is None


def shown(driver: Driver, width: int | None = None) -> str:
    views = [
        node
        for portion in cluster_portions(driver.machine, topology=True)
        for node in portion.nodes
    ]
    return topology_tables(views, width).plain


def test_a_node_s_matrix_is_as_nvidia_smi_shows_it_and_its_islands_below() -> None:
    driver = on("hgx-a100-4")
    driver.place(a_share("one", 100))
    assert shown(driver) == (
        """\
n1
      GPU0  GPU1  GPU2  GPU3  NUMA
GPU0  X     NV4   NV4   NV4   0
GPU1  NV4   X     NV4   NV4   0
GPU2  NV4   NV4   X     NV4   1
GPU3  NV4   NV4   NV4   X     1
  200 GB/s: GPU0 GPU1 GPU2 GPU3 (in use, idle: GPU1 GPU2 GPU3)"""
    )


def test_instances_of_a_card_are_numbered_and_near_each_other() -> None:
    parent = GpuUuid("GPU-0")
    parts = tuple(
        Gpu(uuid=GpuUuid(f"MIG-{at}"), index=0, model="1g", memory_bytes=1, parent=parent)
        for at in range(2)
    )
    driver = Driver({"n1": 1})
    driver.tell(InventoryRead(((N1, parts),)))
    assert shown(driver).splitlines()[1:] == [
        "        GPU0.0  GPU0.1  NUMA",
        "GPU0.0  X       -       -",
        "GPU0.1  -       X       -",
        "  near: GPU0.0 GPU0.1 (intact)",
    ]


def test_what_is_not_known_is_said() -> None:
    driver = Driver({"n1": 2})
    lines = shown(driver).splitlines()
    assert lines[1:] == [
        "      GPU0  GPU1  NUMA",
        "GPU0  X     -     -",
        "GPU1  -     X     -",
        "  node: GPU0 GPU1 (intact)",
    ]
    driver.tell(InventoryRead(((N1, ()),)))
    assert shown(driver) == "No node has cards."


def test_an_island_says_which_of_its_cards_are_idle_if_any() -> None:
    driver = on("hgx-a100-4")
    for name in ("a", "b", "c", "d"):
        driver.place(a_pod(name, a_shape(whole(1))))
    assert shown(driver).endswith("GPU0 GPU1 GPU2 GPU3 (in use, none idle)")
