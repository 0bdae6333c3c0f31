import asyncio
import errno
import socket
import ssl

import aiohttp
import msgspec
import pytest
from aiohttp import web

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable
from kubeshare_py.edges.kube.kubeconfig import KubeReading
from kubeshare_py.edges.kube.transport import why_unanswered
from kubeshare_py.edges.process.connection_abort import abort
from tests.edges.bare_server import NoSleep, client_of, plain, serving, status


async def test_sends_json_and_gives_the_undecoded_answer() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.content_type == "application/json"
        assert request.query_string == "fieldSelector=a%3Db%26c&limit=2"
        return web.json_response(await request.json(), status=201)

    async with client_of(handler) as client:
        answer = await client.request(
            "POST", "/api", query={"fieldSelector": "a=b&c", "limit": 2}, body={"x": [1]}
        )
    assert answer.status == 201
    assert answer.body == b'{"x": [1]}'


async def test_a_server_may_stand_below_a_path_of_another_one() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path, "method": request.method})

    async with serving(handler) as url, KubeClient(plain(f"{url}/k8s/clusters/c1")) as client:
        for method in ("GET", "POST"):
            answer = await client.request(method, "/api")
            assert msgspec.json.decode(answer.body) == {
                "path": "/k8s/clusters/c1/api",
                "method": method,
            }


async def test_an_error_answer_keeps_what_the_status_object_says() -> None:
    async def handler(request: web.Request) -> web.Response:
        return status(409, "Conflict", "is already assigned", "pods/binding")

    async with client_of(handler) as client:
        with pytest.raises(KubeError) as caught:
            await client.request("POST", "/api", body=b"{}")
    error = caught.value
    assert (error.status, error.reason, error.details_kind) == (409, "Conflict", "pods/binding")
    assert error.message == "is already assigned"


@pytest.mark.parametrize(
    ("code", "message", "gone"),
    [
        (404, "not found", True),
        (409, "Precondition failed: UID in precondition: a, UID in object meta: b", True),
        (422, 'metadata.uid: Invalid value: "a": field is immutable', True),
        (422, 'spec: Invalid value: "a": field is immutable', False),
        (500, "metadata.uid", False),
    ],
)
def test_an_error_says_whether_the_object_is_gone(code: int, message: str, gone: bool) -> None:
    assert KubeError(code, "", message).is_gone == gone


async def test_an_error_page_of_a_proxy_is_an_error_too() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=502, text="<html>bad gateway</html>")

    async with client_of(handler) as client:
        with pytest.raises(KubeError, match="502 Bad Gateway: <html>bad"):
            await client.get("/api")


async def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with KubeClient(plain(url)) as client:
            with pytest.raises(KubeUnreachable, match=r"^GET /api: Connection refused$"):
                await client.get("/api", {"limit": 1})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "odd words"), "Connection refused"),
        (TimeoutError(), "Timeout"),
        (aiohttp.ClientPayloadError("<TransferEncodingError>"), "the answer broke off"),
        (ssl.SSLError(1, "unknown ca"), "SSLError: unknown ca"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionError("no number"), "ConnectionError: no number"),
    ],
)
def test_why_there_is_no_answer_is_said_in_a_few_words(error: Exception, reason: str) -> None:
    assert reason in why_unanswered(error)


async def test_a_cut_connection_and_a_silent_server_are_unreachable() -> None:
    done = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if request.path == "/cut":
            abort(request.transport)
        await done.wait()
        return web.Response()

    async with client_of(handler) as client:
        with pytest.raises(KubeUnreachable):
            await client.request("POST", "/cut", body=b"{}")
        with pytest.raises(KubeUnreachable, match="Timeout"):
            await client.request("POST", "/silent", body=b"{}", timeout_s=0.01)
        done.set()


async def test_a_get_is_repeated_when_the_server_says_so_and_a_post_is_not() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.method)
        if len(seen) > 2:
            return web.json_response({"ok": True})
        answer = status(429, "TooManyRequests", "later")
        answer.headers["Retry-After"] = "7"
        return answer

    sleep = NoSleep()
    async with client_of(handler, sleep=sleep) as client:
        with pytest.raises(KubeError) as caught:
            await client.create("/api", {})
        assert caught.value.retry_after_s == 7
        assert await client.get("/api") == {"ok": True}
    assert seen == ["POST", "GET", "GET"]
    assert sleep.asked == [7]


async def test_a_server_that_is_always_busy_is_an_error_in_the_end() -> None:
    async def handler(request: web.Request) -> web.Response:
        return status(429, "TooManyRequests", "later")

    sleep = NoSleep()
    async with client_of(handler, sleep=sleep) as client:
        with pytest.raises(KubeError, match="later"):
            await client.merge_patch("/api", {})
    assert sleep.asked == [1, 1, 1, 1]


