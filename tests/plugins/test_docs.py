"""docs/plugins.md: every plugin is in it, and what it shows can be used."""

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import kubeshare_py.plugin as api
from kubeshare_plugins import IN_TREE
from kubeshare_py import testing
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.framework.points import (
    CardFilter,
    CardScore,
    Filter,
    Locality,
    PostFilter,
    PreBind,
    QueueSort,
    Score,
)
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.testing import SmallCluster, expect_best, expect_contract, expect_score
from tests.each import each
from tests.making import a_claim, a_shape

TEXT = (Path(__file__).parents[2] / "docs/plugins.md").read_text()
POINTS = {
    "queueSort": QueueSort,
    "filter": Filter,
    "cardFilter": CardFilter,
    "postFilter": PostFilter,
    "score": Score,
    "cardScore": CardScore,
    "locality": Locality,
    "preBind": PreBind,
}


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


def defined(code: str) -> dict[str, Any]:
    """What the code defines."""
    names: dict[str, Any] = {}
    exec(code, names)
    return names


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
    for name, factory in each(IN_TREE.items()):
        assert getattr(factory(), "name", None) == name


def test_the_example_profile_can_be_used() -> None:
    (profile,) = profiles(read(yaml.safe_load(block("yaml"))), IN_TREE)
    assert [(plugin.name, weight) for plugin, weight in profile.scores] == [
        ("AvoidGpuNodes", 1),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("Topology", 10),
        ("PodPolicy", 10),
        ("IsolationReady", 100),
        ("ModelPreference", 2000),
        ("GpuTags", 10000),
        ("Random", 2),
    ]


def test_the_arguments_of_model_worth_can_be_used() -> None:
    entries = yaml.safe_load(block("text"))["pluginConfig"]
    assert [IN_TREE[entry["name"]](**entry["args"]) for entry in entries]


def test_the_example_plugin_works_and_is_short() -> None:
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    cluster = SmallCluster(defined(code)["CheapNodes"]())
    labels = {"dear": "70", "fair": "20", "odd": "cheap", "long": "9" * 63, "other": "\u0663"}
    for name, price in labels.items():
        cluster.node(name, labels={"example.com/price": price})
    cluster.node("unknown")
    points = {"dear": 30, "fair": 80, "odd": 0, "long": 0, "other": 0, "unknown": 0}
    expect_score(cluster, a_shape(), points)
    expect_contract(cluster, a_shape())


def test_the_example_of_a_test_is_the_sample_plugins() -> None:
    module = ModuleType("cheap_nodes")
    module.__dict__.update(defined(block("python")))
    sys.modules["cheap_nodes"] = module
    try:
        assert defined(block("python test"))["test_the_cheapest_node_is_best"]() is None
    finally:
        del sys.modules["cheap_nodes"]


def test_the_example_of_columns_works() -> None:
    cluster = SmallCluster(defined(block("python columns"))["FewPods"]())
    cluster.cards("n1", 2)
    cluster.cards("n2", 1)
    cluster.hold("n1", "n1-0", 100)
    cluster.hold("n1", "n1-1", 100)
    expect_score(cluster, a_shape(a_claim(300)), {"n1": 98, "n2": 100})
    expect_best(cluster, a_shape(a_claim(300)), "n2", ["n2-0"])
    expect_contract(cluster, a_shape(a_claim(300)))


@pytest.mark.parametrize("module", [api, testing])
def test_what_examples_import_is_promised(module: ModuleType) -> None:
    imported = re.findall(rf"^from {module.__name__} import (.+)$", TEXT, re.MULTILINE)
    names = {name for line in imported for name in line.split(", ")}
    assert names <= {*module.__all__}
    assert names
    assert not re.findall(r"^from kubeshare_py\.(?!plugin |testing )", TEXT, re.MULTILINE)


def test_every_point_is_documented_with_its_methods() -> None:
    rows = re.findall(r"^\| (\w+) \| [\w ]+ \| (`\w+\(.*\)`) \| [^|]+ \|$", TEXT, re.MULTILINE)
    shown = {name: re.findall(r"`(\w+)\((.*?)\)`", methods) for name, methods in rows}
    found = {}
    for name in api.__all__:
        value = getattr(api, name)
        if inspect.isclass(value) and getattr(value, "_is_protocol", False):
            functions = [one for one in vars(value).values() if inspect.isfunction(one)]
            public = [one for one in functions if not one.__name__.startswith("_")]
            found[name] = [
                (one.__name__, ", ".join([*inspect.signature(one).parameters][1:]))
                for one in public
            ]
    assert shown == {name: methods for name, methods in found.items() if methods}


def test_every_expectation_and_adapter_is_documented() -> None:
    names = [name for name in testing.__all__ if name.startswith("expect_")]
    names += [name for name in api.__all__ if name.startswith("Per") and name != "Permit"]
    assert [name for name in names if f"`{name}(" not in TEXT] == []
