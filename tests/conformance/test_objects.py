"""Objects in general: creating, reading, replacing, deleting; who is refused and how."""

import re
import uuid
from typing import Any

import pytest

from tests.embedded_cluster.api_client import JOBS, JSON_PATCH, MAPS, NODES, PODS, STRATEGIC, Api


def config_map(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def test_a_created_object_gets_uid_time_and_version_but_a_config_map_no_generation(
    api: Api,
) -> None:
    created = api.post(MAPS, config_map())
    metadata = created["metadata"]
    assert api.status == 201
    assert str(uuid.UUID(metadata["uid"])) == metadata["uid"]
    assert metadata["resourceVersion"].isdigit()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert "generation" not in metadata
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")


def test_a_taken_name_is_a_conflict_with_details(api: Api) -> None:
    api.post(MAPS, config_map())
    status = api.post(MAPS, config_map())
    assert api.status == 409
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_a_missing_object_is_answered_with_the_exact_status(api: Api) -> None:
    assert api.get(f"{PODS}/x") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "x" not found',
        "reason": "NotFound",
        "details": {"name": "x", "kind": "pods"},
        "code": 404,
    }


def test_details_name_the_group_of_a_missing_job(api: Api) -> None:
    status = api.get(f"{JOBS}/x")
    assert status["details"] == {"name": "x", "group": "batch", "kind": "jobs"}
    assert status["message"] == 'jobs.batch "x" not found'


def test_creating_in_a_missing_namespace_is_404_but_listing_it_is_empty(api: Api) -> None:
    status = api.post("/api/v1/namespaces/zz/configmaps", config_map())
    assert (api.status, status["message"]) == (404, 'namespaces "zz" not found')
    assert api.get("/api/v1/namespaces/zz/configmaps")["items"] == []
    assert api.status == 200


def test_replacing_needs_the_current_version_or_none(api: Api) -> None:
    created = api.post(MAPS, config_map())
    api.put(f"{MAPS}/a", {**created, "data": {"k": "1"}})
    assert api.status == 200
    status = api.put(f"{MAPS}/a", {**created, "data": {"k": "2"}})
    assert (api.status, status["reason"]) == (409, "Conflict")
    assert "the object has been modified" in status["message"]
    replaced = api.put(f"{MAPS}/a", config_map(data={"k": "3"}))
    assert (api.status, replaced["data"]) == (200, {"k": "3"})
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]


def test_dry_run_answers_in_full_without_a_version_and_stores_nothing(api: Api) -> None:
    shown = api.post(f"{MAPS}?dryRun=All", config_map())
    assert api.status == 201
    assert "uid" in shown["metadata"]
    assert "resourceVersion" not in shown["metadata"]
    api.get(f"{MAPS}/a")
    assert api.status == 404


@pytest.mark.parametrize("prefix", ["gn-", "x" * 70])
def test_generated_names_are_the_prefix_and_five_quiet_characters(api: Api, prefix: str) -> None:
    name = api.post(MAPS, {"metadata": {"generateName": prefix}})["metadata"]["name"]
    assert re.fullmatch(prefix[:58] + "[bcdfghjklmnpqrstvwxz2456789]{5}", name)


@pytest.mark.embedded_only("chance is not seeded elsewhere")
def test_the_same_seed_gives_the_same_uids() -> None:
    first, second = (Api(7).post(MAPS, config_map())["metadata"]["uid"] for _ in range(2))
    assert first == second


def test_a_bad_name_is_invalid_at_metadata_name(api: Api) -> None:
    status = api.post(MAPS, config_map("Bad_N"))
    assert (api.status, status["reason"]) == (422, "Invalid")
    assert status["message"].startswith('ConfigMap "Bad_N" is invalid: metadata.name: Invalid')
    assert status["details"]["causes"][0]["field"] == "metadata.name"
    assert status["details"]["kind"] == "ConfigMap"


def test_a_body_without_any_name_is_invalid(api: Api) -> None:
    status = api.post(MAPS, {"metadata": {}})
    assert status["message"] == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


