"""The flow schemas put the scheduler, and nobody else, where it must not wait."""

from typing import Any

from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.shipped import only

#: The API server's schemas for all service accounts: what comes after them never matches.
CATCH_ALL = 9000
LEASE = only("FlowSchema", "kubeshare-leader-election")
ALL = only("FlowSchema", "kubeshare-scheduler")


def subject(schema: dict[str, Any]) -> str:
    [rule] = schema["spec"]["rules"]
    [one] = rule["subjects"]
    account = one["serviceAccount"]
    return f"system:serviceaccount:{account['namespace']}:{account['name']}"


def test_it_is_about_the_scheduler_alone() -> None:
    assert subject(LEASE) == subject(ALL) == SCHEDULER


def test_the_lease_comes_before_everything_else() -> None:
    first, then = (one["spec"]["matchingPrecedence"] for one in (LEASE, ALL))
    assert 0 < first < then < CATCH_ALL
    levels = [one["spec"]["priorityLevelConfiguration"]["name"] for one in (LEASE, ALL)]
    assert levels == ["leader-election", "workload-high"]


def test_everything_that_the_scheduler_asks_matches() -> None:
    [rule] = ALL["spec"]["rules"]
    [resources] = rule["resourceRules"]
    assert resources["clusterScope"]
    assert all(resources[key] == ["*"] for key in ("apiGroups", "resources", "verbs", "namespaces"))