async def test_no_more_than_the_allowed_number_of_requests_is_in_flight() -> None:
    flying, most = 0, 0
    full = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        if flying == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        flying -= 1
        return web.json_response({})

    async with client_of(handler, concurrency=3) as client, asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(client.get("/api"))
    assert most == 3


async def test_lists_are_read_page_by_page() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.query["limit"] == "500"
        assert request.query["labelSelector"] == "a=b"
        if "continue" in request.query:
            return web.json_response({"metadata": {}, "items": [{"n": 2}]})
        return web.json_response({"metadata": {"continue": "next page"}, "items": [{"n": 1}]})

    async with client_of(handler) as client:
        assert await client.list_all("/api", {"labelSelector": "a=b"}) == [{"n": 1}, {"n": 2}]


async def test_a_delete_can_name_the_very_object() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert (await request.json())["preconditions"] == {"uid": "u1"}
        return web.json_response({"kind": "Status"})

    async with client_of(handler) as client:
        await client.delete("/api", uid="u1", grace_period_s=0)


async def test_a_refused_token_is_read_again_and_the_request_repeated_once() -> None:
    tokens = iter(["Bearer old", "Bearer new"])
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        if seen[-1] == "Bearer old":
            return status(401, "Unauthorized")
        return web.json_response({})

    async with serving(handler) as url:
        credentials = Credentials(
            "test", lambda: KubeReading(server=url, authorization=next(tokens), valid_s=None)
        )
        async with KubeClient(credentials) as client:
            await client.create("/api", {})
    assert seen == ["Bearer old", "Bearer new"]


async def test_a_token_that_stays_refused_is_an_error() -> None:
    readings = 0

    async def handler(request: web.Request) -> web.Response:
        return status(401, "Unauthorized", "no")

    def read() -> KubeReading:
        nonlocal readings
        readings += 1
        return KubeReading(server=url, authorization="Bearer same")

    async with serving(handler) as url, KubeClient(Credentials("test", read)) as client:
        for _ in range(3):
            with pytest.raises(KubeError, match="401"):
                await client.get("/api")
    assert readings == 2


async def test_an_answer_that_is_no_object_is_unreachable() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>welcome</html>")

    async with client_of(handler) as client:
        with pytest.raises(KubeUnreachable, match="not an answer of an API server"):
            await client.get("/api")


async def test_a_stream_that_falls_silent_is_unreachable() -> None:
    done = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await done.wait()
        return response

    got: list[bytes] = []

    async def read(client: KubeClient) -> None:
        async with client.stream("/watch", read_timeout_s=0.05) as chunks:
            async for chunk in chunks:
                got.append(chunk)

    async with client_of(handler) as client:
        with pytest.raises(KubeUnreachable, match="imeout"):
            await read(client)
        done.set()
    assert got == [b"first"]


async def test_requests_are_counted_by_their_codes_and_waits() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/cut":
            abort(request.transport)
        if request.path == "/busy" and not sleep.asked:
            return status(429, "TooManyRequests", "later")
        return web.json_response({})

    sleep = NoSleep()
    async with client_of(handler, sleep=sleep) as client:
        await client.create("/api", {})
        await client.get("/busy")
        with pytest.raises(KubeUnreachable):
            await client.delete("/cut")
        async with client.stream("/watch", read_timeout_s=5) as pieces:
            assert [piece async for piece in pieces] == [b"{}"]
        with pytest.raises(KubeUnreachable):
            async with client.stream("/cut", read_timeout_s=5):
                pass
        counted = client.tallies.values()
        assert client.another(concurrency=1).tallies is client.tallies
    ended = {
        (code, verb): n for (code, verb, _), n in counted["rest_client_requests_total"].items()
    }
    assert ended == {
        ("200", "POST"): 1,
        ("429", "GET"): 1,
        ("200", "GET"): 2,
        ("<error>", "DELETE"): 1,
        ("<error>", "GET"): 1,
    }
    [((code, verb, host), again)] = counted["rest_client_request_retries_total"].items()
    assert (code, verb, again) == ("429", "GET", 1)
    assert host.startswith("127.0.0.1:")
    for name in ("request", "rate_limiter"):
        found = counted[f"rest_client_{name}_duration_seconds"]
        counts = {verb: one.count for (verb, _), one in found.items() if not isinstance(one, float)}
        assert counts == {"POST": 1, "GET": 2, "DELETE": 1}  # watches are not requests that end
