"""How long containers of a bound pod may run on after its deletion, and whether they have ended."""

from typing import Any

import pytest

from kubeshare_py.manifests.pods.pod import to_domain
from tests.manifests.written import pod_fields

ENDED = {"state": {"terminated": {"exitCode": 0}}}
RUNS = {"state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
LEAVES: dict[str, Any] = {
    "deletionTimestamp": "2026-01-02T03:04:05Z",
    "deletionGracePeriodSeconds": 600,
}
FORCED: dict[str, Any] = {**LEAVES, "deletionGracePeriodSeconds": 0}


def spec(**fields: Any) -> dict[str, Any]:
    return {"nodeName": "n", "containers": [{"name": "a"}], **fields}


@pytest.mark.parametrize(
    ("given", "metadata", "grace_s"),
    [
        (600, {}, 600),
        (None, {}, 30),  # what the API server writes where nothing is said
        (0, {}, 2),  # a kubelet gives every container two seconds
        (1, {}, 2),
        (600, {**LEAVES, "deletionGracePeriodSeconds": 20}, 20),  # kubectl delete --grace-period=20
        (30, LEAVES, 600),
        (600, FORCED, 600),  # a kubelet that does not hear of it knows only what was before
    ],
)
def test_the_grace_period_is_that_of_the_deletion_or_that_of_the_spec(
    given: int | None, metadata: dict[str, Any], grace_s: int
) -> None:
    fields = pod_fields(spec(terminationGracePeriodSeconds=given), **metadata)
    assert to_domain(fields).grace_s == grace_s


def test_a_pod_without_a_node_has_no_containers() -> None:
    pod = to_domain(pod_fields({"terminationGracePeriodSeconds": 600}, **LEAVES))
    assert (pod.grace_s, pod.stopped) == (0, False)


@pytest.mark.parametrize(
    ("metadata", "status", "stopped"),
    [
        (LEAVES, {"containerStatuses": [ENDED]}, True),
        (LEAVES, {"containerStatuses": [RUNS]}, False),
        (LEAVES, {"containerStatuses": [WAITS]}, False),
        (LEAVES, {"containerStatuses": [{}]}, False),
        (LEAVES, {}, False),
        (LEAVES, {"containerStatuses": [ENDED], "initContainerStatuses": [RUNS]}, False),
        (LEAVES, {"containerStatuses": [ENDED], "ephemeralContainerStatuses": [RUNS]}, False),
        (LEAVES, {"containerStatuses": [ENDED], "initContainerStatuses": [ENDED]}, True),
        ({}, {"containerStatuses": [ENDED]}, False),  # it is started again
        (FORCED, {"containerStatuses": [ENDED]}, False),  # that it had ended may be old news
    ],
)
def test_a_pod_has_stopped_when_all_its_containers_ended_in_its_deletion(
    metadata: dict[str, Any], status: dict[str, Any], *, stopped: bool
) -> None:
    assert to_domain(pod_fields(spec(), status=status, **metadata)).stopped is stopped


def test_a_container_without_a_status_may_run() -> None:
    two = spec(containers=[{"name": "a"}, {"name": "b"}])
    fields = pod_fields(two, status={"containerStatuses": [ENDED]}, **LEAVES)
    assert not to_domain(fields).stopped
