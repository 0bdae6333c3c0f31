"""A server that is away: one line of the log, then one a minute; and one when it is back."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubeshare_py.edges.kube.client import AWAY, BACK, BY_PAGES, ApiContact, KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable
from kubeshare_py.edges.kube.watch import follow
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.serving.server import ApiServer
from kubeshare_py.manifests.watch import Codec
from tests.edges.bare_server import client_of, status
from tests.patience import PATIENCE_S

WATCHED = (
    "/api/v1/pods",
    "/api/v1/nodes",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/batch/v1/jobs",
)
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """What was logged since it was last asked for, details left out."""
    caplog.set_level("INFO")

    def since() -> list[dict[str, Any]]:
        found = [
            {"event": record.getMessage(), **getattr(record, "fields", {})}
            for record in caplog.records
            if record.name == "kubeshare.decisions" and record.levelno >= logging.INFO
        ]
        caplog.clear()
        return found

    return since


class Clock:
    """Time passes when somebody sleeps; as many sleep at once as there are watches."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps = 0
        self.runs = asyncio.Event()
        self.runs.set()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await self.runs.wait()
        self.now += seconds / len(WATCHED)
        self.sleeps += 1
        await asyncio.sleep(0)


def said(lines: list[dict[str, Any]]) -> list[str]:
    return [line["event"] for line in lines]


async def followed(client: KubeClient, path: str, clock: Clock, listed: asyncio.Semaphore) -> None:
    backoff = Backoff(sleep=clock.sleep)
    watched = follow(client, path, Codec(UnstructuredObject), backoff=backoff)
    async with aclosing(watched) as stream:
        async for _ in stream:
            listed.release()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with ApiServer(directory=tmp_path) as running:
        yield running


async def expect_eventually(
    wanted: Callable[[], bool], step: Callable[[], Awaitable[object]]
) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not wanted():
            await step()


async def test_a_dozen_loops_say_once_a_minute_that_the_server_is_away(
    server: ApiServer, tmp_path: Path, lines: Lines
) -> None:
    clock, listed = Clock(), asyncio.Semaphore(0)
    credentials = load(str(server.write_kubeconfig(tmp_path / "kubeconfig")))
    contact = ApiContact("here:6443", clock)
    async with KubeClient(credentials, contact=contact) as client, asyncio.TaskGroup() as group:
        tasks = [group.create_task(followed(client, one, clock, listed)) for one in WATCHED]
        for _ in WATCHED:
            await listed.acquire()
        assert lines() == []
        # A server that is being stopped accepts connections for a while, which shall be no minute.
        clock.runs.clear()
        await server.stop()
        clock.runs.set()
        await expect_eventually(lambda: contact.is_away, lambda: asyncio.sleep(0.001))
        began, before = clock.now, clock.sleeps
        await expect_eventually(lambda: clock.now > began + 600, lambda: asyncio.sleep(0.001))
        found = lines()
        assert {*said(found)} == {AWAY}
        assert 8 <= len(found) <= 1 + (clock.now - began) / 60
        assert clock.sleeps - before > 10 * len(found)
        assert all(line["message"].endswith(": Connection refused") for line in found)
        assert "https" not in str(found)
        assert "?" not in str(found)
        assert found[-1]["away_s"] > 500
        await server.start()
        await expect_eventually(lambda: not contact.is_away, lambda: asyncio.sleep(0.001))
        *others, back = lines()
        assert {*said(others)} <= {AWAY}
        assert (back["event"], back["server"]) == (BACK, "here:6443")
        assert back["away_s"] >= 600
        for task in tasks:
            task.cancel()


def test_a_server_that_comes_and_goes_is_told_twice_a_minute_at_most(lines: Lines) -> None:
    clock = Clock()
    contact = ApiContact("s", clock)
    for _ in range(600):
        clock.now += 1
        contact.missed("GET /a: Connection refused")
        contact.answered()
    found = said(lines())
    assert found == [AWAY, BACK] * 10


def test_a_refusal_of_a_path_is_said_once_a_minute(lines: Lines) -> None:
    clock = Clock()
    contact = ApiContact("s", clock)
    for _ in range(120):
        contact.failed("list", KubeError(403, "Forbidden", "no"), "/a")
        contact.failed("list", KubeError(404, "NotFound", "no"), "/b")
        clock.now += 1
    assert [line["path"] for line in lines()] == ["/a", "/b"] * 2


@pytest.mark.parametrize("code", [429, 500, 503, 410])
def test_a_server_in_trouble_is_said_once_a_minute_for_all_paths(code: int, lines: Lines) -> None:
    clock = Clock()
    contact = ApiContact("s", clock)
    error: Exception = KubeError(code, "", "starting")
    if code == HTTPStatus.GONE:  # the watch says so in its own way
        told = Exception("too old")
        told.__cause__, error = error, told
    for second in range(120):
        for path in WATCHED:
            contact.failed("watch", error, path)
        clock.now = 1000.0 + second
    assert said(lines()) == ["watch"] * 2


def test_a_server_that_keeps_breaking_watches_is_said_once_a_minute(lines: Lines) -> None:
    clock = Clock()
    contact = ApiContact("s", clock)
    for _ in range(12):
        for path in WATCHED:
            contact.failed("watch", KubeUnreachable(f"GET {path}: the answer broke off"), path)
        clock.now += 10
    assert said(lines()) == ["watch"] * 2


def test_a_watch_that_breaks_once_is_no_news_and_one_that_keeps_breaking_is(lines: Lines) -> None:
    clock = Clock()
    contact = ApiContact("s", clock)
    for error in (None, KubeUnreachable("GET /a: Connection reset by peer")):
        contact.failed("watch", error, "/a")
        assert lines() == []
        clock.now += 5
        contact.failed("watch", error, "/a")
        [line] = lines()
        assert (line["event"], line["path"]) == ("watch", "/a")
        clock.now += 120


async def test_while_the_server_is_away_nothing_else_is_said_of_it(lines: Lines) -> None:
    contact = ApiContact("s", Clock())
    contact.missed("GET /a: Timeout")
    contact.failed("watch", KubeUnreachable("GET /a: Timeout"), "/a")
    contact.failed("watch", None, "/a")
    assert said(lines()) == [AWAY]


async def test_any_answer_ends_it_also_that_of_a_watch(lines: Lines) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/refused":
            return status(403)
        return web.Response(body=b"{}\n")

    async with client_of(answer) as client:
        for path in ("/refused", "/watched"):
            client.contact.missed("GET /a: Timeout")
            if path == "/refused":
                with pytest.raises(KubeError):
                    await client.get(path)
            else:
                async with client.stream(path, read_timeout_s=5.0):
                    pass
            assert not client.contact.is_away
    assert said(lines()) == [AWAY, BACK]


def test_a_server_without_lists_in_watches_is_one_line_for_all_resources(lines: Lines) -> None:
    contact = ApiContact("server:6443")
    for path in WATCHED:
        contact.lists_by_pages(path, "422 Invalid", is_for_good=True)
    [line] = lines()
    assert (line["event"], line["path"]) == (BY_PAGES, WATCHED[0])
    assert line["message"] == "all lists are read by pages: 422 Invalid"
    for path in WATCHED[:2]:
        contact.lists_by_pages(path, "403 Forbidden", is_for_good=False)
    assert [one["path"] for one in lines()] == [*WATCHED[:2]]
