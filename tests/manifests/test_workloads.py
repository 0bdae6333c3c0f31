"""What people name on the command line, and which pods are a workload's."""

import json
from typing import Any

import pytest

from kubeshare_py.manifests.workloads import (
    AdmissionAnswer,
    PodTemplate,
    chosen_scheduler,
    dry_run,
    foreign_pod,
    named,
    names_in_list,
    pod_selector,
    pod_to_ask_about,
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


NAMED = {"metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {"schedulerName": "mine"}}


def test_a_dry_run_creates_a_pod_of_another_name_in_the_namespace() -> None:
    asked = dry_run(PodTemplate("pod/one", "", NAMED), "team a")
    assert asked is not None
    path, pod = asked
    assert path == "/api/v1/namespaces/team%20a/pods?dryRun=All"
    assert (pod["metadata"]["labels"], "name" in pod["metadata"]) == ({"a": "b"}, False)
    assert pod["metadata"]["generateName"]


def test_what_a_controller_makes_and_what_is_no_pod_has_no_dry_run() -> None:
    assert dry_run(PodTemplate("sharepod/one", "", NAMED), "team") is None
    assert dry_run(PodTemplate("pod/one", "", "text"), "team") is None


def test_a_pod_is_asked_about_as_the_api_server_would_make_it() -> None:
    template = PodTemplate("job/many", "spec.template", {"spec": {}}, "team")
    made = {"metadata": {"name": "x", "namespace": "team"}, "spec": {"schedulerName": "given"}}
    admission = AdmissionAnswer(pod=json.dumps(made).encode())
    scheduler = chosen_scheduler(template, admission)
    assert scheduler == "given"
    pod = pod_to_ask_about(template, admission, scheduler)
    assert pod is not None
    assert (pod["metadata"], pod["spec"]) == ({"name": "many"}, {"schedulerName": "given"})


@pytest.mark.parametrize("name", ["", "default-scheduler", None, 3])
def test_a_pod_of_kube_scheduler_names_no_other(name: object) -> None:
    template = PodTemplate("pod/one", "", {"spec": {"schedulerName": name}})
    assert chosen_scheduler(template, AdmissionAnswer()) == ""
