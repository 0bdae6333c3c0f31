"""Jobs, events, discovery: what is special about each."""

from typing import Any

import pytest

from tests.controlplane.build import kubernetes_version
from tests.embedded_cluster.api_client import JOBS, STRATEGIC, TABLE, Api

CORE = "/api/v1/namespaces/fs/events"
NEW = "/apis/events.k8s.io/v1/namespaces/fs/events"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


OLD = pytest.mark.embedded_only("for kubectl 1.27; real servers no longer speak it")


def job(**spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}
    return {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}, **spec}}


def new_event(**fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p.1"},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "kubeshare-scheduler",
        "reportingInstance": "host-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned fs/p to n1",
        "regarding": {"kind": "Pod", "namespace": "fs", "name": "p", "uid": "u1"},
        **fields,
    }


def test_a_job_gets_defaults_and_a_selector_of_its_own(api: Api) -> None:
    created = api.post(f"{JOBS}?dryRun=All", job())
    spec, uid = created["spec"], created["metadata"]["uid"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert spec["template"]["metadata"]["labels"] == created["metadata"]["labels"] == labels
    expected = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert {key: spec[key] for key in expected} == expected
    assert created["metadata"]["generation"] == 1


def test_completions_stay_unset_when_only_parallelism_is_given(api: Api) -> None:
    assert "completions" not in api.post(JOBS, job(parallelism=3))["spec"]


def test_a_job_deleted_without_options_orphans_its_pods(api: Api) -> None:
    api.post(JOBS, job())
    assert api.delete(f"{JOBS}/j")["metadata"]["finalizers"] == ["orphan"]
    api.delete(f"{JOBS}/j", {"propagationPolicy": "Background"})
    api.get(f"{JOBS}/j")
    assert api.status == 404


def test_a_jobs_template_is_fixed_and_parallelism_is_not(api: Api) -> None:
    api.post(JOBS, job())
    changed = api.patch(f"{JOBS}/j", {"spec": {"parallelism": 2}}, STRATEGIC)
    assert (api.status, changed["metadata"]["generation"]) == (200, 2)
    containers = [{"name": "a", "image": "y"}]
    change = {"spec": {"template": {"spec": {"containers": containers}}}}
    status = api.patch(f"{JOBS}/j", change, STRATEGIC)
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.template"]


def test_a_job_whose_pods_restart_always_is_invalid(api: Api) -> None:
    body = job()
    del body["spec"]["template"]["spec"]["restartPolicy"]
    status = api.post(JOBS, body)
    assert status["details"]["causes"][0]["field"] == "spec.template.spec.restartPolicy"


@pytest.mark.embedded_only("a real Job controller writes it too")
def test_a_jobs_status_changes_through_its_own_url(api: Api) -> None:
    api.post(JOBS, job())
    api.patch(f"{JOBS}/j", {"status": {"active": 1}})
    assert api.get(f"{JOBS}/j")["status"] == {}
    api.patch(f"{JOBS}/j/status", {"status": {"active": 1}})
    assert api.get(f"{JOBS}/j")["status"] == {"active": 1}


def test_an_event_is_one_object_seen_through_two_groups(api: Api) -> None:
    created = api.post(NEW, new_event())
    assert (api.status, created["apiVersion"]) == (201, "events.k8s.io/v1")
    assert created["note"].startswith("Successfully")
    selector = "involvedObject.name=p,involvedObject.uid=u1"
    (core,) = api.get(f"{CORE}?fieldSelector={selector}")["items"]
    assert core["message"] == created["note"]
    assert core["involvedObject"] == created["regarding"]
    assert core["reportingComponent"] == "kubeshare-scheduler"
    assert api.get(f"{NEW}?fieldSelector=regarding.name=p")["items"][0]["note"] == created["note"]


@pytest.mark.embedded_only("ages depend on the clock")
def test_event_rows_begin_with_last_seen_and_end_with_the_name(api: Api) -> None:
    api.post(NEW, new_event())
    table = api.get(CORE, TABLE)
    assert [column["name"] for column in table["columnDefinitions"]][:4] == [
        "Last Seen",
        "Type",
        "Reason",
        "Object",
    ]
    assert table["rows"][0]["cells"] == [
        "0s",
        "Normal",
        "Scheduled",
        "pod/p",
        "",
        "kubeshare-scheduler, host-1",
        "Successfully assigned fs/p to n1",
        "0s",
        "1",
        "p.1",
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"eventTime": "2027-01-15T08:00:00Z"}, 400),
        ({"eventTime": None}, 422),
        ({"action": ""}, 422),
        ({"reportingController": "not a name"}, 422),
        ({"note": "x" * 1025}, 422),
        ({"type": "Odd"}, 422),
        ({"series": {"count": 1}}, 422),
        ({"regarding": {"kind": "Node", "name": "n"}}, 422),
        ({"regarding": {"kind": "Pod", "namespace": "other"}}, 201),
    ],
)
def test_events_that_the_real_server_refuses(api: Api, fields: dict[str, Any], code: int) -> None:
    api.post(NEW, new_event(**fields))
    assert api.status == code


