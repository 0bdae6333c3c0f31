"""Containers with GPUs of their own, in the words of the commands."""

from typing import Any

import pytest

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.values import replace
from kubeshare_py.terminal.cards import asks, asks_of
from kubeshare_py.terminal.gpu_tables import pod_details
from kubeshare_py.terminal.grid import table_lines
from kubeshare_py.terminal.pod_table import pod_table
from kubeshare_py.terminal.why_report import container_lines, containers_in_words, why_report
from kubeshare_py.views.view import (
    ContainerPartView,
    ContainerView,
    HoldingView,
    NodeView,
    NodeWhy,
    PodView,
    WhyView,
)
from tests.making import GIB
from tests.making.golden import expect_golden
from tests.terminal.views import NOW, a_card, a_pod_view, a_tenant, a_view, lacks


def a_container(index: int, milli: int = 500, *cards: int, **fields: Any) -> ContainerView:
    """Of these cards it holds what it asks for, and 10 GiB."""
    holds = tuple(
        HoldingView(uuid=f"GPU-n1-{card}", index=card, milli=milli, memory_bytes=10 * GIB)
        for card in cards
    )
    given: dict[str, Any] = {"count": 1, "milli": milli, "holds": holds, **fields}
    return ContainerView(container=f"container-{index}", **given)


def a_pod_of(*containers: ContainerView, state: str = "waiting", **fields: Any) -> PodView:
    return a_pod_view("two", state, containers=containers, count=2, **fields)


SHARES = (a_container(0, 500), a_container(1, 300, memory_bytes=5 * GIB, models=("Tesla-T4",)))


@pytest.mark.parametrize(
    ("containers", "words"),
    [
        ((), ""),
        (("container-0",), "container 0"),
        (("container-2", "container-0"), "containers 0 and 2"),
        (("container-0", "container-1", "container-2"), "containers 0-2"),
        (("container-0", "container-1", "container-4"), "containers 0, 1 and 4"),
        (("init-0", "container-11"), "container 11 and init container 0"),
    ],
)
def test_containers_are_named_by_their_indexes(containers: tuple[str, ...], words: str) -> None:
    assert containers_in_words(containers) == words


def test_each_claim_is_part_of_what_a_pod_asks_for() -> None:
    pod = a_pod_of(*SHARES)
    assert asks_of(pod) == "0.5 GPU + 0.3 GPU, 5.0 GiB on Tesla-T4"
    assert asks(pod) == "0.5 GPU + 0.3 GPU, 5.0 GiB"
    alike = a_pod_of(*(a_container(number) for number in range(3)), relation="different cards")
    assert asks_of(alike) == "3 times 0.5 GPU, on different cards"
    assert asks_of(replace(alike, relation="same card")) == "3 times 0.5 GPU, on the same cards"
    assert asks_of(a_pod_view("one", count=1, milli=500)) == "0.5 GPU"


def test_the_table_of_pods_has_all_claims_and_what_is_held_in_all() -> None:
    first, second = (replace(one, holds=(part,)) for one, part in zip(SHARES, parts(), strict=True))
    pod = a_pod_of(first, second, state="bound", node="n1", cards=("GPU-n1-0",), holds=whole_part())
    waits = a_pod_of(*SHARES)
    lines = table_lines(pod_table([pod, waits], NOW, with_namespace=False), None)
    assert [line.plain.split("  ")[0] for line in lines] == ["NAME", "two", "two"]
    assert "0.5 GPU + 0.3 GPU, 5.0 GiB on Tesla-T4  0.8 GPU, 20.0 GiB" in lines[1].plain
    assert "0.5 GPU + 0.3 GPU, 5.0 GiB on Tesla-T4  <none>" in lines[2].plain


def parts() -> tuple[HoldingView, HoldingView]:
    one = HoldingView(uuid="GPU-n1-0", index=0, milli=500, memory_bytes=10 * GIB)
    return one, replace(one, milli=300)


def whole_part() -> tuple[HoldingView]:
    return (HoldingView(uuid="GPU-n1-0", index=0, milli=800, memory_bytes=20 * GIB),)


def test_why_says_what_each_container_asks_for_and_holds() -> None:
    pod = a_pod_of(
        a_container(0, 500, 0),
        a_container(1, 300, 0, 1, count=2),
        a_container(2, 0, 1, count=0),
        state="bound",
        node="n1",
        cards=("GPU-n1-0", "GPU-n1-1"),
    )
    text = why_report(WhyView(pod=pod, message=""), None).plain
    expect_golden("terminal/why-containers-bound", text)
    assert [*container_lines(a_pod_view("one", "bound", node="n1"))] == []


def test_alike_containers_of_a_waiting_pod_are_one_line() -> None:
    pod = a_pod_of(a_container(0), a_container(1, 300), a_container(2))
    assert [*container_lines(pod)] == [
        "containers 0 and 2 each ask for 0.5 GPU",
        "container 1 asks for 0.3 GPU",
    ]


def test_why_says_which_containers_lack_what() -> None:
    one = replace(lacks("GPU-n1-0", "gpu", 500, 200), containers=("container-0", "container-2"))
    other = replace(lacks("GPU-n1-0", "gpu memory", 3 * GIB, GIB), containers=("container-1",))
    together = "too little GPU for all of its containers together"
    joint = Shortfall(reason=together, resource="gpu", asked=1300, free=1200, unit="milli")
    node = NodeWhy(name="n1", fits=False, reasons=(together,), shortfalls=(one, other, joint))
    pod = a_pod_of(a_container(0), a_container(1, 300), a_container(2), relation="different cards")
    view = WhyView(pod=pod, message="…", nodes=(node,), indexes={"GPU-n1-0": 0})
    expect_golden("terminal/why-containers", why_report(view, None).plain)


def test_details_list_containers_below_their_pod_which_counts_once() -> None:
    def part(index: int, milli: int, gib: int) -> ContainerPartView:
        return ContainerPartView(
            container=f"container-{index}", milli=milli, memory_bytes=gib * GIB
        )

    two = a_tenant("two", 800, 15, containers=(part(0, 500, 10), part(1, 300, 5)))
    more = a_tenant("two", 200, 4, containers=(part(1, 200, 4),))
    node = NodeView(name="n1", cards=(a_card(0, two, a_tenant("one", 100, 1)), a_card(1, more)))
    text = pod_details(a_view(node), (node,), None).plain
    expect_golden("terminal/gpus-details-of-containers", text)
