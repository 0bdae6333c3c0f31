"""The scheduler's real state endpoint with views of our choice, alone or behind an API server."""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from kubeshare_py.configuration.scheduler import Server
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.scheduler.endpoints import serve
from kubeshare_py.edges.scheduler.state_access import StateAccess
from kubeshare_py.edges.scheduler.state_api import StateApi, Views, ViewStreams
from kubeshare_py.embedded_cluster.apiserver.requests import ApiAnswer
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, ApiResponse
from kubeshare_py.embedded_cluster.serving.server import ApiServer
from kubeshare_py.manifests.state_group import GROUP
from kubeshare_py.views.view import ClusterView, WhyView
from tests.edges.answered_pods import OF_REVIEWS
from tests.terminal.views import a_small_view, a_why

TOKEN = "the-scheduler's-token"


@dataclass
class Served:
    """Where the endpoint is; `ready` and `view` may be changed while it runs."""

    url: str
    ca_file: str
    token_file: str
    ready: bool = True
    view: ClusterView | None = None
    whys: dict[tuple[str, str], WhyView] = field(
        default_factory=lambda: {("default", "train"): a_why()}
    )


@asynccontextmanager
async def served(folder: Path, *tokens: str) -> AsyncIterator[Served]:
    """Answer with the small view; only default/train has a why."""
    files = make_certificates(folder)
    token_file, own = folder / "tokens", folder / "token"
    token_file.write_text("\n".join((TOKEN, *tokens)))
    own.write_text(f"{TOKEN}\n")
    state = Served("", str(files.ca_file), str(own))
    settings = Server(
        bind_address="127.0.0.1",
        port=0,
        token_file=str(token_file),
    )

    def why(key: PodKey) -> Generator[None, None, WhyView | None]:
        yield
        return state.whys.get((key.namespace, key.name))

    def shown() -> list[ClusterView]:
        return [state.view or a_small_view()]

    streams = ViewStreams()
    views = Views(
        ready=lambda: state.ready,
        cluster=lambda topology, sees: shown(),
        pods=lambda namespace, sees: [of_namespace(one, namespace) for one in shown()],
        why=lambda key, sees: why(key),
        **OF_REVIEWS,
    )
    async with serve(
        settings,
        files.server_context(),
        StateApi(views, StateAccess(tokens=(TOKEN, *tokens)), streams).routes(),
    ) as url:
        state.url = url
        yield state


def of_namespace(view: ClusterView, namespace: str) -> ClusterView:
    pods = (pod for pod in view.pods if namespace in ("", pod.namespace))
    return replace(view, pods=tuple(pods))


class Forwarding(ApiServer):
    """An API server that forwards the scheduler's API group to it, once it is there."""

    target: Served | None = None
    #: Of the last request of all.
    headers: Sequence[tuple[str, str]] = ()

    async def perform(self, asked: ApiRequest, request: web.Request) -> ApiAnswer:
        self.headers = [*request.headers.items()]
        if self.target is None or not asked.path.startswith(f"/apis/{GROUP}"):
            return await super().perform(asked, request)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                asked.method,
                self.target.url + asked.path,
                params=request.query,
                headers={"Authorization": f"Bearer {TOKEN}"},
                data=asked.body or None,
                ssl=self.client_context(),
            ) as answer,
        ):
            return ApiResponse(status=answer.status, body=await answer.read())


@dataclass(frozen=True)
class Behind:
    """An API server with its kubeconfig."""

    server: Forwarding
    kubeconfig: str
    client: KubeClient


@asynccontextmanager
async def api_server(folder: Path) -> AsyncIterator[Behind]:
    """One that knows nothing of a scheduler."""
    async with Forwarding(directory=folder) as server:
        kubeconfig = str(server.write_kubeconfig(folder / "kubeconfig"))
        async with KubeClient(load(kubeconfig)) as client:
            yield Behind(server, kubeconfig, client)


@asynccontextmanager
async def behind_api_server(folder: Path) -> AsyncIterator[tuple[Behind, Served]]:
    """Both; a request that is forwarded has a token for the scheduler's own port."""
    async with api_server(folder) as behind, served(folder) as state:
        behind.server.target = state
        yield behind, state