@pytest.mark.parametrize(
    ("validation", "code", "warning"),
    [
        ("Strict", 400, None),
        ("Warn", 201, '299 - "unknown field \\"foo\\""'),
        ("", 201, '299 - "unknown field \\"foo\\""'),
        ("Ignore", 201, None),
    ],
)
def test_unknown_fields_are_refused_warned_about_or_dropped(
    api: Api, validation: str, code: int, warning: str | None
) -> None:
    answer = api.post(f"{MAPS}?fieldValidation={validation}", config_map(foo=1))
    assert api.status == code
    assert dict(api.answer.headers).get("Warning") == warning
    assert "foo" not in answer
    if code == 400:
        assert answer["message"] == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            'strict decoding error: unknown field "foo"'
        )


@pytest.mark.parametrize(
    ("method", "url"),
    [("POST", f"{MAPS}/a"), ("PUT", MAPS), ("DELETE", "/api/v1/namespaces")],
)
def test_methods_that_a_url_does_not_have_are_405(api: Api, method: str, url: str) -> None:
    status = api.send(method, url, {})
    assert (api.status, status["reason"]) == (405, "MethodNotAllowed")


def test_unknown_media_types_are_refused(api: Api) -> None:
    api.send("POST", MAPS, config_map(), content_type="text/plain")
    assert api.status == 415
    api.post(MAPS, config_map())
    api.patch(f"{MAPS}/a", {}, "application/json")
    assert api.status == 415
    api.get(f"{MAPS}/a", accept="text/html")
    assert api.status == 406


@pytest.mark.embedded_only("a real server reads protobuf")
def test_a_protobuf_body_is_refused_with_a_way_out(api: Api) -> None:
    kind = "application/vnd.kubernetes.protobuf"
    status = api.send("POST", MAPS, config_map(), content_type=kind)
    assert api.status == 415
    assert "--dry-run=client -o yaml | kubectl create -f -" in status["message"]


@pytest.mark.embedded_only("a real server writes protobuf")
def test_json_is_preferred_where_protobuf_is_only_offered(api: Api) -> None:
    api.post(MAPS, config_map())
    accept = "application/vnd.kubernetes.protobuf,application/json"
    assert api.get(f"{MAPS}/a", accept)["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (["not", "an", "object"], "must be of type ConfigMap"),
        (
            {"kind": "Pod", "metadata": {"name": "a"}},
            'Pod in version "v1" cannot be handled as a ConfigMap',
        ),
        ({"metadata": {"name": "a", "namespace": "default"}}, "namespace"),
        ({"metadata": {"name": "a", "labels": "x"}}, "cannot unmarshal string"),
        ({"metadata": {"name": 3}}, "cannot unmarshal number"),
    ],
)
def test_bodies_that_make_no_sense_are_400(api: Api, body: Any, reason: str) -> None:
    status = api.post(MAPS, body)
    assert (api.status, status["reason"]) == (400, "BadRequest")
    assert reason in status["message"]


def test_a_version_in_a_new_object_is_500_as_on_the_real_server(api: Api) -> None:
    api.post(MAPS, {"metadata": {"name": "a", "resourceVersion": "1"}})
    assert api.status == 500


@pytest.mark.parametrize(
    "url", ["/api/v1/namespaces/fs/widgets", "/apis/batch/v9/jobs", "/apis/batch/v9", "/api/v2"]
)
def test_unknown_resources_are_404_in_the_servers_words(api: Api, url: str) -> None:
    status = api.get(url)
    assert (api.status, status["message"]) == (
        404,
        "the server could not find the requested resource",
    )


@pytest.mark.parametrize(
    "url", ["/nothing/here", "/apis/example.com", "/apis/example.com/v1/widgets"]
)
def test_other_paths_and_groups_are_404_in_plain_text(api: Api, url: str) -> None:
    assert api.get(url) == "404 page not found\n"
    assert api.status == 404


def test_labels_and_annotations_are_validated(api: Api) -> None:
    bad = {"metadata": {"name": "a", "labels": {"x": "a b"}, "annotations": {"bad key!!": ""}}}
    status = api.post(MAPS, bad)
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == ["metadata.labels", "metadata.annotations"]
    big = {"metadata": {"name": "a", "annotations": {"x": "y" * 262_145}}}
    assert "Too long" in api.post(MAPS, big)["message"]


