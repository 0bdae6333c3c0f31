"""A collector's page, read without a Prometheus."""

from collections.abc import Iterable

import pytest

from kubeshare_py.domain.card_reading import BusPath
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.embedded_cluster.nodes.collectors import Collectors
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.inventory.changes import InventoryStep, next_reading
from kubeshare_py.inventory.collector_page import (
    NODES_A_PORTION,
    Remark,
    Rounds,
    ScrapedPage,
    ScrapeTarget,
    chosen,
    no_answer,
    question,
    read_page,
    wiring_of_page,
    wirings,
)
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import Series, parse_selector, selects
from kubeshare_py.topology.wiring import Wiring
from tests.inventory.vector import A, B, states, told, uuids
from tests.making import a_gpu

OF_KUBESHARE = """# HELP gpu_capacity GPU information.
# TYPE gpu_capacity counter
gpu_capacity{index="0",memory="100",model="Tesla-T4",node="a",uuid="GPU-1"} 1.7e+09
gpu_capacity{index="1",memory="100",model="Tesla-T4",node="a",uuid="GPU-2"} 1.7e+09
"""


def page(text: str) -> ScrapedPage:
    return read_page(text, A, "10.0.0.1:9004")


def read(previous: Reading, *pages: ScrapedPage) -> InventoryStep:
    return next_reading(previous, [one for page in pages for one in page.vector], 0.0)


def test_a_page_of_our_collector_says_what_prometheus_would_say() -> None:
    (node,) = read_cluster("nodes: [{name: a, gpus: [{model: T4, memory: 1GiB, count: 3}]}]")
    collectors = Collectors([node])
    broken = collectors.break_card(A, 1)
    body, _ = collectors.page(A, 100.0) or (b"", "")
    step = read(Reading(), page(body.decode()))
    told = f"node a: memory-errors, no new pods: {broken}"
    assert step.diagnostics == (told,)
    assert states(step) == {"a": {card.uuid: card.uuid != broken for card in node.cards}}


def test_a_page_of_kubeshares_collector_is_enough() -> None:
    first = read(Reading(), page(OF_KUBESHARE))
    assert uuids(first) == {"a": ["GPU-1", "GPU-2"]}
    fewer = page("".join(OF_KUBESHARE.splitlines(keepends=True)[:-1]))
    assert uuids(read(first.reading, fewer)) == {"a": ["GPU-1"]}
    # It cannot say that there is no card any more.
    assert read(first.reading, page("")).changed == ()


def test_no_answer_is_no_news() -> None:
    first = read(Reading(), page(OF_KUBESHARE)).reading
    none = no_answer(A, "10.0.0.1:9004", "nothing for 4 s")
    step = read(first, none)
    assert (step.changed, {*step.reading.silent_since}) == ((), {"a"})
    assert none.diagnostics == (
        "node a: no answer of the collector at 10.0.0.1:9004: nothing for 4 s",
    )


def test_a_collector_is_not_believed_about_other_nodes() -> None:
    found = page(OF_KUBESHARE.replace('node="a"', 'node="b"', 1))
    assert found.problem == "it says that it is on b"
    assert read(Reading(), found).changed == ()


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        ('gpu_capacity{node="a",uuid="GPU-1"', "line 2 of the page at 10.0.0.1:9004: "),
        ('gpu_capacity{node="a",uuid="GPU-1"} lots', "line 2 of the page at 10.0.0.1:9004: "),
        ('gpu_capacity{node="a",uuid="GPU-1"} 1', "label model is missing"),
        # The parser raises IndexError for this one.
        ('gpu_capacity{d="", =u}', "line 2 of the page at 10.0.0.1:9004: not a line of"),
    ],
)
def test_a_line_that_cannot_be_read_is_located_and_takes_no_card_away(bad: str, rule: str) -> None:
    first = read(Reading(), page(OF_KUBESHARE)).reading
    good = OF_KUBESHARE.splitlines()[-1]
    found = page(lines("# a comment", bad, good))
    step = read(first, found)
    assert step.changed == ()
    assert any(rule in one for one in (*found.diagnostics, *step.diagnostics))


