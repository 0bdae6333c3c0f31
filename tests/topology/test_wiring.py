"""What is told of cards' surroundings, apart from the cards."""

import pytest

from kubeshare_py.domain.card_reading import BusPath, CardLink
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.topology.wiring import (
    MatrixProblem,
    Wiring,
    fabric_of,
    links_of,
    read_matrix,
    still_counts,
    wired,
    wiring_of,
    with_links,
)
from tests.making import a_gpu
from tests.topology.boards import BOARDS

A, B = a_gpu("GPU-a", index=0), a_gpu("GPU-b", index=1)
PART = a_gpu("MIG-1", index=1)

#: As a DGX Station prints it, with a network card.
MATRIX = """
	\x1b[4mGPU0	GPU1	GPU2	NIC0	CPU Affinity	NUMA Affinity	GPU NUMA ID\x1b[0m
GPU0	 X 	NV4	SYS	PIX	0-23,48-71	0		N/A
GPU1	NV4	 X 	PHB	SYS	24-47	1		N/A
GPU2	SYS	PHB	 X 	SYS	N/A	N/A		N/A
NIC0	PIX	SYS	SYS	 X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
"""


def link(one: str, other: str, kind: str = "NV2", speed: int = 100) -> CardLink:
    return CardLink(uuid=GpuUuid(one), peer=GpuUuid(other), kind=kind, speed=speed)


def test_nodes_of_equal_hardware_have_one_wiring() -> None:
    told = []
    for name in ("x", "y"):
        cards = [a_gpu(f"GPU-{name}{index}", index=index) for index in range(2)]
        links = [link(cards[0].uuid, cards[1].uuid), link(cards[1].uuid, cards[0].uuid)]
        told.append(wiring_of(cards, links, {cards[0].uuid: 1}, {}))
    assert told[0] is told[1]
    assert told[0].links[0] == (0, (PeerLink(1, "NV2", 100),))
    assert told[0].numa_nodes == ((0, 1),)


def test_a_link_that_is_told_twice_is_one_and_the_slower_counts() -> None:
    """HAMi counts links that differ in both directions as none."""
    links = [link("GPU-a", "GPU-b", speed=50), link("GPU-a", "GPU-b", speed=40)]
    assert wiring_of([A, B], links, {}, {}).links == ((0, (PeerLink(1, "NV2", 40),)),)


def test_an_instance_has_its_card_s_numa_node_and_no_links() -> None:
    wiring = wiring_of(
        [A, PART],
        [link("GPU-a", "MIG-1"), link("MIG-1", "GPU-a")],
        {PART.uuid: 1},
        {PART.uuid: GpuUuid("GPU-b")},
    )
    a, part = wired([A, PART], wiring)
    assert (a.links, a.numa_node) == ((), None)
    assert (part.parent, part.numa_node, part.links) == ("GPU-b", 1, ())


def test_wiring_is_lost_only_where_indices_mean_other_cards() -> None:
    assert still_counts([A, B], [B, A])
    assert still_counts([A, B], [A])
    assert still_counts([A], [A, B])
    assert not still_counts([A, B], [a_gpu("GPU-b", index=0), a_gpu("GPU-a", index=1)])
    assert not still_counts([A, B], [A, a_gpu("GPU-c", index=1)])


@pytest.mark.parametrize("name", ["dgx-1v", "hgx-h100", "pcie"])
def test_links_are_told_as_they_were(name: str) -> None:
    cards = BOARDS[name]
    assert with_links(wired(cards, Wiring()), links_of(cards)) == tuple(
        a_gpu(one.uuid, index=one.index, links=one.links) for one in cards
    )


def test_what_nvidia_smi_prints_is_understood() -> None:
    wiring = read_matrix(MATRIX)
    assert dict(wiring.links) == {
        0: (PeerLink(1, "NV4", 0), PeerLink(2, "SYS", 0)),
        1: (PeerLink(0, "NV4", 0), PeerLink(2, "PHB", 0)),
        2: (PeerLink(0, "SYS", 0), PeerLink(1, "PHB", 0)),
    }
    assert wiring.numa_nodes == ((0, 0), (1, 1))
    assert wiring.rdma == ((0, BusPath.PIX), (1, BusPath.SYS), (2, BusPath.SYS))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "begins with a line of GPU0, GPU1 and so on"),
        ("GPU1 GPU2\nGPU1 X SYS\nGPU2 SYS X", "begins with a line of GPU0"),
        ("GPU0 GPU1\nGPU0 X SYS", "has 2 columns and rows for GPU0"),
        ("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS", "row GPU1 needs 2 words with X for itself"),
        ("GPU0 CPU NUMA\nGPU0 X 0-9 4096", r"NUMA node 4096 is not within 0…4095"),
        ("GPU0 CPU NUMA\nGPU0 X 0-9 " + "9" * 5000, r"NUMA node 4096 is not within"),
        ("GPU0 GPU1\nGPU0 X FAR\nGPU1 FAR X", "row GPU0: 'FAR' is no way to GPU1"),
    ],
)
def test_a_matrix_with_a_mistake_says_where(text: str, words: str) -> None:
    with pytest.raises(MatrixProblem, match=words):
        read_matrix(text)


def test_the_fabric_of_a_node_is_that_of_its_cards() -> None:
    tray = [a_gpu(f"GPU-{at}", index=at) for at in range(4)]
    assert fabric_of(wired(tray, Wiring(fabric="c.1"))) == "c.1"
    assert fabric_of(tray) == fabric_of([]) == ""
