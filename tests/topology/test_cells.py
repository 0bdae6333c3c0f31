"""KubeShare's topology files: what they mean, and what is said of those that mean nothing.

Cases marked (fix) differ from KubeShare 2.0 on purpose.
"""

from typing import Any

import pytest
import yaml

from kubeshare_py.topology.cells import Cells, CellsError, read_cells
from tests.making.calls import counted


def a_type(child: str, number: int, priority: int = 0, node: bool = False) -> dict[str, Any]:
    """One of cellTypes; without what a file may leave out."""
    told: dict[str, Any] = {"childCellType": child, "childCellNumber": number}
    if priority:
        told["childCellPriority"] = priority
    return {**told, "isNodeLevel": True} if node else told


Types = dict[str, Any]

TYPES: Types = {
    "PAIR": a_type("NVIDIA-GeForce-GTX-1080", 2, 11, node=True),
    "ONE": a_type("NVIDIA GeForce RTX 2070", 1, 1, node=True),
    "FOUR": a_type("Tesla-V100-PCIE-32GB", 4, 100, node=True),
    "SOCKETS": a_type("FOUR", 2),
    "RACK": a_type("PAIR", 3),
    "SWITCH": a_type("A100", 2, 7),
    "BOX": a_type("SWITCH", 2, node=True),
}


def cells(listed: str, types: Types = TYPES) -> Cells:
    return read_cells({"cellTypes": types, "cells": yaml.safe_load(listed)})


def ids(found: Cells) -> list[str]:
    return [leaf.id for root in found.roots for leaf in root.leaves()]


def refused(listed: str, types: Types = TYPES) -> str:
    with pytest.raises(CellsError) as raised:
        cells(listed, types)
    return str(raised.value)


def test_a_node_names_its_cards_by_number() -> None:
    assert ids(cells("- {cellType: PAIR, cellId: juno}")) == ["juno/1", "juno/2"]


def test_numbers_count_over_a_whole_level_of_a_root() -> None:
    found = cells("""
- {cellType: PAIR, cellId: juno}
- {cellType: ONE, cellId: cupid}
- {cellType: SOCKETS, cellChildren: [{cellId: ubuntu}, {cellId: ubuntu}]}
""")
    assert ids(found)[3:] == [f"3/ubuntu/{number}" for number in range(1, 9)]
    assert [child.id for child in found.roots[2].children] == ["3/ubuntu", "3/ubuntu"]
    assert ids(cells("- {cellType: BOX, cellId: n}")) == ["n/1/1", "n/1/2", "n/2/3", "n/2/4"]


def test_a_leaf_knows_its_node_model_and_priority() -> None:
    found = cells("- {cellType: RACK, cellChildren: [{cellId: a}, {cellId: b}, {cellId: c}]}")
    leaves = [leaf for root in found.roots for leaf in root.leaves()]
    assert [leaf.node for leaf in leaves] == ["a", "a", "b", "b", "c", "c"]
    assert {(leaf.type, leaf.priority) for leaf in leaves} == {("NVIDIA-GeForce-GTX-1080", 11)}
    assert (found.roots[0].node, found.roots[0].priority, found.notes) == ("", 0, ())


def test_model_names_may_have_spaces() -> None:
    (root,) = cells("- {cellType: ONE, cellId: cupid}").roots
    assert [leaf.type for leaf in root.leaves()] == ["NVIDIA-GeForce-RTX-2070"]


def test_cells_within_a_node_may_have_names() -> None:
    found = cells("- {cellType: BOX, cellId: n, cellChildren: [{cellId: left}, {cellId: right}]}")
    assert ids(found) == ["n/left/1", "n/left/2", "n/right/3", "n/right/4"]
    assert {leaf.node for root in found.roots for leaf in root.leaves()} == {"n"}


def test_a_file_without_anything_has_no_cells() -> None:
    assert read_cells(None) == read_cells({}) == Cells()


def test_a_priority_outside_of_the_documented_range_is_used_and_noted() -> None:
    """(fix) KubeShare compares the range with the wrong types only."""
    found = cells("- {cellType: N, cellId: n}", {"N": a_type("m", 1, 200, node=True)})
    assert [leaf.priority for leaf in found.roots[0].leaves()] == [200]
    assert found.notes == ("cellTypes.N.childCellPriority: 200 is outside 0…100, used as it is",)


def test_a_model_in_two_types_has_the_priority_of_each() -> None:
    """(fix) In KubeShare one of the two, at random, is that of all cards of the model."""
    types = {"A": a_type("m", 1, 1, node=True), "B": a_type("m", 2, node=True)}
    found = cells("- {cellType: A, cellId: a}\n- {cellType: B, cellId: b}", types)
    assert [leaf.priority for root in found.roots for leaf in root.leaves()] == [1, 0, 0]


