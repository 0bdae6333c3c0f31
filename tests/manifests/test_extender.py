"""What kube-scheduler sends to extenders is read, and answered, as its Go types say."""

import json
from typing import Any

import pytest

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.domain.events import BindAsked
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.manifests.client_pods import MOST_PARTS
from kubeshare_py.manifests.extender import (
    BadExtenderRequest,
    ExtenderQuestion,
    bind_result,
    filter_result,
    priorities,
    read_bind,
    read_pod,
    read_question,
)

POD = {
    "metadata": {
        "name": "p",
        "namespace": "default",
        "uid": "u1",
        "labels": {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"},
    },
    "spec": {"schedulerName": "theirs", "containers": [{"name": "c"}]},
    "status": {},
}
NODES = [{"metadata": {"name": name}, "spec": {"podCIDR": name}} for name in ("n1", "n2")]
BIND = {"PodName": "p", "PodNamespace": "default", "PodUID": "u1", "Node": "n1"}


def question(**fields: Any) -> ExtenderQuestion:
    """As kube-scheduler encodes it: what is not set is null."""
    given = {"Pod": POD, "Nodes": None, "NodeNames": None, **fields}
    return read_question(json.dumps(given).encode(), SHAREDGPU_ALONE)


def test_names_of_nodes_are_read_with_the_pod() -> None:
    found = question(NodeNames=["n2", "n1"])
    assert (found.names, found.nodes) == (("n2", "n1"), None)
    assert (found.pod.key, found.pod.uid) == (PodKey("default", "p"), "u1")
    assert found.pod.scheduler_name == "theirs"
    assert [claim.milli for claim in found.pod.shape.claims] == [500]


def test_node_objects_are_answered_as_they_came() -> None:
    found = question(Nodes={"metadata": {}, "items": NODES})
    assert found.names == ("n1", "n2")
    answer = json.loads(filter_result(found, [NodeName("n2")], []))
    assert answer["Nodes"]["items"] == [NODES[1]]
    assert answer["NodeNames"] is None


def test_keys_may_be_written_in_small_letters_as_in_older_releases() -> None:
    body = json.dumps({"pod": POD, "nodes": None, "nodenames": ["n1"]}).encode()
    assert read_question(body, SHAREDGPU_ALONE).names == ("n1",)


def test_a_filter_answer_has_all_fields_of_extender_filter_result() -> None:
    asked = question(NodeNames=["n1", "n2"])
    failed = [(NodeName("n2"), "Insufficient GPU\n")]
    assert json.loads(filter_result(asked, [NodeName("n1")], failed)) == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n2": "Insufficient GPU?"},
        "Error": "",
    }


def test_scores_and_bind_results_are_written_as_go_reads_them() -> None:
    assert json.loads(priorities([(NodeName("n1"), 10)])) == [{"Host": "n1", "Score": 10}]
    assert json.loads(bind_result()) == {"Error": ""}
    assert json.loads(bind_result("no\x1b")) == {"Error": "no?"}


def test_a_bind_is_read() -> None:
    expected = BindAsked(PodUid("u1"), PodKey("default", "p"), NodeName("n1"))
    assert read_bind(json.dumps(BIND).encode()) == expected


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b"[" * 5000, "not a JSON object"),
        (b"{}", "not ExtenderArgs"),
        (json.dumps({"Pod": POD}).encode(), "neither NodeNames nor Nodes"),
        (json.dumps({"Pod": POD, "NodeNames": [1]}).encode(), "not ExtenderArgs"),
        (json.dumps({"Pod": 1, "NodeNames": []}).encode(), "not ExtenderArgs"),
        (json.dumps({"Pod": POD, "Nodes": {"items": [1]}}).encode(), "not ExtenderArgs"),
    ],
)
def test_what_is_no_question_is_refused_with_a_sentence(body: bytes, text: str) -> None:
    with pytest.raises(BadExtenderRequest, match=text):
        read_question(body, SHAREDGPU_ALONE)


KEYS = {f"k{number}": "v" for number in range(MOST_PARTS + 1)}
AMOUNTS = dict.fromkeys(KEYS, "1")
MANY = [{"name": "m"}] * (MOST_PARTS + 1)


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("labels", {"metadata": {"labels": KEYS}}),
        ("annotations", {"metadata": {"annotations": KEYS}}),
        ("containers", {"spec": {"containers": MANY}}),
        ("init containers", {"spec": {"initContainers": MANY}}),
        ("overheads", {"spec": {"overhead": AMOUNTS}}),
        ("ports", {"spec": {"containers": [{"ports": MANY}]}}),
        ("limits", {"spec": {"containers": [{"resources": {"limits": AMOUNTS}}]}}),
        ("requests", {"spec": {"initContainers": [{"resources": {"requests": AMOUNTS}}]}}),
    ],
)
def test_a_pod_of_more_parts_than_any_has_is_not_looked_into(
    what: str, changed: dict[str, Any]
) -> None:
    body = json.dumps({"Pod": {**POD, **changed}, "NodeNames": []}).encode()
    with pytest.raises(BadExtenderRequest, match=f"over {MOST_PARTS} {what}"):
        read_question(body, SHAREDGPU_ALONE)


@pytest.mark.parametrize("key", BIND)
@pytest.mark.parametrize("value", [None, "", 1])
def test_a_bind_without_one_of_its_fields_is_refused(key: str, value: object) -> None:
    with pytest.raises(BadExtenderRequest, match=f"ExtenderBindingArgs: {key}"):
        read_bind(json.dumps({**BIND, key: value}).encode())


def test_a_pod_of_the_api_server_is_read_unless_it_has_finished() -> None:
    found = read_pod(json.dumps(POD).encode(), SHAREDGPU_ALONE)
    assert found is not None
    assert found.uid == "u1"
    done = {**POD, "status": {"phase": "Succeeded"}}
    assert read_pod(json.dumps(done).encode(), SHAREDGPU_ALONE) is None
    assert read_pod(b"no", SHAREDGPU_ALONE) is None


@pytest.mark.parametrize("key", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize(
    "name", ["?watch=true&x=1", "a/b", "..", "%2e", "\x00", "a\r\nX: y", "é", "a b", "a" * 300]
)
def test_a_bind_of_what_is_no_name_is_refused_with_the_field(key: str, name: str) -> None:
    with pytest.raises(BadExtenderRequest, match=f"{key}: .* is no ") as refused:
        read_bind(json.dumps({**BIND, key: name}).encode())
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400
