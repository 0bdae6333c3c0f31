"""What the commands show, word for word."""

import json
from typing import Any

import yaml

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.values import replace
from kubeshare_py.terminal import documents
from kubeshare_py.terminal.cards import amount_of, warnings
from kubeshare_py.terminal.gpu_tables import card_table, pod_details, shown_nodes, summary
from kubeshare_py.terminal.grid import Table, changed_lines, table_lines
from kubeshare_py.terminal.pod_table import most_telling, pod_table, shown_pods
from kubeshare_py.terminal.why_report import MAX_NODES, why_report
from kubeshare_py.views.view import (
    BackendView,
    CardNotReadyView,
    CardsNotReadyView,
    CardView,
    ClusterView,
    HoldingView,
    LingeringView,
    NeighbourView,
    NodeView,
    NodeWhy,
    PlacementView,
    RankedNode,
    ScoreView,
    WhyView,
)
from tests.making import GIB
from tests.making.golden import expect_golden
from tests.terminal.views import (
    NOW,
    a_card,
    a_pod_view,
    a_small_view,
    a_tenant,
    a_view,
    a_why,
    lacks,
)


def card_lines(view: ClusterView, width: int | None = None, **options: bool) -> list[str]:
    return plain(card_table(view, shown_nodes(view), **options), width)


def plain(table: Table, width: int | None = None) -> list[str]:
    return [line.plain for line in table_lines(table, width)]


def why_text(why: WhyView, width: int | None = None) -> str:
    return why_report(why, width).plain


def test_gpus_is_one_line_a_card_with_its_node() -> None:
    expect_golden("terminal/gpus", card_lines(a_small_view()))