def test_deleting_a_config_map_answers_success_with_its_uid(api: Api) -> None:
    uid = api.post(MAPS, config_map())["metadata"]["uid"]
    status = api.delete(f"{MAPS}/a")
    assert status["status"] == "Success"
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": uid}


def test_deleting_with_a_wrong_uid_or_as_a_dry_run_keeps_the_object(api: Api) -> None:
    api.post(MAPS, config_map())
    api.delete(f"{MAPS}/a", {"preconditions": {"uid": "zzz"}})
    assert api.status == 409
    api.delete(f"{MAPS}/a", {"dryRun": ["All"]})
    assert api.status == 200
    assert api.get(f"{MAPS}/a")["kind"] == "ConfigMap"


def test_deleting_by_label_answers_with_what_was_there(api: Api) -> None:
    for name in ("a", "b", "c"):
        labels = {"x": "2" if name == "c" else "1"}
        api.post(MAPS, {"metadata": {"name": name, "labels": labels}})
    gone = api.delete(f"{MAPS}?labelSelector=x=1")
    assert gone["kind"] == "ConfigMapList"
    assert len(gone["items"]) == 2
    assert [item["metadata"]["name"] for item in api.get(MAPS)["items"]] == ["c"]


def test_a_finalizer_keeps_an_object_until_it_is_cleared(api: Api) -> None:
    api.post(MAPS, {"metadata": {"name": "a", "finalizers": ["x.io/f"]}})
    kept = api.delete(f"{MAPS}/a")
    assert kept["metadata"]["deletionTimestamp"]
    assert kept["metadata"]["deletionGracePeriodSeconds"] == 0
    status = api.patch(f"{MAPS}/a", {"metadata": {"finalizers": ["x.io/f", "x.io/g"]}})
    assert (api.status, status["reason"]) == (422, "Invalid")
    api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})
    assert api.status == 200
    api.get(f"{MAPS}/a")
    assert api.status == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")]
)
def test_propagation_policies_leave_their_finalizer(api: Api, policy: str, finalizer: str) -> None:
    api.post(MAPS, config_map())
    kept = api.delete(f"{MAPS}/a", {"propagationPolicy": policy})
    assert kept["metadata"]["finalizers"] == [finalizer]
    assert api.status == 200


def test_a_namespace_takes_its_content_along(api: Api) -> None:
    api.post(MAPS, config_map())
    api.pod()
    api.delete("/api/v1/namespaces/fs")
    api.expect_eventually(lambda: api.get("/api/v1/namespaces/fs"), lambda _: api.status == 404)
    assert api.get("/api/v1/pods")["items"] == []


def test_a_namespace_waits_for_its_last_pod_and_takes_nothing_new(api: Api) -> None:
    api.pod()
    api.bind()
    assert api.delete("/api/v1/namespaces/fs")["status"]["phase"] == "Terminating"
    assert api.post(MAPS, config_map())["reason"] == "Forbidden"
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    api.expect_eventually(lambda: api.get("/api/v1/namespaces/fs"), lambda _: api.status == 404)


def test_the_usual_namespaces_are_there_from_the_start(api: Api) -> None:
    names = [item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]]
    assert {"default", "kube-node-lease", "kube-public", "kube-system"} <= {*names}


def test_pages_keep_the_first_version_and_count_what_remains(api: Api) -> None:
    for name in "abc":
        api.post(MAPS, config_map(name))
    first = api.get(f"{MAPS}?limit=2")
    api.post(MAPS, config_map("d"))
    token = first["metadata"]["continue"]
    api.delete(f"{MAPS}/c")
    second = api.get(f"{MAPS}?limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert first["metadata"]["remainingItemCount"] == 1
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    assert "remainingItemCount" not in api.get(f"{MAPS}?limit=2&labelSelector=!x")["metadata"]
    assert "kind" not in first["items"][0]


def past(api: Api) -> str:
    """A list as it was when only the ConfigMap a was there."""
    version = api.post(MAPS, config_map("a"))["metadata"]["resourceVersion"]
    api.delete(f"{MAPS}/a")
    api.post(MAPS, config_map("b"))
    return f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"


def test_a_list_of_an_exact_version_shows_the_past(api: Api) -> None:
    url = past(api)
    found = api.get(url)
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]
    assert f"resourceVersion={found['metadata']['resourceVersion']}&" in url


