"""The stage of the stories: a whole cluster, and a driver that uses only the Kubernetes API.

An observer watches every story: whatever happens in it, no card may ever give more than it has.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.scheduler.event_logging import LogSettings, RunOptions
from kubeshare_py.edges.scheduler.writes.kube_api import HAND_OVER_S
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from kubeshare_py.embedded_cluster.programs.demo_cluster import running_scheduler
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster
from kubeshare_py.embedded_cluster.serving.server import Fault
from kubeshare_py.manifests.watch import Codec, ListResult
from kubeshare_py.scheduling.machine import Machine
from tests.conftest import NewCluster
from tests.module_forks import forked_module
from tests.patience import PATIENCE_S
from tests.stories.observer import Observer

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = "/api/v1/nodes"
#: The reasons that this scheduler writes.
REASONS = {reason.value for reason in WaitingReason}
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
VISIBLE = {
    "name": "NVIDIA_VISIBLE_DEVICES",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['sharedgpu/gpu_uuid']"}},
}

Json = dict[str, Any]


def gpu(request: str, limit: str = "1.0", **more: str) -> dict[str, str]:
    """KubeShare labels; further ones by their name without the prefix."""
    labels = {"gpu_request": request, "gpu_limit": limit, **more}
    return {f"sharedgpu/{name}": value for name, value in labels.items()}


class Stage:
    """What a story does and sees, through an administrator's client."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        nodes: Sequence[SimulatedNode],
        folder: Path,
        observer: Observer | None = None,
    ) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.observer = observer or Observer(nodes)
        self.client: KubeClient = cluster.client
        self.folder = folder
        self.faults = cluster.server.faults
        self.requests: list[ApiRequest] = []
        self._news = asyncio.Event()
        cluster.server.audit = self._asked
        cluster.collectors.asked = self._news.set
        self._schedulers = 0

    @asynccontextmanager
    async def scheduler(
        self,
        document: Json | None = None,
        hand_over_s: float = HAND_OVER_S,
        dialects: Dialects = SHAREDGPU_ALONE,
        event_log: LogSettings | None = None,
    ) -> AsyncIterator[Machine]:
        """A new scheduler process, so to speak, while entered; it reads the inventory often."""
        self._schedulers += 1
        folder = self.folder / f"scheduler-{self._schedulers}"
        folder.mkdir()
        # Who leads has stories of its own; elsewhere a lost answer must not cost a lease duration.
        # So have pods that are deleted by force, of which most stories only want to be rid.
        defaults = {
            "inventory": {"intervalSeconds": 0.1},
            "leaderElection": {"leaderElect": False},
            "forcedDeleteHoldSeconds": 0.5,
        }
        settings = read(defaults if document is None else defaults | document)
        options = RunOptions(dialects=dialects, event_log=event_log, start=forked_module)
        async with running_scheduler(
            self.cluster, folder, settings, IN_TREE, hand_over_s, options
        ) as machine:
            yield machine

    def _asked(self, request: ApiRequest) -> None:
        self.requests.append(request)
        self._news.set()

    def sent(self, method: str, path_end: str) -> list[ApiRequest]:
        """What the API server was asked so far."""
        return [
            request
            for request in self.requests
            if request.method == method and request.path.endswith(path_end)
        ]

    def bindings(self, name: str = "") -> list[Json]:
        """The Bindings that the API server was sent, of one pod or of all, in order."""
        path = f"/{name}/binding" if name else "/binding"
        return [json.loads(one.body) for one in self.sent("POST", path)]

    async def inventory_asked(self) -> None:
        """Wait until the scheduler has heard an answer of Prometheus as it answers now."""
        queries = self.cluster.collectors.queries
        # Two more than a reading and the next: one may be for links, and one for what is used.
        await self.expect_sent(lambda: self.cluster.collectors.queries >= queries + 4)

    async def expect_sent(self, wanted: Callable[[], bool]) -> None:
        """Wait for requests to the API server, or to Prometheus."""
        async with asyncio.timeout(PATIENCE_S):
            while not wanted():
                self._news.clear()
                await self._news.wait()

    def spoil(self, **how: Any) -> None:
        """Let the next such request (or `times`) go wrong."""
        self.faults.inject(Fault(**how))

    def spoil_binds(self, **how: Any) -> None:
        """Let the next Binding (or `times`) go wrong."""
        self.spoil(method="POST", path="/binding$", **how)

    async def create(self, name: str, labels: dict[str, str] | None = None, **spec: Any) -> Json:
        """A pod for our scheduler. `requests` are those of its one container."""
        annotations = spec.pop("annotations", {})
        resources = {"requests": spec.pop("requests", {})}
        containers = [
            {"name": "main", "image": "busybox", "env": [VISIBLE], "resources": resources}
        ]
        metadata = {"name": name, "labels": labels or {}, "annotations": annotations}
        given = {"schedulerName": "kubeshare-scheduler", "containers": containers, **spec}
        return await self.client.create(
            PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": given}
        )

    async def delete(self, name: str) -> None:
        await self.client.delete(f"{PODS}/{name}")

    async def pod(self, name: str) -> Json:
        return await self.client.get(f"{PODS}/{name}")

    async def expect_eventually(
        self, name: str, wanted: Callable[[Json], bool], timeout_s: float = PATIENCE_S
    ) -> Json:
        """Wait until the pod looks like this; the last look is in the error."""
        return await self.expect_in(PODS, name, wanted, timeout_s)

    async def expect_in(
        self, path: str, name: str, wanted: Callable[[Json], bool], timeout_s: float = PATIENCE_S
    ) -> Json:
        last: Json = {}
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        try:
            async with (
                asyncio.timeout(timeout_s),
                aclosing(
                    follow(
                        self.client,
                        path,
                        codec,
                        selector={"fieldSelector": f"metadata.name={name}"},
                    )
                ) as stream,
            ):
                async for news in stream:
                    changed = [] if isinstance(news, ListResult) else [c.item for c in news.changed]
                    items = news.items if isinstance(news, ListResult) else changed
                    if items:
                        last = await self.client.get(f"{path}/{name}")
                        if wanted(last):
                            return last
        except TimeoutError as error:
            raise AssertionError(f"{name} never got there: {json.dumps(last)[:3000]}") from error
        raise AssertionError("the watch ended")

    async def expect_running(self, name: str) -> Json:
        """Wait until the pod runs."""
        return await self.expect_eventually(
            name, lambda pod: pod["status"].get("phase") == "Running"
        )

    async def expect_waiting(self, name: str, text: str = "") -> str:
        """Wait until the pod is told why it waits; the message."""

        def told(pod: Json) -> bool:
            condition = scheduled_condition(pod)
            return condition.get("reason") in REASONS and text in condition["message"]

        return str(scheduled_condition(await self.expect_eventually(name, told))["message"])

    async def expect_reasons(self, name: str, text: str = "") -> str:
        """The message of a pod that waits, without what is said of evictions."""
        return (await self.expect_waiting(name, text)).partition(" preemption: ")[0]

    async def warm_up(self) -> None:
        """Wait until the scheduler knows the cards: it places a tiny pod."""
        await self.create("warm-up", gpu("0.001"))
        await self.expect_running("warm-up")
        await self.expect_deleted("warm-up")

    async def expect_deleted(self, name: str) -> None:
        """Delete a pod and wait until it is gone."""
        await self.delete(name)
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        selector = {"fieldSelector": f"metadata.name={name}"}
        async with (
            asyncio.timeout(PATIENCE_S),
            aclosing(follow(self.client, PODS, codec, selector=selector)) as stream,
        ):
            async for news in stream:
                if isinstance(news, ListResult):
                    if not news.items:
                        return
                elif any(change.type == "DELETED" for change in news.changed):
                    return

    async def all_pods(self) -> list[Json]:
        return await self.client.list_all(PODS)

    async def expect_all(
        self, wanted: Callable[[list[Json]], bool], path: str = PODS, timeout_s: float = PATIENCE_S
    ) -> list[Json]:
        """Wait until all the objects together look like this."""
        codec: Codec[UnstructuredObject] = Codec(UnstructuredObject)
        found: list[Json] = []
        try:
            async with (
                asyncio.timeout(timeout_s),
                aclosing(follow(self.client, path, codec)) as stream,
            ):
                async for _ in stream:
                    found = await self.client.list_all(path)
                    if wanted(found):
                        break
        except TimeoutError as error:
            names = [
                (one["metadata"]["name"], one.get("spec", {}).get("nodeName")) for one in found
            ]
            raise AssertionError(f"they never got there: {names}") from error
        return found

    async def expect_event(
        self, name: str, reason: str, wanted: Callable[[Json], bool] = lambda event: True
    ) -> Json:
        """The one event about an object for this reason, once it is there and looks like this."""

        def about(found: list[Json]) -> list[Json]:
            key = (name, reason)
            return [one for one in found if (one["regarding"]["name"], one["reason"]) == key]

        def there(found: list[Json]) -> bool:
            return any(wanted(one) for one in about(found))

        [only] = about(await self.expect_all(there, EVENTS))
        return only

    async def expect_bound(self, count: int) -> list[str]:
        """Wait until so many pods have a node and all others were told why not; their names."""

        def settled(pods: list[Json]) -> bool:
            told = sum(bool(scheduled_condition(pod)) for pod in pods)
            return len(bound(pods)) == count and told == len(pods)

        return bound(await self.expect_all(settled))

    async def patch_node(self, name: str, body: Json) -> Json:
        return await self.client.merge_patch(f"{NODES}/{name}", body)

    async def place(self, name: str) -> tuple[str, str]:
        """Node and cards of a pod, once it runs."""
        pod = await self.expect_running(name)
        return pod["spec"]["nodeName"], card(pod)


