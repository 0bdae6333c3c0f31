"""Cards by hand."""

from pathlib import Path

import pytest

from kubeshare_py.documents.yaml_text import DocumentProblem
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.card_file import cards_by_node, read_card_file

EXAMPLE = Path(__file__).parents[2] / "config" / "inventory.yaml"


def names(*nodes: str) -> list[NodeName]:
    return [NodeName(node) for node in nodes]


def test_patterns_choose_among_known_nodes_and_exact_names_need_none() -> None:
    groups = read_card_file(EXAMPLE.read_text())
    found = cards_by_node(groups, names("a100-1", "dgx-07", "t4-x", "plain"))
    assert {node: len(cards) for node, cards in found.items()} == {
        "a100-1": 8,
        "dgx-07": 8,
        "gpu-special": 2,
        "plain": 0,
        "t4-x": 4,
    }
    assert [card.healthy for card in found[NodeName("gpu-special")]] == [True, False]
    assert found[NodeName("gpu-special")][0].uuid == "GPU-4d2c1f0e-7a3b-4c5d-8e9f-0123456789ab"


def test_made_up_uuids_are_unique_and_always_the_same() -> None:
    groups = read_card_file(EXAMPLE.read_text())
    found = [cards_by_node(groups, names("a100-1", "a100-2", "t4-1")) for _ in range(2)]
    uuids = [card.uuid for cards in found[0].values() for card in cards]
    assert found[0] == found[1]
    assert len(set(uuids)) == len(uuids)


def test_the_first_entry_that_matches_counts() -> None:
    groups = read_card_file("""
nodes:
  - {names: ["a*"], cards: [{model: T4, memory: 1GiB}]}
  - {names: ["*"], cards: [{model: A10, memory: 2GiB, count: 2}]}
""")
    found = cards_by_node(groups, names("a1", "b1"))
    assert [len(found[node]) for node in names("a1", "b1")] == [1, 2]


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ("{model: m, memory: 1GiB, count: -1}", "count: -1 is less than 0"),
        ("{model: m, memory: 1GiB, count: 2, uuid: GPU-1}", "uuid: names exactly one card"),
        ("{model: '', memory: 1GiB}", "model: is empty"),
        ("{model: m, memory: much}", "memory: 'much' is not an amount of memory"),
        ("{model: m, memory: 1GiB, uuid: GPU-1}", "uuid: cannot be in several nodes"),
    ],
)
def test_mistakes_name_file_field_and_rule(card: str, problem: str) -> None:
    with pytest.raises(DocumentProblem) as raised:
        read_card_file(f'nodes: [{{names: ["x-*"], cards: [{card}]}}]', "inventory.yaml")
    assert str(raised.value).startswith(f"inventory.yaml: nodes[0].cards[0].{problem}")


def test_a_line_beyond_its_bounds_is_left_out_and_the_others_keep_their_numbers() -> None:
    groups = read_card_file(
        f"""
nodes:
- names: [a]
  cards:
  - {{model: T4, memory: {2**53}, count: 2}}
  - {{model: A10, memory: 2GiB, count: 2}}
  - {{model: A10, memory: 99999999999TiB}}
  - {{model: A10, memory: 1GiB, count: 1000000000000}}
  - {{model: {"m" * 300}, memory: 1GiB}}
  - {{model: H100, memory: 1GiB}}
""",
        "inventory.yaml",
    )
    (group,) = groups
    assert group.problems == (
        f"inventory.yaml: nodes[0].cards[0]: memory {2**53} is not within 1…{2**48}: left out",
        f"inventory.yaml: nodes[0].cards[2]: memory {99999999999 << 40} is not within "
        f"1…{2**48}: left out",
        "inventory.yaml: nodes[0].cards[3]: number of cards of the node 1000000000005 is not "
        "within 0…128: left out",
        "inventory.yaml: nodes[0].cards[4]: length of the model 300 is not within 1…253: left out",
    )
    found = cards_by_node(groups, [])[NodeName("a")]
    assert [(card.index, card.model) for card in found] == [(2, "A10"), (3, "A10"), (6, "H100")]
    whole = cards_by_node(
        read_card_file("nodes: [{names: [a], cards: [{model: A10, memory: 2GiB, count: 4}]}]"), []
    )[NodeName("a")]
    assert [card.uuid for card in found[:2]] == [card.uuid for card in whole[2:]]


def test_a_uuid_twice_is_a_mistake() -> None:
    card = "{model: m, memory: 1GiB, uuid: GPU-1}"
    with pytest.raises(
        DocumentProblem, match=r"nodes\[1\]\.cards\[0\]\.uuid: GPU-1 is there twice"
    ):
        read_card_file(f"nodes: [{{names: [a], cards: [{card}]}}, {{names: [b], cards: [{card}]}}]")


def test_a_uuid_that_selects_other_cards_is_left_out_and_told() -> None:
    text = "nodes: [{names: [a], cards: [{model: T4, memory: 1GiB, uuid: all}]}]"
    [group] = read_card_file(text)
    [problem] = group.problems
    assert "nodes[0].cards[0]: uuid 'all' is not GPU-… or MIG-…" in problem
    assert problem.endswith("left out")


def test_a_line_may_scale_its_cards_and_limit_their_pods() -> None:
    line = "{model: T4, memory: 1000, splitCount: 3, memoryScaling: 1.5, coresScaling: 2}"
    found = cards_by_node(read_card_file(f"nodes: [{{names: [n1], cards: [{line}]}}]"), ())
    (card,) = found[NodeName("n1")]
    assert (card.max_tenants, card.capacity_bytes, card.capacity_milli) == (3, 1500, 2000)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("memoryScaling: 1.2345", "memoryScaling: 1.2345 has more than three decimals"),
        ("coresScaling: 0", "coresScaling: 0.0 is not within 0.001…100"),
        ("splitCount: many", "splitCount: Expected `int`, got `str`"),
    ],
)
def test_a_scaling_that_cannot_be_is_located(field: str, said: str) -> None:
    with pytest.raises(DocumentProblem, match=r"nodes\[0\]\.cards\[0\]") as raised:
        read_card_file(f"nodes: [{{names: [n1], cards: [{{model: T4, memory: 1, {field}}}]}}]")
    assert said in str(raised.value)


def test_cards_that_would_have_too_much_memory_are_left_out() -> None:
    line = "{model: T4, memory: 281474976710656, memoryScaling: 2}"
    (group,) = read_card_file(f"nodes: [{{names: [n1], cards: [{line}]}}]")
    assert "scaled memory 562949953421312 is not within" in group.problems[0]
