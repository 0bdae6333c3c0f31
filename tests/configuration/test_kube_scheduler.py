"""A KubeSchedulerConfiguration: what is used, what is named, and what is refused."""

from typing import Any

import msgspec
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.kube_scheduler import (
    KUBE_DEFAULTS,
    KubeExtender,
    KubePlugin,
    KubePlugins,
    KubePluginSet,
    KubeSchedulerFile,
    is_kube_scheduler,
    read_kube_scheduler,
)
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


def test_the_kind_says_whose_file_it_is() -> None:
    assert is_kube_scheduler(kube())
    assert not is_kube_scheduler({"kind": "KubeShareSchedulerConfiguration"})
    assert not is_kube_scheduler(None)
    assert problem(kube(apiVersion="kubescheduler.config.k8s.io/v1beta3")) == (
        "apiVersion: must be kubescheduler.config.k8s.io/v1"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"parallelism": 16}, "parallelism: is ignored: "),
        ({"percentageOfNodesToScore": 50}, "percentageOfNodesToScore: is ignored: "),
        ({"enableProfiling": True}, "enableProfiling: is ignored: "),
        ({"enableContentionProfiling": True}, "enableContentionProfiling: is ignored: "),
        ({"delayCacheUntilActive": True}, "delayCacheUntilActive: is ignored: "),
        ({"clientConnection": {"qps": 100}}, "clientConnection.qps: is ignored: "),
        ({"clientConnection": {"burst": 200}}, "clientConnection.burst: is ignored: "),
        (
            {"clientConnection": {"contentType": "application/json"}},
            "clientConnection.contentType: is ignored: ",
        ),
        (
            {"leaderElection": {"resourceName": "kube-scheduler"}},
            "leaderElection.resourceName: kube-scheduler is kube-scheduler's own Lease: ",
        ),
        (
            {"extenders": [{"urlPrefix": "http://here", "prioritizeVerb": "rate", "weight": 1}]},
            "extenders[0]: extenders are not called: its scores are ignored",
        ),
        (
            {"profiles": [{"schedulerName": MINE, "percentageOfNodesToScore": 5}]},
            "profiles[0].percentageOfNodesToScore: is ignored: ",
        ),
        ({"profiles": []}, "profiles[0].schedulerName: default-scheduler is that of pods that"),
    ],
)
def test_settings_without_a_counterpart_are_named(fields: dict[str, Any], said: str) -> None:
    (warning,) = warnings_of(kube(**fields))
    assert warning.startswith(said)


def test_settings_that_are_off_need_no_warning() -> None:
    quiet = kube(enableProfiling=False, delayCacheUntilActive=False, clientConnection=None)
    assert warnings_of(quiet) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"extenders": [{"urlPrefix": "http://here", "filterVerb": "filter"}]},
            "extenders[0].filterVerb: extenders are not called, and this one decides where",
        ),
        ({"extenders": [{"urlPrefix": "http://here", "bindVerb": "b"}]}, "extenders[0].bindVerb: "),
        ({"extenders": [{"preemptVerb": "p"}]}, "extenders[0].preemptVerb: "),
        ({"extenders": [{"filterverb": "p"}]}, "extenders[0].filterverb: no such field; there "),
        (
            {"extenders": [{"managedResources": [{"name": "a/b", "ignoredByScheduler": True}]}]},
            "extenders[0].managedResources: ",
        ),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "leaderElection.resourceLock: must be"),
        ({"leaderElection": {"leaseDuration": "soon"}}, "leaderElection.leaseDuration: must be"),
        ({"podInitialBackoffSeconds": 20}, "podMaxBackoffSeconds: must be at least podInitial"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: "),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: "),
        ({"healthzBindAddress": "0.0.0.0"}, "healthzBindAddress: no such field; there are "),
        ({"profiles": [{}, {}]}, "profiles[0].schedulerName: is required beside other profiles"),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            "profiles[1].schedulerName: a is there twice",
        ),
        (
            {"profiles": [{"schedulerName": "a", "plugins": {"score": {"enabled": [{}]}}}]},
            "profiles[0].plugins.score.enabled[0]: ",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_path(fields: dict[str, Any], said: str) -> None:
    assert problem(kube(**fields)).startswith(said)


def test_counterparts_are_used() -> None:
    found, warnings = warned(
        kube(
            leaderElection={
                "leaderElect": False,
                "leaseDuration": "30s",
                "resourceNamespace": "scheduling",
            },
            clientConnection={"kubeconfig": "/etc/kubernetes/scheduler.conf"},
            podInitialBackoffSeconds=2,
            podMaxBackoffSeconds=40,
            parallelism=None,
        )
    )
    assert warnings == []
    election = found.leader_election
    assert (election.leader_elect, election.lease_duration) == (False, "30s")
    assert (election.renew_deadline, election.resource_namespace) == ("10s", "scheduling")
    assert election.resource_name == "kubeshare-scheduler"
    assert found.client_connection.kubeconfig == "/etc/kubernetes/scheduler.conf"
    backoff = (found.pod_initial_backoff_seconds, found.pod_max_backoff_seconds)
    assert backoff == (2, 40)


# --- The fields of kube-scheduler's file ----------------------------------------------------------


@pytest.mark.parametrize(
    ("enabled", "disabled", "is_off"),
    [((), (), False), ((), ("A",), True), ((), ("*",), True), ((), ("B",), False),
     (("A",), ("*",), False), (("A",), ("A",), False), (("B",), ("*",), True)],
)  # fmt: skip
def test_a_set_disables_what_it_does_not_enable_again(
    enabled: tuple[str, ...], disabled: tuple[str, ...], *, is_off: bool
) -> None:
    given = KubePluginSet(tuple(map(KubePlugin, enabled)), tuple(map(KubePlugin, disabled)))
    assert given.is_disabled("A") is is_off


def test_the_points_are_those_of_kube_scheduler() -> None:
    given = KubePlugins(pre_bind=KubePluginSet((KubePlugin("A"),)))
    named = {camel: plugins for _, camel, plugins in given.sets()}
    assert named["preBind"].enabled == (KubePlugin("A"),)
    assert {*named} >= {"multiPoint", "preEnqueue", "placementScore"}
    assert len(named) == 15


def test_an_extender_decides_by_its_verbs_and_its_resources() -> None:
    assert not [*KubeExtender(url_prefix="http://here").decides()]
    deciding = KubeExtender(filter_verb="f", bind_verb="b", managed_resources=({"name": "a/b"},))
    assert [*deciding.decides()] == ["filterVerb", "bindVerb"]
    ignoring = KubeExtender(managed_resources=({"name": "a/b", "ignoredByScheduler": True},))
    assert [*ignoring.decides()] == ["managedResources"]


def test_a_field_that_kube_scheduler_does_not_have_is_an_error() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert msgspec.convert(head, KubeSchedulerFile).pod_max_backoff_seconds == 10
    with pytest.raises(msgspec.ValidationError, match="unknown field `profile`"):
        msgspec.convert({**head, "profile": []}, KubeSchedulerFile)


# --- Profiles of kube-scheduler: what they become here --------------------------------------------


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
