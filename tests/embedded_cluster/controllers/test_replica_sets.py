"""What a ReplicaSet still needs, and what its controller knows."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.replica_sets import ReplicaSetCache
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    PODS,
    REPLICA_SETS,
    Owner,
    UnstructuredMetadata,
    UnstructuredObject,
)

NOW = 1_800_000_000.0
NOON = "2027-01-15T08:00:00Z"  # NOW
BEFORE = "2027-01-15T07:00:00Z"
LABELS = {"app": "r"}
OWNER = Owner(apiVersion="apps/v1", kind="ReplicaSet", name="r", uid="uid-r", controller=True)


def replica_set(replicas: int = 2, uid: str = "uid-r", **fields: Any) -> UnstructuredObject:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a"}]}},
        **fields.pop("spec", {}),
    }
    metadata = UnstructuredMetadata(
        name="r", namespace="ns", uid=uid, generation=1, **fields.pop("meta", {})
    )
    return UnstructuredObject(metadata=metadata, spec=spec, **fields)


def pod(
    name: str,
    *,
    ready: bool = True,
    since: str = BEFORE,
    owner: Owner | None = OWNER,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> UnstructuredObject:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    known = {"namespace": "ns", "labels": LABELS, "creationTimestamp": BEFORE}
    return UnstructuredObject(
        metadata=UnstructuredMetadata(
            name=name,
            uid=name,
            ownerReferences=[owner] if owner is not None else None,
            **known | metadata,
        ),
        spec={"nodeName": "n1"} if spec is None else spec,
        status={"phase": "Running", "conditions": [condition], **(status or {})},
    )


def book(*objects: UnstructuredObject, one: UnstructuredObject | None = None) -> ReplicaSetCache:
    made = ReplicaSetCache()
    made.listed(REPLICA_SETS, [one or replica_set()], 0.0)
    made.listed(PODS, objects, 0.0)
    return made


def work(
    *pods: UnstructuredObject, one: UnstructuredObject | None = None, now: float = NOW
) -> ControllerWork:
    ((_, found),) = book(*pods, one=one).work(now)
    return found


def given_up(*pods: UnstructuredObject, replicas: int = 1) -> list[str]:
    found = work(*pods, one=replica_set(replicas))
    return [gone.object.uid for gone in found.delete]


def status_of(found: ControllerWork) -> dict[str, Any]:
    assert found.status is not None
    status: dict[str, Any] = found.status["status"]
    return status


def test_missing_pods_are_made_from_the_template() -> None:
    created = work().create
    assert len(created) == 2
    assert created[0].body == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "r-",
            "namespace": "ns",
            "labels": LABELS,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "r",
                    "uid": "uid-r",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "a"}]},
    }


def test_pods_that_are_over_or_go_are_replaced() -> None:
    failed = pod("a", status={"phase": "Failed"})
    going = pod("b", deletionTimestamp=NOON)
    found = work(failed, going, pod("c"))
    assert len(found.create) == 1
    assert status_of(found) == {
        "replicas": 1,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "observedGeneration": 1,
        "terminatingReplicas": 1,
    }


UNBOUND = pod("unbound", ready=False, spec={}, status={"phase": "Pending"})
STARTING = pod("starting", ready=False, status={"phase": "Pending"})
UNREADY = pod("unready", ready=False)
CHEAP = pod("cheap", annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"})
YOUNG = pod("young", since="2027-01-15T07:59:59Z")
RESTARTED = pod("restarted", status={"containerStatuses": [{"restartCount": 3}]})
BORN_LATE = pod("born-late", creationTimestamp="2027-01-15T07:59:59Z")
STEADY = pod("steady")


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (UNBOUND, STARTING),
        (STARTING, UNREADY),
        (UNREADY, CHEAP),
        (CHEAP, YOUNG),
        (YOUNG, STEADY),
        (RESTARTED, BORN_LATE),
        (BORN_LATE, STEADY),
    ],
)
def test_the_least_useful_pod_is_given_up_first(
    goes: UnstructuredObject, stays: UnstructuredObject
) -> None:
    assert given_up(goes, stays) == [goes.uid]
    assert given_up(stays, goes) == [goes.uid]


def test_of_crowded_pods_one_goes_before_a_lonely_one() -> None:
    lonely = pod("a-lonely", spec={"nodeName": "n2"})
    assert given_up(lonely, pod("b"), pod("c"), replicas=2) == ["b"]


def test_pods_of_a_sibling_count_as_a_crowd() -> None:
    above = Owner(kind="Deployment", uid="uid-d", controller=True)
    mine = replica_set(1, meta={"ownerReferences": [above]})
    other = replica_set(2, "uid-o", meta={"ownerReferences": [above]})
    sibling = msgspec.structs.replace(OWNER, uid="uid-o")
    made = ReplicaSetCache()
    made.listed(REPLICA_SETS, [mine, other], 0.0)
    lonely, crowded = pod("a", spec={"nodeName": "n2"}), pod("b")
    made.listed(PODS, [lonely, crowded, *(pod(n, owner=sibling) for n in ("c", "d"))], 0.0)
    found = {owner.uid: each for owner, each in made.work(NOW)}
    assert [gone.object.uid for gone in found["uid-r"].delete] == ["b"]


def test_pods_are_available_after_min_ready_seconds() -> None:
    one = replica_set(1, spec={"minReadySeconds": 10})
    fresh = pod("a", since=NOON)
    found = work(fresh, one=one, now=NOW + 4)
    assert ("availableReplicas" in status_of(found), found.look_at) == (False, NOW + 10)
    later = work(fresh, one=one, now=NOW + 10)
    assert (status_of(later)["availableReplicas"], later.look_at) == (1, None)


def test_pods_that_no_longer_match_are_let_go_and_lonely_ones_adopted() -> None:
    found = work(pod("a", labels={"app": "x"}), pod("b", owner=None))
    changes = {one.object.uid: one.body["metadata"]["ownerReferences"] for one in found.change}
    assert changes["a"] == []
    assert [owner["uid"] for owner in changes["b"]] == ["uid-r"]
    assert len(found.create) == 1


@pytest.mark.parametrize(
    "stranger",
    [
        pod("s", owner=None, labels={"app": "x"}),
        pod("s", owner=None, deletionTimestamp=NOON),
        pod("s", owner=None, status={"phase": "Failed"}),
        pod("s", owner=Owner(kind="Job", uid="j", controller=True)),
    ],
)
def test_nobody_else_is_adopted(stranger: UnstructuredObject) -> None:
    found = work(stranger)
    assert (found.change, len(found.create)) == ((), 2)


def test_a_replica_set_that_goes_makes_and_adopts_nobody() -> None:
    going = replica_set(meta={"deletionTimestamp": NOON})
    found = work(pod("a", owner=None), one=going)
    assert (found.create, found.change) == ((), ())


def test_a_settled_replica_set_needs_nothing() -> None:
    pods = pod("a"), pod("b")
    done = replica_set(status=status_of(work(*pods)))
    assert work(*pods, one=done) == ControllerWork()


def test_a_refusal_is_told_before_the_next_try_and_until_it_succeeds() -> None:
    known = book()
    ((_, first),) = known.work(NOW)
    assert len(first.create) == 2
    known.refused("uid-r", "no such class")
    ((one, told),) = known.work(NOW)
    assert told.create == ()
    (condition,) = status_of(told)["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert condition["message"] == "no such class"
    known.seen(REPLICA_SETS, msgspec.structs.replace(one, status=status_of(told)))
    ((_, waits),) = known.work(NOW)
    assert waits == ControllerWork()
    known.try_again("uid-r")
    ((_, again),) = known.work(NOW)
    assert (len(again.create), again.status) == (2, None)
    for name in ("a", "b"):
        known.created(pod(name), 1.0)
    known.settled("uid-r")
    ((_, last),) = known.work(NOW)
    assert (last.create, status_of(last)["conditions"]) == ((), None)


def test_a_pod_whose_deletion_was_accepted_does_not_count_until_it_is_gone() -> None:
    known = book(pod("a"), pod("b"), pod("c"))
    ((_, first),) = known.work(NOW)
    (gone,) = first.delete
    known.deleted(gone.object.uid)
    ((_, second),) = known.work(NOW)
    assert (second.delete, status_of(second)["terminatingReplicas"]) == ((), 1)
    # News from before the deletion do not bring it back.
    known.seen(PODS, gone.object)
    ((_, third),) = known.work(NOW)
    assert (third.create, third.delete) == ((), ())
    known.gone(PODS, gone.object.uid)
    ((_, fourth),) = known.work(NOW)
    assert (fourth.create, status_of(fourth)["terminatingReplicas"]) == ((), 0)


def test_a_lonely_pod_wakes_those_whose_it_might_be() -> None:
    known = book(pod("a"))
    known.work(NOW)
    known.seen(PODS, pod("spare", owner=None))
    ((_, found),) = known.work(NOW)
    assert [change.object.uid for change in found.change] == ["spare"]
    known.seen(PODS, pod("elsewhere", owner=None, namespace="other"))
    known.seen(PODS, pod("stranger", owner=None, labels={"app": "x"}))
    assert not known.has_work()
