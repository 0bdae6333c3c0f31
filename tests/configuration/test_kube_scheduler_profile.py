"""Profiles of kube-scheduler: what they become here."""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.kube_scheduler import read_kube_scheduler
from kubeshare_py.configuration.kube_scheduler_profile import KUBE_DEFAULTS
from kubeshare_py.configuration.scheduler import effective, read
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import Profile
from tests.configuration.kube_files import (
    MINE,
    kube,
    made,
    off,
    on,
    problem,
    warned,
    warnings_of,
    with_plugins,
)

_SCORES = (
    *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread"),
    *("InterPodAffinity", "DynamicResources", "NodeResourcesBalancedAllocation", "ImageLocality"),
)
GPU_SCORES = [
    "Topology 10",
    "PodPolicy 10",
    "IsolationReady 100",
    "ModelPreference 2000",
    "GpuTags 10000",
]


def filters(profile: Profile) -> list[str]:
    """Those that kube-scheduler has too; besides them there is the one of dialects."""
    names = [plugin.name for plugin in profile.filters]
    names.remove("DialectNodes")
    names.remove("GpuNames")
    return names


def scores(profile: Profile) -> list[str]:
    return [f"{plugin.name} {weight}" for plugin, weight in profile.scores]


def test_kube_schedulers_defaults_filter_and_score_beside_what_gpus_need() -> None:
    profile = made(kube())
    assert profile.scheduler_name == MINE
    assert profile.queue_sort.name == "PrioritySort"
    assert [plugin.name for plugin in profile.post_filters] == ["DefaultPreemption"]
    assert {*filters(profile)} >= {
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
    }
    assert {*filters(profile)} <= {one.name for one in KUBE_DEFAULTS}
    weights = {one.name: one.weight for one in KUBE_DEFAULTS}
    shown = scores(profile)
    assert shown[: len(GPU_SCORES) + 1] == [*GPU_SCORES, "BinPack 2"]
    assert all(one == f"{name} {weights[name]}" for one in shown[6:] for name in [one.split()[0]])
    default = profiles(read(None), IN_TREE)[0]
    assert [one.name for one in profile.card_filters] == [one.name for one in default.card_filters]
    assert [one.name for one, _ in profile.card_scores] == [
        one.name for one, _ in default.card_scores
    ]


def test_what_it_becomes_can_be_printed_and_read_again() -> None:
    document = with_plugins(multiPoint=off("NodeAffinity"), filter=off("TaintToleration"))
    found, _ = warned(document)
    again = read(effective(found))
    before, after = (profiles(one, IN_TREE)[0] for one in (found, again))
    assert filters(before) == filters(after)
    assert scores(before) == scores(after)
    assert "TaintToleration" not in filters(after)


def test_plugins_are_disabled_at_one_point_or_at_all() -> None:
    everywhere = made(with_plugins(multiPoint=off("NodeAffinity")))
    assert "NodeAffinity" not in filters(everywhere)
    assert "TaintToleration" in filters(everywhere)
    here = made(with_plugins(filter=off("NodeAffinity")))
    assert "NodeAffinity" not in filters(here)
    assert filters(made(with_plugins(filter=off("*")))) == []
    only = made(with_plugins(filter={**off("*"), **on("NodeAffinity")}))
    assert filters(only) == ["NodeAffinity"]
    none = made(with_plugins(multiPoint={**off("*"), **on("PrioritySort", "NodeResourcesFit")}))
    assert filters(none) == ["NodeResourcesFit"]
    assert none.post_filters == []


def test_all_of_kube_schedulers_scores_can_be_disabled_and_those_of_gpus_stay() -> None:
    assert scores(made(with_plugins(score=off("*")))) == [*GPU_SCORES, "BinPack 2"]
    assert "Topology 10" not in scores(made(with_plugins(score=off("Topology"))))
    without = made(with_plugins(multiPoint=off("BinPack")))
    assert "BinPack" not in [one.split()[0] for one in scores(without)]
    assert "BinPack" not in [one.name for one, _ in without.card_scores]


def test_a_weight_at_score_counts_more_than_that_of_multi_point() -> None:
    spread = {"enabled": [{"name": "Spread", "weight": 4}]}
    everywhere = made(with_plugins(multiPoint=spread))
    assert "Spread 4" in scores(everywhere)
    assert ("Spread", 4) in [(one.name, weight) for one, weight in everywhere.card_scores]
    here = {"enabled": [{"name": "Spread", "weight": 9}]}
    assert "Spread 9" in scores(made(with_plugins(multiPoint=spread, score=here)))
    unweighted = {"enabled": [{"name": "Spread", "weight": 0}]}
    assert "Spread 1" in scores(made(with_plugins(score=unweighted)))


