"""What people name on the command line, and which pods are a workload's."""

import json
from typing import Any

import pytest

from kubeshare_py.manifests.workloads import (
    foreign_pod,
    named,
    names_in_list,
    pod_selector,
    sharepod_message,
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("x", "/api/v1/namespaces/a/pods/x"),
        ("pod/x", "/api/v1/namespaces/a/pods/x"),
        ("PO/x", "/api/v1/namespaces/a/pods/x"),
        ("job/x", "/apis/batch/v1/namespaces/a/jobs/x"),
        ("jobs.v1.batch/x", "/apis/batch/v1/namespaces/a/jobs/x"),
        ("deployment.apps/x", "/apis/apps/v1/namespaces/a/deployments/x"),
        ("sts/x", "/apis/apps/v1/namespaces/a/statefulsets/x"),
        ("rc/x", "/api/v1/namespaces/a/replicationcontrollers/x"),
        ("shp/x", "/apis/kubeshare.nthu/v1/namespaces/a/sharepods/x"),
        ("sharepods.kubeshare.nthu/x", "/apis/kubeshare.nthu/v1/namespaces/a/sharepods/x"),
    ],
)
def test_kinds_and_their_short_names(text: str, path: str) -> None:
    found = named(text)
    assert found.kind.path("a", found.name) == path


@pytest.mark.parametrize("text", ["service/x", "pod/", "/x", "job/", ""])
def test_what_has_no_pods_is_refused_with_what_has(text: str) -> None:
    with pytest.raises(ValueError, match="is not POD or KIND/NAME with one of the kinds pod, job"):
        named(text)


@pytest.mark.parametrize(
    ("selector", "query"),
    [
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"app": "x"}, "app=x"),
        (
            {
                "matchLabels": {"a": "1"},
                "matchExpressions": [
                    {"key": "b", "operator": "In", "values": ["x", "y"]},
                    {"key": "c", "operator": "NotIn", "values": ["z"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                ],
            },
            "a=1,b in (x,y),c notin (z),d,!e",
        ),
    ],
)
def test_a_selector_becomes_a_query(selector: dict[str, Any], query: str) -> None:
    assert pod_selector(json.dumps({"spec": {"selector": selector}}).encode()) == query


@pytest.mark.parametrize("body", [{}, {"spec": {}}, {"spec": {"selector": {"matchLabels": {}}}}])
def test_what_selects_nothing_does_not_select_everything(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="selects no pods"):
        pod_selector(json.dumps(body).encode())


def test_a_list_gives_names_and_where_it_goes_on() -> None:
    items = [{"metadata": {"namespace": "a", "name": "x", "labels": {}}}]
    body = {"items": items, "metadata": {"continue": "next"}}
    assert names_in_list(json.dumps(body).encode()) == ([("a", "x")], "next")
    assert names_in_list(b'{"items": [], "metadata": {}}') == ([], "")


@pytest.mark.parametrize(
    "metadata", [b"null", b"{}", b'{"continue":null}', b'{"resourceVersion":"7","continue":""}']
)
def test_an_empty_list_is_empty_in_every_form(metadata: bytes) -> None:
    for items in (b"null", b"[]"):
        assert names_in_list(b'{"items":%s,"metadata":%s}' % (items, metadata)) == ([], "")


def test_absent_conditions_say_nothing() -> None:
    for text in (b"{}", b'{"status":null}', b'{"status":{"conditions":null}}'):
        assert sharepod_message(text) == ""
    assert foreign_pod(b'{"spec":{},"status":{"conditions":null}}').message == ""


def test_one_object_that_is_nested_deep_hides_no_other() -> None:
    deep = b'{"f:a":' * 9000 + b"{}" + b"}" * 9000
    managed = b'"managedFields":[{"fieldsV1":%s}]' % deep
    odd = b'{"metadata":{"namespace":"a","name":"odd",%s}}' % managed
    body = b'{"items":[%s,{"metadata":{"namespace":"b","name":"plain"}}]}' % odd
    assert names_in_list(body) == ([("a", "odd"), ("b", "plain")], "")
    spec = b'{"schedulerName":"mine","selector":{"matchLabels":{"app":"x"}}}'
    body = b'{"metadata":{%s},"spec":%s}' % (managed, spec)
    assert foreign_pod(body).spec.scheduler_name == "mine"
    assert pod_selector(body) == "app=x"


def test_of_a_foreign_pod_only_what_says_whose_it_is() -> None:
    said = [
        {"type": "Ready", "status": "False", "message": "no"},
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"},
    ]
    spec = {"schedulerName": "default-scheduler", "nodeName": "n1", "containers": []}
    body = {"spec": spec, "status": {"phase": "Pending", "conditions": said}}
    pod = foreign_pod(json.dumps(body).encode())
    assert (pod.spec.scheduler_name, pod.spec.node_name) == ("default-scheduler", "n1")
    assert (pod.status.phase, pod.message) == ("Pending", "0/3 nodes")
    assert foreign_pod(b"{}").message == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([], ""),
        ([{"type": "Synced", "status": "True", "message": "fine"}], ""),
        ([{"type": "Synced", "status": "False", "message": "quota"}], "quota"),
    ],
)
def test_a_sharepod_without_a_pod_says_why(conditions: list[Any], message: str) -> None:
    body = json.dumps({"kind": "SharePod", "status": {"conditions": conditions}}).encode()
    assert sharepod_message(body) == message
    assert sharepod_message(b'{"kind": "SharePod"}') == ""
