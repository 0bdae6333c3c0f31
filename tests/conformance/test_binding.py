"""POST pods/binding: what one write does, and every way it is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.embedded_cluster.api_client import NODES, PODS, Api

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(autouse=True)
def node(api: Api) -> None:
    api.post(NODES, {"metadata": {"name": "n1", "labels": {ZONE: "z1", "other": "x"}}})


def test_binding_writes_node_annotations_labels_and_condition_at_once(api: Api) -> None:
    pod = api.pod()
    api.patch(f"{PODS}/p", {"metadata": {"annotations": {"old": "1", "kept": "2"}}})
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
    }
    before = {"conditions": [unschedulable], "nominatedNodeName": "n2"}
    api.patch(f"{PODS}/p/status", {"status": before})
    watch = api.watch(f"{PODS}?resourceVersion={api.revision()}")
    uid = pod["metadata"]["uid"]
    status = api.bind(uid=uid, annotations={"old": "new"}, labels={"l": "v"})
    assert (api.status, status["status"]) == (201, "Success")
    (event,) = watch.events()
    bound = event["object"]
    assert event["type"] == "MODIFIED"
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"old": "new", "kept": "2"}
    assert bound["metadata"]["labels"] == {"l": "v", ZONE: "z1"}
    assert bound["metadata"]["generation"] == 1
    assert "nominatedNodeName" not in bound["status"]
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "reason" not in condition


def test_binding_checks_neither_node_nor_phase_nor_annotation_keys(api: Api) -> None:
    api.pod()
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}})
    api.bind(node="ghost", annotations={"bad key!!": "x"})
    assert api.status == 201
    api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert api.status == 422
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    assert api.status == 422


def test_a_dry_run_binds_nothing(api: Api) -> None:
    api.pod()
    body = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    api.post(f"{PODS}/p/binding?dryRun=All", body)
    assert api.status == 201
    assert "nodeName" not in api.get(f"{PODS}/p")["spec"]


def wrong_uid(api: Api) -> Any:
    api.pod()
    return api.bind(uid="zzz")


def stale_version(api: Api) -> Any:
    api.pod()
    return api.bind(resourceVersion="1")


def bound_already(api: Api) -> Any:
    api.pod()
    api.bind()
    return api.bind()


def gated(api: Api) -> Any:
    api.pod(schedulingGates=[{"name": "x.io/g"}])
    return api.bind()


def being_deleted(api: Api) -> Any:
    api.pod()
    api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["x.io/f"]}})
    api.delete(f"{PODS}/p")
    return api.bind()


@pytest.mark.parametrize(
    ("attempt", "kind", "text"),
    [
        (wrong_uid, "pods", "Precondition failed: UID in precondition"),
        (stale_version, "pods", "Precondition failed: ResourceVersion in precondition"),
        (bound_already, "pods/binding", 'is already assigned to node "n1"'),
        (gated, "pods/binding", "has non-empty .spec.schedulingGates"),
        (being_deleted, "pods/binding", "is being deleted"),
    ],
)
def test_conflicts_name_their_kind_and_reason(
    api: Api, attempt: Callable[[Api], Any], kind: str, text: str
) -> None:
    status = attempt(api)
    assert (api.status, status["reason"]) == (409, "Conflict")
    assert status["details"]["kind"] == kind
    assert text in status["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"metadata": {"name": "q"}, "target": {"name": "n1"}}, 400),
        ({"metadata": {"name": "p", "namespace": "x"}, "target": {"name": "n1"}}, 400),
        ({"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n1"}}, 500),
        ({"metadata": {"name": "p"}, "target": {"kind": "Node"}}, 500),
    ],
)
def test_bindings_that_make_no_sense(api: Api, body: Any, code: int) -> None:
    api.pod()
    status = api.post(f"{PODS}/p/binding", body)
    assert api.status == code
    assert ("reason" in status) == (code == 400)


def test_a_missing_pod_is_404(api: Api) -> None:
    status = api.bind("nobody")
    assert (api.status, status["details"]["kind"]) == (404, "pods")