def test_only_the_series_of_an_event_may_change(api: Api) -> None:
    api.post(NEW, new_event())
    series = {"count": 2, "lastObservedTime": "2027-01-15T08:01:00.000000Z"}
    changed = api.patch(f"{NEW}/p.1", {"series": series}, STRATEGIC)
    assert (api.status, changed["series"]) == (200, series)
    api.patch(f"{NEW}/p.1", {"note": "other"}, STRATEGIC)
    assert api.status == 422


def test_core_events_keep_the_old_loose_rules(api: Api) -> None:
    body = {
        "metadata": {"name": "old"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "fs"},
        "reason": "Started",
        "message": "m",
        "count": 3,
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "source": {"component": "kubelet", "host": "n1"},
    }
    created = api.post(CORE, body)
    assert (api.status, created["count"]) == (201, 3)
    body["involvedObject"] = {"kind": "Pod", "name": "p", "namespace": "zz"}
    body["metadata"] = {"name": "other"}
    api.post(CORE, body)
    assert api.status == 422


@pytest.mark.parametrize(
    "version",
    ["v2", pytest.param("v2beta1", marks=OLD)],
)
def test_aggregated_discovery_names_its_form_in_the_content_type(api: Api, version: str) -> None:
    body = api.get("/apis", f"{AGGREGATED.format(version)},application/json")
    kind = api.answer.content_type.split(";")
    assert {"g=apidiscovery.k8s.io", f"v={version}", "as=APIGroupDiscoveryList"} < {*kind}
    assert body["kind"] == "APIGroupDiscoveryList"
    names = [item["metadata"]["name"] for item in body["items"]]
    assert "batch" in names
    core = api.get("/api", AGGREGATED.format(version))["items"][0]
    pods = next(r for r in core["versions"][0]["resources"] if r["resource"] == "pods")
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert pods["scope"] == "Namespaced"
    assert {part["subresource"] for part in pods["subresources"]} >= {"status", "binding"}


def test_legacy_discovery_is_served_to_plain_json(api: Api) -> None:
    assert api.get("/api")["versions"] == ["v1"]
    groups = api.get("/apis")
    assert groups["kind"] == "APIGroupList"
    listed = api.get("/api/v1")
    assert listed["groupVersion"] == "v1"
    eviction = next(r for r in listed["resources"] if r["name"] == "pods/eviction")
    assert (eviction["group"], eviction["version"]) == ("policy", "v1")
    assert "jobs" in {row["name"] for row in api.get("/apis/batch/v1")["resources"]}
    assert api.get("/apis/batch")["preferredVersion"]["groupVersion"] == "batch/v1"
    api.get("/apis/nobody")
    assert api.status == 404


def test_every_kind_has_a_patch_with_field_validation_in_openapi(api: Api) -> None:
    paths = api.get("/openapi/v3")["paths"]
    url = paths["api/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/api/v1?hash=")
    document = api.get(url)
    kinds = {
        path["patch"]["x-kubernetes-group-version-kind"]["kind"]
        for path in document["paths"].values()
        if "fieldValidation" in {p["name"] for p in path.get("patch", {}).get("parameters", [])}
    }
    assert {"Pod", "Node", "ConfigMap"} <= kinds
    api.get("/openapi/v3/apis/nobody/v1")
    assert api.status == 404


@pytest.mark.embedded_only("a real server has all schemas")
def test_openapi_v2_is_an_empty_document_in_either_format(api: Api) -> None:
    assert api.get("/openapi/v2")["paths"] == {}
    assert api.get("/openapi/v2", "application/x.openapi.v2@v1.0+protobuf") == ""
    assert api.answer.content_type.endswith("v2.v1.0+protobuf")


def test_the_version_parses(api: Api) -> None:
    assert api.get("/version")["gitVersion"].removesuffix("-sim") == kubernetes_version()