def test_gpus_shows_what_is_really_used_of_a_card_where_that_is_known() -> None:
    used = a_card(0, busy_milli=365, in_use_bytes=12 * GIB + GIB // 2)
    idle = a_card(1, in_use_bytes=0)
    view = a_view(NodeView(name="n1", cards=(used, idle, a_card(2))))
    assert [line.split()[5] for line in card_lines(view)[1:]] == [
        "37%/12.5",
        "-/0.0",
        "-",
    ]
    details = pod_details(view, view.nodes, None).plain
    assert "In use:     GPU 0 37% busy, 12.5 GiB; GPU 1 - busy, 0.0 GiB\n" in details
    [node] = documents.gpus_document(view, shown_nodes(view))["nodes"]
    assert [one.get("busy_milli") for one in node["cards"]] == [365, None, None]
    assert "in_use_bytes" in node["cards"][1]
    assert "in_use_bytes" not in node["cards"][2]


def test_the_dialect_of_a_tenant_is_said_unless_it_is_kubeshares() -> None:
    languages = ("sharedgpu", "gpushare", "nano-gpu", "")
    tenants = [a_tenant(f"p{at}", 100, dialect=one) for at, one in enumerate(languages)]
    view = a_view(NodeView(name="n1", cards=(a_card(0, *tenants),)))
    assert card_lines(view)[1].endswith(
        "  default/p0, default/p1 (gpushare), default/p2 (nano-gpu), default/p3"
    )
    details = pod_details(view, view.nodes, None).plain.splitlines()
    assert [line.split()[:3] for line in details[3:8]] == [
        ["NAME", "NAMESPACE", "DIALECT"],
        ["p0", "default", "sharedgpu"],
        ["p1", "default", "gpushare"],
        ["p2", "default", "nano-gpu"],
        ["p3", "default", "<none>"],
    ]
    [node] = documents.gpus_document(view, shown_nodes(view))["nodes"]
    assert [one["dialect"] for one in node["cards"][0]["tenants"]] == list(languages)


def test_what_a_card_is_called_in_the_namespace_of_a_tenant_is_said() -> None:
    """As GPUIDs of KubeShare 1.0."""
    tenants = (
        a_tenant("a", 100, dialect="sharepod", card_name="zxcvb", share_pod="a"),
        a_tenant("b", 100, dialect="sharepod", card_name="zxcvb"),
        a_tenant("c", 100, card_name="qwert"),
    )
    view = a_view(NodeView(name="n1", cards=(a_card(0, *tenants),)))
    assert card_lines(view)[1].endswith(
        "  default/a (pod of SharePod a with GPUID zxcvb), "
        "default/b (sharepod with GPUID zxcvb), default/c (GPUID qwert)"
    )
    [node] = documents.gpus_document(view, shown_nodes(view))["nodes"]
    assert [(one["card_name"], one["share_pod"]) for one in node["cards"][0]["tenants"]] == [
        ("zxcvb", "a"),
        ("zxcvb", ""),
        ("qwert", ""),
    ]


def test_wide_adds_uuid_address_and_isolation() -> None:
    header, first, *_ = card_lines(a_small_view(), wide=True)
    assert header.split()[-4:] == ["UUID", "ADDRESS", "ISOLATION", "PODS"]
    assert first.split()[-4:] == ["GPU-n1-0", "10.0.0.1", "<none>", "default/one"]


def test_the_summary_is_a_line_a_node_then_the_cluster() -> None:
    view = a_small_view()
    expect_golden("terminal/gpus-summary", summary(view, shown_nodes(view), None).plain)


def test_the_summary_says_what_takes_no_pods() -> None:
    sick = (a_card(0, healthy=False), a_card(1, cordoned=True), a_card(2))
    view = a_view(
        NodeView(name="n10", cards=(a_card(0),)),
        NodeView(name="n2", cards=sick),
        NodeView(name="n1", unschedulable=True, not_ready=True, cards=(a_card(0),)),
    )
    lines = summary(view, shown_nodes(view), None).plain.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["n1", "n2", "n10"]
    assert "NotReady, SchedulingDisabled  " in lines[1]
    assert "GPU 0 unhealthy, GPU 1 cordoned  " in lines[2]
    assert lines[-1] == "2 free, 3 cards take no new pods"


def test_pods_that_the_reader_may_not_see_are_counted() -> None:
    hidden = a_tenant("", namespace="")
    node = NodeView(name="n1", cards=(a_card(0, a_tenant("a", 100), hidden, hidden),))
    assert card_lines(a_view(node))[1].endswith("default/a, 2 (in other namespaces)")
    assert "(in other namespaces)  <none>" in pod_details(a_view(node), (node,), None).plain


def test_the_summary_of_a_narrow_terminal_lists_the_cards() -> None:
    view = a_small_view()
    expect_golden("terminal/gpus-summary-narrow", summary(view, shown_nodes(view), 76).plain)


def test_nodes_with_fewer_cards_show_nothing_of_nothing() -> None:
    view = a_view(NodeView(name="n1", cards=(a_card(0),)), NodeView(name="n2"))
    lines = summary(view, view.nodes, None).plain.splitlines()
    (line,) = [one for one in lines if one.startswith("n2")]
    assert line.split()[-2:] == ["0/0", "0.0/0.0"]


def test_a_node_without_cards_is_shown_only_when_named() -> None:
    view = a_small_view()
    assert [node.name for node in shown_nodes(view)] == ["n1", "n2"]
    assert [node.name for node in shown_nodes(view, ("cpu",))] == ["cpu"]
    assert shown_nodes(view, ("other",)) == []
    text = summary(view, shown_nodes(view, ("cpu",)), None).plain
    expect_golden("terminal/gpus-summary-without-cards", text)


def test_what_is_held_after_a_forced_deletion_is_said() -> None:
    some = LingeringView(namespace="team", name="a", milli=700, memory_bytes=GIB, for_s=42)
    other = LingeringView(namespace="", name="", milli=300, memory_bytes=GIB, for_s=3)
    card = a_card(0, used_milli=1000, lingering=(some, other))
    (line,) = card_lines(a_view(NodeView(name="n1", cards=(card,))))[1:]
    said = "0.7 held for 42 s after the forced deletion of team/a, 0.3 held for 3 s after the "
    assert f"{said}forced deletion of a pod of another namespace" in line


def test_what_is_wrong_with_nodes_and_cards_is_said() -> None:
    unknown = CardView(uuid="GPU-gone", known=False, used_milli=500, tenants=(a_tenant("one"),))
    cards = (unknown, a_card(0, a_tenant("a", 1500)), a_card(1, healthy=False))
    view = a_view(
        NodeView(name="n1", address="10.0.0.1", unschedulable=True, silent=True, cards=cards),
        overcommitted=(("n1", "GPU-n1-0"),),
        inventory="connection refused",
        ready=False,
    )
    expect_golden("terminal/gpus-with-faults", card_lines(view))
    assert warnings(view) == [
        "The scheduler has not read all pods and nodes yet: this is incomplete.",
        "The GPU inventory could not be read: connection refused",
        "More is promised than there is on 1 card: GPU-n1-0 on n1",
    ]


def test_a_card_that_other_nodes_claim_names_them() -> None:
    cards = (
        a_card(0, a_tenant("a", 500), claimed_by=("n2",)),
        a_card(1, healthy=False, claimed_by=("n2", "n3", "n4")),
    )
    view = a_view(NodeView(name="n1", cards=cards))
    first, second = (line for line in card_lines(view)[1:])
    assert "  claimed by n2 too  " in first
    assert "  claimed by n2 and 2 more nodes too, takes no new pods  " in second
    many = tuple(a_card(at, claimed_by=("n2",)) for at in range(10))
    details = pod_details(a_view(NodeView(name="n1", cards=many)), view.nodes, None).plain
    assert "Claimed:    GPU 1 (GPU-n1-1) claimed by n2 and 2 more nodes too, takes no" in details
    view = a_view(NodeView(name="n1", cards=many))
    told = [
        line for line in pod_details(view, view.nodes, None).plain.split("\n") if "laimed" in line
    ]
    assert (len(told), told[-1]) == (
        9,
        "Claimed:    2 more cards are claimed by other nodes too",
    )


def test_details_have_one_row_for_each_pod() -> None:
    view = a_small_view()
    expect_golden(
        "terminal/gpus-details", pod_details(view, shown_nodes(view, ("n2",)), None).plain
    )


def test_details_say_which_capacities_are_scaled() -> None:
    scaled: dict[str, Any] = {
        "capacity_milli": 2000,
        "memory_scaling": 1500,
        "memory_bytes": 60 * GIB,
    }
    cards = (
        a_card(0, a_tenant("one", 1500, 20), **scaled),
        a_card(1, **scaled),
        a_card(2, max_tenants=10),
        a_card(3),
    )
    view = a_view(NodeView(name="n1", cards=cards))
    expect_golden("terminal/gpus-details-scaled", pod_details(view, view.nodes, None).plain)
    assert "1.5/2.0" in "\n".join(card_lines(view))


def test_why_says_which_capacities_of_a_node_are_scaled() -> None:
    node = NodeWhy(name="n1", fits=False, reasons=("no GPU",), scaled=("0: cores x 2",))
    assert "n1: no GPU; scaled GPUs 0: cores x 2" in why_text(replace(a_why(), nodes=(node,)))


def test_sixteen_cards_and_long_names_stay_inside_a_terminal() -> None:
    name = "trainer-" + "very-long-" * 20 + "7d9f8b6c5-x2x4z"
    tenants = (a_tenant(name, 100, 2), a_tenant("b", 100, 2))
    cards = tuple(a_card(index, *tenants) for index in range(16))
    node = NodeView(name="ip-10-0-0-34.eu-west-1.compute.internal", address="10.0.0.1", cards=cards)
    pods = (
        a_pod_view(name, node=node.name, cards=tuple(card.uuid for card in cards), count=16),
        a_pod_view(f"x{name}", "waiting", message="0/1 nodes are available: 1 Insufficient GPU."),
    )
    view = a_view(node, pods=pods)
    for width in (80, 120):
        details = pod_details(view, view.nodes, width).plain.splitlines()
        table = plain(pod_table(pods, NOW, with_namespace=True), width)
        for lines in (card_lines(view, width), details, table):
            assert max(map(len, lines)) <= width


def test_pods_say_where_they_are_and_what_they_hold_or_why_they_wait() -> None:
    view = a_small_view()
    table = plain(pod_table(shown_pods(view), NOW, with_namespace=True))
    expect_golden("terminal/pods", table)


def test_a_pod_whose_labels_were_changed_is_marked() -> None:
    pod = a_pod_view("a", node="n1", cards=("GPU-n1-0",), asks_for_other=True, milli=800)
    pod = replace(pod, milli=200)
    [_, line] = plain(pod_table([pod], NOW, with_namespace=False))
    assert "0.2 GPU  0.8 GPU, 40.0 GiB" in line
    assert line.endswith("its labels were changed: it holds what it was bound with")
    assert "Its labels ask for something else than it holds" in why_text(
        WhyView(pod=pod, message="")
    )


def test_wide_adds_scheduler_priority_isolation_and_uuids() -> None:
    pod = a_pod_view("a", node="n1", cards=("GPU-n1-0",), profile="ours", priority=7)
    header, line = plain(pod_table([pod], NOW, with_namespace=False, wide=True))
    assert header.split()[-4:] == ["SCHEDULER", "PRIORITY", "ISOLATION", "UUIDS"]
    assert line.split()[-4:] == ["ours", "7", "<none>", "GPU-n1-0"]


def test_cards_of_different_parts_are_summed_up() -> None:
    holds = (
        HoldingView(uuid="GPU-a", index=1, milli=500, memory_bytes=GIB),
        HoldingView(uuid="GPU-b", milli=250, memory_bytes=GIB),
    )
    pod = a_pod_view("a", node="n1", holds=holds)
    [_, line] = plain(pod_table([pod], NOW, with_namespace=False))
    assert "1,GPU-b" in line
    assert "0.75 GPU, 2.0 GiB of 2 cards" in line


def test_pods_are_chosen_by_name_and_by_labels() -> None:
    view = a_small_view()
    assert [pod.name for pod in shown_pods(view, ("big", "x"))] == ["big"]
    assert [pod.name for pod in shown_pods(view, (), {("default", "two")})] == ["two"]
    assert shown_pods(view, ("one",), {("default", "two")}) == []


def test_of_a_workloads_pods_one_that_waits_says_most() -> None:
    pods = [a_pod_view("a"), a_pod_view("c", "waiting"), a_pod_view("b", "waiting")]
    assert most_telling(pods).name == "b"
    assert most_telling(pods[:1]).name == "a"


def test_a_watched_table_prints_what_is_new_changed_or_gone() -> None:
    one, two = a_pod_view("one", node="n1", cards=("GPU-n1-0",)), a_pod_view("two", "waiting")
    moved = replace(two, state="bound", node="n1")
    before = pod_table([one, two], NOW, with_namespace=False)
    later = pod_table([one, two], NOW + 600, with_namespace=False)
    assert changed_lines(before, later, None) == []
    after = pod_table([moved, a_pod_view("new", "gated")], NOW + 600, with_namespace=False)
    lines = [line.plain.split()[:2] for line in changed_lines(before, after, None)]
    assert lines == [["two", "bound"], ["new", "gated"], ["one", "gone"]]


def test_why_says_of_each_node_what_is_kept_there_for_which_pod() -> None:
    kept = "1 card is kept for pod default/urgent by preemption"
    node = NodeWhy(name="n1", fits=False, reasons=("GPU reserved for other pods",), kept=(kept,))
    text = why_report(replace(a_why(), nodes=(node,), advice=()), None).plain
    assert f"n1: GPU reserved for other pods; {kept}" in text.splitlines()


def test_why_begins_with_the_answer_and_ends_with_what_would_help() -> None:
    expect_golden("terminal/why", why_report(a_why(), None).plain)


def test_why_says_not_that_a_pod_asks_for_nothing_when_nobody_understood_it() -> None:
    pod = a_pod_view("odd", "gated", count=0, milli=0)
    said = why_report(WhyView(pod=pod, message="not supported yet: spec.odd"), None).plain
    assert said == "default/odd is held back: not supported yet: spec.odd"
    assert "no GPU" not in "\n".join(plain(pod_table([pod], NOW, with_namespace=False)))


def test_why_says_how_wrong_labels_are_corrected() -> None:
    pod = a_pod_view("odd", "gated", count=0, milli=0)
    message = (
        'sharedgpu/gpu_limit="x": must be a decimal number, such as 0.5, 1 or 2.0; '
        "label sharedgpu/gpu_requst is not known; did you mean sharedgpu/gpu_request?; "
        'sharedgpu/numa_bind="yes": must be "true" or "false"; sharedgpu/priority="x": too much'
    )
    expect_golden("terminal/why-wrong-labels", why_text(WhyView(pod=pod, message=message)))


def test_why_says_first_which_cards_a_pod_waits_for() -> None:
    why = replace(a_why(), waits_for="a card of T4: both (n1) are held by default/a")
    assert why_text(why).splitlines()[0] == (
        "default/train waits for a card of T4: both (n1) are held by default/a. "
        "0/2 nodes are available: 1 Insufficient GPU memory, 1 no GPU."
    )


def test_why_says_in_one_line_that_a_node_has_fewer_cards_than_a_pod_asks_for() -> None:
    shortfalls = (
        Shortfall(reason="too few GPUs", resource="gpu", asked=9, free=8, unit="count"),
        Shortfall(reason="Insufficient GPU", subject="GPU-n1-0", asked=1000, free=0, unit="milli"),
    )
    node = NodeWhy(name="n1", fits=False, reasons=("too few GPUs",), shortfalls=shortfalls)
    text = why_text(replace(a_why(), nodes=(node,), advice=()))
    assert text.splitlines()[-1] == "n1: asks for 9 cards; this node has 8"


def test_why_of_a_bound_pod_says_where_it_is() -> None:
    pod = a_pod_view("a", node="n1", cards=("GPU-n1-0",))
    assert why_report(WhyView(pod=pod, message=""), 80).plain == (
        "default/a is bound to n1, GPU 0 (GPU-n1-0).\n"
        "It asks for 0.5 GPU and holds 0.5 GPU, 40.0 GiB."
    )


def test_why_of_a_bound_pod_says_what_its_card_is_called() -> None:
    """As the GPUID of a SharePod."""
    pod = a_pod_view("a", node="n1", cards=("GPU-n1-0",), memory_bytes=20 * GIB, card_name="zxcvb")
    shown = why_report(WhyView(pod=pod, message=""), None).plain
    assert " SharePods of its namespace name the GPU by the GPUID zxcvb." in shown
    unnamed = WhyView(pod=replace(pod, card_name=""), message="")
    assert "GPUID" not in why_report(unnamed, None).plain


def test_why_of_a_bound_pod_says_what_spoke_for_its_node_and_who_is_beside_it() -> None:
    part = HoldingView(uuid="GPU-n1-0", index=0, milli=250, memory_bytes=2 * GIB)
    placement = PlacementView(
        rank=2,
        fitting=3,
        score=87,
        scores=(
            ScoreView(plugin="BinPack", weight=1, points=80),
            ScoreView(plugin="Topology", weight=7, points=1),
        ),
        others=(RankedNode(name="n2", score=90), RankedNode(name="n3", score=5)),
        neighbours=(
            NeighbourView(namespace="team", name="b", holds=(part,)),
            NeighbourView(namespace="", name="", holds=(part,)),
        ),
    )
    pod = a_pod_view("a", node="n1", cards=("GPU-n1-0",))
    text = why_text(WhyView(pod=pod, message="", placement=placement))
    expect_golden("terminal/why-bound", text)
    only = replace(placement, rank=1, fitting=1, scores=(), others=())
    said = why_text(WhyView(pod=replace(pod, label_priority=5), message="", placement=only))
    assert said.splitlines()[1:3] == [
        "It asks for 0.5 GPU, with sharedgpu/priority 5, and holds 0.5 GPU, 40.0 GiB.",
        "If it were placed now, n1 would be the only node that fits, with score 87.",
    ]
    many = replace(placement, rank=0, neighbours=placement.neighbours[:1] * 25)
    lines = why_text(WhyView(pod=pod, message="", placement=many)).splitlines()
    assert "placed now" not in "".join(lines)
    assert lines[-1] == "  - … and 5 more pods"


def test_why_says_what_of_a_share_is_a_wish_only() -> None:
    pod = a_pod_view(
        "p", node="n1", cards=("GPU-n1-0",), isolation="none", unheld=("memory", "time")
    )
    said = why_text(WhyView(pod=pod, message=""))
    nothing = "Nothing limits it to its 40.0 GiB and half of its card's time (isolation: none)."
    assert nothing in said
    alone = tuple(replace(one, milli=0) for one in pod.holds)
    said = why_text(WhyView(pod=replace(pod, holds=alone), message=""))
    assert "Nothing limits it to its 40.0 GiB (isolation: none)." in said
    waiting = a_pod_view("p", "waiting", isolation="none", unheld=("memory", "time"))
    assert "solation" not in why_text(WhyView(pod=waiting, message=""))
    held = a_pod_view("p", node="n1", isolation="mps")
    assert "solation" not in why_report(WhyView(pod=held, message=""), None).plain


def test_details_count_the_pods_that_are_not_held_to_their_part() -> None:
    both, time = a_tenant("a", unheld=("memory", "time")), a_tenant("b", unheld=("time",))
    node = NodeView(name="n1", cards=(a_card(0, both, time), a_card(1, both)))
    lines = pod_details(a_view(node), (node,), None).plain.splitlines()
    assert "Not held:   memory of 1 pod, time of 2 pods" in lines
    held = NodeView(name="n1", cards=(a_card(0, a_tenant("a")),))
    assert "Not held" not in pod_details(a_view(held), (held,), None).plain


def test_why_says_on_which_card_the_back_end_does_not_work() -> None:
    pod = a_pod_view(
        "p",
        node="n1",
        isolation="mps",
        unheld=("memory", "time"),
        not_ready=(CardNotReadyView(uuid="GPU-1", reason="no running MPS daemon"),),
    )
    said = why_report(WhyView(pod=pod, message=""), None).plain
    assert said.endswith(
        " Nothing limits it to its memory and its part of its cards' time "
        "(GPU-1 has no running MPS daemon)."
    )


def test_why_says_that_nobody_tells() -> None:
    pod = a_pod_view("p", node="n1", isolation="mps", not_ready=(CardNotReadyView(uuid="GPU-1"),))
    said = why_report(WhyView(pod=pod, message=""), None).plain
    assert said.endswith(" It is not known whether mps works on GPU-1.")


def test_why_says_of_each_node_what_the_back_end_lacks_there() -> None:
    dead = CardsNotReadyView(cards=2, reason="no running MPS daemon")
    nodes = (
        NodeWhy(name="n1", fits=True, not_ready=(dead, CardsNotReadyView(cards=1))),
        NodeWhy(name="n2", fits=True, not_ready=(CardsNotReadyView(cards=4),)),
        NodeWhy(name="n3", fits=True),
    )
    pod = a_pod_view("p", "waiting", isolation="mps")
    expect_golden("terminal/why-isolation", why_text(WhyView(pod=pod, message="", nodes=nodes)))


def test_why_of_a_gang_says_how_many_members_each_node_would_take() -> None:
    nodes = (
        NodeWhy(name="n1", fits=True, headroom=3),
        NodeWhy(name="n2", fits=True, headroom=1),
        NodeWhy(name="n3", fits=False, headroom=0, reasons=("no GPU",)),
    )
    pod = a_pod_view("p", "waiting")
    lines = why_report(WhyView(pod=pod, message="", nodes=nodes), None).plain.splitlines()
    assert lines[-3:] == ["n1: room for 3 members", "n2: room for 1 member", "n3: no GPU"]


def test_details_say_on_which_cards_each_back_end_works() -> None:
    def card(index: int, **ready: bool | None) -> CardView:
        told = (
            BackendView(
                backend=name, ready=is_ready, reason="" if is_ready is not False else "no x"
            )
            for name, is_ready in ready.items()
        )
        return a_card(index, isolation=tuple(told))

    cards = (
        card(0, driver=True, mps=True, gemini=None),
        card(1, driver=True, mps=False, gemini=None),
        card(2, driver=True, mps=False, gemini=None),
    )
    node = NodeView(name="n1", cards=cards)
    text = pod_details(a_view(node), (node,), None)
    shown = [line for line in text.plain.splitlines() if line.startswith("Isolation")]
    assert shown == [
        "Isolation:  driver ready",
        "Isolation:  mps no x on 1,2, ready on 0",
        "Isolation:  gemini not known",
    ]
    bare = NodeView(name="n1", cards=(a_card(0),))
    assert "Isolation" not in pod_details(a_view(bare), (bare,), None).plain


def test_memory_without_a_share_is_said_so() -> None:
    pod = replace(a_pod_view("a", "waiting"), count=1, milli=0, memory_bytes=3 << 30)
    said = why_report(WhyView(pod=pod, message=""), None).plain
    assert "It asks for 3.0 GiB of a card, no share of its time" in said
    assert amount_of(1, 0, 3 << 30) == "3.0 GiB"
    assert amount_of(2, 0, 3 << 30) == "3.0 GiB each"


def test_nothing_is_free_where_pods_hold_more_than_there_is() -> None:
    node = NodeWhy(
        name="n1",
        fits=False,
        reasons=("Insufficient GPU memory",),
        shortfalls=(lacks("GPU-1", "gpu", 500, -250),),
    )
    why = WhyView(pod=a_pod_view("a", "waiting"), message="", nodes=(node,))
    line = why_report(why, None).plain.splitlines()[-1]
    assert "0.5 GPU  0.0 GPU  0.5 GPU" in line


def test_why_says_once_what_several_nodes_lack() -> None:
    taken = "node(s) didn't match pod anti-affinity rules"
    cards = (lacks("GPU-1", "gpu", 500, 250), lacks("GPU-2", "gpu", 500, 250))
    nodes = (
        NodeWhy(name="a", alike=("c",), fits=False, reasons=(taken,)),
        NodeWhy(name="b", alike=("e", *"fghijklm"), fits=False, reasons=("no GPU",)),
        NodeWhy(
            name="d",
            alike=("n",),
            fits=False,
            reasons=("Insufficient GPU",),
            shortfalls=(*cards, lacks("GPU-3", "gpu", 500, 100)),
        ),
    )
    why = WhyView(pod=a_pod_view("a", "waiting"), message="waits", nodes=nodes)
    expect_golden("terminal/why-alike-nodes", why_text(why))


def test_why_in_a_large_cluster_shows_near_misses_and_counts_the_rest() -> None:
    far = NodeWhy(name="far", fits=False, reasons=("no GPU",))
    near = NodeWhy(
        name="near",
        fits=False,
        reasons=("Insufficient GPU",),
        shortfalls=(lacks("GPU-1", "gpu", 500, 250),),
    )
    why = WhyView(
        pod=a_pod_view("a", "waiting"),
        message="waits",
        nodes=(replace(far, alike=("further",)),) * 15 + (near,) * MAX_NODES,
    )
    lines = why_report(why, 80).plain.splitlines()
    assert sum(line.startswith("near: ") for line in lines) == MAX_NODES
    assert lines[-1] == "… and 30 more nodes: 30 no GPU"


def test_below_the_totals_is_where_the_cards_come_from() -> None:
    view = replace(a_small_view(), source="scrape")
    said = "\n1.5 free\nSource Of Cards:\nscrape"
    assert summary(view, shown_nodes(view), 200).plain.endswith(said)
    assert pod_details(view, shown_nodes(view), 200).plain.endswith(said)
    assert documents.gpus_document(view, shown_nodes(view))["source"] == "scrape"


def test_machine_forms_are_exact() -> None:
    view = a_small_view()
    gpus = documents.gpus_document(view, shown_nodes(view, ("n1",)))
    assert gpus["nodes"][0]["cards"][0]["used_bytes"] == 20 << 30
    assert gpus["nodes"][0]["cards"][0]["tenants"][0]["milli"] == 500
    assert [pod["name"] for pod in documents.pods_document(view, [view.pods[2]])["pods"]] == ["big"]
    why = documents.why_document(a_why())
    assert why["nodes"][1]["shortfalls"][0]["free"] == 20 << 30
    for document in (gpus, why):
        assert json.loads(documents.written(document, "json")) == document
        assert yaml.safe_load(documents.written(document, "yaml")) == document
