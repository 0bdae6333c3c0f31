"""The example configurations: each can be used, and shows what it says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import KIND, effective, read
from kubeshare_py.documents.yaml_text import FAST_PARSER
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import Profile

FOLDER = Path(__file__).parents[2] / "config"


def document(path: Path) -> Any:
    return next(yaml.load_all(path.read_text(), FAST_PARSER))


FILES = [path for path in sorted(FOLDER.glob("*.yaml")) if document(path).get("kind") == KIND]


def profile_of(name: str) -> Profile:
    (profile,) = profiles(read(document(FOLDER / f"{name}.yaml")), IN_TREE)
    return profile


def scores(name: str) -> tuple[list[str], list[str]]:
    profile = profile_of(name)
    return [one.name for one, _ in profile.scores], [one.name for one, _ in profile.card_scores]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_can_be_used(path: Path) -> None:
    assert profiles(read(document(path)), IN_TREE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_begins_by_saying_what_it_is(path: Path) -> None:
    assert path.read_text().startswith("# ")


def test_the_default_file_is_the_default() -> None:
    written = document(FOLDER / "scheduler.yaml")
    assert effective(read(written)) == effective(read(None))
    assert profile_of("scheduler").scheduler_name == "kubeshare-scheduler"


def test_the_default_file_names_every_setting() -> None:
    def paths(value: object) -> set[str]:
        if isinstance(value, list):
            return {path for each in value for path in paths(each)}
        if isinstance(value, dict):
            return {f"{key}.{rest}" for key, part in value.items() for rest in paths(part) | {""}}
        return set()

    shown = effective(read(None))
    assert paths(shown) - paths(document(FOLDER / "scheduler.yaml")) - unweighted() == set()


def unweighted() -> set[str]:
    """Weights that mean nothing: only scores have them."""
    points = ("filter", "cardFilter", "queueSort")
    return {f"profiles.plugins.{point}.enabled.weight." for point in points}


def test_every_line_of_the_default_file_is_commented() -> None:
    lines = (FOLDER / "scheduler.yaml").read_text().splitlines()
    bare = [line for line in lines if line and "#" not in line]
    # A list's own line only opens what the lines below say.
    assert [line.strip() for line in bare if line.strip() not in ("plugins:", "enabled:")] == []


def test_each_policy_has_its_example() -> None:
    cards = ["Topology", "PodPolicy", "IsolationReady", "ModelPreference", "GpuTags"]
    wishes = ["TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"]
    wishes.append("DynamicResources")
    kept = ["AvoidGpuNodes", *wishes, *cards]
    assert scores("binpack") == (["BinPack"], ["BinPack"])
    assert scores("spread") == ([*kept, "Spread"], [*cards, "Spread"])
    assert scores("random") == (["Random"], ["Random"])
    assert scores("least-tenants") == ([*kept, "LeastTenants"], [*cards, "LeastTenants"])
    default = (["BinPack", *kept], ["BinPack", *cards])
    assert scores("scheduler") == default
    topology = [
        "BinPack",
        "AvoidGpuNodes",
        *wishes,
        *cards[1:],
        "Topology",
    ]
    assert scores("topology") == (topology, default[1])
    both = ["KubeShareOpportunistic", "KubeShareGuarantee"]
    others = ["AvoidGpuNodes", *wishes, *cards[1:]]
    assert scores("kubeshare") == ([*others, *both], [*cards, *both])
    assert scores("isolation") == default
    [*_, last] = profile_of("isolation").card_filters
    assert last.name == "IsolationReady"
    assert scores("sharepod-best-fit") == ([*kept, "BinPack"], [*cards, "BinPack"])
    assert scores("sharepod-worst-fit") == scores("spread")
    assert scores("sharepod-first-fit") == (["GpuTags"], ["GpuTags"])
    assert scores("models") == ([*default[0], "ModelWorth"], [*default[1], "ModelWorth"])


def test_the_file_inventory_is_read_from_a_file() -> None:
    inventory = read(document(FOLDER / "file-inventory.yaml")).inventory
    assert inventory.source == "file"
    assert inventory.path


def test_the_scraped_inventory_needs_no_prometheus() -> None:
    assert read(document(FOLDER / "scrape-inventory.yaml")).inventory.source == "scrape"
