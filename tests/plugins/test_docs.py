"""docs/plugins.md: every plugin is in it, and what it shows can be used."""

import re
from pathlib import Path

import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.framework.points import (
    CardFilter,
    CardScore,
    Filter,
    Locality,
    PostFilter,
    QueueSort,
    Score,
)
from kubeshare_py.framework.profile_making import profiles
from tests.builders import a_shape
from tests.plugins.small_cluster import SmallCluster

TEXT = (Path(__file__).parents[2] / "docs/plugins.md").read_text()
POINTS = {
    "queueSort": QueueSort,
    "filter": Filter,
    "cardFilter": CardFilter,
    "postFilter": PostFilter,
    "score": Score,
    "cardScore": CardScore,
    "locality": Locality,
}


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_plugin_has_a_line_with_its_points_and_cost() -> None:
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TEXT.splitlines()]
    documented = {row[0]: row[1:] for row in cells if len(row) == 4 and row[0] in IN_TREE}
    assert documented.keys() == IN_TREE.keys()
    for name, (points, text, cost) in documented.items():
        plugin = IN_TREE[name]()
        implemented = [point for point, kind in POINTS.items() if isinstance(plugin, kind)]
        assert points.split(", ") == implemented, name
        assert len(text) > 10, name
        assert len(cost) > 5, name


def test_plugins_are_called_what_their_table_calls_them() -> None:
    for name, factory in IN_TREE.items():
        assert getattr(factory(), "name", None) == name


def test_the_example_profile_can_be_used() -> None:
    (profile,) = profiles(read(yaml.safe_load(block("yaml"))), IN_TREE)
    assert [(plugin.name, weight) for plugin, weight in profile.scores] == [
        ("AvoidGpuNodes", 1),
        ("Topology", 10),
        ("IsolationReady", 100),
        ("ModelPreference", 2000),
        ("Random", 2),
    ]


def test_the_arguments_of_model_worth_can_be_used() -> None:
    entries = yaml.safe_load(block("text"))["pluginConfig"]
    assert [IN_TREE[entry["name"]](**entry["args"]) for entry in entries]


def test_the_example_plugin_works_and_is_short() -> None:
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    names: dict[str, type] = {}
    exec(code, names)
    cluster = SmallCluster(names["CheapNodes"]())
    cluster.node("dear", labels={"example.com/price": "70"})
    cluster.node("fair", labels={"example.com/price": "20"})
    cluster.node("unknown")
    assert cluster.scores(a_shape()) == {"dear": 30, "fair": 80, "unknown": 0}
