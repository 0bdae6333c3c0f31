"""How a simulated controller does what its book asks for."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.embedded_cluster.controllers.controller import (
    Change,
    ControllerCache,
    ControllerEvent,
    ControllerWork,
    Creation,
)
from kubeshare_py.embedded_cluster.controllers.deployments import DeploymentCache
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    DEPLOYMENTS,
    REPLICA_SETS,
    UnstructuredObject,
)
from kubeshare_py.embedded_cluster.serving.simulated_controllers import ControllerWorker
from tests.embedded_cluster.embedded import cluster
from tests.patience import PATIENCE_S

NOW = 1_800_000_000.0
LABELS = {"app": "w"}
DONE = ControllerEvent("Normal", "Done", "did {name}")


class Told(ControllerCache):
    """Asks for what the test says, once; `over` when that was answered."""

    role = DeploymentCache.role

    def __init__(self, owner: UnstructuredObject, work: ControllerWork) -> None:
        super().__init__()
        self.over = asyncio.Event()
        self.why = ""
        self._work = work
        for kind in self.role.watched:
            self.listed(kind, [owner] if kind == DEPLOYMENTS else [], 0.0)

    def work_for(self, owner: UnstructuredObject, now: float) -> ControllerWork:
        return self._work

    def settled(self, uid: str) -> None:
        self.over.set()

    def refused(self, uid: str, why: str) -> None:
        self.why = why
        self.over.set()


def workload(kind: str, name: str) -> dict[str, Any]:
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def made(client: KubeClient, kind: str, path: str, name: str) -> UnstructuredObject:
    return msgspec.convert(await client.create(path, workload(kind, name)), UnstructuredObject)


async def do(client: KubeClient, owner: UnstructuredObject, work: ControllerWork) -> str:
    """Have it done; why it was refused, "" if it was not."""
    book = Told(owner, work)
    worker = ControllerWorker(client, book, 60.0, lambda: NOW)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        worker.news()
        async with asyncio.timeout(PATIENCE_S):
            await book.over.wait()
        running.cancel()
    return book.why


async def events(client: KubeClient) -> list[str]:
    found = await client.list_all("/api/v1/namespaces/default/events")
    return [event["message"] for event in found]


@pytest.mark.parametrize("faster", [False, True])
async def test_an_object_that_changed_meanwhile_is_left_alone(tmp_path: Path, faster: bool) -> None:
    async with cluster(tmp_path) as (_, client):
        sets = REPLICA_SETS.collection("default")
        owner = await made(client, "Deployment", DEPLOYMENTS.collection("default"), "w")
        seen = await made(client, "ReplicaSet", sets, "r")
        if faster:
            await client.merge_patch(f"{sets}/r", {"spec": {"replicas": 2}})
        change = Change(object=seen, body={"spec": {"replicas": 5}}, done=DONE)
        assert await do(client, owner, ControllerWork(change=(change,))) == ""
        after = (await client.get(f"{sets}/r"))["spec"]["replicas"]
        told = await events(client)
    assert (after, told) == ((2, []) if faster else (5, ["did r"]))


async def test_a_name_that_is_taken_is_no_failure_but_a_refusal_is(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        owner = await made(client, "Deployment", DEPLOYMENTS.collection("default"), "w")
        await made(client, "ReplicaSet", REPLICA_SETS.collection("default"), "r")
        refused = ControllerEvent("Warning", "No", "no: {error}")
        taken = Creation(body=workload("ReplicaSet", "r"), made=DONE, refused=refused)
        assert await do(client, owner, ControllerWork(create=(taken,))) == ""
        assert await events(client) == []
        wrong = workload("ReplicaSet", "s")
        wrong["spec"]["selector"] = {}
        bad = Creation(body=wrong, made=DONE, refused=refused)
        why = await do(client, owner, ControllerWork(create=(bad,)))
        (told,) = await events(client)
    assert "empty selector" in why
    assert told.startswith("no: ")
    assert "empty selector" in told
