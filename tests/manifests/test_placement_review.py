"""A review's pod is read as one that was just created, whatever it says of its past."""

import json
from typing import Any

import pytest

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests.client_pods import MAX_POD_BYTES, MOST_PARTS, BadReview, read_review

CREATED = "2026-01-02T03:04:05Z"
LABELS = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}


def read(pod: Any) -> Pod:
    body = json.dumps({"spec": {"pod": pod}}).encode()
    return read_review(body, "team", PodUid("u"), CREATED, SHAREDGPU_ALONE)


def a_pod(**metadata: Any) -> dict[str, Any]:
    containers = [{"name": "c"}]
    return {
        "metadata": {"name": "a", "labels": LABELS, **metadata},
        "spec": {"schedulerName": "kubeshare-scheduler", "containers": containers},
    }


def test_a_pod_is_as_one_that_was_just_created() -> None:
    given = a_pod(
        uid="another's",
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        annotations={"sharedgpu/gpu_uuid": "GPU-1"},
    )
    given["spec"] |= {"nodeName": "n1", "priority": 7}
    given["status"] = {"phase": "Succeeded", "nominatedNodeName": "n1"}
    pod = read(given)
    assert (pod.uid, pod.key, pod.created) == ("u", PodKey("team", "a"), CREATED)
    assert (pod.node_name, pod.deleting, pod.allocation) == (None, False, None)
    assert not pod.nominated
    assert pod.priority == 7
    assert pod.shape.claim is not None
    assert pod.shape.claim.milli == 500
    assert read(a_pod(namespace="team")).key == pod.key


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (a_pod(namespace="other"), "namespace 'other' is not that of the request"),
        (a_pod(name="A_b"), "name 'A_b' is no RFC 1123 subdomain"),
        (a_pod(labels={str(at): "" for at in range(MOST_PARTS + 1)}), f"over {MOST_PARTS} labels"),
        (a_pod(name="x" * MAX_POD_BYTES), "a Pod of "),
        (7, "Expected `object`, got `int`"),
    ],
)
def test_what_is_no_pod_of_the_namespace_is_refused(pod: Any, said: str) -> None:
    with pytest.raises(BadReview) as refused:
        read(pod)
    assert said in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"7", b"{}", b'{"spec": {}}', b"\xff", b"[" * 5000])
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(BadReview, match="not a PlacementReview: "):
        read_review(body, "team", PodUid("u"), CREATED, SHAREDGPU_ALONE)
