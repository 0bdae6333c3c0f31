"""Pasted manifests become questions, or a sentence about what is wrong with them."""

import json

import pytest

from kubeshare_py.dashboard import what_if
from kubeshare_py.manifests.workloads import AdmissionAnswer

POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {sharedgpu/gpu_request: "0.5"}}
spec: {schedulerName: mine, containers: [{name: a, image: b}]}
"""
JOB = b"""
apiVersion: batch/v1
kind: Job
metadata: {name: many, namespace: team}
spec: {template: {spec: {containers: [{name: a, image: b}]}}}
"""


def test_pods_and_templates_are_found_and_objects_without_pods_are_named() -> None:
    found = what_if.pasted(
        b"---".join((POD, JOB, b"\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"))
    )
    assert [(one.owner, one.namespace) for one in found.templates] == [
        ("pod/one", ""), ("job/many", "team"),
    ]  # fmt: skip
    assert found.skipped == ("configmap/c",)


@pytest.mark.parametrize("text", [b"a: [", b"\xff\xfe\x00", b"a: b: c", b"&a [*a]"])
def test_what_is_no_manifest_is_refused_with_its_place(text: bytes) -> None:
    with pytest.raises(what_if.Unreadable, match="the pasted text"):
        what_if.pasted(text)


def test_only_some_pods_are_asked_about_at_once() -> None:
    with pytest.raises(what_if.Unreadable, match="at most"):
        what_if.pasted(b"---".join([POD] * (what_if.MAX_PODS + 1)))


def test_the_dry_run_creates_a_pod_of_another_name_in_the_namespace() -> None:
    [template] = what_if.pasted(POD).templates
    asked = what_if.dry_run(template, "team a")
    assert asked is not None
    path, pod = asked
    assert path == "/api/v1/namespaces/team%20a/pods?dryRun=All"
    assert pod["metadata"]["generateName"]
    assert "name" not in pod["metadata"]


def test_the_pod_is_asked_about_as_the_api_server_would_make_it() -> None:
    [template] = what_if.pasted(JOB).templates
    made = {"metadata": {"name": "x", "namespace": "team"}, "spec": {"schedulerName": "given"}}
    admission = AdmissionAnswer(pod=json.dumps(made).encode())
    scheduler = what_if.chosen_scheduler(admission, template)
    assert scheduler == "given"
    asked = what_if.review(template, admission, scheduler, "team")
    assert asked is not None
    path, body = asked
    assert path == "/apis/state.kubeshare.io/v1/namespaces/team/placementreviews"
    assert body["spec"]["pod"]["metadata"] == {"name": "many"}


@pytest.mark.parametrize("name", ["", "default-scheduler"])
def test_a_pod_of_kube_scheduler_is_not_asked_about(name: str) -> None:
    [template] = what_if.pasted(POD.replace(b"mine", name.encode() or b'""')).templates
    assert what_if.chosen_scheduler(AdmissionAnswer(), template) == ""
    assert "kube-scheduler decides" in what_if.not_asked("", ("kubeshare-scheduler",))


def test_pods_of_another_scheduler_are_not_asked_about() -> None:
    assert what_if.not_asked("mine", ("mine", "other")) == ""
    assert "mine decides" in what_if.not_asked("mine", ("other",))


def test_answers_of_another_kind_are_told() -> None:
    assert what_if.scheduler_names(b'{"items": [{"metadata": {"name": "a"}}]}') == ("a",)
    assert "does not answer" in str(what_if.scheduler_names(b"{}"))
    assert "does not answer" in str(what_if.prospect(b"[]"))
