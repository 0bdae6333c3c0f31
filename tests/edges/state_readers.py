"""The routes of the state group on a plain HTTP server, and readers with rights of our choice."""

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO

from aiohttp import web
from aiohttp.test_utils import TestClient

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.edges.kube.delegated_auth import (
    KEPT_S,
    NOT_VALID,
    Denial,
    NonResourceAttributes,
    ResourceAttributes,
    forbidden,
)
from kubeshare_py.edges.scheduler.state_access import StateAccess
from kubeshare_py.edges.scheduler.state_api import StateApi, Views, ViewStreams
from kubeshare_py.manifests.state_group import UserInfo
from kubeshare_py.scheduling.explain.question import Sees
from kubeshare_py.views.view import ClusterView, ProspectView, WhyView
from tests.edges.answered_pods import OF_REVIEWS, prospect
from tests.edges.served_app import asking
from tests.terminal.views import a_small_view, a_why

ROOT = "/apis/state.kubeshare.io/v1"


@dataclass
class Rights:
    """What users may do: (verb, resource, namespace), "" for the whole cluster."""

    of: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    asked: list[NonResourceAttributes | ResourceAttributes] = field(default_factory=list)
    away: bool = False

    async def user(self, token: str) -> UserInfo | Denial:
        return UserInfo(token) if token in self.of else NOT_VALID

    async def refuses(
        self,
        user: UserInfo,
        asked: NonResourceAttributes | ResourceAttributes,
        kept_s: float = KEPT_S,
    ) -> Denial | None:
        self.asked.append(asked)
        if self.away:
            return Denial(HTTPStatus.SERVICE_UNAVAILABLE, "the API server cannot be asked")
        assert isinstance(asked, ResourceAttributes)
        own = self.of.get(user.username, set())
        places = {"", asked.namespace}
        allowed = any((asked.verb, asked.resource, place) in own for place in places)
        return None if allowed else forbidden(user, asked)


@dataclass
class State:
    """What the scheduler says; `ready` and `portions` may be changed while it is served."""

    client: TestClient[web.Request, web.Application]
    rights: Rights
    ready: bool = True
    #: Namespaces that the reader of the last answer was seen to see.
    seen: list[str] = field(default_factory=list)

    async def ask(self, path: str, user: str = "", **headers: str) -> tuple[int, dict[str, object]]:
        """GET below the group, as kube-apiserver forwards it for a user."""
        given = {**({"X-Remote-User": user} if user else {}), **headers}
        async with self.client.get(path, headers=given) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: bytes, user: str = "") -> tuple[int, dict[str, object]]:
        """POST below the group, in the same way."""
        given = {"X-Remote-User": user} if user else {}
        async with self.client.post(path, headers=given, data=BytesIO(body)) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def state_of(rights: Rights, *tokens: str) -> AsyncIterator[State]:
    """Serve the small view; only default/train has a why."""
    held: list[State] = []

    def shown(sees: Sees) -> Iterator[ClusterView]:
        state = held[0]
        state.seen[:] = [one for one in ("default", "team") if sees(one)]
        yield a_small_view()

    def why(key: PodKey, sees: Sees) -> Generator[None, None, WhyView | None]:
        yield
        held[0].seen[:] = [one for one in ("default", "team") if sees(one)]
        return a_why() if key == PodKey("default", "train") else None

    def forwarded(request: web.Request) -> UserInfo | None:
        name = request.headers.get("X-Remote-User")
        return UserInfo(name) if name else None

    def noted(pod: Pod, sees: Sees) -> Generator[None, None, ProspectView | None]:
        held[0].seen[:] = [one for one in ("default", "team") if sees(one)]
        return prospect(pod, sees)

    views = Views(
        ready=lambda: held[0].ready,
        cluster=lambda topology, sees: shown(sees),
        pods=lambda namespace, sees: shown(sees),
        why=why,
        **{**OF_REVIEWS, "prospect": noted},
    )
    access = StateAccess(
        tokens=tokens,
        reviews=rights,
        forwarded=forwarded,
        namespaces=lambda: {"default", "team"},
    )
    async with asking(StateApi(views, access, ViewStreams()).routes()) as client:
        held.append(State(client, rights))
        yield held[0]
