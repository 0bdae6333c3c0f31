"""Pods: what creation adds, what may change, how they are deleted."""

from datetime import datetime
from typing import Any

import pytest

from tests.embedded_cluster.api_client import JSON_PATCH, MERGE, PODS, STRATEGIC, Api

MOUNT = {"mountPath": "/v"}


def resources(**parts: Any) -> list[dict[str, Any]]:
    return [{"name": "a", "image": "nginx", "resources": parts}]


def test_a_bare_pod_gets_the_servers_defaults(api: Api) -> None:
    pod = api.pod()
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert pod["metadata"]["generation"] == 1
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    expected = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "serviceAccountName": "default",
        "serviceAccount": "default",
    }
    assert {key: spec[key] for key in expected} == expected
    assert container["resources"] == {}
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]
    assert spec["volumes"][0]["name"].startswith("kube-api-access-")


def test_the_two_no_execute_tolerations_are_appended_to_the_pods_own(api: Api) -> None:
    own = {"key": "a", "operator": "Exists"}
    tolerations = api.pod(tolerations=[own])["spec"]["tolerations"]
    assert tolerations[0] == own
    assert [entry["key"] for entry in tolerations[1:]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert {entry["tolerationSeconds"] for entry in tolerations[1:]} == {300}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:v1", "IfNotPresent"),
        ("r.io:5000/a", "Always"),
        ("a@sha256:0", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(api: Api, image: str, policy: str) -> None:
    pod = api.pod(containers=[{"name": "a", "image": image}])
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_are_copied_from_limits_in_canonical_form(api: Api) -> None:
    pod = api.pod(containers=resources(limits={"cpu": 0.5, "memory": "1024Mi"}))
    got = pod["spec"]["containers"][0]["resources"]
    assert got["limits"] == got["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert pod["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("parts", "qos"),
    [
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
    ],
)
def test_quality_of_service_sees_only_cpu_and_memory(
    api: Api, parts: dict[str, Any], qos: str
) -> None:
    assert api.pod(containers=resources(**parts))["status"]["qosClass"] == qos


@pytest.mark.parametrize(
    ("parts", "causes"),
    [
        ({"requests": {"nvidia.com/gpu": "1"}}, 1),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, 2),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, 1),
        ({"limits": {"cpu": "-1"}}, 2),
    ],
)
def test_impossible_resources_are_invalid(api: Api, parts: dict[str, Any], causes: int) -> None:
    status = api.pod(containers=resources(**parts))
    assert api.status == 422
    assert len(status["details"]["causes"]) == causes


def test_a_quantity_that_does_not_parse_is_400(api: Api) -> None:
    status = api.pod(containers=resources(limits={"cpu": "many"}))
    assert (api.status, status["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"name": "A", "image": "x"}]}, "spec.containers[0].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        (
            {"containers": [{"name": "a", "image": "x", "volumeMounts": [{**MOUNT, "name": "v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
        ),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator"),
    ],
)
def test_invalid_specs_are_refused_with_the_field(
    api: Api, spec: dict[str, Any], field: str
) -> None:
    status = api.pod(**spec)
    assert api.status == 422
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


def test_priority_comes_from_the_class(api: Api) -> None:
    api.post(
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000}
    )
    assert api.pod(priorityClassName="high")["spec"]["priority"] == 1000
    assert api.pod("s", priorityClassName="system-node-critical")["spec"]["priority"] > 10**9
    status = api.pod("q", priorityClassName="nopc")
    assert (api.status, status["reason"]) == (403, "Forbidden")
    assert status["message"] == ('pods "q" is forbidden: no PriorityClass with name nopc was found')


def test_a_gated_pod_says_so_until_the_gate_is_removed(api: Api) -> None:
    pod = api.pod(schedulingGates=[{"name": "x.io/g"}])
    condition = pod["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    api.patch(f"{PODS}/p", {"spec": {"nodeSelector": {"a": "b"}}})
    assert api.status == 200
    api.patch(f"{PODS}/p", {"spec": {"schedulingGates": None}})
    assert api.status == 200
    api.patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "x.io/h"}]}})
    assert api.status == 422


def seconds(metadata: dict[str, Any]) -> float:
    return datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()


def test_an_unbound_pod_is_gone_at_once(api: Api) -> None:
    api.pod()
    assert api.delete(f"{PODS}/p")["metadata"]["deletionGracePeriodSeconds"] == 0
    api.get(f"{PODS}/p")
    assert api.status == 404


