"""APIServices, and what is behind them: a server of this test, which says what it was asked."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from tests.embedded_cluster.api_client import Api
from tests.embedded_cluster.simulated import Simulated
from tests.patience import PATIENCE_S

NAME, GROUP = "v1.answers.example.com", "answers.example.com"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ROOT = f"/apis/{GROUP}/v1"
SERVICE = "/api/v1/namespaces/kube-system/services"
PROXY = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

Json = dict[str, Any]


def a_service(**spec: Any) -> Json:
    given = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "answers", "namespace": "kube-system"},
        **spec,
    }
    return {"metadata": {"name": NAME}, "spec": given}


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"version": "v2"}, "metadata.name", 'must be `spec.version+"."+spec.group`: "v2.'),
        ({"groupPriorityMinimum": 0}, "spec.groupPriorityMinimum", "must be positive and less"),
        ({"versionPriority": 1001}, "spec.versionPriority", "must be positive and less than 1000"),
        ({"service": {"name": "a"}}, "spec.service.namespace", "Required value"),
        (
            {"service": {"name": "a", "namespace": "b", "port": 70000}},
            "spec.service.port",
            "must be between 1 and 65535, inclusive",
        ),
        (
            {"insecureSkipTLSVerify": True, "caBundle": "eA=="},
            "spec.insecureSkipTLSVerify",
            "may not be true if caBundle is present",
        ),
        ({"service": None, "caBundle": "eA=="}, "spec.caBundle", '"1 bytes": local APIServices'),
    ],
)
def test_what_cannot_be_is_refused(api: Api, spec: Json, field: str, text: str) -> None:
    status = api.post(f"{SERVICES}?dryRun=All", a_service(**spec))
    assert (api.status, status["reason"]) == (422, "Invalid")
    [cause] = status["details"]["causes"]
    assert cause["field"] == field
    assert text in cause["message"]


def test_defaults_are_filled_in_and_nothing_is_known_yet(api: Api) -> None:
    made = api.post(f"{SERVICES}?dryRun=All", a_service())
    assert made["spec"]["service"]["port"] == 443
    assert made["status"] == {}
    assert "generation" not in made["metadata"]
    local = api.post(f"{SERVICES}?dryRun=All", a_service(service=None))
    [condition] = local["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "Local")


def test_a_list_is_shown_with_where_it_leads(api: Api) -> None:
    row, _status = api.get("/apis/apiregistration.k8s.io/v1")["resources"]
    assert (row["name"], row["namespaced"], row["categories"]) == (
        "apiservices",
        False,
        ["api-extensions"],
    )
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    shown = json.loads(api.raw("GET", SERVICES, accept=table).body)
    names = [one["name"] for one in shown["columnDefinitions"]]
    assert names == ["Name", "Service", "Available", "Age"]


@dataclass
class Answers:
    """The server behind the group: what it was asked, with headers and the client's certificate."""

    port: int = 0
    authority: str = ""
    asked: list[web.Request] = field(default_factory=list)
    certified: list[bool] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        answer = await self._answer(request)
        answer.force_close()
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        self.certified.append(bool(request.get_extra_info("peercert")))
        if request.path == ROOT:
            rows = [{"name": "things", "namespaced": True, "kind": "Thing", "verbs": ["get"]}]
            listed = {"kind": "APIResourceList", "apiVersion": "v1", "resources": rows}
            return web.json_response({**listed, "groupVersion": f"{GROUP}/v1"})
        if not request.path.startswith(f"{ROOT}/"):
            return web.json_response({}, status=404)
        text = (await request.read()).decode()
        return web.json_response({"said": text, "path": request.path_qs}, status=203)


@asynccontextmanager
async def serving(folder: Path, client: KubeClient) -> AsyncIterator[Answers]:
    found = Answers()
    data = (await client.get(PROXY))["data"]
    files = make_certificates(folder, ("answers.kube-system.svc",))
    context = files.server_context()
    context.load_verify_locations(cadata=data["requestheader-client-ca-file"])
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    found.port = runner.addresses[0][1]
    found.authority = base64.b64encode(files.ca_file.read_bytes()).decode()
    yield found
    await runner.cleanup()


@pytest.fixture
async def answers(world: Simulated, tmp_path: Path) -> AsyncIterator[Answers]:
    """It runs, and there is a Service that leads to it."""
    async with serving(tmp_path / "answers", world.client) as found:
        external = {"type": "ExternalName", "externalName": "localhost"}
        await world.client.create(
            SERVICE,
            {"metadata": {"name": "answers"}, "spec": {**external, "ports": [{"port": 1}]}},
        )
        yield found
        await forget(world.client)


