"""Writes before Bindings: a few at once, each with an outcome."""

import asyncio
from http import HTTPStatus

import pytest
from aiohttp import web

from kubeshare_py.domain.effects import WriteObject
from kubeshare_py.domain.events import ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import DecisionToken, PodKey, PodUid
from kubeshare_py.domain.storage import LockNode, SelectNode
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites
from kubeshare_py.edges.scheduler.writes.kube_api import OBJECTS_AT_ONCE, ObjectLane
from tests.edges.bare_server import client_of
from tests.patience import PATIENCE_S


def write_of(claim: str, namespace: str = "team") -> WriteObject:
    select = SelectNode(namespace=namespace, claim=claim, version="1", node="n1")
    return WriteObject(PodUid("u"), PodKey(namespace, "p"), DecisionToken("t"), select)


async def outcome_of(status: int, headers: dict[str, str] | None = None) -> ObjectWritten:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.method == "PATCH"
        assert request.content_type == "application/merge-patch+json"
        body = {"kind": "Status", "message": "so it is"}
        return web.json_response(body, status=status, headers=headers or {})

    async with client_of(answer) as client:
        return await ObjectLane(client, FailedWrites(client.contact)).write(write_of("c"))


async def test_a_write_that_is_stored_is_done() -> None:
    effect = write_of("c")
    done = ObjectWritten(effect.uid, effect.token, effect.write, WriteOutcome.DONE)
    assert await outcome_of(HTTPStatus.OK) == done


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (HTTPStatus.CONFLICT, WriteOutcome.STALE),
        (HTTPStatus.FORBIDDEN, WriteOutcome.REFUSED),
        (HTTPStatus.SERVICE_UNAVAILABLE, WriteOutcome.UNKNOWN),
    ],
)
async def test_an_error_says_why(status: int, outcome: WriteOutcome) -> None:
    answered = await outcome_of(status)
    assert (answered.outcome, answered.message) == (outcome, "so it is")


async def test_the_server_may_ask_for_a_pause() -> None:
    answered = await outcome_of(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "7"})
    assert (answered.outcome, answered.retry_after_s) == (WriteOutcome.UNKNOWN, 7.0)


async def test_a_lost_answer_leaves_the_outcome_open() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with client_of(answer) as client:
        answered = await ObjectLane(client, FailedWrites(client.contact)).write(write_of("c"))
    assert answered.outcome is WriteOutcome.UNKNOWN


async def test_namespaces_take_turns_and_few_writes_are_sent_at_once() -> None:
    came: list[str] = []
    opened, full = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        came.append(request.path.split("/")[4])
        if len(came) == OBJECTS_AT_ONCE:
            full.set()
        await opened.wait()
        return web.json_response({})

    async with client_of(answer) as client, asyncio.TaskGroup() as group:
        lane = ObjectLane(client, FailedWrites(client.contact))
        for number in range(100):
            group.create_task(lane.write(write_of(f"c{number}", "large")))
        async with asyncio.timeout(PATIENCE_S):
            await full.wait()
            group.create_task(lane.write(write_of("c", "small")))
            await asyncio.sleep(0)
            assert came == ["large"] * OBJECTS_AT_ONCE
            opened.set()
    assert len(came) == 101
    assert came.index("small") <= 2 * OBJECTS_AT_ONCE, "not behind all of the other namespace"


@pytest.mark.parametrize(("names_owner", "end"), [(True, b"Z,team,p"), (False, b"Z")])
async def test_a_lock_is_taken_with_the_time_and_its_pod(names_owner: bool, end: bytes) -> None:
    bodies: list[bytes] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        assert (request.path, request.content_type) == (
            "/api/v1/nodes/n1", "application/json-patch+json",
        )  # fmt: skip
        bodies.append(await request.read())
        return web.json_response({"kind": "Status", "message": "no"}, status=422)

    lock = LockNode(node="n1", key="k/l", namespace="team", pod="p", names_owner=names_owner)
    effect = WriteObject(PodUid("u"), PodKey("team", "p"), DecisionToken("t"), lock)
    async with client_of(answer) as client:
        answered = await ObjectLane(client, FailedWrites(client.contact)).write(effect)
    assert answered.outcome is WriteOutcome.STALE
    assert bodies[0].endswith(end + b'"}]')
