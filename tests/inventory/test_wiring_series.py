"""What collectors tell of their cards' surroundings, node by node."""

from kubeshare_py.domain.card_reading import BusPath
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.inventory.collector_page import read_page, wiring_of_page
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.series import Series
from kubeshare_py.inventory.series_selectors import parse_selector, selects
from kubeshare_py.inventory.wiring_series import (
    NODES_A_PORTION,
    Remark,
    Rounds,
    question,
    wirings,
)
from kubeshare_py.topology.wiring import Wiring
from tests.builders import a_gpu
from tests.inventory.vector import A, B, told

CARDS = (a_gpu("GPU-0", index=0), a_gpu("GPU-1", index=1))
READING = Reading(cards={A: CARDS, B: (a_gpu("GPU-9", index=0),)})
WIRING = Wiring(numa_nodes=((0, 0),))


def link(one: str, other: str, value: float = 50.0, kind: str = "NV2") -> Series:
    return told("gpu_link", "a", value, uuid=one, peer=other, type=kind)


def test_links_numa_nodes_parents_and_fabric_are_read() -> None:
    found = wirings(
        [
            link("GPU-0", "GPU-1", 51.562),
            told("kubeshare_gpu_numa_node", "a", 1, uuid="GPU-1"),
            told("kubeshare_gpu_info", "a", 1, uuid="GPU-0", parent="", clique="c.7"),
            told("kubeshare_gpu_rdma", "a", 1, uuid="GPU-1", device="mlx5_0", type="SYS"),
            told("kubeshare_gpu_rdma", "a", 1, uuid="GPU-1", device="mlx5_1", type="PXB"),
            told("kubeshare_gpu_info", "a", 1, uuid="MIG-1", parent="GPU-1"),
            told("kubeshare_gpu_info", "c", 1, uuid="GPU-5", parent=""),
        ],
        READING.cards,
    )
    (wiring,) = found.values()
    assert wiring.links == ((0, (PeerLink(1, "NV2", 51_562),)),)
    assert wiring.numa_nodes == ((1, 1),)
    assert wiring.fabric == "c.7"
    assert wiring.rdma == ((1, BusPath.PXB),)
    divided = {A: (*CARDS, a_gpu("MIG-1", index=1))}
    again = wirings([told("kubeshare_gpu_info", "a", 1, uuid="MIG-1", parent="GPU-1")], divided)
    assert again[A].parents == ((GpuUuid("MIG-1"), GpuUuid("GPU-1")),)


def test_what_cannot_be_used_is_passed_over() -> None:
    found = wirings(
        [
            link("GPU-0", "GPU-1", float("nan")),
            link("GPU-0", "GPU-1", -1),
            link("GPU-0", ""),
            link("GPU-0", "GPU-1", kind=""),
            told("kubeshare_gpu_numa_node", "a", -1, uuid="GPU-1"),
        ],
        READING.cards,
    )
    assert found == {A: Wiring()}


def test_a_value_beyond_its_bound_is_left_out_and_said_until_it_is_over() -> None:
    rounds, remarks = Rounds(READING), list[Remark]()
    odd = [
        link("GPU-0", "GPU-1", 1e300),
        link("GPU-0", "GPU-1", float("nan")),
        told("kubeshare_gpu_numa_node", "a", 1e9, uuid="GPU-0"),
        told("kubeshare_gpu_numa_node", "a", 1, uuid="GPU-1"),
        told("kubeshare_gpu_rdma", "a", 1, uuid="GPU-1", device="mlx5_0", type="NV4"),
    ]
    found = wirings(odd, READING.cards, remarks.append)
    assert found == {A: Wiring(numa_nodes=((1, 1),))}
    assert list(rounds.asked([A], found, READING, remarks)) == [(A, found[A])]
    assert rounds.diagnostics() == (
        "node a: gpu_link of GPU-0 to GPU-1: 1e+300 is not within 0…1000000: left out",
        "node a: gpu_link of GPU-0 to GPU-1: nan is not within 0…1000000: left out",
        "node a: kubeshare_gpu_numa_node of GPU-0: 1e+09 is not within 0…4095: left out",
        "node a: kubeshare_gpu_rdma of GPU-1: type 'NV4' is none of PIX, PXB, PHB, NODE, SYS: "
        "left out",
    )
    list(rounds.asked([A], {}, READING))
    assert rounds.diagnostics() == ()


