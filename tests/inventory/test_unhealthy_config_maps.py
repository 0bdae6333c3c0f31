"""What the texts of gpushare's ConfigMaps of unhealthy GPUs mean, and what odd ones do not."""

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.node_annotations import UnhealthyConfigMaps, node_of, read_indices
from tests.making import a_gpu

N1 = NodeName("n1")
NAME = "unhealthy-gpu-n1"
CARDS = (
    a_gpu("GPU-a", index=0),
    a_gpu("GPU-b", index=1),
    a_gpu("MIG-b", index=1, parent="GPU-b"),
    a_gpu("GPU-c", index=2, healthy=False),
)


def healthy(maps: UnhealthyConfigMaps) -> list[str]:
    return [card.uuid for card in maps.applied(N1, CARDS) if card.healthy]


@pytest.mark.parametrize(
    ("text", "indices", "odd"),
    [
        ("0", {0}, ()),
        ("1", {1}, ()),
        ("0,1", {0, 1}, ()),
        ("1, 0\n", {0, 1}, ()),
        ("7", {7}, ()),
        ("", set(), ()),
        (" \n", set(), ()),
        ("abc", set(), ("abc",)),
        ("1,,x", {1}, ("", "x")),
        ("-1,1.5,0x1,٣,1 2", set(), ("-1", "1.5", "0x1", "٣", "1 2")),
        ("9" * 5000, set(), ("9" * 5000,)),
    ],
)
def test_a_text_that_is_no_index_means_no_card(
    text: str, indices: set[int], odd: tuple[str, ...]
) -> None:
    """gpushare's extender takes "" and "abc" for GPU 0."""
    assert read_indices(text) == (frozenset(indices), odd)


def test_listed_cards_and_their_instances_are_unhealthy_until_the_config_map_goes() -> None:
    """Indices are divided by commas, and need no restart to count or to end."""
    maps = UnhealthyConfigMaps()
    assert maps.put(NAME, "1") == N1
    assert healthy(maps) == ["GPU-a"]
    assert maps.applied(NodeName("n2"), CARDS) is CARDS
    assert maps.put(NAME, "0,1") == N1
    assert healthy(maps) == []
    assert maps.put(NAME, None) == N1
    assert healthy(maps) == ["GPU-a", "GPU-b", "MIG-b"]
    assert maps.nodes == {}


def test_a_change_that_means_the_same_is_none() -> None:
    maps = UnhealthyConfigMaps()
    maps.put(NAME, "1")
    assert maps.put(NAME, "1,abc") is None
    assert maps.put(NAME, "abc") == N1
    assert maps.put(NAME, None) is None


def test_only_the_config_map_with_the_name_of_a_node_counts() -> None:
    maps = UnhealthyConfigMaps()
    assert maps.put("coredns", "1") is None
    assert maps.put("xunhealthy-gpu-n1", "1") is None
    assert node_of("unhealthy-gpu-node.example.com") == "node.example.com"
    assert maps.nodes == {}


def test_config_maps_that_a_list_lacks_are_known() -> None:
    maps = UnhealthyConfigMaps()
    for node in ("a", "b", "c"):
        maps.put(f"unhealthy-gpu-{node}", "0")
    assert maps.others({"unhealthy-gpu-b", "coredns"}) == ["unhealthy-gpu-a", "unhealthy-gpu-c"]


def test_odd_texts_are_told_with_their_place() -> None:
    maps = UnhealthyConfigMaps()
    maps.put("unhealthy-gpu-n2", "1,y,z,x,w")
    maps.put(NAME, "9" * 5000)
    maps.put("unhealthy-gpu-n3", "0")
    first, second = maps.problems()
    where = "ConfigMap kube-system/unhealthy-gpu-"
    assert first.startswith(f"{where}n1: data.gpus: '999")
    assert len(first) < 200
    assert second == (
        f"{where}n2: data.gpus: 'y', 'z', 'x': no index of a card: it makes no card unhealthy"
    )
