"""A collector's page, read without a Prometheus."""

from collections.abc import Iterable

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.cluster_file import read_cluster
from kubeshare_py.embedded_cluster.nodes.collectors import Collectors
from kubeshare_py.inventory.changes import InventoryStep, next_reading
from kubeshare_py.inventory.collector_page import ScrapedPage, no_answer, read_page, wiring_of_page
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.wiring_series import Remark, wirings
from tests.inventory.vector import A, states, uuids

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