def test_a_bound_pod_gets_its_grace_which_can_only_be_shortened(api: Api) -> None:
    api.pod()
    api.bind()
    first = api.delete(f"{PODS}/p")["metadata"]
    assert (first["deletionGracePeriodSeconds"], first["generation"]) == (30, 2)
    assert api.delete(f"{PODS}/p", {"gracePeriodSeconds": 60})["metadata"] == first
    shorter = api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert 20 <= seconds(first) - seconds(shorter) <= 25
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert api.status == 200
    api.get(f"{PODS}/p")
    assert api.status == 404


def test_a_finished_pod_is_gone_at_once_though_bound(api: Api) -> None:
    api.pod()
    api.bind()
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    api.delete(f"{PODS}/p")
    api.get(f"{PODS}/p")
    assert api.status == 404


def test_eviction_deletes_with_grace(api: Api) -> None:
    api.pod()
    api.bind()
    status = api.post(f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert (api.status, status["status"]) == (201, "Success")
    assert "deletionTimestamp" in api.get(f"{PODS}/p")["metadata"]


def test_spec_and_status_change_through_their_own_url_only(api: Api) -> None:
    api.pod()
    pod = api.patch(f"{PODS}/p", {"status": {"phase": "Running"}})
    assert pod["status"]["phase"] == "Pending"
    change = {
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
        "metadata": {"annotations": {"x": "y"}},
    }
    pod = api.patch(f"{PODS}/p/status", change)
    assert "nodeName" not in pod["spec"]
    assert pod["status"]["phase"] == "Running"
    assert pod["metadata"]["annotations"] == {"x": "y"}
    assert pod["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
        {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]},
        {"nodeName": "n1"},
        {"schedulerName": "other"},
        {"nodeSelector": {"a": "b"}},
    ],
)
def test_most_of_a_pods_spec_is_fixed(api: Api, change: dict[str, Any]) -> None:
    api.pod()
    status = api.patch(f"{PODS}/p", {"spec": change}, STRATEGIC)
    assert (api.status, status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"][0]["reason"] == "FieldValueForbidden"
    assert status["details"]["causes"][0]["field"] == "spec"


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "a", "image": "other:1"}]},
        {"activeDeadlineSeconds": 60},
    ],
)
def test_images_and_deadlines_may_change_and_raise_the_generation(
    api: Api, change: dict[str, Any]
) -> None:
    api.pod()
    pod = api.patch(f"{PODS}/p", {"spec": change}, STRATEGIC)
    assert (api.status, pod["metadata"]["generation"]) == (200, 2)


def test_tolerations_may_only_be_added(api: Api) -> None:
    held = api.pod()["spec"]["tolerations"]
    added = [*held, {"key": "x", "operator": "Exists"}]
    api.patch(f"{PODS}/p", {"spec": {"tolerations": added}}, MERGE)
    assert api.status == 200
    api.patch(f"{PODS}/p", {"spec": {"tolerations": held}}, MERGE)
    assert api.status == 422


def test_a_strategic_patch_of_one_container_keeps_the_other(api: Api) -> None:
    api.pod(containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "y"}])
    change = {"spec": {"containers": [{"name": "b", "image": "z"}]}}
    pod = api.patch(f"{PODS}/p", change, STRATEGIC)
    assert [entry["image"] for entry in pod["spec"]["containers"]] == ["x", "z"]
    api.patch(f"{PODS}/p", change, MERGE)
    assert api.status == 422


def test_a_patch_without_effect_keeps_the_version(api: Api) -> None:
    api.pod()
    first = api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    again = api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert again == first


def test_json_patches_that_fail_are_422_and_stale_versions_409(api: Api) -> None:
    api.pod()
    test = [{"op": "test", "path": "/metadata/name", "value": "q"}]
    status = api.patch(f"{PODS}/p", test, JSON_PATCH)
    assert api.status == 422
    assert status["message"] == ("the server rejected our request due to an error in our request")
    api.patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/nope"}], JSON_PATCH)
    assert api.status == 422
    api.patch(f"{PODS}/p", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}})
    assert api.status == 409
    add = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]
    assert api.patch(f"{PODS}/p", add, JSON_PATCH)["metadata"]["labels"] == {"x": "y"}


def test_logs_and_streams_answer_something_sensible(api: Api) -> None:
    api.pod()
    api.get(f"{PODS}/p/log")
    assert api.status == 204
    status = api.get(f"{PODS}/p/exec")
    assert (api.status, status["message"]) == (400, "pod p does not have a host assigned")


@pytest.mark.embedded_only("no kubelet answers elsewhere")
def test_the_log_of_a_bound_pod_is_one_line(api: Api) -> None:
    api.pod()
    api.bind()
    assert api.get(f"{PODS}/p/log").count("\n") == 1
    assert api.answer.content_type == "text/plain"
