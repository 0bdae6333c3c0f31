"""The inventory of nodes that device plugins register, from one reading to the next."""

from collections.abc import Mapping

import pytest

from kubeshare_py.dialects.hami.annotations import RegisteredCard, write_json, write_records
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.inventory.hami_plugins import (
    LATE_S,
    PluginKeys,
    PluginNode,
    PluginNodes,
    requesting,
)

NOW = 1_700_000_000.0
N1, N2 = NodeName("n1"), NodeName("n2")
GPU = "nvidia.com/gpu"
KINDS = (
    PluginKeys(
        registers=("hami.io/register", "4pd.io/register"),
        handshakes=("hami.io/handshake", "4pd.io/handshake"),
        resource=GPU,
    ),
    PluginKeys(registers=("mlu/register",), handshakes=("mlu/handshake",), resource="mlu"),
)


def card(name: str, index: int = 0, *, health: bool = True) -> RegisteredCard:
    return RegisteredCard(
        uuid=name, index=index, count=10, memory_mib=1024, cores=100, type="T4", health=health
    )


A, B = card("GPU-a"), card("GPU-b", 1)


def shown(
    *cards: RegisteredCard, offered: int = 20, more: Mapping[str, str] | None = None
) -> PluginNode:
    known = {"hami.io/register": write_json(cards), "hami.io/handshake": requesting(NOW)}
    return PluginNode(annotations={**known, **(more or {})}, offered={GPU: offered})


def nodes(*cards: RegisteredCard) -> PluginNodes:
    """One node with these cards, which were read."""
    found = PluginNodes(KINDS)
    assert found.take(N1, shown(*cards), NOW)
    found.read(NOW)
    return found


def healthy(read: InventoryRead) -> dict[str, list[bool]]:
    return {node: [one.healthy for one in cards] for node, cards in read.changed}


def uuids(read: InventoryRead) -> dict[str, list[str]]:
    return {node: [one.uuid for one in cards] for node, cards in read.changed}


def test_cards_of_both_generations_are_read() -> None:
    found = PluginNodes(KINDS)
    found.take(N1, shown(A, B), NOW)
    seed = PluginNode(
        annotations={"4pd.io/register": write_records([A, B], as_seed=True)}, offered={GPU: 20}
    )
    found.take(N2, seed, NOW)
    read = found.read(NOW)
    assert uuids(read) == {N1: ["GPU-a", "GPU-b"], N2: ["GPU-a", "GPU-b"]}
    assert dict(read.changed)[N1] == dict(read.changed)[N2]
    assert found.read(NOW) == InventoryRead((), ())


def test_the_newer_releases_annotation_counts() -> None:
    found = PluginNodes(KINDS)
    found.take(N1, shown(A, more={"4pd.io/register": write_records([B])}), NOW)
    assert uuids(found.read(NOW)) == {N1: ["GPU-a"]}


def test_a_node_that_shows_the_same_is_not_read_again() -> None:
    found = nodes(A)
    assert not found.take(N1, shown(A), NOW + 1)
    assert not found.take(N2, PluginNode(), NOW)


def test_a_changed_register_annotation_is_read_and_a_removed_one_removes_the_cards() -> None:
    """A card turns unhealthy with the next reading."""
    found = nodes(A, B)
    found.take(N1, shown(A, card("GPU-b", 1, health=False)), NOW)
    assert healthy(found.read(NOW)) == {N1: [True, False]}
    found.take(N1, PluginNode(offered={GPU: 20}), NOW)
    assert found.read(NOW).changed == ((N1, ()),)


@pytest.mark.parametrize("text", ["garbage", "[{", "a,b:"])
def test_a_malformed_annotation_is_a_problem_of_its_node_alone(text: str) -> None:
    found = nodes(A)
    found.take(N1, shown(more={"hami.io/register": text}), NOW)
    found.take(N2, shown(B), NOW)
    # The last known cards stay.
    assert uuids(found.read(NOW)) == {N2: ["GPU-b"]}
    (line,) = found.diagnostics
    assert line.startswith("node n1: hami.io/register: ")
    found.take(N1, shown(A), NOW)
    found.read(NOW)
    assert found.diagnostics == ()


