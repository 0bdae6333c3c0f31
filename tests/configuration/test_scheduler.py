"""Configuration documents: what they mean, and where a mistake is said to be."""

from typing import Any

import pytest
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_plugins.coscheduling import Coscheduling
from kubeshare_py.configuration.scheduler import ConfigurationError, effective, read
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.scheduler_profile import Profile
from tests.making.golden import expect_golden


def one_profile(**fields: Any) -> dict[str, Any]:
    return {"profiles": [fields]}


def at(point: str, **changes: Any) -> dict[str, Any]:
    return one_profile(plugins={point: changes})


def made(document: object) -> Profile:
    (profile,) = profiles(read(document), IN_TREE)
    return profile


def names(profile: Profile) -> dict[str, list[str]]:
    return {
        "filters": [plugin.name for plugin in profile.filters],
        "card_filters": [plugin.name for plugin in profile.card_filters],
        "scores": [f"{plugin.name} {weight}" for plugin, weight in profile.scores],
        "card_scores": [f"{plugin.name} {weight}" for plugin, weight in profile.card_scores],
    }


def default_scores(but: str = "") -> list[str]:
    return [one for one in names(made(None))["scores"] if one.split()[0] != but]


def test_an_empty_document_is_the_default_profile() -> None:
    profile = made(None)
    assert profile.scheduler_name == "kubeshare-scheduler"
    assert profile.queue_sort.name == "PrioritySort"
    expect_golden("configuration/default-profile", yaml.safe_dump(names(profile), sort_keys=False))


def test_an_enabled_plugin_comes_after_the_defaults() -> None:
    profile = made(at("score", enabled=[{"name": "Spread", "weight": 3}]))
    assert names(profile)["scores"] == [*default_scores(), "Spread 3"]


def test_a_default_that_is_enabled_again_gets_the_new_weight() -> None:
    profile = made(at("score", enabled=[{"name": "BinPack", "weight": 5}]))
    assert names(profile)["scores"] == [*default_scores(but="BinPack"), "BinPack 5"]


def test_a_default_can_be_disabled_by_name_or_all_of_them() -> None:
    one = made(at("score", disabled=[{"name": "AvoidGpuNodes"}]))
    assert names(one)["scores"] == default_scores(but="AvoidGpuNodes")
    rest = made(at("score", disabled=[{"name": "*"}], enabled=[{"name": "Random"}]))
    assert names(rest)["scores"] == ["Random 1"]


def test_a_plugin_of_several_points_is_made_once() -> None:
    profile = made(None)
    scorer: object = profile.scores[0][0]
    assert scorer is profile.card_scores[0][0]


def test_arguments_reach_the_plugin() -> None:
    seeds: list[int] = []

    def random(seed: int) -> object:
        seeds.append(seed)
        return IN_TREE["Random"](seed=seed)

    document = one_profile(
        plugins={"score": {"enabled": [{"name": "Random"}]}},
        pluginConfig=[{"name": "Random", "args": {"seed": 7}}],
    )
    profiles(read(document), {**IN_TREE, "Random": random})
    assert seeds == [7]


