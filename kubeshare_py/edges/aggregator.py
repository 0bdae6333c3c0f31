"""The aggregator's HTTP server: its page for Prometheus, /livez and /readyz."""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager

from aiohttp import web

from kubeshare_py.dialects.allocation import read_back
from kubeshare_py.dialects.pod_keys import MIN_AVAILABLE
from kubeshare_py.dialects.sharedgpu import LIMIT
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.watch import follow_reduced
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import running_build, say_listening, url
from kubeshare_py.edges.process.probes import HealthCheck
from kubeshare_py.exporters.gpu_requirement import RequiringPod, requirement_page
from kubeshare_py.manifests.partial_objects import NodePod
from kubeshare_py.manifests.watch import DELETED, Changes, Codec, ListResult

# Watches the bound pods of the cluster, of each the little that `gpu_requirement` needs.
#
# The watch selects by `spec.nodeName!=`: a pod enters it when it is bound, with the annotations of
# its Binding, and leaves it only when it is deleted.


PODS = "/api/v1/pods"


class RequirementWatch:
    """Keeps the pods that hold cards, or are `scheduler`'s with a limit."""

    def __init__(self, client: KubeClient, scheduler: str) -> None:
        self._client = client
        self._scheduler = scheduler
        self._pods: dict[PodUid, RequiringPod] | None = None

    @property
    def pods(self) -> Iterable[RequiringPod] | None:
        """All pods; None before the first list. While the API server is away they stay."""
        return None if self._pods is None else self._pods.values()

    def unlisted(self) -> str:
        """Why the pods are not known, "" if they are."""
        return "the pods are not listed yet" if self._pods is None else ""

    async def run(self) -> None:
        """Watch for ever."""
        stream = follow_reduced(
            self._client,
            PODS,
            Codec(NodePod),
            self._pod,
            selector={"fieldSelector": "spec.nodeName!="},
        )
        async with aclosing(stream):
            async for update in stream:
                self._take(update)
                del update  # a list of all pods is not kept while nothing comes

    def _take(self, update: ListResult[RequiringPod | None] | Changes[NodePod]) -> None:
        if isinstance(update, ListResult):
            before = self._pods or {}
            undecoded = [PodUid(one.uid) for one in update.problems]
            kept = {uid: before[uid] for uid in undecoded if uid in before}
            self._pods = kept | {one.uid: one for one in update.items if one is not None}
            return
        pods = self._pods if self._pods is not None else {}
        for line in update.changed:
            if line.item is None:
                if line.type == DELETED and line.problem is not None:
                    pods.pop(PodUid(line.problem.uid), None)
                continue
            uid = PodUid(line.item.metadata.uid)
            found = None if line.type == DELETED else self._pod(line.item)
            if found is None:
                pods.pop(uid, None)
            else:
                pods[uid] = found

    def _pod(self, pod: NodePod) -> RequiringPod | None:
        """The values that are kept of a pod; None if it can hold no card."""
        if not pod.may_hold:
            return None
        about, labels = pod.metadata, pod.metadata.labels or {}
        held = read_back(about.annotations or {}).allocation
        is_required = (
            pod.status.phase == "Running"
            and pod.spec.scheduler_name == self._scheduler
            and LIMIT in labels
        )
        if not is_required and (held is None or not held.cards):
            return None
        return RequiringPod(
            uid=PodUid(about.uid),
            key=PodKey(about.namespace, about.name),
            node=NodeName(pod.spec.node_name),
            allocation=held,
            is_required=is_required,
            min_available=labels.get(MIN_AVAILABLE, ""),
        )


PORT = 9005
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AggregatorPage:
    """The page of one aggregator at `path`. `unix_clock` gives Unix time in seconds."""

    def __init__(
        self, watch: RequirementWatch, path: str, unix_clock: Callable[[], float] = time.time
    ) -> None:
        self._watch = watch
        self._path = path
        self._unix_clock = unix_clock
        self._build = running_build()

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page and of probes."""
        live = [HealthCheck("ping", lambda: "")]
        ready = [*live, HealthCheck("pods", self._watch.unlisted)]
        return [web.get(self._path, self._answer), *probes.routes(lambda: live, lambda: ready)]

    async def _answer(self, request: web.Request) -> web.Response:
        pods = self._watch.pods
        if pods is None:
            # A page without pods would mean that there are none.
            return web.Response(status=503, text=f"{self._watch.unlisted()}\n")
        text = requirement_page(pods, self._unix_clock(), self._build)
        return web.Response(body=text.encode(), headers={"Content-Type": _TYPE})


@asynccontextmanager
async def serve(watch: RequirementWatch, path: str, address: str, port: int) -> AsyncIterator[str]:
    """Serve while entered; yields the URL of the page. Raises OSError if it cannot listen.

    `address` "" is all, `port` 0 any free one.
    """
    application = web.Application()
    application.add_routes(AggregatorPage(watch, path).routes())
    async with listening(application, address, port, shutdown_s=1.0) as addresses:
        say_listening("kubeshare-aggregator", addresses, "http", path=path)
        yield f"{url('http', *addresses[0])}{path}"