def test_bin_pack_stays_for_pods_with_gpus_only() -> None:
    found, _ = warned(kube())
    entry, _ = found.profiles[0].plugin_config
    assert (entry.name, entry.args) == ("BinPack", {"pods": "WithGpus"})
    own = [{"name": "BinPack", "args": {"pods": "All"}}]
    document = kube(profiles=[{"schedulerName": MINE, "pluginConfig": own}])
    entry, _ = warned(document)[0].profiles[0].plugin_config
    assert entry.args == {"pods": "All"}


def test_pods_are_spread_by_default_unless_the_file_lists_constraints() -> None:
    assert len(made(kube()).default_spread) == 2
    own: dict[str, object] = {"name": "PodTopologySpread", "args": {}}
    document = kube(profiles=[{"schedulerName": MINE, "pluginConfig": [own]}])
    assert made(document).default_spread == made(kube()).default_spread
    own["args"] = {"defaultingType": "List"}
    assert made(document).default_spread == ()
    soft = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    own["args"] = {"defaultConstraints": [soft]}
    assert "defaultingType must be List" in problem(document)
    assert made(with_plugins(multiPoint=off("PodTopologySpread"))).default_spread == ()
    (ours,) = profiles(read(None), IN_TREE)
    assert ours.default_spread == ()


def test_arguments_may_say_of_which_type_they_are() -> None:
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "DefaultPreemptionArgs",
        "opportunistic": "Never",
    }
    entry = {"name": "DefaultPreemption", "args": args}
    document = kube(profiles=[{"schedulerName": MINE, "pluginConfig": [entry]}])
    assert made(document).post_filters
    del args["kind"]
    assert made(document).post_filters
    args["kind"] = "OtherArgs"
    assert problem(document) == (
        "profiles[0].pluginConfig[0].args.kind: must be DefaultPreemptionArgs, not 'OtherArgs'"
    )


@pytest.mark.parametrize(
    ("place", "given"),
    [
        ("plugins.score.enabled[0].name", {"plugins": {"score": on("NodeAfinity")}}),
        ("plugins.filter.disabled[0].name", {"plugins": {"filter": off("NodeAfinity")}}),
        ("pluginConfig[0]", {"pluginConfig": [{"name": "NodeAfinity", "args": {}}]}),
    ],
)
def test_a_misspelt_plugin_of_kube_scheduler_is_recognised(
    place: str, given: dict[str, Any]
) -> None:
    (said,) = warnings_of(kube(profiles=[{"schedulerName": MINE, **given}]))
    assert said.startswith(f"profiles[0].{place}: ")
    assert said.endswith("; did you mean NodeAffinity?")


def test_a_wrong_word_deep_in_arguments_is_an_error_with_the_right_ones() -> None:
    wrong = {"key": "zone", "operator": "Ins", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wrong]}]}
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    entry = {"name": "NodeAffinity", "args": args}
    said = problem(kube(profiles=[{"schedulerName": MINE, "pluginConfig": [entry]}]))
    assert said.endswith(
        ".matchExpressions[0].operator: must be one of DoesNotExist, Exists, Gt, In, Lt, NotIn,"
        " not 'Ins'"
    )


def test_a_misspelt_filter_is_an_error_with_the_name_that_may_be_meant() -> None:
    assert problem(with_plugins(filter=on("NodePort"))).endswith("; did you mean NodePorts?")
    assert "did you mean" not in problem(with_plugins(filter=on("TargetLoadPacking")))


@pytest.mark.parametrize("point", ["filter", "permit", "preFilter", "bind", "multiPoint"])
def test_a_plugin_that_may_decide_where_pods_go_must_exist(point: str) -> None:
    assert problem(with_plugins(**{point: on("Mine")})).startswith(
        f"profiles[0].plugins.{point}.enabled[0].name: no plugin Mine, and it may decide where"
    )


@pytest.mark.parametrize("point", ["score", "preScore", "postBind", "postFilter"])
def test_other_plugins_are_ignored_with_a_warning(point: str) -> None:
    assert warnings_of(with_plugins(**{point: on("Mine")})) == [
        f"profiles[0].plugins.{point}.enabled[0].name: no plugin Mine here: it is ignored"
    ]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({"bind": on("DefaultBinder")}, "bind.enabled[0].name: DefaultBinder is built in: "),
        ({"bind": off("*")}, "bind.disabled: is ignored: the scheduler itself sends Bindings"),
        (
            {"multiPoint": off("DefaultBinder")},
            "multiPoint.disabled[0].name: DefaultBinder cannot be disabled: the scheduler itself",
        ),
        ({"filter": off("Mine")}, "filter.disabled[0].name: Mine cannot be disabled: no such"),
        (
            {"preFilter": on("NodeAffinity")},
            "preFilter.enabled[0].name: NodeAffinity is listed for nothing: filters prepare when",
        ),
        ({"multiPoint": on("GangScheduling")}, "multiPoint.enabled[0].name: GangScheduling is"),
    ],
)
def test_what_has_no_counterpart_in_a_profile_is_named(points: dict[str, Any], said: str) -> None:
    (warning,) = warnings_of(with_plugins(**points))
    assert warning.startswith(f"profiles[0].plugins.{said}")


