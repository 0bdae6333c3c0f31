"""Evictions beside the binds: a few at once, none twice, none that is not wanted any more."""

import asyncio
from functools import partial

from aiohttp import web

from kubeshare_py.domain.effects import Evict, Nominate
from kubeshare_py.domain.events import Bound
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.edges.scheduler.writes.failed_writes import FailedWrites
from kubeshare_py.edges.scheduler.writes.kube_api import EVICTIONS_AT_ONCE, EvictionLane
from tests.edges.bare_server import client_of
from tests.edges.scheduler.writes.test_kube_api import api_of, bind_of
from tests.patience import PATIENCE_S


def eviction(name: str, on_behalf_of: str = "a") -> Evict:
    key = PodKey("default", name)
    why = "it gives way"
    return Evict(PodUid(name), key, "PreemptionByScheduler", why, "Preempted", why, on_behalf_of)


def wanted() -> bool:
    return True


class Server:
    """Takes everything; what is about pods called p… only once it is `open`.

    `full`: so many requests of that kind are in flight.
    """

    def __init__(self, full_at: int = 1) -> None:
        self.open, self.full = asyncio.Event(), asyncio.Event()
        self._full_at = full_at
        self.came: list[str] = []
        self.done: list[str] = []
        self._in_flight = 0
        self.most = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.split("/pods/")[-1].split("/")[0]
        self.came.append(f"{request.method} {name}")
        if name.startswith("p"):
            self._in_flight += 1
            self.most = max(self.most, self._in_flight)
            if self._in_flight >= self._full_at:
                self.full.set()
            await self.open.wait()
            self._in_flight -= 1
        self.done.append(f"{request.method} {name}")
        return web.json_response({})


async def test_a_bind_waits_for_no_evictions_that_were_decided_before() -> None:
    server = Server(EVICTIONS_AT_ONCE)
    async with client_of(server.answer) as client, asyncio.TaskGroup() as group:
        api = api_of(client)
        for number in range(200):
            group.create_task(api.evict(eviction(f"p{number}"), wanted))
        async with asyncio.timeout(PATIENCE_S):
            await server.full.wait()
            # No eviction is answered before this is.
            assert (await api.bind(bind_of("u"))).outcome == Bound()
        server.open.set()
    assert server.most == EVICTIONS_AT_ONCE
    assert len(server.done) == 1 + 2 * 200


async def test_the_pod_is_told_before_it_is_deleted() -> None:
    server = Server()
    server.open.set()
    async with client_of(server.answer) as client:
        await EvictionLane(client, FailedWrites(client.contact)).evict(eviction("p"), wanted)
    assert server.done == ["PATCH p", "DELETE p"]


async def test_namespaces_that_evict_take_turns() -> None:
    server = Server()
    server.open.set()
    async with client_of(server.answer) as client, asyncio.TaskGroup() as group:
        lane = EvictionLane(client, FailedWrites(client.contact), at_once=1)
        for number in range(20):
            group.create_task(lane.evict(eviction(f"p{number}"), wanted))
        group.create_task(lane.evict(eviction("p-of-b", "b"), wanted))
        told = Nominate(PodUid("p-of-c"), PodKey("c", "p-of-c"), NodeName("n1"))
        group.create_task(lane.nominate(told))
    of_others = [server.done.index("DELETE p-of-b"), server.done.index("PATCH p-of-c")]
    assert max(of_others) < server.done.index("PATCH p2")


async def test_what_is_asked_for_twice_is_sent_once_and_later_again() -> None:
    server = Server()
    async with client_of(server.answer) as client:
        lane = EvictionLane(client, FailedWrites(client.contact))
        async with asyncio.TaskGroup() as group:
            group.create_task(lane.evict(eviction("p"), wanted))
            group.create_task(lane.evict(eviction("p"), wanted))
            server.open.set()
        assert server.came == ["PATCH p", "DELETE p"]
        await lane.evict(eviction("p"), wanted)
    assert server.came == ["PATCH p", "DELETE p"] * 2


async def test_a_pod_that_is_not_to_go_any_more_when_its_turn_comes_stays() -> None:
    server = Server()
    to_go = {"p1", "p2", "p3"}
    async with client_of(server.answer) as client, asyncio.TaskGroup() as group:
        lane = EvictionLane(client, FailedWrites(client.contact), at_once=1)
        for name in sorted(to_go):
            group.create_task(lane.evict(eviction(name), partial(to_go.__contains__, name)))
        async with asyncio.timeout(PATIENCE_S):
            await server.full.wait()
        to_go.remove("p2")
        server.open.set()
    assert server.done == ["PATCH p1", "DELETE p1", "PATCH p3", "DELETE p3"]