def scheduled_condition(pod: Json) -> Json:
    """The PodScheduled condition, {} if there is none."""
    conditions: list[Json] = pod.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def bound(pods: list[Json]) -> list[str]:
    """Names of those that have a node."""
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


def annotations(pod: Json) -> dict[str, str]:
    """A pod's annotations, {} if there are none."""
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return found


def card(pod: Json) -> str:
    """The result annotation that names the cards."""
    return annotations(pod).get("sharedgpu/gpu_uuid", "")


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> str:
    """The cluster file: `CLUSTER` of the story's class or module, or two nodes of two cards."""
    usual = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: A100, count: 2, memory: 40GiB}]}]'
    of_module = getattr(request.module, "CLUSTER", usual)
    return str(getattr(request.cls, "CLUSTER", of_module))


@pytest.fixture
async def empty_stage(tmp_path: Path, nodes: str, new_cluster: NewCluster) -> AsyncIterator[Stage]:
    """A cluster without a scheduler, and the observer."""
    found = read_cluster(nodes)
    observer = Observer(found)
    async with new_cluster(tmp_path, found) as cluster, asyncio.TaskGroup() as group:
        watching = group.create_task(observer.run(cluster.client))
        yield Stage(cluster, found, tmp_path, observer)
        observer.listed(
            msgspec.convert(await cluster.client.list_all(PODS), list[UnstructuredObject])
        )
        watching.cancel()
    assert not observer.problems


@pytest.fixture
async def stage(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A cluster with a scheduler."""
    async with empty_stage.scheduler():
        await empty_stage.warm_up()
        yield empty_stage