def test_arguments_of_plugins_that_are_not_there_are_named() -> None:
    entries = [{"name": "Mine", "args": {"a": 1}}, {"name": "Spread"}]
    document = kube(profiles=[{"schedulerName": MINE, "pluginConfig": entries}])
    assert warnings_of(document) == [
        "profiles[0].pluginConfig[0]: Mine does not exist here: its args are ignored",
        "profiles[0].pluginConfig[1]: Spread is not enabled: its args are ignored",
    ]
    assert made(document).scheduler_name == MINE


def test_plugins_may_be_listed_point_by_point() -> None:
    lists = {
        "multiPoint": {**off("*"), **on("PrioritySort")},
        "filter": on("NodeAffinity", "VolumeBinding"),
        "score": on("NodeAffinity"),
        "reserve": on("VolumeBinding"),
        "preBind": on("VolumeBinding"),
        "preEnqueue": on("SchedulingGates"),
    }
    profile = made(with_plugins(**lists))
    assert sorted(filters(profile)) == ["NodeAffinity", "VolumeBinding"]
    assert "VolumeBinding" not in [one.name for one, _ in profile.scores]
    assert "NodeAffinity 1" in scores(profile)


def test_a_plugin_listed_at_one_point_is_not_enabled_at_others() -> None:
    lists = {"multiPoint": {**off("*"), **on("PrioritySort")}, "reserve": on("VolumeBinding")}
    profile = made(with_plugins(**lists))
    assert filters(profile) == []


def test_arguments_without_effect_are_named() -> None:
    args = {"minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 10}
    entry = {"name": "DefaultPreemption", "args": args}
    document = kube(profiles=[{"schedulerName": MINE, "pluginConfig": [entry]}])
    path = "profiles[0].pluginConfig[0].args"
    assert warnings_of(document) == [
        f"{path}.{field}: is ignored: up to 512 nodes are searched for victims"
        for field in ("minCandidateNodesAbsolute", "minCandidateNodesPercentage")
    ]
    assert made(document).post_filters
    args["minCandidateNodesPercentage"] = 101
    assert problem(document).startswith(f"{path}.minCandidateNodesPercentage: ")
    args.update(minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0)
    assert problem(document).startswith(f"{path}.minCandidateNodesPercentage: and ")


def test_what_kube_scheduler_writes_of_its_own_configuration_is_read() -> None:
    """The profile that kube-scheduler 1.36.3 writes with --write-config-to."""
    given: dict[str, dict[str, Any]] = {
        "DefaultPreemption": {
            "minCandidateNodesAbsolute": 100,
            "minCandidateNodesPercentage": 10,
        },
        "DynamicResources": {"bindingTimeout": "10m0s", "filterTimeout": "10s"},
        "InterPodAffinity": {
            "hardPodAffinityWeight": 1,
            "ignorePreferredTermsOfExistingPods": False,
        },
        "NodeAffinity": {},
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        },
        "NodeResourcesFit": {
            "scoringStrategy": {
                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                "type": "LeastAllocated",
            }
        },
        "PodTopologySpread": {"defaultingType": "System"},
        "VolumeBinding": {"bindTimeoutSeconds": 600},
    }
    version = "kubescheduler.config.k8s.io/v1"
    entries = [
        {"name": name, "args": {"apiVersion": version, "kind": f"{name}Args", **args}}
        for name, args in given.items()
    ]
    scored = {one.name: one.weight for one in KUBE_DEFAULTS if one.name in _SCORES}
    multi = [{"name": one.name, "weight": scored.get(one.name, 0)} for one in KUBE_DEFAULTS]
    points: dict[str, Any] = {"multiPoint": {"enabled": multi}, "filter": {}, "preScore": {}}
    profile = {"schedulerName": MINE, "plugins": points, "pluginConfig": entries}
    document = kube(profiles=[profile])
    assert scores(made(document)) == scores(made(kube()))
    assert filters(made(document)) == filters(made(kube()))
    ignored = [one.partition(": ")[0].rpartition(".")[2] for one in warnings_of(document)]
    assert sorted(one for one in ignored if one != "name") == [
        "bindingTimeout",
        "filterTimeout",
        "minCandidateNodesAbsolute",
        "minCandidateNodesPercentage",
    ]


def test_a_default_of_kube_scheduler_that_is_missing_here_is_named() -> None:
    warnings: list[str] = []
    less = {name: factory for name, factory in IN_TREE.items() if name != "NodeAffinity"}
    found = read_kube_scheduler(kube(), less, warnings.append)
    assert (
        "profiles[0].plugins.multiPoint: NodeAffinity, a default of kube-scheduler, does not exist"
        " here"
    ) in warnings
    assert profiles(found, less)


def test_programs_that_make_no_plugins_take_every_name() -> None:
    found = read_kube_scheduler(with_plugins(filter=on("Mine")), None, lambda text: None)
    assert found.profiles[0].plugins.filter.enabled[0].name == "Mine"
