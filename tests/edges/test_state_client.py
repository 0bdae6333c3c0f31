"""The way to the scheduler's state, and what users read when it is barred."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from kubeshare_py.edges import state_client
from kubeshare_py.edges.certificates import make_certificates
from kubeshare_py.edges.kube_context import default_namespace
from kubeshare_py.edges.leadership import publish
from kubeshare_py.edges.state_errors import StateRefused, StateUnreachable
from kubeshare_py.edges.state_route import Access, find_route
from tests.edges.served_state import ADDRESS, TOKEN, api_server, behind_api_server, served
from tests.terminal.views import a_small_view, a_why

NOBODY = {"HOME": "/nonexistent"}


async def test_the_views_arrive_as_they_were_sent(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = Access(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
        route = await find_route(access, NOBODY)
        assert await state_client.cluster(route) == a_small_view()
        assert await state_client.why(route, "default", "train") == a_why()


async def test_the_token_may_be_in_the_environment(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = Access(scheduler=state.url, ca_file=state.ca_file)
        route = await find_route(access, {**NOBODY, "KUBESHARE_TOKEN": f" {TOKEN}\n"})
        assert (await state_client.cluster(route)).ready


async def test_the_way_through_the_api_server_is_written_on_the_lease(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        route = await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)
        assert state.url not in route.url
        assert await state_client.cluster(route) == a_small_view()
        assert await state_client.why(route, "default", "train") == a_why()


async def test_through_the_api_server_another_token_may_be_for_the_scheduler(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path) as behind, served(tmp_path) as state:
        tls = behind.server.client_context()
        behind.server.proxy_to("kube-system", "kubeshare-scheduler", state.url, tls)
        route = await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)
        with pytest.raises(StateRefused, match="does not accept the token: a valid bearer token"):
            await state_client.cluster(route)
        access = Access(kubeconfig=behind.kubeconfig, token_file=state.token_file)
        assert (await state_client.cluster(await find_route(access, NOBODY))).ready


async def test_the_kubeconfigs_token_goes_to_a_scheduler_named_by_its_url(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        access = Access(scheduler=state.url, ca_file=state.ca_file, kubeconfig=behind.kubeconfig)
        assert (await state_client.cluster(await find_route(access, NOBODY))).ready


async def test_the_api_server_keeps_the_callers_authorization_to_itself(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        route = await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)
        only = {"Authorization": route.headers["Authorization"]}
        with pytest.raises(StateRefused, match="does not accept the token"):
            await state_client.cluster(replace(route, headers=only))


async def test_an_unknown_pod_is_the_schedulers_answer(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        route = await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)
        with pytest.raises(StateRefused, match="knows no pod default/other"):
            await state_client.why(route, "default", "other")


async def test_a_scheduler_that_is_not_ready_says_so(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        state.ready = False
        route = await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)
        with pytest.raises(StateRefused, match="has not read the cluster yet"):
            await state_client.why(route, "default", "train")


@pytest.mark.parametrize("how", ["option", "variable"])
async def test_a_scheduler_elsewhere_is_found_by_its_lease(tmp_path: Path, how: str) -> None:
    async with (
        api_server(tmp_path, address="") as behind,
        served(tmp_path, behind.server.tokens["admin"]) as state,
    ):
        await behind.client.create("/api/v1/namespaces", {"metadata": {"name": "gpu"}})
        assert not await publish(behind.client, "gpu", "ours", "https:ours:10259")
        behind.server.proxy_to("gpu", "ours", state.url, behind.server.client_context())
        access = Access(kubeconfig=behind.kubeconfig, lease="gpu/ours" if how == "option" else None)
        variable = {"KUBESHARE_LEASE": "gpu/ours"} if how == "variable" else {}
        route = await find_route(access, {**NOBODY, **variable})
        assert await state_client.cluster(route) == a_small_view()


@pytest.mark.parametrize("lease", ["ours", "gpu/", "gpu/a/b", "../x", "gpu/a?b"])
async def test_a_lease_is_named_with_its_namespace(tmp_path: Path, lease: str) -> None:
    async with api_server(tmp_path) as behind:
        access = Access(kubeconfig=behind.kubeconfig, lease=lease)
        with pytest.raises(StateUnreachable, match="is not NAMESPACE/NAME"):
            await find_route(access, NOBODY)


async def test_without_a_lease_the_scheduler_is_not_installed(tmp_path: Path) -> None:
    async with api_server(tmp_path, address="") as behind:
        with pytest.raises(StateUnreachable, match="no Lease kube-system/kubeshare-scheduler"):
            await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)


async def test_a_lease_without_the_annotation_shows_no_way(tmp_path: Path) -> None:
    async with api_server(tmp_path, address="") as behind:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        lease = {"metadata": {"name": "kubeshare-scheduler"}}
        await behind.client.create(
            path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        )
        with pytest.raises(StateUnreachable, match="has no annotation kubeshare"):
            await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)


@pytest.mark.parametrize(
    "address", ["http:kubeshare-scheduler:80", "https:a/../../b:443", "kubeshare-scheduler", ""]
)
async def test_only_a_service_with_tls_is_trusted_with_the_users_token(
    tmp_path: Path, address: str
) -> None:
    async with api_server(tmp_path) as behind:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"
        annotations = {"kubeshare.io/state-service": address}
        await behind.client.merge_patch(path, {"metadata": {"annotations": annotations}})
        with pytest.raises(StateUnreachable, match="which is not https:SERVICE:PORT"):
            await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)


async def test_a_service_without_a_scheduler_behind_it_is_named(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        route = await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)
        with pytest.raises(StateUnreachable, match=f"no scheduler answers at .*{ADDRESS}"):
            await state_client.cluster(route)


async def test_a_refused_connection_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = Access(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
        route = await find_route(access, NOBODY)
    with pytest.raises(StateUnreachable, match=f"cannot reach the scheduler at {state.url}"):
        await state_client.cluster(route)


async def test_an_api_server_that_is_gone_is_told(tmp_path: Path) -> None:
    async with api_server(tmp_path) as behind:
        pass
    with pytest.raises(StateUnreachable, match="cannot reach the API server"):
        await find_route(Access(kubeconfig=behind.kubeconfig), NOBODY)


async def test_an_unknown_authority_is_told_with_its_remedy(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = Access(scheduler=state.url, token_file=state.token_file)
        with pytest.raises(StateUnreachable, match=r"not trusted: .*--ca-file"):
            await state_client.cluster(await find_route(access, NOBODY))


async def test_without_any_token_the_user_learns_how_to_give_one(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = Access(scheduler=state.url, ca_file=state.ca_file)
        with pytest.raises(
            StateRefused, match=r"asks for a token .*--token-file or KUBESHARE_TOKEN"
        ):
            await state_client.cluster(await find_route(access, NOBODY))


@pytest.mark.parametrize(
    ("access", "told"),
    [
        (Access(kubeconfig="/nonexistent"), "cannot use the kubeconfig /nonexistent: no such file"),
        (Access(scheduler="http://127.0.0.1:1"), "not an URL that begins with https://"),
        (Access(token_file="/nonexistent"), "cannot read --token-file /nonexistent"),
        (Access(token_file="/dev/null"), "does not hold one token"),
        (Access(scheduler="https://h", ca_file="/nonexistent"), "cannot use --ca-file"),
        (
            Access(scheduler="https://h", kubeconfig="/nonexistent"),
            "cannot use the kubeconfig /nonexistent: no such file",
        ),
    ],
)
async def test_what_the_user_named_and_cannot_be_used_is_named_again(
    access: Access, told: str
) -> None:
    with pytest.raises(StateUnreachable, match=told):
        await find_route(access, NOBODY)


@pytest.mark.parametrize(
    ("status", "body", "kind", "told"),
    [
        (200, "<html>", StateUnreachable, "does not answer as a kubeshare-scheduler"),
        (200, '{"ready": 1}', StateUnreachable, "does not answer as a kubeshare-scheduler"),
        (502, "bad gateway", StateUnreachable, "answers 502: 'bad gateway'"),
        (302, "", StateUnreachable, "answers 302"),
        (403, '{"message": "not you"}', StateRefused, "does not let this user .*: not you"),
        (
            403,
            '{"kind": "Status", "message": "services is forbidden"}',
            StateUnreachable,
            "needs get services/proxy.*services is forbidden",
        ),
        (
            500,
            '{"kind": "Status", "message": "oops"}',
            StateUnreachable,
            "server answers 500 .*oops",
        ),
        (500, "{}", StateRefused, "answers 500"),
    ],
)
async def test_every_other_answer_is_put_in_words(
    tmp_path: Path, status: int, body: str, kind: type[Exception], told: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        elsewhere = {"Location": "https://127.0.0.1:1/"}
        return web.Response(status=status, text=body, headers=elsewhere)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    files = make_certificates(tmp_path)
    server = TestServer(application)
    await server.start_server(ssl=files.server_context())
    try:
        access = Access(scheduler=str(server.make_url("")), ca_file=str(files.ca_file))
        with pytest.raises(kind, match=told):
            await state_client.cluster(await find_route(access, NOBODY))
    finally:
        await server.close()


def test_the_contexts_namespace_is_the_default(tmp_path: Path) -> None:
    def context(name: str, **fields: str) -> dict[str, object]:
        return {"name": name, "context": {"cluster": "c", "user": "u", **fields}}

    path = tmp_path / "config"
    contexts = [context("one", namespace="team"), context("two"), context("three", namespace="x")]
    path.write_text(yaml.safe_dump({"contexts": contexts, "current-context": "one"}))
    assert default_namespace(str(path)) == "team"
    assert default_namespace(str(path), "two") == "default"
    assert default_namespace(None, "three", environ={"KUBECONFIG": str(path)}) == "x"


def test_without_a_usable_kubeconfig_the_namespace_is_default(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("- not\n- a kubeconfig\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    for path in (broken, empty, tmp_path / "missing"):
        assert default_namespace(str(path), environ=NOBODY) == "default"


def test_in_a_pod_the_namespace_is_the_pods(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("team\n")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    found = default_namespace(None, environ=environ, service_account=tmp_path)
    assert found == "team"