def test_a_nodes_deletion_takes_its_cards_away() -> None:
    found = nodes(A)
    found.gone(N1)
    assert found.read(NOW).changed == ((N1, ()),)
    found.take(N1, shown(A), NOW)
    assert uuids(found.read(NOW)) == {N1: ["GPU-a"]}
    found.only([N2])
    assert found.read(NOW).changed == ((N1, ()),)


def test_cards_of_a_dead_plugin_stay_and_take_no_pods() -> None:
    found = nodes(A)
    found.take(N1, shown(A, offered=0), NOW)
    assert healthy(found.read(NOW)) == {N1: [False]}
    # It is asked again, by whom ever: that is no sign of life.
    found.take(N1, shown(A, offered=0, more={"hami.io/handshake": requesting(NOW + 9)}), NOW + 9)
    assert healthy(found.read(NOW + 9)) == {}
    found.take(N1, shown(A), NOW + 9)
    assert healthy(found.read(NOW + 9)) == {N1: [True]}


def test_a_plugin_that_registered_and_is_never_advertised_dies_when_its_minute_is_over() -> None:
    found = PluginNodes(KINDS)
    found.take(N1, shown(A, offered=0), NOW)
    assert healthy(found.read(NOW)) == {N1: [True]}
    assert found.next_at == NOW + 60
    assert healthy(found.read(NOW + 60)) == {N1: [False]}


def test_cards_take_no_pods_while_a_pod_waits_too_long_for_their_plugin() -> None:
    found = nodes(A)
    locked = replace(shown(A), lock="2023-11-14T22:13:20Z,default,p")
    found.take(N1, locked, NOW)
    assert healthy(found.read(NOW)) == {}
    assert found.next_at == NOW + LATE_S
    assert healthy(found.read(NOW + LATE_S)) == {N1: [False]}
    # Another pod is on its way: the plugin is given the same time again.
    found.take(N1, replace(locked, lock="2023-11-14T22:13:30Z,default,q"), NOW + LATE_S)
    assert healthy(found.read(NOW + LATE_S)) == {N1: [True]}
    found.take(N1, shown(A), NOW + LATE_S + 1)
    assert healthy(found.read(NOW + LATE_S + 1)) == {}


def test_the_plugins_of_two_vendors_live_and_die_alone() -> None:
    found = nodes(A)
    both = shown(A, more={"mlu/register": write_records([card("GPU-m")])})
    found.take(N1, replace(both, offered={GPU: 20, "mlu": 10}), NOW)
    assert healthy(found.read(NOW)) == {N1: [True, True]}
    found.take(N1, both, NOW)
    assert healthy(found.read(NOW)) == {N1: [True, False]}


def test_silent_plugins_are_named_with_their_handshake() -> None:
    found = PluginNodes(KINDS)
    found.take(N1, PluginNode(annotations={"4pd.io/register": write_records([A])}), NOW)
    found.take(N2, shown(A), NOW)
    found.read(NOW)
    assert [*found.silent] == [(N1, "4pd.io/handshake")]
    found.take(
        N1,
        PluginNode(
            annotations={
                "4pd.io/register": write_records([A]),
                "4pd.io/handshake": "Reported 1",
            }
        ),
        NOW,
    )
    found.read(NOW)
    assert [*found.silent] == []
    found.read(NOW + 60)
    assert [*found.silent] == [(N1, "4pd.io/handshake")]


def test_cards_do_not_come_and_go_while_nothing_happens() -> None:
    found = nodes(A)
    found.take(N1, shown(A, offered=0), NOW)
    seen = [healthy(found.read(NOW + later)) for later in range(0, 900, 15)]
    assert [one for one in seen if one] == [{N1: [False]}]
