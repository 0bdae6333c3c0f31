"""Tables: the rows and columns of `kubectl get`."""

import re
from typing import Any

import pytest

from kubeshare_py.embedded_cluster.kinds.pods import pod_status
from tests.embedded_cluster.api_client import JOBS, MAPS, NODES, NOW, PODS, TABLE, Api


def pod(
    status: dict[str, Any], initial: list[dict[str, Any]] | None = None, **metadata: Any
) -> dict[str, Any]:
    spec = {"containers": [{"name": "a"}], "initContainers": initial or []}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}


def container(name: str = "a", ready: bool = False, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": state}


@pytest.mark.embedded_only("ages depend on the clock")
def test_pod_tables_have_the_servers_columns_and_cells(api: Api) -> None:
    api.pod()
    api.now = NOW + 65
    table = api.get(PODS, TABLE)
    columns = table["columnDefinitions"]
    assert [(column["name"], column["priority"]) for column in columns] == [
        ("Name", 0),
        ("Ready", 0),
        ("Status", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("IP", 1),
        ("Node", 1),
        ("Nominated Node", 1),
        ("Readiness Gates", 1),
    ]
    assert columns[0]["format"] == "name"
    none = ["<none>"] * 4
    assert table["rows"][0]["cells"] == ["p", "0/1", "Pending", "0", "65s", *none]


@pytest.mark.parametrize(
    ("include", "kind"),
    [("Metadata", "PartialObjectMetadata"), ("Object", "Pod"), ("None", None)],
)
def test_rows_carry_as_much_of_the_object_as_asked(
    api: Api, include: str, kind: str | None
) -> None:
    api.pod()
    row = api.get(f"{PODS}?includeObject={include}", TABLE)["rows"][0]
    assert (row["object"] or {}).get("kind") == kind


def test_an_unknown_include_object_is_400(api: Api) -> None:
    api.get(f"{PODS}?includeObject=Foo", TABLE)
    assert api.status == 400


def test_partial_metadata_is_served_too(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    assert api.get(f"{PODS}?labelSelector=none=such", accept)["items"] is None
    assert api.get(f"{PODS}?labelSelector=none=such")["items"] == []
    api.pod()
    listed = api.get(PODS, accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert "spec" not in listed["items"][0]


@pytest.mark.parametrize(
    ("shown", "obj"),
    [
        ("Running", pod({})),
        ("Evicted", pod({"reason": "Evicted", "phase": "Failed"})),
        ("Terminating", pod({}, deletionTimestamp="x")),
        ("Unknown", pod({"reason": "NodeLost"}, deletionTimestamp="x")),
        (
            "SchedulingGated",
            pod({"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
        ),
        (
            "CrashLoopBackOff",
            pod({"containerStatuses": [container(waiting={"reason": "CrashLoopBackOff"})]}),
        ),
        ("ExitCode:3", pod({"containerStatuses": [container(terminated={"exitCode": 3})]})),
        ("Signal:9", pod({"containerStatuses": [container(terminated={"signal": 9})]})),
        (
            "Error",
            pod(
                {
                    "containerStatuses": [
                        container(terminated={"exitCode": 1, "reason": "Error"}),
                        container("b", waiting={"reason": "ImagePullBackOff"}),
                    ]
                }
            ),
        ),
        (
            "NotReady",
            pod(
                {
                    "containerStatuses": [
                        container(terminated={"exitCode": 0, "reason": "Completed"}),
                        container("b", ready=True, running={}),
                    ]
                }
            ),
        ),
        (
            "Init:0/2",
            pod(
                {"initContainerStatuses": [container("i", running={})]},
                [{"name": "i"}, {"name": "j"}],
            ),
        ),
        (
            "Init:ExitCode:1",
            pod(
                {"initContainerStatuses": [container("i", terminated={"exitCode": 1})]},
                [{"name": "i"}],
            ),
        ),
        (
            "Init:ErrImagePull",
            pod(
                {"initContainerStatuses": [container("i", waiting={"reason": "ErrImagePull"})]},
                [{"name": "i"}],
            ),
        ),
        (
            "Running",
            pod(
                {"initContainerStatuses": [{**container("i", running={}), "started": True}]},
                [{"name": "i", "restartPolicy": "Always"}],
            ),
        ),
    ],
)
def test_the_status_column_of_pods(shown: str, obj: dict[str, Any]) -> None:
    assert pod_status(obj) == shown


@pytest.mark.embedded_only("ages depend on the clock")
def test_restarts_say_when_the_last_one_was(api: Api) -> None:
    api.pod()
    finished = {"terminated": {"finishedAt": "2027-01-15T08:00:00Z"}}
    status = {
        "containerStatuses": [
            {
                "name": "a",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {}},
                "lastState": finished,
            }
        ]
    }
    api.patch(f"{PODS}/p/status", {"status": status})
    api.now = NOW + 300
    assert api.get(PODS, TABLE)["rows"][0]["cells"][1:4] == ["1/1", "Pending", "2 (5m ago)"]


def test_node_rows(api: Api) -> None:
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {
            "kubeletVersion": "v1",
            "kernelVersion": "6.1",
            "architecture": "amd64",
            "osImage": "",
        },
    }
    api.post(NODES, {"metadata": {"name": "n", "labels": labels}, "status": status})
    api.post(NODES, {"metadata": {"name": "o"}, "spec": {"unschedulable": True}})
    first, second = (row["cells"] for row in api.get(NODES, TABLE)["rows"])
    assert first == [
        "n",
        "Ready",
        "gpu,worker",
        "0s",
        "v1",
        "10.0.0.1",
        "<none>",
        "<unknown>",
        "6.1 (amd64)",
        "<unknown>",
    ]
    assert second[1:3] == ["Unknown,SchedulingDisabled", "<none>"]


@pytest.mark.embedded_only("a real Job controller starts it at once")
def test_job_rows(api: Api) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}}
    api.post(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert api.get(JOBS, TABLE)["rows"][0]["cells"][:5] == ["j", "Running", "0/1", "", "0s"]
    done = {
        "startTime": "2027-01-15T08:00:00Z",
        "completionTime": "2027-01-15T08:00:30Z",
        "succeeded": 1,
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    api.patch(f"{JOBS}/j/status", {"status": done})
    assert api.get(JOBS, TABLE)["rows"][0]["cells"][1:4] == ["Complete", "1/1", "30s"]


@pytest.mark.parametrize(
    ("url", "body", "cells"),
    [
        (MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}, ["a", 1, "0s"]),
        (
            "/apis/coordination.k8s.io/v1/namespaces/fs/leases",
            {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}},
            ["l", "me", "0s"],
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "high"}, "value": 5},
            ["high", 5, False, "0s", "PreemptLowerPriority"],
        ),
        pytest.param(
            "/api/v1/namespaces/fs/services",
            {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "nodePort": 3}]}},
            ["s", "ClusterIP", "<none>", "<none>", "80:3/TCP", "0s", "<none>"],
            marks=pytest.mark.embedded_only("its services are signposts of the proxy"),
        ),
    ],
)
def test_rows_of_the_other_kinds(api: Api, url: str, body: Any, cells: list[Any]) -> None:
    api.post(url, body)
    rows = {row["cells"][0]: row["cells"] for row in api.get(url, TABLE)["rows"]}
    assert [re.sub(r"^\ds$", "0s", str(cell)) for cell in rows[cells[0]]] == [*map(str, cells)]
