"""The scheduler's real state endpoint with views of our choice, alone or behind an API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.view import ClusterView, WhyView
from kubeshare_py.edges.api_server import ApiServer
from kubeshare_py.edges.certificates import make_certificates
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_config import load
from kubeshare_py.edges.leadership import publish
from kubeshare_py.edges.state_server import serve
from kubeshare_py.framework.configuration import Server
from tests.terminal.views import a_small_view, a_why

ADDRESS = "https:kubeshare-scheduler:10259"
TOKEN = "the-scheduler's-token"


@dataclass
class Served:
    """Where the endpoint is; `ready` and `view` may be changed while it runs."""

    url: str
    ca_file: str
    token_file: str
    ready: bool = True
    view: ClusterView | None = None


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
        certificate_file=str(files.certificate_file),
        key_file=str(files.key_file),
        token_file=str(token_file),
    )

    def why(key: PodKey) -> WhyView | None:
        return a_why() if key == PodKey("default", "train") else None

    async with serve(
        settings,
        ready=lambda: state.ready,
        cluster=lambda _: [state.view or a_small_view()],
        why=why,
    ) as url:
        state.url = url
        yield state


@dataclass(frozen=True)
class Behind:
    """An API server with its kubeconfig; the scheduler is published there unless told not to."""

    server: ApiServer
    kubeconfig: str
    client: KubeClient


@asynccontextmanager
async def api_server(folder: Path, *, address: str = ADDRESS) -> AsyncIterator[Behind]:
    """Without an address there is no Lease."""
    async with ApiServer(directory=folder) as server:
        kubeconfig = str(server.write_kubeconfig(folder / "kubeconfig"))
        async with KubeClient(load(kubeconfig)) as client:
            if address:
                assert not await publish(client, "kube-system", "kubeshare-scheduler", address)
            yield Behind(server, kubeconfig, client)


@asynccontextmanager
async def behind_api_server(folder: Path) -> AsyncIterator[tuple[Behind, Served]]:
    """Both, the way leading from one to the other, and the user's token known to the scheduler."""
    async with (
        api_server(folder) as behind,
        served(folder, behind.server.tokens["admin"]) as state,
    ):
        tls = behind.server.client_context()
        behind.server.proxy_to("kube-system", "kubeshare-scheduler", state.url, tls)
        yield behind, state
