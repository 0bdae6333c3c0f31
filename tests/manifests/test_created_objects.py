"""Objects of manifests as the scheduler sees them once they are created, and ends of pods."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.domain.cluster_objects import PodGroupObject, ReplicaSetObject
from kubeshare_py.domain.events import BudgetSeen, ObjectSeen, PodGroupSeen
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.storage import PersistentVolumeClaim
from kubeshare_py.manifests.created_objects import (
    UnreadableObject,
    created_objects,
    names_of_set,
    new_pods,
    pod_names,
)
from kubeshare_py.manifests.deadlines import EXPECTED, latest_ends, timed_objects
from kubeshare_py.manifests.workloads import PodTemplate, pod_templates

Json = dict[str, Any]
POD: Json = {"spec": {"containers": [{"name": "c"}], "schedulerName": "kubeshare-scheduler"}}


def an_object(kind: str, spec: Json, version: str = "example.com/v1") -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def copies(document: Json) -> list[int]:
    return [one.copies for one in pod_templates(document) if isinstance(one, PodTemplate)]


@pytest.mark.parametrize(
    ("document", "made"),
    [
        (an_object("Deployment", {"replicas": 3, "template": POD}, "apps/v1"), [3]),
        (an_object("Deployment", {"template": POD}, "apps/v1"), [1]),
        (an_object("Deployment", {"replicas": 0, "template": POD}, "apps/v1"), [0]),
        (an_object("Job", {"parallelism": 4, "template": POD}, "batch/v1"), [4]),
        (an_object("Job", {"parallelism": 4, "completions": 3, "template": POD}, "batch/v1"), [3]),
        (an_object("Job", {"parallelism": 2, "suspend": True, "template": POD}, "batch/v1"), [2]),
        (
            an_object(
                "CronJob",
                {"jobTemplate": {"spec": {"parallelism": 2, "template": POD}}},
                "batch/v1",
            ),
            [2],
        ),
        (
            an_object(
                "JobSet",
                {
                    "replicatedJobs": [
                        {"replicas": 2, "template": {"spec": {"parallelism": 4, "template": POD}}},
                        {"template": {"spec": {"template": POD}}},
                    ]
                },
            ),
            [8, 1],
        ),
        (
            an_object(
                "PyTorchJob",
                {
                    "pytorchReplicaSpecs": {
                        "Master": {"replicas": 1, "template": POD},
                        "Worker": {"replicas": 7, "template": POD},
                    }
                },
            ),
            [1, 7],
        ),
        (
            an_object(
                "LeaderWorkerSet",
                {
                    "replicas": 2,
                    "leaderWorkerTemplate": {
                        "size": 4,
                        "leaderTemplate": POD,
                        "workerTemplate": POD,
                    },
                },
            ),
            [2, 6],
        ),
        (
            an_object(
                "LeaderWorkerSet",
                {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}},
            ),
            [8],
        ),
        (an_object("Deployment", {"replicas": "3", "template": POD}, "apps/v1"), [1]),
        (an_object("Deployment", {"replicas": -3, "template": POD}, "apps/v1"), [1]),
    ],
)
def test_as_many_pods_are_made_as_the_object_says(document: Json, made: list[int]) -> None:
    assert copies(document) == made


def pods_of(document: Json, taken: frozenset[PodKey] = frozenset()) -> list[Pod]:
    found: list[Pod] = []
    for template in pod_templates(document):
        assert isinstance(template, PodTemplate)
        names = pod_names(template, "team", taken)
        body = {**POD, "metadata": {"labels": {"app": "a"}}}
        found += new_pods(template, body, names, "team", "2026-01-01T00:00:00Z", SHAREDGPU_ALONE)
    return found


def test_pods_have_what_their_controllers_add() -> None:
    job = an_object("Job", {"parallelism": 2, "template": POD}, "batch/v1")
    first, second = pods_of(job)
    assert (str(first.key), str(second.key)) == ("team/x-0", "team/x-1")
    assert first.uid != second.uid
    assert ("batch.kubernetes.io/job-name", "x") in first.labels
    assert ("app", "a") in first.labels
    (web,) = pods_of(an_object("Deployment", {"template": POD}, "apps/v1"))
    assert web.controller is not None
    assert web.controller.name == "x-simulated"
    (own,) = pods_of({"kind": "Pod", "metadata": {"name": "own"}, **POD})
    assert (own.key.name, own.controller, own.labels) == ("own", None, (("app", "a"),))


def test_names_of_other_pods_are_left_out() -> None:
    job = an_object("StatefulSet", {"replicas": 2, "template": POD}, "apps/v1")
    taken = frozenset({PodKey("team", "x-0"), PodKey("other", "x-1")})
    assert [pod.key.name for pod in pods_of(job, taken)] == ["x-1", "x-2"]
    (template,) = pod_templates(job)
    assert isinstance(template, PodTemplate)
    sets = [names_of_set(template, number, 2) for number in range(3)]
    assert len({name for names in sets for name in names}) == 6


def test_several_templates_of_one_object_give_their_pods_other_names() -> None:
    specs = {"Master": {"template": POD}, "Worker": {"replicas": 2, "template": POD}}
    found = pods_of(an_object("PyTorchJob", {"pytorchReplicaSpecs": specs}))
    assert [pod.key.name for pod in found] == [
        "x-pytorchreplicaspecs-master-0",
        "x-pytorchreplicaspecs-worker-0",
        "x-pytorchreplicaspecs-worker-1",
    ]


def test_what_placement_depends_on_becomes_events() -> None:
    group = an_object("PodGroup", {"minMember": 2}, "scheduling.x-k8s.io/v1alpha1")
    (seen,) = created_objects(group, "team")
    assert isinstance(seen, PodGroupSeen)
    assert isinstance(seen.group, PodGroupObject)
    assert (seen.group.namespace, seen.group.min_member) == ("team", 2)
    claim = an_object("PersistentVolumeClaim", {"accessModes": ["ReadWriteOnce"]}, "v1")
    (of_claim,) = created_objects({"kind": "List", "items": [claim]}, "team")
    assert isinstance(of_claim, ObjectSeen)
    assert isinstance(of_claim.object, PersistentVolumeClaim)
    assert of_claim.object.namespace == "team"
    selector = {"selector": {"matchLabels": {"app": "a"}}}
    (of_set,) = created_objects(an_object("Deployment", selector, "apps/v1"), "team")
    assert isinstance(of_set, ObjectSeen)
    assert isinstance(of_set.object, ReplicaSetObject)
    assert of_set.object.name == "x-simulated"
    budget = an_object("PodDisruptionBudget", selector, "policy/v1")
    assert isinstance(next(created_objects(budget, "team")), BudgetSeen)
    for other in (
        an_object("ConfigMap", {}, "v1"),
        an_object("PodGroup", {}),
        None,
        {},
        {"kind": 3},
    ):
        assert [*created_objects(other, "team")] == []
    wrong = {**claim, "spec": 3}
    with pytest.raises(UnreadableObject, match="persistentvolumeclaim cannot be read"):
        [*created_objects(wrong, "team")]


def an_item(uid: str, started: str | None, **spec: int) -> Json:
    return {
        "metadata": {"uid": uid, "ownerReferences": [{"uid": f"job-{uid}", "controller": True}]},
        "spec": spec,
        "status": {"startTime": started},
    }


def test_a_pod_ends_by_the_first_deadline_that_is_known() -> None:
    start = "1970-01-01T00:01:40Z"
    items = [
        an_item("own", start, activeDeadlineSeconds=50),
        an_item("job", start),
        an_item("both", start, activeDeadlineSeconds=500),
        an_item("none", start),
        an_item("not-started", None, activeDeadlineSeconds=5),
        an_item("for-ever", start, activeDeadlineSeconds=2**31 - 1),
        {**an_item("expected", start), "metadata": {"uid": "e", "annotations": {EXPECTED: "7"}}},
        {**an_item("odd", start), "metadata": {"uid": "o", "annotations": {EXPECTED: "soon"}}},
    ]
    listed = msgspec.json.encode({"items": items, "metadata": {"continue": "next"}})
    pods, page = timed_objects(listed, "spec")
    jobs, _ = timed_objects(
        msgspec.json.encode(
            {
                "items": [
                    an_item("job-job", start, activeDeadlineSeconds=9),
                    an_item("job-both", start, activeDeadlineSeconds=11),
                ]
            }
        ),
        "Job",
    )
    ends = latest_ends(pods, jobs)
    assert page == "next"
    assert {uid: (end.at, end.by) for uid, end in ends.items()} == {
        "own": (150.0, "activeDeadlineSeconds of its spec"),
        "job": (109.0, "activeDeadlineSeconds of its Job"),
        "both": (111.0, "activeDeadlineSeconds of its Job"),
        "e": (107.0, f"its annotation {EXPECTED}"),
    }
    assert timed_objects(b'{"items": null}', "spec") == ([], "")
