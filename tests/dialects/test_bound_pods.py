"""Pods that nano-gpu's own scheduler bound: its label and annotations say which cards they hold."""

from collections.abc import Mapping

import pytest

from kubeshare_py.dialects.allocation import NOTHING_HELD, ReadBack
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.predecessors import held_by_predecessor
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.identity import card_at
from kubeshare_py.domain.request import GpuRequest
from tests.dialects.pods import (
    CORE,
    MEMORY,
    NANO,
    NEW_PERCENT,
    OLD_CORE,
    OLD_MEMORY,
    PERCENT,
    a_pod,
)

MIB, GIB = 1 << 20, 1 << 30
TABLE = DialectTable((SHAREDGPU, NANO))


def held(pod: PodAsk) -> ReadBack:
    request = TABLE.read(pod)
    return held_by_predecessor(TABLE, pod, request if isinstance(request, GpuRequest) else None)


def cards(found: ReadBack) -> list[tuple[CardCharge, ...]]:
    assert found.allocation is not None
    return [one.cards for one in found.allocation.claims]


def part(index: int, milli: int, memory: int = 0) -> CardCharge:
    return CardCharge(card_at(index), milli, memory)


def whole(index: int) -> CardCharge:
    return CardCharge(card_at(index), 1000, 0, exclusive=True)


@pytest.mark.parametrize(
    ("amounts", "container", "flag", "card"),
    [
        (
            {OLD_CORE: 20, OLD_MEMORY: 1},
            "nano-gpu.io/gpu-c0",
            "nano-gpu.io/gpu",
            part(1, 200, GIB),
        ),
        ({PERCENT: 40}, "nano-gpu/container-c0", "nano-gpu/assume", part(1, 400)),
        ({NEW_PERCENT: 40}, "elastic-gpu/container-c0", "elastic-gpu/assume", part(1, 400)),
        (
            {CORE: 50, MEMORY: 1000},
            "elasticgpu.io/container-c0",
            "elasticgpu.io/assumed",
            part(1, 500, 1000 * MIB),
        ),
    ],
)
def test_g82_the_card_is_read_with_the_flag_as_label_annotation_both_or_none(
    amounts: dict[str, int], container: str, flag: str, card: CardCharge
) -> None:
    flags: list[tuple[Mapping[str, str], Mapping[str, str]]] = [
        ({}, {}),
        ({flag: "true"}, {}),
        ({}, {flag: "true"}),
        ({flag: "true"}, {flag: "true"}),
    ]
    for labels, annotations in flags:
        found = held(a_pod(amounts, labels=labels, annotations={container: "1", **annotations}))
        assert cards(found) == [(card,)]
        assert (found.problem, found.difference) == ("", "")
        assert found.allocation is not None
        assert found.allocation.dialect == "nano-gpu"


def test_g82_containers_of_one_pod_are_charged_together_where_they_share_a_card() -> None:
    notes = {"elasticgpu.io/container-c0": "1", "elasticgpu.io/container-c2": "1"}
    found = held(a_pod({CORE: 50, MEMORY: 1000}, {}, {CORE: 30, MEMORY: 500}, annotations=notes))
    assert found.allocation is not None
    assert found.allocation.cards == (part(1, 800, 1500 * MIB),)


def test_whole_cards_are_held_alone() -> None:
    found = held(a_pod({CORE: 200}, annotations={"elasticgpu.io/container-c0": "0,3"}))
    assert cards(found) == [(whole(0), whole(3))]
    assert found.difference == ""


def test_another_number_of_cards_than_asked_for_is_named() -> None:
    found = held(a_pod({CORE: 200}, annotations={"elasticgpu.io/container-c0": "2"}))
    assert cards(found) == [(whole(2),)]
    assert found.difference == "container-0: its annotations name 1 GPUs, its spec asks for 2"


def test_what_its_scheduler_wrote_to_containers_that_ask_for_nothing_charges_nothing() -> None:
    notes = {"elasticgpu.io/container-c0": "1", "elasticgpu.io/container-c1": "0"}
    found = held(a_pod({CORE: 50}, {}, annotations=notes))
    assert cards(found) == [(part(1, 500),)]
    notes = {"nano-gpu/container-c0": "-1", "nano-gpu/container-c1": "0"}
    assert cards(held(a_pod({}, {PERCENT: 20}, annotations=notes))) == [(part(0, 200),)]


@pytest.mark.parametrize(
    "text", ["abc", "1,x", "1,", "-2", "1.0", " 1", "٣", "99999", "4096", "0x1", "1, 2"]
)
def test_g83_what_is_no_index_is_a_problem_and_is_not_charged_to_card_0(text: str) -> None:
    found = held(a_pod({CORE: 50}, annotations={"elasticgpu.io/container-c0": text}))
    assert found.allocation is None
    assert found.problem == f"elasticgpu.io/container-c0: {text!r} is no index of a GPU"


def test_g83_a_card_named_twice_and_endless_lists_are_problems() -> None:
    key = "elasticgpu.io/container-c0"
    found = held(a_pod({CORE: 200}, annotations={key: "1,1"}))
    assert found.problem == f"{key}: '1,1' names a GPU twice"
    endless = held(a_pod({CORE: 200}, annotations={key: ",".join(map(str, range(5000)))}))
    assert endless.allocation is None
    assert len(endless.problem) < 200


def test_g83_an_index_that_the_node_may_not_have_stays_that_index() -> None:
    found = held(a_pod({CORE: 50}, annotations={"elasticgpu.io/container-c0": "9"}))
    assert cards(found) == [(part(9, 500),)]


def test_a_container_without_a_readable_annotation_is_named_and_the_others_are_charged() -> None:
    for text in ("abc", "-1", ""):
        notes = {"elasticgpu.io/container-c0": "1", "elasticgpu.io/container-c1": text}
        found = held(a_pod({CORE: 50}, {CORE: 30}, annotations=notes))
        assert cards(found) == [(part(1, 500),)]
        assert found.difference == "container-1: its annotations name no GPU, its spec asks for 1"


def test_a_flag_alone_does_not_say_which_card() -> None:
    found = held(a_pod({CORE: 50}, annotations={"elasticgpu.io/assumed": "true"}))
    assert found.allocation is None
    assert found.problem == (
        'elasticgpu.io/assumed="true": no annotation elasticgpu.io/container-NAME says which GPU'
    )


def test_pods_without_such_annotations_or_without_amounts_hold_nothing() -> None:
    assert held(a_pod({CORE: 50})) == NOTHING_HELD
    assert held(a_pod({CORE: 50}, annotations={"elasticgpu.io/assumed": ""})) == NOTHING_HELD
    assert held(a_pod({}, annotations={"elasticgpu.io/container-c0": "0"})) == NOTHING_HELD
    mixed = a_pod({CORE: 1, PERCENT: 1}, annotations={"elasticgpu.io/container-c0": "0"})
    assert held(mixed) == NOTHING_HELD