def test_only_the_collectors_in_question_are_asked_about() -> None:
    matchers = parse_selector(question(["10.0.0.1:9004", "[fd00::1]:9004"], 'job="x"'))
    asked = [
        selects(matchers, {"__name__": "gpu_link", "instance": instance, "job": "x"})
        for instance in ("10.0.0.1:9004", "10.0.001:9004", "[fd00::1]:9004", "10.0.0.1:90041")
    ]
    assert asked == [True, False, True, False]
    assert not selects(matchers, {"__name__": "up", "instance": "10.0.0.1:9004", "job": "x"})


def test_new_cards_come_first_and_then_everybody_in_turn() -> None:
    rounds = Rounds(Reading())
    there = {A, B}
    assert rounds.take(READING, [A, B]) == [A, B]
    assert rounds.waiting({B}) == (B,)
    assert rounds.waiting(there) == (A, B)
    assert list(rounds.asked([A, B], {A: WIRING}, READING)) == [(A, WIRING)]
    assert rounds.waiting(there) == ()
    assert rounds.again(there) == (A, B)
    list(rounds.asked([A], {}, READING))
    assert rounds.again(there) == (B, A)


def test_a_portion_is_no_larger_however_many_wait() -> None:
    cards = {NodeName(f"n{number:03}"): CARDS for number in range(NODES_A_PORTION + 1)}
    rounds = Rounds(Reading(cards=cards))
    assert len(rounds.waiting(cards)) == NODES_A_PORTION
    list(rounds.asked(rounds.waiting(cards), {}, Reading(cards=cards)))
    assert rounds.waiting(cards) == (NodeName(f"n{NODES_A_PORTION:03}"),)


def test_only_what_differs_is_news_and_silence_is_none() -> None:
    rounds = Rounds(READING)
    assert list(rounds.asked([A], {A: WIRING}, READING)) == [(A, WIRING)]
    assert list(rounds.asked([A], {A: WIRING}, READING)) == []
    assert list(rounds.asked([A], {}, READING)) == []
    other = Wiring(numa_nodes=((0, 1),))
    assert list(rounds.asked([A], {A: other}, READING)) == [(A, other)]


def test_cards_that_fall_ill_are_not_asked_about_again_but_other_cards_are() -> None:
    rounds = Rounds(READING)
    list(rounds.asked([A, B], {A: WIRING}, READING))
    ill = (a_gpu("GPU-0", index=0, healthy=False), CARDS[1])
    assert rounds.take(Reading(cards={A: ill}), [A]) == []
    other = Reading(cards={A: (CARDS[0], a_gpu("GPU-2", index=1))})
    assert rounds.take(other, [A]) == [A]
    # The same by index, but the scheduler has forgotten it with the card.
    assert list(rounds.asked([A], {A: WIRING}, other)) == [(A, WIRING)]


def test_a_page_keeps_these_lines_apart() -> None:
    text = "\n".join(
        [
            'gpu_capacity{node="a",uuid="GPU-0",model="T4",memory="5",index="0"} 1',
            'gpu_link{node="a",uuid="GPU-0",peer="GPU-1",type="SYS"} 32',
            'gpu_link{node="a",uuid="GPU-1" what',
            'kubeshare_gpu_numa_node{node="a",uuid="GPU-0"} 1',
            'kubeshare_gpu_busy_ratio{node="a",uuid="GPU-0"} 0.5',
        ]
    )
    page = read_page(text, A, "10.0.0.1:9004")
    assert (len(page.vector), page.diagnostics) == (3, ())
    (wiring,) = wirings(wiring_of_page(page.wiring), {A: CARDS}).values()
    assert wiring == Wiring(links=((0, (PeerLink(1, "SYS", 32_000),)),), numa_nodes=((0, 1),))