def test_the_source_of_cards_is_left_open_and_prometheus_alone_has_an_address() -> None:
    inventory = read({"inventory": {}}).inventory
    assert (inventory.source, inventory.url) == ("auto", "")
    alone = read({"inventory": {"source": "prometheus"}}).inventory
    assert alone.prometheus_url == "http://prometheus-k8s.monitoring:9090"
    asked = read({"inventory": {"source": "prometheus", "url": "http://here:1"}}).inventory
    assert asked.prometheus_url == "http://here:1"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "document: Expected `object`, got `array`"),
        ("text", "document: Expected `object`, got `str`"),
        ({"profile": []}, "profile: no such field"),
        ({"inventory": {"uri": ""}}, "inventory.uri: no such field"),
        (
            {"inventory": {"scaling": [{}, {"coresScaling": 1.0001}]}},
            "inventory.scaling[1].coresScaling: 1.0001 has more than three decimals",
        ),
        (
            {"inventory": {"scaling": [{"models": ["!"]}]}},
            "inventory.scaling[0].models: '!' is not the name of a model or words of it",
        ),
        ({"inventory": {"scaling": [{"factor": 2}]}}, "inventory.scaling[0].factor: no such field"),
        (one_profile(plugin={}), "profiles[0].plugin: no such field"),
        (at("scores"), "profiles[0].plugins.scores: no such field"),
        (
            at("score", enabled=[{"name": "Spread", "wieght": 1}]),
            "profiles[0].plugins.score.enabled[0].wieght: no such field",
        ),
        (one_profile(schedulerName=3), "profiles[0].schedulerName: Expected `str`, got `int`"),
        (one_profile(schedulerName=""), "profiles[0].schedulerName: Expected `str` of length >= 1"),
        ({"profiles": []}, "profiles: Expected `array` of length >= 1"),
        ({"profiles": None}, "profiles: Expected `array`, got `null`"),
        ({1: 2}, "document: Expected `str`"),
        (
            one_profile(pluginConfig=[{"name": "Random", "args": {1: 2}}]),
            "profiles[0].pluginConfig[0].args: Expected `str`, got `int`",
        ),
        (
            at("score", enabled=[{"name": "Spread", "weight": 0}]),
            "profiles[0].plugins.score.enabled[0].weight: Expected `int` >= 1",
        ),
        (
            at("score", enabled=[{"name": "Spread", "weight": 10_001}]),
            "profiles[0].plugins.score.enabled[0].weight: Expected `int` <= 10000",
        ),
        (
            at("score", enabled=[{"name": "Spread", "weight": True}]),
            "profiles[0].plugins.score.enabled[0].weight: Expected `int`, got `bool`",
        ),
        ({"apiVersion": "v1"}, "apiVersion: must be kubeshare.io/v1"),
        ({"kind": "Pod"}, "kind: must be KubeShareSchedulerConfiguration"),
        (
            {"inventory": {"source": "nvml"}},
            "inventory.source: must be one of annotation, auto, file, hami, prometheus, scrape, "
            "not 'nvml'",
        ),
        ({"inventory": {"scheme": "ftp"}}, "inventory.scheme: must be http or https, not 'ftp'"),
        ({"gangRepair": 3}, "gangRepair: must be release or report, not 3"),
        (
            one_profile(isolation=["none", "mpss"]),
            "profiles[0].isolation[1]: must be one of none, driver, mps, gemini, hami-core, not "
            "'mpss'",
        ),
        (
            {"inventory": {"source": "scrape", "podSelector": "a in (b"}},
            "inventory.podSelector: cannot be parsed at 'a in (b': must be requirements such as",
        ),
        ({"inventory": {"namespace": "A"}}, "inventory.namespace: must be at most 63 lower-case"),
        ({"server": {"service": "a.b"}}, "server.service: must be at most 63 lower-case letters"),
        ({"server": {"keyFile": "k"}}, "server.keyFile: k: needs certificateFile beside it"),
        ({"server": {"port": "x"}}, "server.port: Expected `int`, got `str` ('x')"),
        (
            {"inventory": {"uri": ""}},
            "inventory.uri: no such field; there are source, url, selector, ",
        ),
        (
            {"gpuCapacities": {}},
            "gpuCapacities: no such field; there are apiVersion, kind, profiles, ",
        ),
        (one_profile(gpuCapacities={"T4": 0}), "profiles[0].gpuCapacities[...]: Expected `int` >="),
        (
            {"inventory": {"source": "scrape", "podSelector": ""}},
            "inventory.podSelector: must select the collectors' pods when source is scrape",
        ),
        (
            {"inventory": {"podSelector": ""}},
            "inventory.podSelector: must select the collectors' pods when source is auto",
        ),
        ({"inventory": {"source": "file"}}, "inventory.path: must name the file"),
        ({"inventory": {"intervalSeconds": 0}}, "inventory.intervalSeconds: Expected `float` > 0"),
        (
            {"inventory": {"intervalSeconds": float("nan")}},
            "inventory.intervalSeconds: Expected `float` > 0",
        ),
        ({"server": {"port": 65_536}}, "server.port: Expected `int` <= 65535, not 65536"),
        ({"parallelBinds": 0}, "parallelBinds: Expected `int` >= 1"),
        ({"profiles": [{}, {}]}, "profiles[1].schedulerName: kubeshare-scheduler is there twice"),
    ],
)
def test_a_document_that_cannot_be_read_names_the_path(document: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(document)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            {"plugins": {"score": {"enabled": [{"name": "AvoidGpuNodes"}, {"name": "Sprad"}]}}},
            "profiles[0].plugins.score.enabled[1].name: no plugin Sprad; there are AvoidGpuNodes, ",
        ),
        (
            {"plugins": {"filter": {"disabled": [{"name": "*"}, {"name": "Taints"}]}}},
            "profiles[0].plugins.filter.disabled[1].name: no plugin Taints; there are ",
        ),
        (
            {"plugins": {"score": {"enabled": [{"name": "Spread"}, {"name": "GpuFit"}]}}},
            "profiles[0].plugins.score.enabled[1].name: GpuFit is no score plugin",
        ),
        (
            {"plugins": {"cardFilter": {"enabled": [{"name": "BinPack"}]}}},
            "profiles[0].plugins.cardFilter.enabled[0].name: BinPack is no cardFilter plugin",
        ),
        (
            {"plugins": {"score": {"enabled": [{"name": "Spread"}, {"name": "Spread"}]}}},
            "profiles[0].plugins.score.enabled[1].name: Spread is there twice",
        ),
        (
            {
                "plugins": {"score": {"enabled": [{"name": "Random"}]}},
                "pluginConfig": [{"name": "Random", "args": {"sede": 1}}],
            },
            "profiles[0].pluginConfig[0].args.sede: no such argument; there are seed",
        ),
        (
            {
                "plugins": {"score": {"enabled": [{"name": "Random"}]}},
                "pluginConfig": [{"name": "Random", "args": {"seed": -1}}],
            },
            "profiles[0].pluginConfig[0].args: ",
        ),
        (
            {
                "plugins": {"score": {"enabled": [{"name": "ModelWorth"}]}},
                "pluginConfig": [
                    {"name": "ModelWorth", "args": {"models": {"T4": {"price": 0, "speed": 1}}}}
                ],
            },
            "profiles[0].pluginConfig[0].args.models[T4].price: Expected `int` >= 1",
        ),
        (
            {"pluginConfig": [{"name": "BinPack"}, {"name": "BinPack"}]},
            "profiles[0].pluginConfig[1].name: BinPack is there twice",
        ),
        (
            {"pluginConfig": [{"name": "Random", "args": {"seed": 1}}]},
            "profiles[0].pluginConfig[0].name: Random is not enabled",
        ),
        (
            {"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}},
            "profiles[0].plugins.queueSort: exactly one plugin, not 0",
        ),
    ],
)
def test_a_profile_that_cannot_be_made_names_the_path(
    profile: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        profiles(read({"profiles": [profile]}), IN_TREE)
    assert str(error.value).startswith(message)


class ByName:
    """Sorts pods by name."""

    name = "ByName"

    def key(self, pod: Pod) -> tuple[int | str, ...]:
        return (pod.key.name, pod.uid)


WITH_SORT: dict[str, PluginFactory] = {**IN_TREE, "ByName": ByName}


def test_two_queue_sorts_are_one_too_many() -> None:
    document = at("queueSort", enabled=[{"name": "ByName"}])
    with pytest.raises(ConfigurationError, match=r"queueSort: exactly one plugin, not 2"):
        profiles(read(document), WITH_SORT)


def test_two_localities_are_one_too_many() -> None:
    class Anywhere(Coscheduling):
        name = "Anywhere"

    document = at("locality", enabled=[{"name": "Anywhere"}])
    with pytest.raises(ConfigurationError, match=r"locality: at most one plugin, not 2"):
        profiles(read(document), {**IN_TREE, "Anywhere": Anywhere})


def test_profiles_sort_the_queue_that_they_share_alike() -> None:
    by_name = {"queueSort": {"enabled": [{"name": "ByName"}], "disabled": [{"name": "*"}]}}
    first = {"schedulerName": "first", "plugins": by_name}
    second = {"schedulerName": "second", "plugins": by_name}
    both = profiles(read({"profiles": [first, second]}), WITH_SORT)
    assert [profile.queue_sort.name for profile in both] == ["ByName", "ByName"]
    with pytest.raises(ConfigurationError, match=r"^profiles\[1\]\.plugins\.queueSort: all"):
        profiles(read({"profiles": [first, {"schedulerName": "second"}]}), WITH_SORT)


def test_a_factory_that_needs_arguments_says_so() -> None:
    def needy(size: int) -> object:
        return size

    document = at("score", enabled=[{"name": "Needy"}])
    with pytest.raises(ConfigurationError, match=r"^profiles\[0\]\.pluginConfig: Needy without"):
        profiles(read(document), {**IN_TREE, "Needy": needy})


def test_what_is_in_effect_is_printed_with_every_default() -> None:
    document = {
        "profiles": [
            {
                "schedulerName": "other",
                "plugins": {"score": {"enabled": [{"name": "Spread", "weight": 2}]}},
            }
        ]
    }
    shown = yaml.safe_dump(effective(read(document)), sort_keys=False)
    expect_golden("configuration/effective", shown)


@pytest.mark.parametrize(
    "document",
    [None, at("score", disabled=[{"name": "*"}], enabled=[{"name": "Spread"}])],
)
def test_what_is_printed_means_the_same_when_it_is_read_again(document: object) -> None:
    shown = effective(read(document))
    assert effective(read(shown)) == shown
    assert names(made(shown)) == names(made(document))


def test_the_first_isolation_back_end_is_the_default() -> None:
    assert made(None).isolation.allowed == (IsolationBackend.NONE,)
    profile = made(one_profile(isolation=["driver", "none"]))
    assert profile.isolation.chosen("") is IsolationBackend.DRIVER


@pytest.mark.parametrize("isolation", [[], ["magic"], "driver"])
def test_an_isolation_that_cannot_be_is_located(isolation: object) -> None:
    with pytest.raises(ConfigurationError, match=r"profiles\[0\].isolation"):
        read(one_profile(isolation=isolation))


@pytest.mark.parametrize(
    "document",
    [one_profile(isolation=["x" * 90_000]), {"x" * 90_000: 1}, at("filter", enabled="x" * 90_000)],
)
def test_a_mistake_of_any_length_is_told_in_a_sentence(document: object) -> None:
    with pytest.raises(ConfigurationError) as told:
        made(document)
    assert len(str(told.value)) < 3000


def everywhere(*names: str, **others: Any) -> dict[str, Any]:
    multi = {"enabled": [{"name": name, "weight": 7} for name in names]}
    return one_profile(plugins={"multiPoint": multi, **others})


def test_multi_point_enables_a_plugin_at_every_point_that_it_implements() -> None:
    found = names(made(everywhere("NodeAffinity", "Spread")))
    assert found["scores"][-2:] == ["NodeAffinity 7", "Spread 7"]
    assert found["card_scores"][-1] == "Spread 7"
    assert found["filters"].count("NodeAffinity") == 1
    assert "Spread" not in found["card_filters"]


def test_a_point_may_disable_a_plugin_of_multi_point_or_weigh_it() -> None:
    without = names(made(everywhere("Spread", score={"disabled": [{"name": "Spread"}]})))
    assert "Spread 7" not in without["scores"]
    assert "Spread 7" in without["card_scores"]
    own = {"enabled": [{"name": "Spread", "weight": 3}], "disabled": [{"name": "*"}]}
    weighed = names(made(everywhere("Spread", score=own)))
    assert weighed["scores"] == ["Spread 3"]


def test_multi_point_disables_default_plugins_at_all_points() -> None:
    document = one_profile(plugins={"multiPoint": {"disabled": [{"name": "BinPack"}]}})
    found = names(made(document))
    assert "BinPack 1" not in found["scores"] + found["card_scores"]
    assert "Topology 10" in found["scores"]


def test_a_profile_with_multi_point_is_printed_as_it_is_meant() -> None:
    document = everywhere("Spread", score={"disabled": [{"name": "Spread"}, {"name": "BinPack"}]})
    shown = effective(read(document))
    assert effective(read(shown)) == shown
    assert names(made(shown)) == names(made(document))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"enabled": [{"name": "Sprad"}]}, "enabled[0].name: no plugin Sprad; there are "),
        ({"disabled": [{"name": "Sprad"}]}, "disabled[0].name: no plugin Sprad; there are "),
        ({"enabled": [{"name": "Odd"}]}, "enabled[0].name: Odd is a plugin of no point"),
        (
            {"enabled": [{"name": "Spread"}, {"name": "Spread"}]},
            "enabled[1].name: Spread is there twice",
        ),
    ],
)
def test_mistakes_at_multi_point_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        profiles(read(at("multiPoint", **changes)), {**IN_TREE, "Odd": object})
    assert str(caught.value).startswith(f"profiles[0].plugins.multiPoint.{said}")


