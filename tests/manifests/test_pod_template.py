"""The pod that a SharePod describes."""

import json
from typing import Any

import msgspec
import pytest

from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.share_pods import LAST_APPLIED, pod_template

OURS = "kubeshare-scheduler"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TO_N1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def made(spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """The pod of such a SharePod."""
    about = ObjectMeta(name="one", namespace="team", uid="u1", **meta)
    pod: dict[str, Any] = json.loads(pod_template(about, spec, OURS).manifest)
    return pod


def terms(spec: dict[str, Any]) -> Any:
    return made(spec)["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_name_labels_and_annotations_are_the_share_pods() -> None:
    """As in KubeShare 1.0: all of them are copied, and the SharePod owns the pod."""
    pod = made({}, labels={"a": "b"}, annotations={"kubeshare/gpu_request": "0.5", "x/y": "z"})
    about = pod["metadata"]
    assert (about["name"], about["namespace"], about["labels"]) == ("one", "team", {"a": "b"})
    assert {"kubeshare/gpu_request": "0.5", "x/y": "z"}.items() <= about["annotations"].items()
    assert about["ownerReferences"] == [
        {
            "apiVersion": "kubeshare.nthu/v1", "kind": "SharePod", "name": "one", "uid": "u1",
            "controller": True, "blockOwnerDeletion": True,
        }
    ]  # fmt: skip


def test_what_is_not_for_the_pod_stays_behind() -> None:
    left = {
        LAST_APPLIED: "{}", "sharedgpu/gpu_uuid": "GPU-1", "sharedgpu/allocation": "{}",
        "kubeshare/GPUID": "abcde", "kubeshare.io/assigned-gpuid": "abcde",
    }  # fmt: skip
    kept = made({}, annotations=left)["metadata"]["annotations"]
    assert [*kept] == ["kubeshare.io/sharepod"]
    own = made({}, annotations=left | {"kubeshare/GPUID": "mine"})["metadata"]["annotations"]
    assert own["kubeshare/GPUID"] == "mine"


@pytest.mark.parametrize(
    ("named", "got"),
    [(None, OURS), ("", OURS), ("default-scheduler", OURS), ("gpu-scheduler", "gpu-scheduler")],
)
def test_a_scheduler_that_is_named_counts(named: str | None, got: str) -> None:
    spec = {} if named is None else {"schedulerName": named}
    assert made(spec)["spec"]["schedulerName"] == got


def test_a_node_name_becomes_a_requirement() -> None:
    assert terms({"nodeName": "n1"}) == [{"matchFields": [TO_N1]}]
    assert "nodeName" not in made({"nodeName": "n1"})["spec"]
    assert "affinity" not in made({"nodeName": ""})["spec"]


def test_each_alternative_of_an_affinity_gets_the_node() -> None:
    fast = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    other = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}
    wanted = {REQUIRED: {"nodeSelectorTerms": [fast, other]}, "preferred": []}
    spec = {"nodeName": "n1", "affinity": {"nodeAffinity": wanted, "podAffinity": {}}}
    assert terms(spec) == [
        {**fast, "matchFields": [TO_N1]},
        {"matchFields": [*other["matchFields"], TO_N1]},
    ]
    assert made(spec)["spec"]["affinity"]["podAffinity"] == {}


@pytest.mark.parametrize(
    "affinity",
    ["x", {"nodeAffinity": "x"}, {"nodeAffinity": {REQUIRED: "x"}},
     {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "x"}}},
     {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["x"]}}}],
)  # fmt: skip
def test_an_affinity_that_is_none_is_left_to_the_api_server(affinity: Any) -> None:
    assert made({"nodeName": "n1", "affinity": affinity})["spec"]["affinity"] == affinity


def test_a_node_name_that_is_no_text_is_left_to_the_api_server() -> None:
    assert made({"nodeName": 5})["spec"]["nodeName"] == 5


def test_the_fingerprint_tells_which_fields_differ() -> None:
    def field_hashes(spec: dict[str, Any], **meta: Any) -> dict[str, str]:
        about = ObjectMeta(name="one", namespace="team", uid="u1", **meta)
        return dict(pod_template(about, spec, OURS).field_hashes)

    first = field_hashes({"a": [1, 2], "b": {"x": 1, "y": None}, "c": None})
    assert {*first} == {"spec.a", "spec.b"}
    assert field_hashes({"b": {"x": 1}, "a": [1, 2]}) == first
    assert field_hashes({"b": {"x": 1}, "a": [2, 1]})["spec.a"] != first["spec.a"]
    labelled = field_hashes({}, labels={"a": "b"}, annotations={"kubeshare/x": "1", "other": "1"})
    assert {*labelled} == {"metadata.labels", "metadata.annotations[kubeshare/x]"}


def test_the_pod_carries_the_field_hashes() -> None:
    said = made({"a": 1})["metadata"]["annotations"]["kubeshare.io/sharepod"]
    assert [*msgspec.json.decode(said)] == ["spec.a"]
