"""A KubeSchedulerConfiguration: what is used, what is named, and what is refused."""

from typing import Any

import pytest

from kubeshare_py.configuration.kube_scheduler import is_kube_scheduler
from tests.configuration.kube_files import MINE, kube, problem, warned, warnings_of


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