@pytest.mark.embedded_only("a real server forgets after minutes, not on demand")
def test_after_a_compaction_the_past_is_gone(api: Api) -> None:
    url = past(api)
    api.compact()
    api.get(url)
    assert api.status == 410


@pytest.mark.embedded_only("a real server forgets after minutes, not on demand")
def test_a_continue_token_from_before_a_compaction_is_gone(api: Api) -> None:
    for name in "abc":
        api.post(MAPS, config_map(name))
    token = api.get(f"{MAPS}?limit=2")["metadata"]["continue"]
    api.compact()
    status = api.get(f"{MAPS}?limit=2&continue={token}")
    assert (api.status, status["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("resourceVersionMatch=Exact", 422),
        ("continue=abc", 400),
        ("resourceVersion=abc", 400),
        ("sendInitialEvents=true&watch=true", 422),
        ("fieldSelector=spec.priority=1", 400),
        ("labelSelector=a b c", 400),
        ("limit=x", 400),
        ("resourceVersion=999999999&resourceVersionMatch=NotOlderThan", 504),
    ],
)
def test_list_options_that_make_no_sense_are_refused(api: Api, query: str, code: int) -> None:
    api.post(MAPS, config_map())
    api.get(f"{MAPS}?{query}")
    assert api.status == code


def test_yaml_bodies_are_read_too(api: Api) -> None:
    api.send("POST", MAPS, config_map(), content_type="application/yaml")
    assert api.status == 201


def test_nodes_keep_their_status_at_creation_and_get_no_taint(api: Api) -> None:
    status = {"capacity": {"cpu": 8, "memory": "32768Mi"}}
    node = api.post(NODES, {"metadata": {"name": "n1"}, "status": status})
    assert node["status"]["capacity"] == {"cpu": "8", "memory": "32Gi"}
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["spec"] == {}


def test_quantities_reported_through_status_are_canonical_too(api: Api) -> None:
    api.post(NODES, {"metadata": {"name": "n1"}})
    change = {"status": {"capacity": {"memory": "1024Mi", "nvidia.com/gpu": 4}}}
    node = api.patch(f"{NODES}/n1/status", change)
    assert node["status"]["allocatable"] == {"memory": "1Gi", "nvidia.com/gpu": "4"}
    api.patch(f"{NODES}/n1/status", {"status": {"capacity": {"cpu": "many"}}})
    assert api.status == 422


def test_taints_are_replaced_whole_while_conditions_merge_by_type(api: Api) -> None:
    first = {"key": "a", "effect": "NoSchedule"}
    condition = {"type": "Ready", "status": "True"}
    api.post(
        NODES,
        {
            "metadata": {"name": "n1"},
            "spec": {"taints": [first]},
            "status": {"conditions": [condition]},
        },
    )
    second = {"key": "b", "effect": "NoExecute"}
    node = api.patch(f"{NODES}/n1", {"spec": {"taints": [second]}}, STRATEGIC)
    assert node["spec"]["taints"] == [second]
    pressure = {"type": "MemoryPressure", "status": "False"}
    node = api.patch(f"{NODES}/n1/status", {"status": {"conditions": [pressure]}}, STRATEGIC)
    # New ones come first.
    types = [one["type"] for one in node["status"]["conditions"]]
    assert types == ["MemoryPressure", "Ready"]
    api.patch(f"{NODES}/n1", {"spec": {"taints": [{"key": "x", "effect": "Never"}]}}, STRATEGIC)
    assert api.status == 422


