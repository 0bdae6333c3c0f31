"""The way to the scheduler's state, and what users read when it is barred."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kubeshare_py.edges.cli.https_client import NotFound, StateRefused, StateUnreachable
from kubeshare_py.edges.cli.state_client import ApiAccess, StateClient
from kubeshare_py.edges.kube.certificates import make_certificates
from tests.edges.kubeconfigs import exec_credential, plugin, write
from tests.edges.served_state import TOKEN, api_server, behind_api_server, served
from tests.terminal.views import a_small_view, a_why

NOBODY = {"HOME": "/nonexistent"}
T = TypeVar("T")


async def asked(
    access: ApiAccess, ask: Callable[[StateClient], T], environ: dict[str, str] | None = None
) -> T:
    """Put a question to a client in a thread, since it waits for answers."""
    client = StateClient(access, NOBODY | (environ or {}))
    try:
        return await asyncio.to_thread(ask, client)
    finally:
        client.close()


def all_views(client: StateClient) -> tuple[object, object]:
    return client.cards(), client.why("default", "train")


async def test_the_views_arrive_as_they_were_sent(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        access = ApiAccess(kubeconfig=behind.kubeconfig)
        assert await asked(access, all_views) == (a_small_view(), a_why())


async def test_pods_come_in_order_and_of_the_namespace_that_is_asked_for(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        access = ApiAccess(kubeconfig=behind.kubeconfig)
        assert state.url not in behind.server.url
        every = await asked(access, lambda client: client.pods(None))
        assert [pod.name for pod in every.pods] == ["one", "two", "big"]
        team = await asked(access, lambda client: client.pods("team"))
        assert [pod.name for pod in team.pods] == ["big"]


async def test_the_scheduler_is_asked_directly_with_a_token_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
        assert await asked(access, all_views) == (a_small_view(), a_why())
        access = ApiAccess(scheduler=state.url, ca_file=state.ca_file)
        environ = {"KUBESHARE_TOKEN": f" {TOKEN}\n"}
        assert (await asked(access, StateClient.cards, environ)).ready


async def test_the_kubeconfigs_token_goes_to_no_scheduler(tmp_path: Path) -> None:
    async with (
        api_server(tmp_path) as behind,
        # One that would take it.
        served(tmp_path, behind.server.tokens["admin"]) as state,
    ):
        access = ApiAccess(scheduler=state.url, ca_file=state.ca_file, kubeconfig=behind.kubeconfig)
        with pytest.raises(StateRefused, match="asks for a token"):
            await asked(access, StateClient.cards)


async def test_who_is_impersonated_is_told_to_the_api_server(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        access = ApiAccess(kubeconfig=behind.kubeconfig, as_user="ann", as_group=("a", "b"))
        await asked(access, StateClient.cards)
        await asked(access, lambda client: client.api.get("/version"))
    told = [one for one in behind.server.headers if one[0].startswith("Impersonate-")]
    assert told == [
        ("Impersonate-User", "ann"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    ]


async def test_credentials_that_have_ended_are_read_again(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        good = behind.server.tokens["admin"]
        cluster: dict[str, object] = {
            "server": behind.server.url,
            "certificate-authority": str(behind.server.ca_file),
        }
        path = write(tmp_path, plugin(tmp_path, exec_credential(token=good)), cluster)

        def twice(client: StateClient) -> None:
            client.cards()
            behind.server.tokens["admin"] = "another"
            with pytest.raises(StateRefused, match="does not accept these credentials"):
                client.cards()
            plugin(tmp_path, exec_credential(token="another"))
            client.cards()

        await asked(ApiAccess(kubeconfig=path), twice)


async def test_an_unknown_pod_is_not_found(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        direct = ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
        for access in (ApiAccess(kubeconfig=behind.kubeconfig), direct):
            with pytest.raises(NotFound, match="knows no pod default/other"):
                await asked(access, lambda client: client.why("default", "other"))


async def test_a_scheduler_that_is_not_ready_says_so(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        state.ready = False
        direct = ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
        for access in (ApiAccess(kubeconfig=behind.kubeconfig), direct):
            with pytest.raises(StateUnreachable, match="has not read the cluster yet"):
                await asked(access, lambda client: client.why("default", "train"))


@pytest.mark.parametrize("ask", [all_views, lambda client: client.why("default", "train")])
async def test_where_the_api_group_is_absent_the_user_learns_what_to_do(
    tmp_path: Path, ask: Callable[[StateClient], object]
) -> None:
    async with api_server(tmp_path) as behind:
        told = r"does not serve state.kubeshare.io: .*apiService.enabled.*--scheduler URL"
        with pytest.raises(StateUnreachable, match=told):
            await asked(ApiAccess(kubeconfig=behind.kubeconfig), ask)


async def test_what_cannot_be_reached_is_named(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        pass
    access = ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)
    with pytest.raises(StateUnreachable, match=f"cannot reach the scheduler at {state.url}: "):
        await asked(access, StateClient.cards)
    with pytest.raises(StateUnreachable, match=f"reach the API server at {behind.server.url}: "):
        await asked(ApiAccess(kubeconfig=behind.kubeconfig), StateClient.cards)


async def test_an_unknown_authority_is_told_with_its_remedy(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        access = ApiAccess(scheduler=state.url, token_file=state.token_file)
        with pytest.raises(StateUnreachable, match=r"not trusted: .*--ca-file"):
            await asked(access, StateClient.cards)
        access = ApiAccess(server=behind.server.url, token="t")
        with pytest.raises(StateUnreachable, match=r"not trusted: .*--certificate-authority"):
            await asked(access, StateClient.cards)
        unverified = ApiAccess(
            server=behind.server.url,
            token=behind.server.tokens["admin"],
            insecure_skip_tls_verify=True,
        )
        assert (await asked(unverified, StateClient.cards)).ready


async def test_the_certificate_may_be_for_another_name(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        access = ApiAccess(kubeconfig=behind.kubeconfig, tls_server_name="localhost")
        assert (await asked(access, StateClient.cards)).ready
        access = ApiAccess(kubeconfig=behind.kubeconfig, tls_server_name="elsewhere")
        with pytest.raises(StateUnreachable, match="not valid for 'elsewhere'"):
            await asked(access, StateClient.cards)


async def test_without_any_token_the_user_learns_how_to_give_one(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        access = ApiAccess(scheduler=state.url, ca_file=state.ca_file)
        told = r"asks for a token .*--token-file or KUBESHARE_TOKEN"
        with pytest.raises(StateRefused, match=told):
            await asked(access, StateClient.cards)
        with pytest.raises(StateRefused, match="does not accept the token"):
            await asked(access, StateClient.cards, {"KUBESHARE_TOKEN": "wrong"})


@pytest.mark.parametrize(
    ("access", "told"),
    [
        (
            ApiAccess(kubeconfig="/nonexistent"),
            "cannot use the kubeconfig /nonexistent: no such file",
        ),
        (ApiAccess(scheduler="http://127.0.0.1:1"), "not an URL that begins with https://"),
        (ApiAccess(scheduler="https://h", token_file="/nonexistent"), "cannot read --token-file"),
        (ApiAccess(scheduler="https://h", token_file="/dev/null"), "does not hold one token"),
        (ApiAccess(scheduler="https://h", ca_file="/nonexistent"), "cannot use --ca-file"),
        (ApiAccess(), "names no server"),
    ],
)
async def test_what_the_user_named_and_cannot_be_used_is_named_again(
    access: ApiAccess, told: str
) -> None:
    with pytest.raises(StateUnreachable, match=told):
        await asked(access, StateClient.cards)


@pytest.mark.parametrize(
    ("status", "body", "kind", "told"),
    [
        (200, "<html>", StateUnreachable, "does not answer as a kubeshare-scheduler"),
        (200, '{"ready": 1}', StateUnreachable, "does not answer as a kubeshare-scheduler"),
        (502, "bad gateway", StateUnreachable, "answers 502: 'bad gateway'"),
        (302, "", StateUnreachable, "answers 302"),
        (403, '{"message": "gpus.state is forbidden"}', StateRefused, "^gpus.state is forbidden$"),
        (401, '{"message": "Unauthorized"}', StateRefused, "these credentials: Unauthorized"),
        (503, "service unavailable", StateUnreachable, r"no scheduler .*get apiservice v1\.state"),
        (500, '{"message": "oops"}', StateUnreachable, "answers 500: oops"),
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
        access = ApiAccess(
            server=str(server.make_url("")), certificate_authority=str(files.ca_file), token="t"
        )
        with pytest.raises(kind, match=told):
            await asked(access, StateClient.cards)
    finally:
        await server.close()