def test_arguments_may_name_their_type_as_in_kube_scheduler() -> None:
    args = {"kind": "CoschedulingArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"}
    entry = {"name": "Coscheduling", "args": {**args, "labels": ["rack"]}}
    found = made(one_profile(pluginConfig=[entry]))
    assert isinstance(found.locality, Coscheduling)
    assert found.locality.places() == ("rack",)


def test_the_longest_backoff_is_not_shorter_than_the_first() -> None:
    with pytest.raises(ConfigurationError, match="podMaxBackoffSeconds: must be at least"):
        read({"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4})
    equal = read({"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 5})
    assert equal.pod_max_backoff_seconds == 5


def test_all_stands_for_the_dialects_that_are_not_listed() -> None:
    nano = {"name": "nano-gpu", "args": {"memory_unit": "GiB"}}
    [profile] = read({"profiles": [{"dialects": [{"name": "all"}, nano]}]}).profiles
    names = [one.name for one in profile.dialects]
    assert names == ["sharedgpu", "gpushare", "sharepod", "hami", "nvidia", "nano-gpu"]
    assert profile.dialects[-1].args == {"memory_unit": "GiB"}
    with pytest.raises(ConfigurationError, match=r"dialects\[0\]: all has no args and no require"):
        read({"profiles": [{"dialects": [{"name": "all", "args": {"mig": []}}]}]})
