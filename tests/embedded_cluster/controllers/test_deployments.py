"""What a Deployment still needs."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork, OwnershipClaim
from kubeshare_py.embedded_cluster.controllers.deployments import DeploymentContext, work_for
from kubeshare_py.embedded_cluster.controllers.rollouts import (
    HASH,
    REVISION,
    set_name,
    template_hash,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    UnstructuredMetadata,
    UnstructuredObject,
)

NOW = 1_800_000_000.0
NOON = "2027-01-15T08:00:00Z"  # NOW


def template(image: str = "x:1") -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": image}]}
    return {"metadata": {"labels": {"app": "w"}}, "spec": spec}


def deployment(
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> UnstructuredObject:
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    known = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "w"}},
        "template": template(),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 10,
    }
    metadata = UnstructuredMetadata(
        name="w", namespace="ns", uid="uid-w", generation=3, annotations=annotations
    )
    return UnstructuredObject(metadata=metadata, spec={**known, **spec}, status=status or {})


def replica_set(
    number: int,
    image: str,
    size: int,
    available: int | None = None,
    wanted: int = 2,
    **metadata: Any,
) -> UnstructuredObject:
    ready = size if available is None else available
    marked = template(image)
    marked["metadata"]["labels"] = {**marked["metadata"]["labels"], HASH: f"h{number}"}
    annotations = {
        REVISION: str(number),
        "deployment.kubernetes.io/desired-replicas": str(wanted),
        "deployment.kubernetes.io/max-replicas": str(wanted + 1),
    }
    return UnstructuredObject(
        metadata=UnstructuredMetadata(
            name=f"w-{number}",
            namespace="ns",
            uid=f"w-{number}",
            annotations=annotations,
            creationTimestamp=f"2026-01-01T00:00:0{number}Z",
            **metadata,
        ),
        spec={"replicas": size, "template": marked},
        status={"replicas": size, "readyReplicas": ready, "availableReplicas": ready},
    )


def work(
    one: UnstructuredObject,
    *sets: UnstructuredObject,
    names: frozenset[str] = frozenset(),
    pods_of: str = "",
    now: float = NOW,
) -> ControllerWork:
    around = DeploymentContext(names=names, has_pods=lambda found: found.uid == pods_of, now=now)
    return work_for(one, OwnershipClaim(sets, ()), around)


def sizes(found: ControllerWork) -> dict[str, int]:
    return {
        change.object.uid: change.body["spec"]["replicas"]
        for change in found.change
        if "replicas" in change.body.get("spec", {})
    }


def said(found: ControllerWork) -> dict[str, tuple[str, str]]:
    assert found.status is not None
    return {
        one["type"]: (one["status"], one["reason"])
        for one in found.status["status"].get("conditions") or []
    }


def after(one: UnstructuredObject, done: ControllerWork) -> UnstructuredObject:
    """The Deployment with the status that was asked for."""
    assert done.status is not None
    merged = {**one.status, **done.status["status"]}
    kept = {name: value for name, value in merged.items() if value is not None}
    annotations = {
        **(one.metadata.annotations or {}),
        **done.status["metadata"].get("annotations", {}),
    }
    metadata = msgspec.structs.replace(one.metadata, annotations=annotations)
    return msgspec.structs.replace(one, status=kept, metadata=metadata)


def test_the_first_replica_set_has_all_pods_and_the_first_revision() -> None:
    found = work(deployment(annotations={"who": "me"}))
    (made,) = found.create
    metadata, spec = made.body["metadata"], made.body["spec"]
    mark = template_hash(template(), 0)
    assert metadata["name"] == f"w-{mark}"
    assert (spec["replicas"], metadata["annotations"][REVISION]) == (2, "1")
    assert metadata["annotations"]["who"] == "me"
    assert spec["selector"] == {"matchLabels": {"app": "w", HASH: mark}}
    assert made.made is not None
    told = made.made.about(name=metadata["name"]).message
    assert told == f"Scaled up replica set w-{mark} from 0 to 2"
    assert said(found)["Progressing"] == ("True", "NewReplicaSetCreated")
    assert said(found)["Available"] == ("False", "MinimumReplicasUnavailable")
    assert found.status is not None
    assert found.status["metadata"]["annotations"] == {REVISION: "1"}


def test_hashes_are_names_and_differ_between_templates_and_collisions() -> None:
    found = {template_hash(template(image), n) for image in ("x:1", "x:2") for n in (0, 1)}
    assert len(found) == 4
    assert all(len(one) == 10 and one.isalnum() for one in found)


def test_a_name_that_is_taken_asks_for_another_hash() -> None:
    one = deployment()
    found = work(one, names=frozenset({set_name(one, 0)}))
    assert found.create == ()
    another = after(one, found)
    assert another.status["collisionCount"] == 1
    (made,) = work(another, names=frozenset({set_name(one, 0)})).create
    assert made.body["metadata"]["name"] == set_name(one, 1)


def test_a_new_template_begins_within_the_surge_and_the_old_one_shrinks() -> None:
    one = deployment(template=template("x:2"))
    (made,) = work(one, replica_set(1, "x:1", 2)).create
    assert (made.body["spec"]["replicas"], made.body["metadata"]["annotations"][REVISION]) == (
        1,
        "2",
    )
    begun = work(one, replica_set(1, "x:1", 2), replica_set(2, "x:2", 1, 0))
    assert (sizes(begun), begun.create) == ({}, ())
    going = work(one, replica_set(1, "x:1", 2), replica_set(2, "x:2", 1, 1))
    assert sizes(going) == {"w-1": 1}
    (change,) = going.change
    assert change.done is not None
    assert change.done.about(name="w-1").message == "Scaled down replica set w-1 from 2 to 1"


def test_the_end_of_a_rollout_is_said_once() -> None:
    sets = replica_set(1, "x:1", 0), replica_set(2, "x:2", 2)
    one = deployment(template=template("x:2"))
    found = work(one, *sets)
    assert said(found) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    done = after(one, found)
    assert done.metadata.annotations == {REVISION: "2"}
    assert work(done, *sets) == ControllerWork()


def test_progress_renews_its_time_and_silence_runs_out() -> None:
    one = deployment(template=template("x:2"))
    old, new = replica_set(1, "x:1", 2), replica_set(2, "x:2", 1, 0)
    begun = after(one, work(one, old, new))
    known = next(c for c in begun.status["conditions"] if c["type"] == "Progressing")
    assert (known["reason"], known["lastUpdateTime"]) == ("ReplicaSetUpdated", NOON)
    quiet = work(begun, old, new, now=NOW + 599)
    assert (quiet.status, quiet.look_at) == (None, NOW + 601)
    late = work(begun, old, new, now=NOW + 601)
    assert said(late)["Progressing"] == ("False", "ProgressDeadlineExceeded")
    failed = after(begun, late)
    assert work(failed, old, new, now=NOW + 700) == ControllerWork()
    # What comes after all is progress again.
    ready = replica_set(2, "x:2", 1, 1)
    again = work(failed, old, ready, now=NOW + 800)
    assert said(again)["Progressing"] == ("True", "ReplicaSetUpdated")


def test_recreation_waits_for_the_last_old_pod() -> None:
    one = deployment(template=template("x:2"), strategy={"type": "Recreate"})
    old, ended = replica_set(1, "x:1", 2), replica_set(1, "x:1", 0)
    assert sizes(work(one, old)) == {"w-1": 0}
    waits = work(one, ended, pods_of="w-1")
    assert (waits.create, waits.change) == ((), ())
    (made,) = work(one, ended).create
    assert made.body["spec"]["replicas"] == 2
    assert sizes(work(one, ended, replica_set(2, "x:2", 0))) == {"w-2": 2}


def test_going_back_renumbers_the_old_replica_set() -> None:
    one = deployment(template=template("x:1"))
    found = work(one, replica_set(1, "x:1", 0), replica_set(2, "x:2", 2))
    change = next(one for one in found.change if one.object.uid == "w-1")
    assert change.body["metadata"]["annotations"][REVISION] == "3"
    assert change.body["metadata"]["annotations"][f"{REVISION}-history"] == "1"
    assert change.body["spec"]["replicas"] == 1


def test_a_pause_scales_but_begins_nothing() -> None:
    one = deployment(paused=True, replicas=4, template=template("x:2"))
    found = work(one, replica_set(1, "x:1", 2))
    assert (found.create, sizes(found)) == ((), {"w-1": 4})
    assert said(found)["Progressing"] == ("Unknown", "DeploymentPaused")
    resumed = deployment(after(one, found).status, template=template("x:2"))
    goes_on = replica_set(1, "x:1", 2), replica_set(2, "x:2", 0)
    assert said(work(resumed, *goes_on))["Progressing"] == ("Unknown", "DeploymentResumed")


def test_scaling_notes_for_how_many_a_size_was_meant() -> None:
    found = work(deployment(replicas=4), replica_set(1, "x:1", 2))
    (change,) = found.change
    assert change.body["spec"] == {"replicas": 4}
    assert change.body["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
    }


def test_empty_replica_sets_beyond_the_history_go() -> None:
    sets = [replica_set(n, f"x:{n}", 0, generation=0) for n in (1, 2, 3)]
    now = replica_set(4, "x:4", 2)
    one = deployment(template=template("x:4"), revisionHistoryLimit=1)
    done = after(one, work(one, *sets, now))
    assert [gone.object.uid for gone in work(done, *sets, now).delete] == ["w-1", "w-2"]
    unseen = replica_set(1, "x:1", 0, generation=7)
    assert [gone.object.uid for gone in work(done, unseen, *sets[1:], now).delete] == ["w-2"]


def test_refused_pods_are_passed_on_until_they_are_not() -> None:
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "lastTransitionTime": NOON,
        "message": "no",
    }
    new = replica_set(1, "x:1", 2, 0)
    failing = msgspec.structs.replace(new, status={"conditions": [failure]})
    found = work(deployment(), failing)
    assert said(found)["ReplicaFailure"] == ("True", "FailedCreate")
    assert "ReplicaFailure" not in said(work(after(deployment(), found), new))


def test_annotations_and_min_ready_seconds_are_handed_down_but_not_what_kubectl_notes() -> None:
    noted = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"}
    found = work(deployment(annotations=noted, minReadySeconds=5), replica_set(1, "x:1", 2))
    (change,) = found.change
    assert change.body == {
        "metadata": {"annotations": {"team": "a"}},
        "spec": {"minReadySeconds": 5},
    }


@pytest.mark.parametrize("size", [0, 2])
def test_a_deployment_that_goes_only_counts(size: int) -> None:
    one = deployment(replicas=5)
    metadata = msgspec.structs.replace(one.metadata, deletionTimestamp=NOON)
    going = msgspec.structs.replace(one, metadata=metadata)
    found = work(going, replica_set(1, "x:1", size))
    assert (found.create, found.change) == ((), ())
    assert found.status is not None
    assert found.status["status"].get("replicas", 0) == size
