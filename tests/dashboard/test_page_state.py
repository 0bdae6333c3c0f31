"""The state as rows: what the page gets at first, and what of it changed since."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dashboard import page_state
from kubeshare_py.dashboard.page_state import BadState, PageState
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.question import completed
from kubeshare_py.views.view import CardView, ClusterView, NodeView, PodView, TenantView

GIB = 2**30


def a_card(number: int = 0, *tenants: TenantView, **fields: Any) -> CardView:
    return CardView(
        uuid=f"GPU-{number}", index=number, model="A100", memory_bytes=80 * GIB,
        used_milli=sum(one.milli for one in tenants), tenants=tenants, **fields,
    )  # fmt: skip


def a_tenant(name: str = "train", milli: int = 500, namespace: str = "team-a") -> TenantView:
    return TenantView(namespace=namespace, name=name, milli=milli, memory_bytes=GIB)


def a_pod(name: str = "train", **fields: Any) -> PodView:
    plain = PodView(namespace="team-a", name=name, uid=f"uid-{name}", state="bound", count=1)
    return replace(plain, milli=500, **fields)


def a_view(nodes: Iterable[NodeView] = (), pods: Iterable[PodView] = (), **of: Any) -> ClusterView:
    plain = ClusterView(scheduler="s", ready=True, inventory="read")
    return replace(plain, nodes=tuple(nodes), pods=tuple(pods), **of)


def taken(state: PageState, view: ClusterView) -> bool:
    return completed(state.take(msgspec.json.encode(view)))


def shown(pieces: Iterable[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b"{" + b"".join(pieces) + b"}")
    return found


def test_the_first_answer_is_all_rows() -> None:
    state = PageState()
    node = NodeView(name="n1", cards=(a_card(0, a_tenant()),))
    assert taken(state, a_view([node], [a_pod()], source="scrape"))
    found = shown(state.whole())
    [[name, _, native, [card], islands]] = found["nodes"]
    assert (name, native, islands) == ("n1", 0, [])
    uuid, index, model, condition, *_, tenants, _ = card
    assert (uuid, index, model, condition) == ("GPU-0", 0, "A100", "Ready")
    assert tenants == [["team-a", "train", 500, GIB, False, []]]
    assert found["pods"][0][:4] == ["uid-train", "team-a", "train", "bound"]


def test_the_same_answer_changes_nothing() -> None:
    state = PageState()
    view = a_view([NodeView(name="n1", cards=(a_card(),))], [a_pod()])
    assert taken(state, view)
    version = state.version
    assert not taken(state, view)
    assert state.version == version
    nothing: dict[str, Any] = {"nodes": [], "pods": [], "gone_nodes": [], "gone_pods": []}
    assert shown(state.changes(version)) == nothing


def test_only_rows_that_changed_are_sent_and_what_went_away_is_named() -> None:
    state = PageState()
    nodes = [NodeView(name=f"n{number}", cards=(a_card(number),)) for number in range(3)]
    taken(state, a_view(nodes, [a_pod("a"), a_pod("b")]))
    before = state.version
    nodes[1] = NodeView(name="n1", cards=(a_card(1, a_tenant()),))
    assert taken(state, a_view(nodes[:2], [a_pod("a"), a_pod("c")]))
    found = shown(state.changes(before))
    assert [row[0] for row in found["nodes"]] == ["n1"]
    assert [row[0] for row in found["pods"]] == ["uid-c"]
    assert (found["gone_nodes"], found["gone_pods"]) == (["n2"], ["uid-b"])


def test_what_the_page_does_not_show_changes_no_row() -> None:
    state = PageState()
    taken(state, a_view([NodeView(name="n1", address="10.0.0.1")], [a_pod(port=50051)]))
    assert not taken(state, a_view([NodeView(name="n1", address="10.0.0.2")], [a_pod(port=50052)]))


def test_a_card_that_becomes_overcommitted_changes_its_node() -> None:
    state = PageState()
    nodes = [NodeView(name="n1", cards=(a_card(),)), NodeView(name="n2", cards=(a_card(1),))]
    taken(state, a_view(nodes))
    before = state.version
    assert taken(state, a_view(nodes, overcommitted=(("n1", "GPU-0"),)))
    [row] = shown(state.changes(before))["nodes"]
    assert (row[0], row[3][0][4]) == ("n1", "overcommitted")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"nodes": [{"name": 1}]}', b'{"pods": [3]}', b"\xff"]
)
def test_an_answer_of_another_kind_is_refused_and_what_is_known_stays(body: bytes) -> None:
    state = PageState()
    taken(state, a_view([NodeView(name="n1")]))
    with pytest.raises(BadState):
        completed(state.take(body))
    assert [row[0] for row in shown(state.whole())["nodes"]] == ["n1"]
    assert state.version == 1


def test_a_page_that_is_older_than_what_is_remembered_gets_everything() -> None:
    state = PageState()
    most = page_state.MAX_GONE
    taken(state, a_view([], [a_pod(f"p{number}") for number in range(most + 1)]))
    before = state.version
    taken(state, a_view())
    assert not state.knows(before)
    assert state.knows(state.version)
    assert not state.knows(0)
    assert not state.knows(state.version + 1)


def test_large_answers_are_taken_in_small_steps() -> None:
    nodes = [NodeView(name=f"n{number}") for number in range(page_state.NODES_A_PORTION * 3)]
    pods = [a_pod(f"p{number}") for number in range(page_state.PODS_A_PORTION * 2)]
    steps = PageState().take(msgspec.json.encode(a_view(nodes, pods)))
    assert sum(1 for _ in steps) == 1 + 3 + 2


_NODES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), max_size=4)


@given(st.lists(st.tuples(_NODES, _NODES), min_size=1, max_size=8), st.data())
def test_a_page_that_follows_changes_has_what_a_new_page_gets(
    answers: list[tuple[dict[str, int], dict[str, int]]], data: st.DataObject
) -> None:
    state = PageState()
    page: dict[str, dict[str, object]] = {"nodes": {}, "pods": {}}
    version = 0
    for nodes, pods in answers:
        view = a_view(
            [NodeView(name=n, cards=(a_card(0, a_tenant(milli=m)),)) for n, m in nodes.items()],
            [a_pod(name, priority=priority) for name, priority in pods.items()],
        )
        taken(state, view)
        if data.draw(st.booleans()):
            continue  # The page sleeps, and catches up later.
        known = state.knows(version)
        found = shown(state.changes(version) if known else state.whole())
        for kind in ("nodes", "pods"):
            if not known:
                page[kind].clear()
            for gone in found.get(f"gone_{kind}", ()):
                page[kind].pop(gone, None)
            page[kind] |= {row[0]: row for row in found[kind]}
        version = state.version
        whole = shown(state.whole())
        assert page == {k: {row[0]: row for row in whole[k]} for k in ("nodes", "pods")}
