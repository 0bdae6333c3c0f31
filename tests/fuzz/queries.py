"""Requests to the scheduler's state, byte by byte, over the server that all our ports have."""

import asyncio
import atexit
import json
import logging
from collections.abc import Generator, Iterator
from contextlib import AsyncExitStack
from functools import cache
from random import Random

from aiohttp import web

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.scheduler.state_access import StateAccess
from kubeshare_py.edges.scheduler.state_api import StateApi, Views, ViewStreams
from kubeshare_py.scheduling.explain.question import Sees
from kubeshare_py.views.view import ClusterView, WhyView
from tests.edges.answered_pods import OF_REVIEWS
from tests.fuzz import odd
from tests.fuzz.family import MAX_SAID, Family
from tests.terminal.views import a_small_view, a_why

_TOKEN = "a-token"
_ROOT = "/apis/state.kubeshare.io/v1"
_PATHS = (
    *("/apis", "/apis/state.kubeshare.io", _ROOT, f"{_ROOT}/gpus", f"{_ROOT}/gpus?topology=1"),
    *(f"{_ROOT}/pods", f"{_ROOT}/namespaces/default/pods", "/openapi/v2", "/openapi/v3", "*"),
    *(f"{_ROOT}/namespaces/default/placementreviews", f"{_ROOT}/namespaces/default/schedulers"),
    *(f"{_ROOT}/namespaces/default/pods/train", f"{_ROOT}/pods?limit=1&continue=x&watch=1"),
)
_HEADERS = (
    f"Authorization: Bearer {_TOKEN}",
    f"X-KubeShare-Authorization: Bearer {_TOKEN}",
    "Accept: application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
    "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "Accept-Encoding: gzip",
    "Content-Length: 3",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "X-Remote-User: admin",
    "Range: bytes=0-1",
)
_METHODS = ("GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "DELETE", "PATCH", "TRACE", "CONNECT")
_ANSWER_S, _AT_ONCE_S = 20.0, 0.05


class _Errors(logging.Handler):
    """What is logged with a traceback: an exception that no handler took."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class _State:
    """The server on an event loop of its own, for as long as this process lives."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self.errors = _Errors()
        logging.getLogger().addHandler(self.errors)
        views = Views(
            ready=lambda: True,
            cluster=lambda topology, sees: _shown(sees),
            pods=lambda namespace, sees: _shown(sees),
            why=lambda key, sees: _why(key),
            **OF_REVIEWS,
        )
        app = web.Application()
        app.add_routes(StateApi(views, StateAccess(tokens=(_TOKEN,)), ViewStreams()).routes())
        entered = self._stack.enter_async_context(listening(app, "127.0.0.1", 0, shutdown_s=0.1))
        [(_, self._port)] = self._loop.run_until_complete(entered)

    def close(self) -> None:
        """Stop listening."""
        self._loop.run_until_complete(self._stack.aclose())
        self._loop.close()

    def ask(self, request: bytes) -> bytes:
        """All that is answered to these bytes until the connection ends."""
        return self._loop.run_until_complete(self._ask(request))

    async def _ask(self, request: bytes) -> bytes:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                writer.write(request)
                first = await _soon(reader)
                writer.write_eof()
                return first + await reader.read()
            except OSError:  # the server hung up; ConnectionError is one
                return b""
            finally:
                writer.close()


async def _soon(reader: asyncio.StreamReader) -> bytes:
    """What comes at once; nothing where the server still waits for more of a request."""
    try:
        async with asyncio.timeout(_AT_ONCE_S):
            return await reader.read(2**16)
    except TimeoutError:
        return b""


@cache
def _state() -> _State:
    state = _State()
    atexit.register(state.close)
    return state


def _shown(_sees: Sees) -> Iterator[ClusterView]:
    yield a_small_view()


def _why(key: PodKey) -> Generator[None, None, WhyView | None]:
    yield
    return a_why() if key == PodKey("default", "train") else None


def _odd_request(rng: Random) -> bytes:
    path = rng.choice(_PATHS)
    if rng.random() < 0.6:
        path = odd.garbled(rng, path)
    headers = [rng.choice(_HEADERS) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.7:
        headers.append(_HEADERS[0])
    if rng.random() < 0.4 and headers:
        headers[0] = odd.garbled(rng, headers[0])
    head = "\r\n".join((f"{rng.choice(_METHODS)} {path} HTTP/1.1", "Host: s", *headers))
    written = f"{head}\r\nConnection: close\r\n\r\n".encode("utf-8", "surrogatepass")
    return odd.broken(rng, written) if rng.random() < 0.2 else written


def judge(request: bytes) -> None:
    """Every request is answered, or hung up, and none by an error of ours."""
    state = _state()
    state.errors.found.clear()
    answer = state.ask(request)
    errors = [*state.errors.found]
    assert not errors, errors
    if not answer:
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    code = int(head.split()[1])
    assert code < 500, head
    if _TOKEN.encode() not in request:
        assert b"GPU-" not in body, "cards are shown to anybody"
    if code >= 400 and body.startswith(b'{"kind":"Status"'):
        assert len(json.loads(body)["message"]) <= 2 * MAX_SAID
        assert json.loads(body)["code"] == code


FAMILIES = (Family(name="queries", make=_odd_request, judge=judge, share=1),)
