"""Who is kube-apiserver, and whom it names: over real TLS, with a real ConfigMap."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.edges.scheduler.state_access import CHECK_S, RETRY_S, FrontProxy
from kubeshare_py.embedded_cluster.serving.credentials import ClientAuthority, make_client_authority
from kubeshare_py.manifests.state_group import (
    PATH,
    BadRequestHeader,
    RequestHeader,
    UserInfo,
    read_request_header,
)

NAME = "front-proxy-client"
HEADERS = {
    "X-Remote-User": "jane",
    "X-Remote-Uid": "u-1",
    "X-Remote-Extra-Scopes.example.com%2fteam": "a",
}


@dataclass
class Served:
    """A server that answers with the user whom it takes a request for, and the ConfigMap."""

    folder: Path
    authority: ClientAuthority
    url: str = ""
    proxy: FrontProxy | None = None
    data: dict[str, str] = field(default_factory=dict)
    broken: bool = False

    async def read(self) -> bool:
        assert self.proxy is not None
        return await self.proxy.read()

    async def asked_by(
        self, certificate: Path | None, headers: Mapping[str, str] = HEADERS
    ) -> UserInfo | str | None:
        """Whom it takes a request for. Raises aiohttp.ClientError."""
        tls = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        if certificate is not None:
            tls.load_cert_chain(certificate)
        given = [*headers.items(), ("X-Remote-Group", "one"), ("X-Remote-Group", "two")]
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.url, headers=given, ssl=tls) as answer,
        ):
            return msgspec.json.decode(await answer.read(), type=UserInfo | str | None)

    def client(self, name: str = NAME, authority: ClientAuthority | None = None) -> Path:
        return (authority or self.authority).write_client(self.folder / f"{name}.pem", name)


def config_map(authority: ClientAuthority, *names: str, **more: str) -> dict[str, str]:
    return {
        "client-ca-file": "another",
        "requestheader-client-ca-file": authority.pem(),
        "requestheader-allowed-names": json.dumps(names),
        **more,
    }


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Served]:
    served = Served(folder, make_client_authority("front-proxy-ca"))

    async def shown(request: web.Request) -> web.Response:
        if served.broken:
            return web.json_response({"code": 500}, status=500)
        return web.json_response({"data": served.data})

    async def asked(request: web.Request) -> web.Response:
        assert served.proxy is not None
        try:
            found: object = served.proxy.user(request)
        except KeyError as error:
            found = str(error.args[0])
        return web.Response(body=msgspec.json.encode(found))

    api, app = web.Application(), web.Application()
    api.add_routes([web.get(PATH, shown)])
    app.add_routes([web.get("/", asked)])
    context = make_certificates(folder).server_context()
    async with TestServer(api) as upstream:
        source = KubeReading(server=str(upstream.make_url("")).rstrip("/"))
        async with KubeClient(Credentials("test", lambda: source)) as client:
            served.proxy = FrontProxy(client, context)
            server = TestServer(app, scheme="https")
            await server.start_server(ssl=context)
            served.url = str(server.make_url("/"))
            yield served
            await server.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        served.data = config_map(served.authority, NAME)
        assert await served.read()
        yield served


async def test_kube_apiserver_names_the_user_with_groups_and_more(served: Served) -> None:
    assert await served.asked_by(served.client()) == UserInfo(
        username="jane",
        uid="u-1",
        groups=("one", "two"),
        extra={"scopes.example.com/team": ("a",)},
    )


async def test_headers_of_others_mean_nothing(served: Served) -> None:
    assert await served.asked_by(None) is None
    assert await served.asked_by(served.client("somebody")) is None
    late = served.authority.write_client(served.folder / "late", NAME, valid=timedelta(seconds=-1))
    with pytest.raises((aiohttp.ClientError, OSError)):
        await served.asked_by(late)
    stranger = make_client_authority("front-proxy-ca")
    with pytest.raises((aiohttp.ClientError, OSError)):
        await served.asked_by(served.client(NAME, stranger))


async def test_a_request_that_names_nobody_says_which_header_is_missing(served: Served) -> None:
    assert await served.asked_by(served.client(), {}) == "X-Remote-User"


async def test_headers_may_have_other_names(served: Served) -> None:
    served.data |= {
        "requestheader-username-headers": '["X-Who"]',
        "requestheader-group-headers": '["X-Team"]',
    }
    assert await served.read()
    headers = {"X-Who": "tom", "X-Team": "red"}
    assert await served.asked_by(served.client(), headers) == UserInfo("tom", groups=("red",))


async def test_without_names_every_certificate_of_the_authority_will_do(served: Served) -> None:
    served.data = config_map(served.authority)
    assert await served.read()
    assert isinstance(await served.asked_by(served.client("somebody")), UserInfo)


async def test_before_the_config_map_is_read_nobody_is_believed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert await served.asked_by(served.client()) is None
        served.broken = True
        assert not await served.read()
        assert await served.asked_by(served.client()) is None


async def test_a_new_authority_takes_the_place_of_the_old_one(served: Served) -> None:
    old, new = served.client("old"), make_client_authority("new")
    served.data = config_map(new, "old", "new")
    assert await served.read()
    assert isinstance(await served.asked_by(served.client("new", new)), UserInfo)
    # TLS still knows the old authority; its certificates are those of nobody.
    assert await served.asked_by(old) is None


async def test_while_the_config_map_cannot_be_read_all_stays_as_it_was(served: Served) -> None:
    served.broken = True
    assert not await served.read()
    assert isinstance(await served.asked_by(served.client()), UserInfo)


@pytest.mark.parametrize("data", [{}, {"requestheader-client-ca-file": "no certificate"}])
async def test_without_an_authority_nobody_is_believed_any_more(
    served: Served, data: dict[str, str]
) -> None:
    served.data = data
    assert await served.read()
    assert await served.asked_by(served.client()) is None


async def test_it_is_read_again_and_sooner_after_a_failure(served: Served) -> None:
    waited: list[float] = []

    async def sleep(delay_s: float) -> None:
        waited.append(delay_s)
        served.broken = True
        if len(waited) == 2:
            raise asyncio.CancelledError

    assert served.proxy is not None
    with pytest.raises(asyncio.CancelledError):
        await served.proxy.keep(sleep)
    assert waited == [CHECK_S, RETRY_S]


def test_where_users_have_the_same_authority_names_are_needed() -> None:
    data = {"client-ca-file": "x\n", "requestheader-client-ca-file": "x"}
    with pytest.raises(BadRequestHeader, match="every user could act as every other one"):
        read_request_header({"data": data})
    named = read_request_header({"data": {**data, "requestheader-allowed-names": '["a"]'}})
    assert named.names == {"a"}


@pytest.mark.parametrize("text", ["front-proxy-client", "[1]", '{"a": 1}'])
def test_a_list_that_is_none_is_named(text: str) -> None:
    with pytest.raises(BadRequestHeader, match="requestheader-allowed-names"):
        read_request_header({"data": {"requestheader-allowed-names": text}})


def test_headers_have_the_names_that_everybody_uses_unless_said_otherwise() -> None:
    given: dict[str, Any] = {"data": {"requestheader-uid-headers": "[]"}}
    assert read_request_header(given) == RequestHeader()
    assert read_request_header({}) == RequestHeader()
