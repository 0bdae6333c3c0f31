"""Nodes that count in another unit: the 8 of a manifest in GiB would be 8 MiB there."""

import pytest

from kubeshare_py.dialects.dialect import NodeKeys
from kubeshare_py.dialects.gpushare import Gpushare
from tests.dialects.gpushare_pods import COUNT, MEM

AGENT = "kubeshare.io/node-agent"


def nodes_unit(offered: dict[str, int], agent: str | None = None) -> set[str]:
    """The units of which pods may come to the node."""
    node = NodeKeys("n", {}, {} if agent is None else {AGENT: agent}, offered)
    every = [Gpushare(unit=unit) for unit in ("GiB", "MiB")]
    return {one.marks[0] for one in every if one.has_mark(one.marks[0], node)}


GIB, MIB = "aliyun.com/gpu-mem in GiB", "aliyun.com/gpu-mem in MiB"


@pytest.mark.parametrize(
    ("offered", "units"),
    [
        ({MEM: 30, COUNT: 2}, {GIB}),
        ({MEM: 32552, COUNT: 2}, {MIB}),
        ({MEM: 8 * 141, COUNT: 8}, {GIB}),
        ({MEM: 3803, COUNT: 1}, {MIB}),
        ({}, {GIB, MIB}),
        ({MEM: 0, COUNT: 2}, {GIB, MIB}),
        ({MEM: 30}, {GIB, MIB}),
    ],
)
def test_what_a_node_advertises_tells_its_unit(offered: dict[str, int], units: set[str]) -> None:
    assert nodes_unit(offered) == units


def test_the_node_agent_knows_better() -> None:
    assert nodes_unit({}, '{"v":1,"unit":{"aliyun.com/gpu-mem":"MiB"}}') == {MIB}
    assert nodes_unit({MEM: 30, COUNT: 2}, '{"unit":{"aliyun.com/gpu-mem":"MiB"}}') == {MIB}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"unit":{"aliyun.com/gpu-mem":"GB"}}'])
def test_an_annotation_that_does_not_say_it_is_passed_over(text: str) -> None:
    assert nodes_unit({MEM: 30, COUNT: 2}, text) == {GIB}
