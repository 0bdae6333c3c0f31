"""The state endpoint over real HTTPS: who is let in, and what is answered when."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web

from kubeshare_py.configuration.scheduler import ConfigurationError, Server
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.kube.delegated_auth import Denial
from kubeshare_py.edges.scheduler.endpoints import serve
from kubeshare_py.edges.scheduler.state_access import StateAccess
from kubeshare_py.edges.scheduler.state_api import MAX_ASKED, StateApi, Views, ViewStreams
from kubeshare_py.manifests.state_group import ROOT
from kubeshare_py.scheduling.explain.question import Sees
from kubeshare_py.views.view import ClusterView, WhyView
from tests.edges.answered_pods import OF_REVIEWS
from tests.edges.served_state import TOKEN, Served, served
from tests.terminal.views import a_small_view, a_why

CLUSTER, WHY = f"{ROOT}/gpus", f"{ROOT}/namespaces/default/pods/train"
NOT_VALID = "a valid bearer token is needed"


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, "the-users-token") as state:
        yield state


async def ask(state: Served, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    tls = ssl.create_default_context(cafile=state.ca_file)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{state.url}{path}", headers=headers, ssl=tls) as response,
    ):
        assert response.content_type == "application/json"
        return response.status, await response.read()


async def asked(state: Served, path: str) -> tuple[int, bytes]:
    return await ask(state, path, {"Authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize("token", [TOKEN, "the-users-token"])
async def test_each_token_of_the_file_opens(state: Served, token: str) -> None:
    status, body = await ask(state, CLUSTER, {"Authorization": f"Bearer {token}"})
    assert status == 200
    assert msgspec.json.decode(body, type=ClusterView) == a_small_view()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN} x"},
        {"Authorization": "Bearer wr\u00f6ng"},
        {"X-KubeShare-Authorization": f"Bearer {TOKEN}"},
    ],
)
async def test_without_a_known_token_nothing_is_told(
    state: Served, headers: dict[str, str]
) -> None:
    for path in (CLUSTER, WHY, "/elsewhere"):
        status, body = await ask(state, path, headers)
        assert (status, msgspec.json.decode(body)["message"]) == (401, NOT_VALID)


async def test_why_answers_for_one_pod(state: Served) -> None:
    status, body = await asked(state, WHY)
    assert status == 200
    assert msgspec.json.decode(body, type=WhyView) == a_why()


async def test_a_pod_that_is_not_known_is_named(state: Served) -> None:
    status, body = await asked(state, f"{ROOT}/namespaces/default/pods/other")
    expected = "the scheduler knows no pod default/other of its own"
    assert (status, msgspec.json.decode(body)["message"]) == (404, expected)


async def test_why_is_not_answered_before_the_cluster_was_read(state: Served) -> None:
    state.ready = False
    status, body = await asked(state, WHY)
    assert status == 503
    assert b"has not read the cluster yet" in body
    state.view = replace(a_small_view(), ready=False)
    status, body = await asked(state, CLUSTER)
    assert status == 200
    assert not msgspec.json.decode(body, type=ClusterView).ready


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return make_certificates(tmp_path_factory.mktemp("tls")).server_context()


def unknown(_key: PodKey, _sees: Sees) -> Generator[None, None, WhyView | None]:
    yield
    return None


VIEWS = Views(
    ready=lambda: True,
    cluster=lambda topology, sees: [a_small_view()],
    pods=lambda namespace, sees: [a_small_view()],
    why=unknown,
    **OF_REVIEWS,
)


async def open_with(settings: Server, tls: ssl.SSLContext) -> None:
    async with serve(settings, tls, ()):
        pass


def state_routes(views: Views) -> list[web.RouteDef]:
    return StateApi(views, StateAccess(tokens=(TOKEN,)), ViewStreams()).routes()


async def test_without_a_token_file_everybody_is_refused(tls: ssl.SSLContext) -> None:
    settings = Server(bind_address="127.0.0.1", port=0)
    async with (
        serve(settings, tls, ()) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics", headers={"Authorization": "Bearer "}, ssl=False) as answer,
    ):
        assert answer.status == 401
        assert "server.tokenFile" in (await answer.json())["message"]


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("server.tokenFile: ", {"tokenFile": "no/such/file"}),
        ("server: cannot listen on 192.0.2.1:0", {"bindAddress": "192.0.2.1"}),
    ],
)
async def test_what_cannot_be_used_is_named(
    field: str, settings: dict[str, str], tls: ssl.SSLContext
) -> None:
    document = {"bindAddress": "127.0.0.1", "port": 0, **settings}
    with pytest.raises(ConfigurationError) as caught:
        await open_with(msgspec.convert(document, Server), tls)
    assert str(caught.value).startswith(field)


async def test_a_token_file_that_is_no_text_is_named(tmp_path: Path, tls: ssl.SSLContext) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"server\.tokenFile: .*utf-8"):
        await open_with(Server(bind_address="127.0.0.1", port=0, token_file=str(file)), tls)


async def test_a_large_view_is_sent_in_portions_with_turns_for_others_between(
    tmp_path: Path, tls: ssl.SSLContext
) -> None:
    whole = a_small_view()
    turns, seen = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def portions(topology: bool, sees: Sees) -> Iterator[ClusterView]:
        for portion in (
            replace(whole, nodes=(), pods=()),
            *(replace(whole, nodes=(node,), pods=()) for node in whole.nodes),
            *(replace(whole, nodes=(), pods=(pod,)) for pod in whole.pods),
        ):
            seen.append(turns)
            yield portion

    token = tmp_path / "token"
    token.write_text(TOKEN)
    settings = Server(bind_address="127.0.0.1", port=0, token_file=str(token))
    busy = asyncio.create_task(others())
    async with (
        serve(settings, tls, state_routes(replace(VIEWS, cluster=portions))) as url,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
        session.get(f"{url}{CLUSTER}", ssl=False) as answer,
    ):
        assert msgspec.json.decode(await answer.read(), type=ClusterView) == whole
    busy.cancel()
    assert len(set(seen)) == len(seen) == 1 + len(whole.nodes) + len(whole.pods)


class Judge:
    """Lets one token get what begins with a path, and remembers whom it was asked about."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    async def denial(self, token: str, verb: str, path: str) -> Denial | None:
        self.asked.append((token, verb, path))
        if token != "janes":
            return Denial(401, "nobody knows this token")
        return None if path == "/metrics" else Denial(403, f"may not {verb} {path}")


