"""How a disruption budget is counted, and when."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.embedded_cluster.controllers.budgets import BudgetCache
from kubeshare_py.embedded_cluster.controllers.controller import ControllerWork
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Owner,
    UnstructuredMetadata,
    UnstructuredObject,
)

NOW = 1_800_000_000.0
NOON = "2027-01-15T08:00:00Z"  # NOW
LABELS = {"app": "w"}


def controlled(kind: str, uid: str) -> list[Owner]:
    return [Owner(kind=kind, name=uid, uid=uid, controller=True)]


def pod(name: str, owner: str = "set", ready: bool = True, **metadata: Any) -> UnstructuredObject:
    known: dict[str, Any] = {
        "namespace": "ns",
        "labels": LABELS,
        "ownerReferences": controlled("ReplicaSet", owner) if owner else None,
    }
    condition = {"type": "Ready", "status": str(ready)}
    return UnstructuredObject(
        metadata=UnstructuredMetadata(name=name, uid=name, **known | metadata),
        status={"phase": "Running", "conditions": [condition]},
    )


def scaled(uid: str, replicas: int, owner: str = "") -> UnstructuredObject:
    owners = controlled("Deployment", owner) if owner else None
    metadata = UnstructuredMetadata(name=uid, namespace="ns", uid=uid, ownerReferences=owners)
    return UnstructuredObject(metadata=metadata, spec={"replicas": replicas})


def budget(status: dict[str, Any] | None = None, **spec: Any) -> UnstructuredObject:
    metadata = UnstructuredMetadata(name="b", namespace="ns", uid="b", generation=1)
    selector = {"selector": {"matchLabels": LABELS}}
    return UnstructuredObject(metadata=metadata, spec={**selector, **spec}, status=status or {})


def book(one: UnstructuredObject, *pods: UnstructuredObject, replicas: int = 3) -> BudgetCache:
    made = BudgetCache()
    made.listed(DEPLOYMENTS, [scaled("deployment", replicas)], 0.0)
    made.listed(REPLICA_SETS, [scaled("set", 1, "deployment"), scaled("alone", 2)], 0.0)
    made.listed(PODS, pods, 0.0)
    made.listed(BUDGETS, [one], 0.0)
    return made


def work(known: BudgetCache, now: float = NOW) -> ControllerWork:
    ((_, found),) = known.work(now)
    return found


def counts(found: ControllerWork) -> tuple[int, ...]:
    """Expected, healthy, desired, allowed."""
    assert found.status is not None
    status = found.status["status"]
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    return tuple(status[name] for name in names)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 1}, (2, 2, 1, 1)),
        # The Deployment counts, not the ReplicaSet that it scales.
        ({"minAvailable": "50%"}, (3, 2, 2, 0)),
        ({"maxUnavailable": 2}, (3, 2, 1, 1)),
        ({"maxUnavailable": "34%"}, (3, 2, 1, 1)),
        ({"maxUnavailable": "100%"}, (3, 2, 0, 2)),
    ],
)
def test_shares_are_of_what_the_controllers_want(
    spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert counts(work(book(budget(**spec), pod("a"), pod("b")))) == expected


def test_each_controller_counts_once() -> None:
    pods = pod("a"), pod("b"), pod("c", "alone"), pod("d", "alone")
    assert counts(work(book(budget(maxUnavailable=1), *pods))) == (5, 4, 4, 0)


def test_pods_that_go_are_not_ready_or_are_to_go_are_not_healthy() -> None:
    status = {"disruptedPods": {"c": NOON, "gone": NOON}}
    pods = pod("a", deletionTimestamp=NOON), pod("b", ready=False), pod("c"), pod("d")
    found = work(book(budget(status, minAvailable=1), *pods))
    assert counts(found) == (4, 1, 1, 0)
    assert found.status is not None
    # What is no longer there is taken out, one by one: it is a merge patch.
    assert found.status["status"]["disruptedPods"] == {"gone": None}
    assert found.look_at == NOW + 120


def test_a_pod_that_was_to_go_and_did_not_counts_again() -> None:
    known = book(budget({"disruptedPods": {"a": NOON}}, minAvailable=1), pod("a"), pod("b"))
    found = work(known, NOW + 121)
    assert counts(found) == (2, 2, 1, 1)
    assert found.status is not None
    assert found.status["status"]["disruptedPods"] is None
    assert found.look_at is None


def test_nothing_is_allowed_where_nobody_is_expected() -> None:
    found = work(book(budget(maxUnavailable="100%")))
    assert counts(found) == (0, 0, 0, 0)
    assert [event.reason for event in found.events] == ["NoPods"]


def test_pods_of_nobody_are_told_about() -> None:
    found = work(book(budget(maxUnavailable=1), pod("a", owner="")))
    assert counts(found) == (0, 1, 0, 0)
    assert [(event.type, event.reason) for event in found.events] == [("Warning", "UnmanagedPods")]


def test_where_the_number_cannot_be_known_nobody_may_go() -> None:
    before = {"observedGeneration": 1, "disruptionsAllowed": 2, "currentHealthy": 3}
    lost = pod("a", "no-such-set")
    found = work(book(budget(before, maxUnavailable=1), lost))
    assert found.status is not None
    assert found.status["status"]["disruptionsAllowed"] == 0
    (condition,) = found.status["status"]["conditions"]
    assert (condition["reason"], condition["observedGeneration"]) == ("SyncFailed", 1)
    assert condition["message"] == 'found no controllers for pod "a"'
    assert "currentHealthy" not in found.status["status"]


def test_a_count_that_is_right_is_not_written_again() -> None:
    known = book(budget(minAvailable=1), pod("a"), pod("b"))
    found = work(known)
    assert found.status is not None
    known.seen(BUDGETS, budget(found.status["status"], minAvailable=1))
    assert work(known) == ControllerWork()


def test_pods_and_controllers_wake_the_budgets_that_they_matter_to() -> None:
    known = book(budget(maxUnavailable=1), pod("a"))
    work(known)
    known.seen(PODS, pod("b", namespace="other"))
    known.seen(PODS, pod("c", labels={"app": "other"}))
    assert not known.has_work()
    known.seen(PODS, pod("b"))
    assert counts(work(known)) == (3, 2, 2, 0)
    # One that is no longer selected is missed.
    known.seen(PODS, pod("b", labels={"app": "other"}))
    assert counts(work(known)) == (3, 1, 2, 0)
    known.seen(PODS, pod("b"))
    work(known)
    known.seen(DEPLOYMENTS, scaled("deployment", 2))
    assert counts(work(known)) == (2, 2, 1, 1)
    known.gone(PODS, "b")
    assert counts(work(known)) == (2, 1, 1, 0)
    known.gone(PODS, "a")
    assert counts(work(known)) == (0, 0, 0, 0)


def test_conditions_keep_their_time_while_nothing_changes() -> None:
    first = work(book(budget(minAvailable=1), pod("a"), pod("b")))
    assert first.status is not None
    status = first.status["status"]
    grown = msgspec.structs.replace(budget(status, minAvailable=1))
    second = work(book(grown, pod("a"), pod("b"), pod("c")), NOW + 60)
    assert second.status is not None
    assert second.status["status"]["disruptionsAllowed"] == 2
    assert "conditions" not in second.status["status"]
