"""The embedded API server over real HTTPS: transport, tokens, streams, faults."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.embedded_cluster.serving.server import ADMIN, SCHEDULER, ApiServer, Fault

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with ApiServer(directory=tmp_path / "pki") as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {server.tokens[ADMIN]}"}
    connector = aiohttp.TCPConnector(ssl=server.client_context())
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as client:
        yield client


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def pod(name: str = "p") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "x"}]}}


async def create(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    async with client.post(url, json=body) as response:
        assert response.status == 201


async def next_event(response: aiohttp.ClientResponse) -> Any:
    return json.loads(await response.content.readline())


@pytest.mark.parametrize("token", [None, "wrong"])
async def test_without_a_known_token_nothing_but_health_is_answered(
    server: ApiServer, token: str | None
) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=server.client_context())
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as client:
        async with client.get(PODS) as response:
            assert response.status == 401
            assert (await response.json())["reason"] == "Unauthorized"
        async with client.get("/readyz") as response:
            assert response.status == (401 if token else 200)


async def test_the_token_says_who_asks(server: ApiServer) -> None:
    headers = {"Authorization": f"Bearer {server.tokens[SCHEDULER]}"}
    connector = aiohttp.TCPConnector(ssl=server.client_context())
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as client:
        url = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with client.post(url, json={}) as response:
            review = await response.json()
    assert review["status"]["userInfo"]["username"] == SCHEDULER


async def test_a_kubeconfig_names_server_authority_and_token(
    server: ApiServer, tmp_path: Path
) -> None:
    path = server.write_kubeconfig(tmp_path / "kubeconfig", SCHEDULER)
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == server.url
    assert config["users"][0]["user"]["token"] == server.tokens[SCHEDULER]
    assert path.stat().st_mode & 0o077 == 0


async def test_strangers_do_not_trust_the_certificate(server: ApiServer) -> None:
    async with aiohttp.ClientSession(server.url) as client:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get("/version")


def test_certificates_are_made_once_and_the_key_is_private(tmp_path: Path) -> None:
    first = make_certificates(tmp_path)
    text = first.certificate_file.read_bytes()
    assert make_certificates(tmp_path).certificate_file.read_bytes() == text
    assert first.key_file.stat().st_mode & 0o077 == 0
    assert isinstance(first.server_context(), ssl.SSLContext)


async def test_a_watch_answers_before_its_first_event_and_then_streams(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get(f"{MAPS}?watch=true") as watch:
        assert watch.content_type == "application/json"
        await create(client, MAPS, config_map("a"))
        event = await next_event(watch)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_every_watcher_sees_every_event_in_order(client: aiohttp.ClientSession) -> None:
    names = [f"m{index}" for index in range(50)]
    async with client.get(f"{MAPS}?watch=true") as one, client.get(f"{MAPS}?watch=true") as two:
        for name in names:
            await create(client, MAPS, config_map(name))
        for watch in (one, two):
            seen = [(await next_event(watch))["object"]["metadata"]["name"] for _ in names]
            assert seen == names


async def test_a_watch_ends_in_order_when_its_time_is_up(client: aiohttp.ClientSession) -> None:
    async with client.get(f"{MAPS}?watch=true&timeoutSeconds=1") as watch:
        assert await watch.content.read() == b""


async def test_a_watch_that_wants_bookmarks_gets_one_before_its_end(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    url = f"{MAPS}?watch=true&timeoutSeconds=3&allowWatchBookmarks=true"
    async with client.get(url) as watch:
        event = await next_event(watch)
    revision = str(server.service.store.revision)
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", revision)


async def test_stopping_the_server_ends_watches_in_order(tmp_path: Path) -> None:
    server = ApiServer(directory=tmp_path)
    await server.start()
    headers = {"Authorization": f"Bearer {server.tokens[ADMIN]}"}
    connector = aiohttp.TCPConnector(ssl=server.client_context())
    async with (
        aiohttp.ClientSession(server.url, headers=headers, connector=connector) as client,
        client.get(f"{MAPS}?watch=true") as watch,
    ):
        await server.stop()
        assert await watch.content.read() == b""


async def test_cut_watches_break_for_their_clients_who_may_come_back(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    async with client.get(f"{MAPS}?watch=true") as watch:
        assert server.cut_watches() == 1
        with pytest.raises(aiohttp.ClientError):
            await watch.content.read()
    await create(client, MAPS, config_map("a"))
    async with client.get(f"{MAPS}?watch=true") as watch:
        assert (await next_event(watch))["type"] == "ADDED"


async def test_after_a_compaction_an_old_version_is_an_error_event_and_the_end(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    async with client.get(MAPS) as response:
        version = (await response.json())["metadata"]["resourceVersion"]
    await create(client, MAPS, config_map("a"))
    server.compact()
    async with client.get(f"{MAPS}?watch=true&resourceVersion={version}") as watch:
        event = await next_event(watch)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert await watch.content.read() == b""


async def test_a_paused_server_answers_when_it_is_resumed(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    server.faults.pause()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(create(client, MAPS, config_map("a")))
        await server.faults.someone_waits()
        assert not waiting.done()
        assert list(server.service.store.entries("configmaps.")) == []
        server.faults.resume()
    assert len(list(server.service.store.entries("configmaps."))) == 1


async def test_an_injected_error_is_answered_once_and_changes_nothing(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    fault = Fault(method="POST", path="/configmaps$", status=429, retry_after_s=1)
    server.faults.inject(fault)
    async with client.post(MAPS, json=config_map("a")) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
    await create(client, MAPS, config_map("a"))


async def test_an_answer_can_be_lost_after_the_deed(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    await create(client, PODS, pod())
    server.faults.inject(Fault(method="POST", path="/binding$", applies_first=True))
    binding = {"metadata": {"name": "p"}, "target": {"name": "n1"}}
    with pytest.raises(aiohttp.ClientError):
        await client.post(f"{PODS}/p/binding", json=binding)
    async with client.get(f"{PODS}/p") as response:
        assert (await response.json())["spec"]["nodeName"] == "n1"


async def test_a_request_can_be_lost_before_the_deed(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    server.faults.inject(Fault(method="POST", path="/pods$"))
    with pytest.raises(aiohttp.ClientError):
        await client.post(PODS, json=pod())
    async with client.get(f"{PODS}/p") as response:
        assert response.status == 404
