"""A stock kubectl against either API server."""

import json

import pytest

from kubeshare_py.embedded_cluster.serving.server import ApiServer
from tests.conformance.kubectl import KUBECTL, Kubectl

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "x"}},
    "spec": {"containers": [{"name": "a", "image": "nginx"}]},
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}
        }
    },
}


async def test_apply_creates_then_finds_everything_unchanged(kubectl: Kubectl) -> None:
    assert (
        await kubectl.apply(POD, NODE, JOB)
        == "pod/p created\nnode/n1 created\njob.batch/j created\n"
    )
    again = await kubectl.apply(POD, NODE, JOB)
    assert again == "pod/p unchanged\nnode/n1 unchanged\njob.batch/j unchanged\n"


@pytest.mark.slow
async def test_get_and_describe_show_pods_nodes_and_jobs(kubectl: Kubectl) -> None:
    await kubectl.apply(POD, NODE, JOB)
    assert (await kubectl("get", "pod", "p", "--no-headers")).split()[:4] == [
        "p",
        "0/1",
        "Pending",
        "0",
    ]
    wide = await kubectl("get", "pods", "-A", "-o", "wide", "--show-labels")
    assert "NOMINATED NODE" in wide
    assert "app=x" in wide
    shown = json.loads(await kubectl("get", "pods", "-l", "app in (x)", "-o", "json"))
    assert [item["kind"] for item in shown["items"]] == ["Pod"]
    for kind, name in (("pod", "p"), ("node", "n1"), ("job", "j"), ("ns", "default")):
        described = await kubectl("describe", kind, name)
        assert (kubectl.code, described.split()[1]) == (0, name)
    assert await kubectl("get", "pod", "x") == 'Error from server (NotFound): pods "x" not found\n'
    assert kubectl.code == 1


@pytest.mark.slow
async def test_get_w_shows_changes_as_they_happen(kubectl: Kubectl, server: ApiServer) -> None:
    await kubectl.apply(POD)
    process = await kubectl.start("get", "pods", "-w", "--no-headers")
    assert process.stdout is not None
    assert (await process.stdout.readline()).split()[:3] == [b"p", b"0/1", b"Pending"]
    await kubectl("delete", "pod", "p", "--wait=false")
    assert (await process.stdout.readline()).split()[2] == b"Terminating"
    assert (await process.stdout.readline()).split()[2] == b"Terminating"
    server.cut_watches()
    await process.wait()
    await process.communicate()


@pytest.mark.slow
async def test_metadata_is_edited_in_place(kubectl: Kubectl) -> None:
    await kubectl.apply(POD, NODE)
    assert await kubectl("label", "pod", "p", "a=b") == "pod/p labeled\n"
    assert await kubectl("annotate", "pod", "p", "c=d") == "pod/p annotated\n"
    assert await kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert "SchedulingDisabled" in await kubectl("get", "node", "n1")
    assert await kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    assert await kubectl("get", "node", "n1", "-o", "jsonpath={.spec}") == "{}"


@pytest.mark.slow
async def test_objects_are_created_by_command_line_alone(kubectl: Kubectl) -> None:
    for arguments in (
        ("ns", "team"),
        ("configmap", "c", "--from-literal=a=b"),
        ("job", "j", "--image=busybox", "--", "true"),
        ("priorityclass", "high", "--value=1000"),
    ):
        assert (await kubectl("create", *arguments)).endswith(" created\n")
    assert await kubectl("run", "r", "--image=nginx") == "pod/r created\n"
    assert await kubectl("get", "cm", "c", "-o", "jsonpath={.data.a}") == "b"


@pytest.mark.slow
async def test_waiting_and_deleting_end_when_they_should(
    kubectl: Kubectl, server: ApiServer
) -> None:
    await kubectl.apply(POD)
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", status)
    waited = await kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    assert waited == "pod/p condition met\n"
    assert (await kubectl("delete", "pod", "p")).startswith('pod "p" deleted')
    assert kubectl.code == 0
    await kubectl("delete", "pod", "p")
    assert kubectl.code == 1
    await kubectl("delete", "pod", "p", "--ignore-not-found")
    assert kubectl.code == 0


@pytest.mark.slow
async def test_events_and_resources_are_listed(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kubeshare-scheduler",
        "reportingInstance": "x",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": "no card is free",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"},
    }
    assert await kubectl("create", "-f", "-", stdin=event) == "event.events.k8s.io/p.1 created\n"
    assert "no card is free" in await kubectl("get", "events")
    assert "no card is free" in await kubectl("events", "--for", "pod/p")
    resources = await kubectl("api-resources", "--no-headers")
    assert kubectl.code == 0, resources
    assert {"pods", "nodes", "leases", "jobs"} <= {
        line.split()[0] for line in resources.splitlines()
    }
    assert (await kubectl("auth", "can-i", "create", "pods")).startswith("yes")
