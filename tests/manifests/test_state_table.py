"""Tables of cards and pods, as a stock kubectl asks for them."""

from typing import Any

import pytest

from kubeshare_py.domain.values import replace
from kubeshare_py.manifests.state_group import card_rows, pod_row, pod_rows, table, wants_table
from kubeshare_py.views.view import ContainerView
from tests.making import MODEL
from tests.terminal.views import a_card, a_small_view, a_tenant

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", True),
        ("application/json; as=Table; v=v1; g=meta.k8s.io", True),
        ("application/json", False),
        (f"application/json,{TABLE}", False),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", False),
        ("", False),
        ("*/*", False),
    ],
)
def test_a_table_is_for_those_who_ask_for_it_first(accept: str, wanted: bool) -> None:
    assert wants_table(accept) == wanted


def test_each_card_is_a_row() -> None:
    rows = list(card_rows(a_small_view()))
    assert len(rows) == 4
    shown = table(rows, of_cards=True)
    names = [column["name"] for column in shown["columnDefinitions"]]
    assert dict(zip(names, shown["rows"][0]["cells"], strict=True)) == {
        "Node": "n1",
        "Index": "0",
        "Model": MODEL,
        "Used": "0.5/1",
        "Memory": "20/40GiB",
        "State": "Ready",
        "Pods": "default/one",
        "Name": "GPU-n1-0",
    }
    assert shown["rows"][0]["object"]["metadata"]["name"] == "GPU-n1-0"


def test_pods_that_may_not_be_named_are_counted() -> None:
    view = a_small_view()
    card = a_card(0, a_tenant("mine"), a_tenant("", namespace="", milli=250))
    node = replace(view.nodes[0], cards=(card,))
    [row] = card_rows(replace(view, nodes=(node,)))
    assert row["cells"][6] == "default/mine,1 more"


@pytest.mark.parametrize(
    ("node", "card", "state"),
    [
        ({}, {"known": False, "healthy": False}, "Unknown"),
        ({"silent": True}, {"healthy": False}, "Unhealthy,Silent"),
        ({"unschedulable": True}, {}, "SchedulingDisabled"),
        ({"not_ready": True, "unschedulable": True}, {}, "NotReady,SchedulingDisabled"),
        ({}, {"cordoned": True}, "Cordoned"),
        ({"silent": True}, {}, "Silent"),
        ({}, {}, "Ready"),
    ],
)
def test_a_card_is_ready_unless_something_keeps_new_pods_off_it(
    node: dict[str, Any], card: dict[str, Any], state: str
) -> None:
    shown = replace(a_small_view().nodes[0], cards=(a_card(0, **card),), **node)
    [row] = card_rows(replace(a_small_view(), nodes=(shown,)))
    assert row["cells"][5] == state


def test_each_pod_is_a_row_of_its_namespace() -> None:
    rows = list(pod_rows(a_small_view()))
    assert rows[2]["object"]["metadata"]["namespace"] == "team"
    shown = table(rows, of_cards=False)
    assert all(len(row["cells"]) == len(shown["columnDefinitions"]) for row in rows)
    assert rows[1]["cells"] == ["two", "bound", "n2", "2 x 1", "", "GPU-n2-0,GPU-n2-1"]


def test_a_cell_steers_no_terminal() -> None:
    view = a_small_view()
    card = replace(a_card(0), model="A\x1b[31m\x9bB\n")
    [row] = card_rows(replace(view, nodes=(replace(view.nodes[0], cards=(card,)),)))
    assert row["cells"][2] == "A?[31m?B?"


def test_claims_of_containers_are_added_up_in_a_pods_row() -> None:
    [pod, *_] = a_small_view().pods
    claims = (("container-0", 1, 500), ("container-1", 2, 1000), ("container-2", 0, 0))
    containers = tuple(
        ContainerView(container=name, count=count, milli=milli) for name, count, milli in claims
    )
    assert pod_row(replace(pod, containers=containers))["cells"][3] == "1 x 0.5 + 2 x 1"
    # What it holds of cards that its labels ask for no more is not what it asks for.
    none = replace(pod, count=0, containers=containers[2:])
    assert pod_row(none)["cells"][3] == "0"