async def forget(client: KubeClient) -> None:
    try:
        await client.delete(f"{SERVICES}/{NAME}")
    except KubeError as error:
        if error.status != 404:
            raise


async def register(world: Simulated, answers: Answers, **spec: Any) -> None:
    service = {"name": "answers", "namespace": "kube-system", "port": answers.port}
    await world.client.create(SERVICES, a_service(service=service, **spec))


async def expect_condition(world: Simulated, wanted: str) -> Json:
    """The condition Available, once it has this status."""
    found: Json = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while found.get("status") != wanted:
                await asyncio.sleep(0.05)
                one = await world.client.get(f"{SERVICES}/{NAME}")
                found = next(iter((one.get("status") or {}).get("conditions") or []), {})
    except TimeoutError as error:
        raise AssertionError(f"it is still {found}") from error
    return found


async def test_a_group_is_available_once_its_server_answers(
    world: Simulated, answers: Answers
) -> None:
    await register(world, answers, caBundle=answers.authority)
    found = await expect_condition(world, "True")
    assert (found["type"], found["reason"], found["message"]) == (
        "Available",
        "Passed",
        "all checks passed",
    )
    asked = next(one for one in answers.asked if one.path == ROOT)
    assert asked.headers["X-Remote-User"] == "system:kube-aggregator"
    assert asked.headers.getall("X-Remote-Group") == ["system:masters"]


async def test_requests_are_forwarded_with_the_users_name_and_groups(
    world: Simulated, answers: Answers
) -> None:
    await register(world, answers, caBundle=answers.authority)
    await expect_condition(world, "True")
    path = f"{ROOT}/namespaces/a/things/b"
    sent = await world.client.request("POST", path, query={"x": "y z"}, body={"hello": 1})
    assert sent.status == 203
    assert json.loads(sent.body) == {"said": '{"hello":1}', "path": f"{path}?x=y+z"}
    # The aggregator asks on its own account meanwhile: which kinds there are, and their schemas.
    [at] = [at for at, one in enumerate(answers.asked) if one.path == path]
    asked = answers.asked[at]
    assert answers.certified[at]
    assert asked.headers["X-Remote-User"] == "admin"
    assert "system:masters" in asked.headers.getall("X-Remote-Group")
    assert "system:authenticated" in asked.headers.getall("X-Remote-Group")
    assert "Authorization" not in asked.headers


async def test_the_group_is_discovered_like_every_other(world: Simulated, answers: Answers) -> None:
    await register(world, answers, caBundle=answers.authority)
    await expect_condition(world, "True")
    groups = (await world.client.get("/apis"))["groups"]
    [group] = [one for one in groups if one["name"] == GROUP]
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    one = await world.client.get(f"/apis/{GROUP}")
    assert (one["kind"], one["versions"]) == ("APIGroup", group["versions"])
    listed = await world.client.get(ROOT)
    assert [row["name"] for row in listed["resources"]] == ["things"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "FailedDiscoveryCheck"),
        ({"service": {"name": "none", "namespace": "kube-system"}}, "ServiceNotFound"),
    ],
)
async def test_without_trust_or_a_service_it_is_not_available(
    world: Simulated, answers: Answers, change: Json, reason: str
) -> None:
    """Without a bundle nothing is trusted that is not in the system's store."""
    service = {"name": "answers", "namespace": "kube-system", "port": answers.port}
    await world.client.create(SERVICES, a_service(**{"service": service, **change}))
    found = await expect_condition(world, "False")
    assert found["reason"] == reason
    with pytest.raises(KubeError) as caught:
        await world.client.get(f"{ROOT}/things")
    assert caught.value.status == 503


async def test_what_is_changed_counts_at_once(world: Simulated, answers: Answers) -> None:
    await register(world, answers)
    await expect_condition(world, "False")
    change = {"spec": {"caBundle": answers.authority}}
    await world.client.merge_patch(f"{SERVICES}/{NAME}", change)
    await expect_condition(world, "True")
    await world.client.delete(f"{SERVICES}/{NAME}")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await world.client.get(f"{ROOT}/things")
            except KubeError as error:
                if error.status == 404:
                    break
            await asyncio.sleep(0.05)