@pytest.mark.parametrize("text", ["", "<html>", "gpu_capacity_total 5", "\0", "gpu_capacityx{} 1"])
def test_a_page_that_says_nothing_of_cards_is_no_collectors(text: str) -> None:
    first = read(Reading(), page(OF_KUBESHARE)).reading
    found = page(text)
    assert found.problem == "its page has neither gpu_capacity nor kubeshare_collector_cards"
    assert read(first, found).changed == ()


def test_a_page_that_is_cut_off_is_none() -> None:
    (node,) = read_cluster("nodes: [{name: a, gpus: [{model: T4, memory: 1GiB, count: 2}]}]")
    whole, kind = Collectors([node]).page(A, 1.0, "application/openmetrics-text") or (b"", "")
    assert kind.startswith("application/openmetrics-text")
    assert not read_page(whole.decode(), A, "x:1", has_end=True).problem
    for cut in range(len(whole) - len("# EOF\n")):
        found = read_page(whole[:cut].decode(), A, "x:1", has_end=True)
        assert found.problem == "its page is cut off"


def test_pages_of_many_nodes_are_one_vector() -> None:
    def of(nodes: Iterable[str]) -> list[ScrapedPage]:
        texts = [
            (node, OF_KUBESHARE.replace('"a"', f'"{node}"').replace("GPU", f"GPU-{node}"))
            for node in nodes
        ]
        return [read_page(text, NodeName(node), f"{node}:9004") for node, text in texts]

    assert {*uuids(read(Reading(), *of("abc")))} == {"a", "b", "c"}


@pytest.mark.parametrize("value", ["1" + "0" * 400, "-1" + "0" * 400, "1e400", "9" * 5000])
def test_a_number_beyond_all_floats_takes_no_card_away(value: str) -> None:
    first = read(Reading(), page(OF_KUBESHARE)).reading
    good = OF_KUBESHARE.splitlines()[-1]
    link = f'gpu_link{{node="a",uuid="GPU-1",peer="GPU-2",type="SYS"}} {value}'
    found = page(lines(good.rpartition(" ")[0] + f" {value}", link, good))
    assert read(first, found).changed == ()
    remarks: list[Remark] = []
    wirings(wiring_of_page(found.wiring), first.cards, remarks.append)
    assert len(remarks) == 1


def test_what_repeats_a_long_label_is_a_sentence_all_the_same() -> None:
    good = OF_KUBESHARE.splitlines()[-1]
    found = page(lines(good.replace('memory="', f'memory="{"x" * 9000}'), f"{good}{'x' * 9000}"))
    step = read(Reading(), found)
    assert found.diagnostics
    assert step.diagnostics
    assert all(len(one) < 1200 for one in (*found.diagnostics, *step.diagnostics))


# --- Which of several collectors on a node is asked -----------------------------------------------


def test_each_node_has_one_that_stays_and_is_ready() -> None:
    ending = ScrapeTarget(node=A, host="10.0.0.1", is_ending=True)
    starting = ScrapeTarget(node=A, host="10.0.0.3", is_ready=False)
    ready = ScrapeTarget(node=A, host="10.0.0.4")
    twin = ScrapeTarget(node=A, host="10.0.0.5")
    b = ScrapeTarget(node=B, host="10.0.0.2", is_ready=False)
    for targets, first in (
        ((ending, starting, ready, twin), ready),
        ((twin, ready), ready),
        ((ending, starting), starting),
        ((ending,), ending),
    ):
        assert chosen([b, *targets]) == {A: first, B: b}
        assert chosen([*reversed(targets), b]) == {A: first, B: b}


# --- What collectors tell of their cards' surroundings, node by node ------------------------------


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


@pytest.mark.slow
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