def test_children_that_are_not_as_many_as_the_type_says_are_taken_and_noted() -> None:
    found = cells("- {cellType: RACK, cellChildren: [{cellId: a}]}")
    assert ids(found) == ["1/a/1", "1/a/2"]
    assert found.notes == ("cells[0].cellChildren: 1 are listed, cellTypes.RACK has 3",)


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        (
            # (fix) KubeShare crashes.
            "- {cellType: PAIRS, cellId: juno}",
            "cells[0].cellType: no type 'PAIRS'; "
            "there are BOX, FOUR, ONE, PAIR, RACK, SOCKETS, SWITCH",
        ),
        ("- {cellType: PAIR}", "cells[0].cellId: must be the name of a node"),
        (
            # (fix) KubeShare makes up a node called 1.
            "- {cellType: PAIR, cellId: a}\n- {cellType: RACK, cellChildren: [{cellId: a}, {}]}",
            "cells[1].cellChildren[1].cellId: must be the name of a node",
        ),
        (
            "- {cellType: SWITCH, cellId: n}",
            "cells[0].cellType: neither SWITCH nor a type in it has isNodeLevel",
        ),
        (
            "- {cellType: PAIR, cellId: n, cellChildren: [{cellChildren: [{}]}, {}]}",
            "cells[0].cellChildren[0].cellChildren: a card has no children",
        ),
        (
            # (fix) KubeShare takes no notice of what is written there.
            "- {cellType: RACK, cellChildren: [{cellType: ONE, cellId: a}]}",
            "cells[0].cellChildren[0].cellType: cells in a RACK are of type PAIR",
        ),
        ("- {cellTyp: PAIR}", "cells[0]: Object contains unknown field `cellTyp`"),
        ("- {cellType: 7}", "cells[0].cellType: Expected `str`, got `int`"),
    ],
)
def test_what_is_wrong_with_a_cell_is_said_with_its_place(listed: str, text: str) -> None:
    assert refused(listed) == text


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (
            {"A": a_type("B", 1), "B": a_type("A", 1)},
            "cellTypes.A.childCellType: A is in itself",
        ),
        (
            {"A": a_type("B", 1, node=True), "B": a_type("m", 1, node=True)},
            "cellTypes.A.isNodeLevel: B in it is a node already",
        ),
        (
            {"A": {"childCellType": "m"}},
            "cellTypes.A: Object missing required field `childCellNumber`",
        ),
        ({"A": a_type("m", 0)}, "cellTypes.A.childCellNumber: Expected `int` >= 1"),
        ({"A": a_type("m", 1, -1)}, "cellTypes.A.childCellPriority: Expected `int` >= 0"),
        (
            {"A": {**a_type("m", 1), "isNode": 1}},
            "cellTypes.A: Object contains unknown field `isNode`",
        ),
    ],
)
def test_what_is_wrong_with_a_type_is_said_with_its_place(types: Types, text: str) -> None:
    assert refused("[]", types) == text


def test_a_document_that_is_no_mapping_is_said_to_be_none() -> None:
    with pytest.raises(CellsError, match=r"^cells file: Expected `object`, got `array`$"):
        read_cells([])


@pytest.mark.long
def test_more_cells_than_any_cluster_has_are_refused() -> None:
    types = {"A": a_type("B", 2000), "B": a_type("m", 2000, node=True)}
    names = ", ".join(f"{{cellId: n{number}}}" for number in range(2000))
    text = refused(f"- {{cellType: A, cellChildren: [{names}]}}", types)
    assert text.endswith("more than 1000000 cells")


def test_cells_in_each_other_have_a_limit() -> None:
    chain = {f"T{at}": a_type(f"T{at + 1}", 1, node=at == 0) for at in range(5000)}
    assert "more than 32 levels" in refused("- {cellType: T0, cellId: n}", chain)
    few = {f"T{at}": a_type(f"T{at + 1}", 1, node=at == 0) for at in range(32)}
    assert ids(cells("- {cellType: T0, cellId: n}", few)) == ["n" + "/1" * 32]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (a_type("m", 10**9), "childCellNumber: Expected `int` <= 100000"),
        (a_type("m", 1, 2**53), "childCellPriority: Expected `int` <= 1000000"),
    ],
)
def test_amounts_have_bounds(told: dict[str, Any], said: str) -> None:
    assert refused("- {cellType: T, cellId: n}", {"T": told}) == f"cellTypes.T.{said}"


@pytest.mark.slow
def test_cells_that_multiply_have_a_limit() -> None:
    grown = {"A": a_type("B", 100_000), "B": a_type("C", 100_000), "C": a_type("m", 1, node=True)}
    assert refused("- {cellType: A}", grown).endswith(("more than 1000000 cells", "name of a node"))


def test_a_mistake_of_any_length_is_told_in_a_sentence() -> None:
    with pytest.raises(CellsError) as told:
        read_cells({"cells": [{"cellType": "x" * 90_000}]})
    assert str(told.value).startswith("cells[0].cellType: no type 'xxx")
    assert len(str(told.value)) < 3000


def calls_to_read(pairs: int) -> int:
    """How many calls it takes to read a node with so many pairs of cells."""
    types = {"PAIR": a_type("m", 2), "BOX": a_type("PAIR", pairs, node=True)}
    written = {"cellTypes": types, "cells": [{"cellType": "BOX", "cellId": "n1"}]}
    found, calls = counted(lambda: read_cells(written))
    assert found.roots[0].children[-1].children[-1].id == f"n1/{pairs}/{2 * pairs}"
    return calls.total()


def test_twice_as_many_cells_take_twice_as_much_to_read() -> None:
    assert calls_to_read(1000) < 3 * calls_to_read(500)
