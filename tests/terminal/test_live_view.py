"""The whole cluster on one screen, and its plain lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.values import replace
from kubeshare_py.embedded_cluster.programs.demo import change_lines
from kubeshare_py.terminal.live_view import LEVELS, card_cell, live_view
from kubeshare_py.views.view import CardView, ClusterView, HoldingView, NodeView
from tests.making import GIB
from tests.making.golden import expect_golden
from tests.scale import examples
from tests.terminal.views import a_card, a_pod_view, a_small_view, a_tenant, a_view


def nodes(count: int, cards: int) -> tuple[NodeView, ...]:
    """Node i has i % 3 tenants on each card."""
    return tuple(
        NodeView(
            name=f"n{at}",
            cards=tuple(
                a_card(index, *(a_tenant(f"p{one}", 300, 5) for one in range(at % 3)))
                for index in range(cards)
            ),
        )
        for at in range(count)
    )


def screen(view: ClusterView, width: int = 80, height: int = 24) -> list[str]:
    return live_view(view, width=width, height=height).plain.splitlines()


def test_cards_are_bars_with_names_and_waiting_pods_have_reasons() -> None:
    expect_golden("terminal/live-view", screen(a_small_view()))


def test_neighbours_on_a_card_differ_without_colours() -> None:
    card = a_card(0, a_tenant("a", 500), a_tenant("b", 250, 5))
    assert screen(a_view(NodeView(name="n1", cards=(card,))), width=40)[2] == (
        "n1   0 ████▓▓░░ a, b"
    )


def test_pods_that_ask_for_memory_only_fill_the_bar_too() -> None:
    card = a_card(0, a_tenant("a", 0, 20))
    assert "████░░░░" in screen(a_view(NodeView(name="n1", cards=(card,))), width=40)[2]


def test_the_smallest_share_is_seen_and_a_full_bar_ends() -> None:
    small = tuple(a_tenant(f"s{at}", 1, 0) for at in range(3))
    card = a_card(0, a_tenant("a", 990), *small)
    few = a_card(1, *small)
    lines = screen(a_view(NodeView(name="n1", cards=(card, few))), width=40)
    assert lines[2].startswith("n1   0 ███████▓ a")
    assert lines[3].startswith("     1 █▓█░░░░░ s0")


def test_a_tiny_screen_is_not_left_by_warnings_either() -> None:
    view = replace(a_small_view(), ready=False, inventory="unread", overcommitted=(("n1", "G"),))
    assert len(screen(view, height=3)) == 3


def test_broken_cards_are_named() -> None:
    cards = (a_card(0, healthy=False), CardView(uuid="GPU-x", known=False))
    lines = screen(a_view(NodeView(name="n1", cards=cards)), width=60)
    assert "xxxx unhealthy" in lines[2]
    assert "xxxx not in inventory" in lines[3]


def test_nodes_and_cards_that_take_no_pods_are_seen_and_not_counted_as_free() -> None:
    cards = tuple(a_card(index) for index in range(2))
    view = a_view(
        NodeView(name="n1", unschedulable=True, cards=cards),
        NodeView(name="n2", not_ready=True, cards=cards),
        NodeView(name="n3", cards=(a_card(0, cordoned=True), a_card(1, a_tenant("a", 300)))),
    )
    lines = screen(view)
    assert lines[1].endswith("; 0.7 free, 5 cards take no new pods")
    assert lines[2].startswith("n1  SchedulingDisabled  ")
    assert lines[4].startswith("n2  NotReady            ")
    assert all("╌╌╌╌" in lines[at] for at in (2, 3, 4, 5, 6))
    assert "cordoned" in lines[6]
    assert "░░░░" in lines[7]
    many = tuple(replace(view.nodes[0], name=f"n{at}") for at in range(40))
    assert "n7   ╌╌ 0.0/2.0 SchedulingDisabled" in "\n".join(screen(a_view(*many), 120))


def test_nodes_are_in_the_order_of_their_numbers_or_of_what_is_free() -> None:
    view = a_view(
        NodeView(name="n10", cards=(a_card(0, a_tenant("a", 300)),)),
        NodeView(name="n2", cards=(a_card(0, a_tenant("b", 900)),)),
        NodeView(name="n1", unschedulable=True, cards=(a_card(0),)),
    )

    def order(sort: str, skip: int = 0) -> list[str]:
        lines = live_view(view, width=50, height=20, sort=sort, skip=skip).plain.splitlines()
        return [line.split()[0] for line in lines[2:-1]]

    assert order("name") == ["n1", "n2", "n10"]
    assert order("free") == ["n10", "n2", "n1"]
    assert order("used") == ["n2", "n10", "n1"]
    assert order("name", skip=1) == ["n2", "n10"]


def test_wide_screens_show_models_and_the_size_of_their_cards() -> None:
    (line,) = [one for one in screen(a_small_view(), width=120) if one.startswith("n1 ")]
    assert line.startswith("n1   NVIDIA-A100-SXM4-40GB 40 GiB  ")


def test_pods_of_one_namespace_have_one_colour() -> None:
    teams = [a_tenant(name, 200, 5, namespace=team) for name, team in ("am", "bm", "cx")]
    spans = card_cell(a_card(0, *teams), 60, with_namespace=True).spans
    first, second, third = [span.style for span in spans if span.style][:3]
    assert first == second != third


def test_more_cards_share_a_line_as_the_screen_gets_fuller() -> None:
    tall, short = (screen(a_view(*nodes(4, 8)), height=height) for height in (40, 12))
    assert len(tall) == 2 + 32 + 1
    assert len(short) == 2 + 8 + 1


def test_a_large_cluster_gets_one_character_a_card() -> None:
    lines = screen(a_view(*nodes(30, 8)))
    assert "n1   ▂▂▂▂▂▂▂▂ 2.4/8.0" in lines[2]
    assert "n29  ▄▄▄▄▄▄▄▄ 4.8/8.0" in lines[-2]
    assert lines[-1] == LEVELS


@pytest.mark.slow
def test_a_huge_cluster_shows_its_busiest_nodes() -> None:
    lines = screen(a_view(*nodes(5000, 8)))
    assert len(lines) == 24
    assert lines[-2].startswith("… 4,940 more nodes, ")
    assert all("4.8/8.0" in line for line in lines[2:-2])


def test_many_waiting_pods_leave_room_for_nodes() -> None:
    pods = tuple(a_pod_view(f"w{at}", "waiting", message="no") for at in range(100))
    lines = screen(a_view(*nodes(2, 2), pods=pods))
    assert len(lines) == 24
    assert lines[-1] == "… and 85 more pods"


@examples(40)
@given(
    st.integers(0, 40),
    st.integers(0, 17),
    st.integers(0, 30),
    st.integers(40, 200),
    st.integers(10, 60),
)
def test_the_screen_is_never_left(
    count: int, cards: int, waiting: int, width: int, height: int
) -> None:
    name = "trainer-very-long-" * 4
    pods = tuple(a_pod_view(f"{name}{at}", "waiting", message="x " * 90) for at in range(waiting))
    long = tuple(
        replace(node, name=f"{node.name}.eu-west-1.compute.internal")
        for node in nodes(count, cards)
    )
    lines = screen(a_view(*long, pods=pods), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_plain_lines_tell_the_beginning_in_full() -> None:
    expect_golden("terminal/live-lines-first", change_lines(None, a_small_view()))


def test_plain_lines_tell_then_only_what_changes() -> None:
    before = a_small_view()
    n1, n2, _ = before.nodes
    one, two, big = before.pods
    sick = replace(n2, silent=True, cards=(replace(n2.cards[0], healthy=False), n2.cards[1]))
    held = HoldingView(uuid="GPU-n1-1", index=1, milli=1000)
    bound = replace(big, state="assumed", node="n1", holds=(held,), message="")
    after = replace(before, nodes=(n1, sick), pods=(bound, two), inventory="no answer")
    assert one not in after.pods
    assert change_lines(before, before) == []
    expect_golden("terminal/live-lines-later", change_lines(before, after))
    assumed = replace(after, pods=(replace(bound, state="unconfirmed"), two))
    assert change_lines(after, assumed) == []


def test_plain_lines_do_not_say_what_nobody_understood() -> None:
    before = a_small_view()
    typo = replace(before.pods[2], state="gated", count=0, message="gpu_limit: must be a number")
    (line,) = change_lines(before, replace(before, pods=(*before.pods[:2], typo)))
    assert line == "pod team/big gated: gpu_limit: must be a number"


def test_what_is_really_used_is_shown_where_there_is_room() -> None:
    used = a_card(0, a_tenant("a", 500), busy_milli=365, in_use_bytes=GIB)
    view = a_view(NodeView(name="n1", cards=(used, a_card(1))))
    lines = screen(view, width=70)
    assert lines[2] == "measured: 36% busy, 1.0 GiB used (1 of 2 cards)"
    assert " 37% a" in lines[3]
    assert "%" not in lines[4]
    assert "%" not in card_cell(used, 20, with_namespace=False).plain
