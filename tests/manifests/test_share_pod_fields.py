"""SharePods and their pods as they come over the wire, and what is written to them."""

import json
from typing import Any

import msgspec
import pytest

from kubeshare_py.manifests.share_pods import (
    MOST_BYTES,
    SHOWN_BYTES,
    SharePodFields,
    card_name_patch,
    share_pod,
    status_patch,
    value_problem,
)
from kubeshare_py.sharepods.reconciler import LEFT_OUT, SYNCED, judge
from kubeshare_py.sharepods.share_pod import ConditionType, SharePod, SharePodStatus
from tests.manifests.test_pod_behind_fields import OWNER, read_pod

TWO = {"kubeshare/gpu_request": "0.5", "kubeshare/gpu_limit": "1"}
NOW = "2026-11-28T02:00:00Z"


def read_share(**fields: Any) -> SharePod:
    meta = {"name": "one", "namespace": "team", "uid": "s1", "resourceVersion": "7"}
    body = {"metadata": meta | fields.pop("metadata", {}), **fields}
    found = msgspec.json.decode(json.dumps(body), type=SharePodFields)
    return share_pod(found, "kubeshare-scheduler", value_problem)


def test_what_a_share_pod_shows_is_read_as_it_was_written() -> None:
    shown = {"phase": "Running", "hostIP": None, "conditions": [{"b": 1, "a": None}]}
    pod = read_pod(
        metadata={
            "ownerReferences": [OWNER],
            "annotations": {
                "sharedgpu/gpu_uuid": "GPU-1", "sharedgpu/gpu_manager_port": "50051",
                "kubeshare/GPUID": "abcde",
            },
            "managedFields": [{"manager": "x"}],
        },
        spec={"nodeName": "n1"},
        status=shown,
    )  # fmt: skip
    share = read_share(spec={"containers": []})
    [test, add] = msgspec.json.decode(
        msgspec.json.encode(status_patch(share, SharePodStatus(mirror=pod.mirror), NOW))
    )
    assert test == {"op": "test", "path": "/metadata/uid", "value": "s1"}
    value = add["value"]
    assert (value["BoundDeviceID"], value["PodManagerPort"]) == ("GPU-1", 50051)
    assert value["PodStatus"] == {"phase": "Running", "conditions": [{"b": 1}]}
    assert "managedFields" not in value["PodObjectMeta"]
    again = read_share(spec={"containers": []}, status=value)
    assert again.status.mirror == pod.mirror
    assert pod.card_name == "abcde"


@pytest.mark.parametrize("where", ["spec", "labels", "annotations"])
def test_a_share_pod_that_is_too_long_says_so_and_keeps_nothing(where: str) -> None:
    """A tenant may write 1.5 MB into each: nothing is kept of them, and no pod is made."""
    long = {f"k{number}": "v" * 1000 for number in range(200)}
    fields = {"spec": {"x": long}} if where == "spec" else {"metadata": {where: long}}
    share = read_share(status={"conditions": [{"type": "Synced", "status": "False"}]}, **fields)
    assert share.problem.startswith("its spec, labels and annotations have 20")
    assert share.problem.endswith(f" bytes, and no pod is made from more than {MOST_BYTES}")
    assert (share.template.manifest, share.template.field_hashes) == (b"", ())
    assert share.status.condition(ConditionType.SYNCED) is not None
    verdict = judge(share, None, None, "")
    assert verdict.request is None
    assert "no pod is made" in verdict.status.conditions[0].message


def test_what_kubectl_applied_last_does_not_count() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "x" * MOST_BYTES}
    assert read_share(metadata={"annotations": applied}, spec={"a": "b"}).problem == ""


def test_a_pod_that_has_more_than_can_be_shown_is_shown_in_short_and_once() -> None:
    """What is written must be what is read, or it would be written for ever."""
    labels = {f"k{number}": "v" * 60 for number in range(2000)}
    share, status = (
        read_share(spec={"containers": []}),
        {"phase": "Running", "x": "y" * SHOWN_BYTES},
    )
    pods = [
        read_pod(
            metadata={"ownerReferences": [OWNER], "labels": labels}, status={"phase": "Running"}
        ),
        read_pod(metadata={"ownerReferences": [OWNER]}, status=status),
    ]
    for pod in pods:
        verdict = judge(share, pod, None, "")
        [_, add] = msgspec.json.decode(
            msgspec.json.encode(status_patch(share, verdict.status, NOW))
        )
        assert add["value"]["PodStatus"] == {"phase": "Running"}
        assert add["value"]["conditions"][0]["message"] == SYNCED + LEFT_OUT
        assert len(json.dumps(add)) < SHOWN_BYTES
        again = read_share(spec={"containers": []}, status=add["value"])
        assert judge(again, pod, None, "").status == again.status
    assert "labels" not in json.loads(pods[0].mirror.metadata)


def test_a_status_of_others_that_is_too_long_is_none() -> None:
    status = {"PodStatus": {"x": "y" * (4 * SHOWN_BYTES)}, "BoundDeviceID": "GPU-1"}
    assert read_share(status=status).status == SharePodStatus()


@pytest.mark.parametrize("status", [None, {}, {"PodStatus": "x"}, {"conditions": 3}, "x", []])
def test_a_status_that_cannot_be_read_is_none(status: Any) -> None:
    assert read_share(status=status).status == SharePodStatus()


@pytest.mark.parametrize("spec", [None, "x", [], {"restartPolicy": 3}, {"restartPolicy": ""}])
def test_a_spec_that_cannot_be_read_is_left_to_the_api_server(spec: Any) -> None:
    assert read_share(spec=spec).restart_policy == "Always"


def test_the_name_of_the_virtual_gpu_is_the_users_unless_it_is_marked() -> None:
    named = {"kubeshare/GPUID": "abcde"}
    assert read_share(metadata={"annotations": named}).chooses_card_name
    marked = named | {"kubeshare.io/assigned-gpuid": "abcde"}
    assert not read_share(metadata={"annotations": marked}).chooses_card_name
    assert read_share(
        metadata={"annotations": marked | {"kubeshare/GPUID": "other"}}
    ).chooses_card_name
    patch = card_name_patch(read_share(), "")["metadata"]
    assert patch == {"uid": "s1", "annotations": dict.fromkeys(marked)}


def test_conditions_keep_their_time_while_they_stay_as_they_are() -> None:
    def shown(status: str) -> SharePod:
        one = {"type": "Synced", "status": status, "reason": "r", "message": "m"}
        since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        return read_share(status={"conditions": [one | since, {"type": "Other"}]})

    share = shown("True")
    condition = share.status.condition(ConditionType.SYNCED)
    assert condition is not None
    for before, since in ((share, "2026-01-01T00:00:00Z"), (shown("False"), NOW)):
        [_, add] = status_patch(before, share.status, NOW)
        assert add["value"]["conditions"][0]["lastTransitionTime"] == since


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({}, ""),
        ({"other/key": "x"}, ""),
        ({"kubeshare/gpu_request": "0.5"}, "kubeshare/gpu_limit is missing"),
        ({**TWO, "kubeshare/gpu_mem": "x"}, 'kubeshare/gpu_mem="x"'),
        ({**TWO, "kubeshare/gpu_mem": "1"}, ""),
    ],
)
def test_values_are_judged_by_the_dialect(annotations: dict[str, str], said: str) -> None:
    """Request, limit and memory are required as soon as any of them is there."""
    assert value_problem(annotations).startswith(said)
    assert bool(value_problem(annotations)) == bool(said)