@pytest.fixture
async def judged(tmp_path: Path, tls: ssl.SSLContext) -> AsyncIterator[tuple[str, Judge]]:
    async def metrics(_request: web.Request) -> web.StreamResponse:
        return web.json_response("1")

    async def alive(_request: web.Request) -> web.StreamResponse:
        return web.json_response("ok")

    (tmp_path / "tokens").write_text(TOKEN)
    settings = Server(bind_address="127.0.0.1", port=0, token_file=str(tmp_path / "tokens"))
    judge = Judge()
    routes = [web.get(path, metrics) for path in ("/metrics", "/configz")]
    routes = [*routes, web.get("/livez", alive), *state_routes(VIEWS)]
    async with serve(settings, tls, routes, denial=judge.denial) as url:
        yield url, judge


async def status_of(url: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False) as answer,
    ):
        return answer.status


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [("janes", "/metrics", 200), ("janes", "/configz", 403), ("toms", "/metrics", 401)],
)
async def test_other_tokens_are_the_api_servers_to_judge(
    judged: tuple[str, Judge], token: str, path: str, status: int
) -> None:
    url, judge = judged
    assert await status_of(url + path, token) == status
    assert judge.asked == [(token, "get", path)]


@pytest.mark.parametrize("path", [CLUSTER, "/metrics", "/configz"])
async def test_a_token_of_the_file_opens_everything_without_a_question(
    judged: tuple[str, Judge], path: str
) -> None:
    url, judge = judged
    assert await status_of(url + path, TOKEN) == 200
    assert judge.asked == []


async def test_without_a_token_nobody_is_asked(judged: tuple[str, Judge]) -> None:
    url, judge = judged
    for path in (CLUSTER, "/metrics", "/nothing"):
        assert await status_of(url + path, None) == 401
        assert await status_of(url + path, "") == 401
    assert judge.asked == []


async def test_probes_need_no_token(judged: tuple[str, Judge]) -> None:
    url, judge = judged
    assert await status_of(f"{url}/livez", None) == 200
    assert judge.asked == []


async def test_the_former_paths_of_the_state_are_gone(judged: tuple[str, Judge]) -> None:
    url, _ = judged
    for path in ("/state/v1/cluster", "/state/v1/why/default/train"):
        assert await status_of(url + path, TOKEN) == 404


async def test_why_waits_its_turn_with_all_that_read_the_state(tls: ssl.SSLContext) -> None:
    ended = asyncio.Event()

    def endless(_key: PodKey, _sees: Sees) -> Generator[None, None, WhyView | None]:
        while not ended.is_set():
            yield
        return None

    settings = Server(bind_address="127.0.0.1", port=0)
    routes = state_routes(replace(VIEWS, why=endless))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        serve(settings, tls, routes) as url,
        aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        async def ask() -> int:
            async with session.get(f"{url}{ROOT}/namespaces/default/pods/a", ssl=False) as answer:
                return answer.status

        asked = [asyncio.create_task(ask()) for _ in range(MAX_ASKED + 1)]
        done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert {one.result() for one in done} == {429}
        ended.set()
        assert {*await asyncio.gather(*waiting)} == {404}