def test_a_lease_needs_micro_times_and_a_fresh_version(api: Api) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/fs/leases"
    bad = {"metadata": {"name": "l"}, "spec": {"renewTime": "2027-01-15T08:00:00Z"}}
    api.post(leases, bad)
    assert api.status == 400
    spec = {"renewTime": "2027-01-15T08:00:00.000000Z", "holderIdentity": "me"}
    created = api.post(leases, {"metadata": {"name": "l"}, "spec": spec})
    api.patch(f"{leases}/l", {"spec": {"renewTime": "2027-01-15T08:00:00Z"}})
    assert api.status == 422
    api.put(f"{leases}/l", {**created, "spec": {"holderIdentity": "you"}})
    assert api.status == 200
    api.put(f"{leases}/l", {**created, "spec": {"holderIdentity": "he"}})
    assert api.status == 409


@pytest.mark.embedded_only("it keeps no managedFields, so that what is left out stays")
def test_server_side_apply_creates_then_merges(api: Api) -> None:
    url = f"{MAPS}/a?fieldManager=me"
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": "1"}}
    api.patch(url, body, "application/apply-patch+yaml")
    assert api.status == 201
    again = api.patch(url, {**body, "data": {"y": "2"}}, "application/apply-patch+yaml")
    assert (api.status, again["data"]) == (200, {"x": "1", "y": "2"})
    api.patch(f"{MAPS}/a", body, "application/apply-patch+yaml")
    assert api.status == 422


def test_everybody_may_do_everything_and_is_told_who_they_are(api: Api) -> None:
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    review = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked)
    assert (api.status, review["status"]) == (201, {"allowed": True})
    review = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"]["username"] == "admin"


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ("ABC", "D", "DABC"),
        ("DABC", "CA", "DBCA"),
        ("DBCA", "CXA", "DBCXA"),
        ("DBCXA", "BY", "DBYCXA"),
    ],
)
def test_a_strategic_patch_puts_its_entries_between_the_others_in_its_own_order(
    api: Api, before: str, patch: str, after: str
) -> None:
    status = {"conditions": [{"type": one, "status": "True"} for one in before]}
    api.post(NODES, {"metadata": {"name": "n1"}, "status": status})
    change = {"conditions": [{"type": one, "status": "False"} for one in patch]}
    node = api.patch(f"{NODES}/n1/status", {"status": change}, STRATEGIC)
    assert "".join(one["type"] for one in node["status"]["conditions"]) == after


def test_sets_of_a_strategic_patch_are_ordered_likewise(api: Api) -> None:
    api.post(MAPS, {"metadata": {"name": "a", "finalizers": ["x.io/a", "x.io/c"]}})
    change = {"metadata": {"finalizers": ["x.io/b", "x.io/a"]}}
    found = api.patch(f"{MAPS}/a", change, STRATEGIC)["metadata"]["finalizers"]
    assert found == ["x.io/b", "x.io/a", "x.io/c"]


def test_times_of_conditions_that_nobody_gave_are_null(api: Api) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = api.post(NODES, {"metadata": {"name": "n1"}, "status": status})
    (condition,) = node["status"]["conditions"]
    assert condition["lastHeartbeatTime"] is condition["lastTransitionTime"] is None
    api.pod()
    pod = api.patch(f"{PODS}/p/status", {"status": status}, STRATEGIC)
    (condition,) = pod["status"]["conditions"]
    assert condition["lastProbeTime"] is condition["lastTransitionTime"] is None
    api.bind()
    conditions = api.get(f"{PODS}/p")["status"]["conditions"]
    assert {one["type"]: one["lastProbeTime"] for one in conditions} == {
        "Ready": None,
        "PodScheduled": None,
    }


def test_a_json_patch_tests_for_null_where_there_is_nothing(api: Api) -> None:
    api.post(MAPS, config_map(data={"a": "1"}))
    take = [
        {"op": "test", "path": "/data/b", "value": None},
        {"op": "add", "path": "/data/b", "value": "2"},
    ]
    assert api.patch(f"{MAPS}/a", take, JSON_PATCH)["data"] == {"a": "1", "b": "2"}
    api.patch(f"{MAPS}/a", take, JSON_PATCH)
    assert api.status == 422
