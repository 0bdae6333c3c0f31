"""What the embedded API server forwards, and as whom: the state of a scheduler is behind it."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kubeshare_py.edges.kube.certificates import API_SERVICES, make_certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.serving.server import ADMIN, ApiServer

ROOT = "/apis/answers.example.com/v1"
NAME = "v1.answers.example.com"


@dataclass
class Behind:
    """The API server, and the headers of what arrived at the server behind it."""

    server: ApiServer
    client: KubeClient
    bundle: str
    asked: list[web.Request] = field(default_factory=list)
    status: int = 200

    async def get(self, headers: dict[str, str], path: str = f"{ROOT}/things") -> int:
        own = {"Authorization": f"Bearer {self.server.tokens[ADMIN]}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                self.server.url + path, headers=own | headers, ssl=self.server.client_context()
            ) as answer,
        ):
            await answer.read()
            return answer.status

    async def condition(self) -> dict[str, Any]:
        """As it is after one more look."""
        await self.server.aggregator.check()
        one = await self.client.get(f"{API_SERVICES}/{NAME}")
        [found] = one["status"]["conditions"]
        return dict(found)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Behind]:
    files = make_certificates(folder / "answers", ("answers.default.svc",))
    bundle = base64.b64encode(files.ca_file.read_bytes()).decode()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer(directory=folder))
        kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
        client = await stack.enter_async_context(KubeClient(load(str(kubeconfig))))
        behind = Behind(server, client, bundle)

        async def answer(request: web.Request) -> web.Response:
            behind.asked.append(request)
            rows = [{"name": "things", "namespaced": True, "kind": "Thing", "verbs": ["get"]}]
            return web.json_response({"resources": rows}, status=behind.status)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=files.server_context())
        await site.start()
        await register(client, runner.addresses[0][1], bundle)
        await server.aggregator.check()
        yield behind
        await runner.cleanup()


async def register(client: KubeClient, port: int, bundle: str) -> None:
    service = {
        "metadata": {"name": "answers"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    await client.create("/api/v1/namespaces/default/services", service)
    spec = {
        "group": "answers.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": bundle,
        "service": {"name": "answers", "namespace": "default", "port": port},
    }
    await client.create(API_SERVICES, {"metadata": {"name": NAME}, "spec": spec})


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[Behind]:
    async with serving(tmp_path) as behind:
        yield behind


def named(request: web.Request) -> tuple[str, list[str]]:
    return request.headers["X-Remote-User"], request.headers.getall("X-Remote-Group", [])


async def test_nobody_names_himself(behind: Behind) -> None:
    headers = {"X-Remote-User": "root", "X-Remote-Group": "all", "X-Remote-Extra-A": "b"}
    assert await behind.get(headers) == 200
    assert named(behind.asked[-1]) == ("admin", ["system:masters", "system:authenticated"])
    assert "X-Remote-Extra-A" not in behind.asked[-1].headers


async def test_an_administrator_acts_as_another_user(behind: Behind) -> None:
    headers = {"Impersonate-User": "jane", "Impersonate-Group": "blue"}
    assert await behind.get(headers) == 200
    assert named(behind.asked[-1]) == ("jane", ["blue", "system:authenticated"])
    assert "Impersonate-User" not in behind.asked[-1].headers


async def test_others_act_as_nobody_else(behind: Behind) -> None:
    token = {"Authorization": f"Bearer {behind.server.add_user('tom')}"}
    count = len(behind.asked)
    assert await behind.get({**token, "Impersonate-User": "jane"}) == 403
    assert await behind.get({**token, "Impersonate-User": "jane"}, "/api/v1/pods") == 403
    assert len(behind.asked) == count


async def test_a_client_certificate_says_who_asks(behind: Behind, tmp_path: Path) -> None:
    kubeconfig = behind.server.write_client_kubeconfig(tmp_path / "jane.yaml", "jane", "blue")
    async with KubeClient(load(str(kubeconfig))) as client:
        await client.get(f"{ROOT}/things")
    assert named(behind.asked[-1]) == ("jane", ["blue", "system:authenticated"])


async def test_a_server_that_answers_no_more_is_not_available(behind: Behind) -> None:
    first = await behind.condition()
    assert (first["status"], first["reason"]) == ("True", "Passed")
    behind.status = 401
    found = await behind.condition()
    assert (found["status"], found["reason"]) == ("False", "FailedDiscoveryCheck")
    assert "bad status from https://localhost" in found["message"]
    assert await behind.get({}) == 503


@pytest.mark.parametrize("bundle", ["", "eA==", "another"])
async def test_a_certificate_of_nobody_is_not_trusted(
    behind: Behind, tmp_path: Path, bundle: str
) -> None:
    if bundle == "another":
        other = make_certificates(tmp_path / "other").ca_file.read_bytes()
        bundle = base64.b64encode(other).decode()
    await behind.client.merge_patch(f"{API_SERVICES}/{NAME}", {"spec": {"caBundle": bundle}})
    assert (await behind.condition())["reason"] == "FailedDiscoveryCheck"


async def test_unless_no_certificate_is_asked_for(behind: Behind) -> None:
    change = {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}}
    await behind.client.merge_patch(f"{API_SERVICES}/{NAME}", change)
    assert (await behind.condition())["reason"] == "Passed"


async def test_a_service_without_an_external_name_leads_nowhere(behind: Behind) -> None:
    path = "/api/v1/namespaces/default/services/answers"
    await behind.client.merge_patch(path, {"spec": {"type": "ClusterIP", "externalName": None}})
    assert (await behind.condition())["reason"] == "MissingEndpoints"


async def test_a_group_that_nobody_registered_is_not_there(behind: Behind) -> None:
    assert "answers.example.com" in json.dumps(await behind.client.get("/apis"))
    await behind.client.delete(f"{API_SERVICES}/{NAME}")
    with pytest.raises(KubeError, match="404"):
        await behind.client.get(f"{ROOT}/things")
    await behind.server.aggregator.check()
    assert "answers.example.com" not in json.dumps(await behind.client.get("/apis"))
