"""Probes: what is said when all is well, and which ill shows where."""

from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from kubeshare_py.domain.events import BindSlotsFree
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.scheduler import endpoints
from kubeshare_py.edges.scheduler.process_health import LAG_KEPT_S, ProcessHealth
from tests.edges.served_app import asking
from tests.making import a_cluster, a_machine


class Ward:
    """A scheduler in good health, on a clock by hand, and its probes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.health = ProcessHealth(a_machine(), lambda: self.now)
        for event in a_cluster({"n1": 1}):
            self.health.machine.handle(event, self.now)
        self.connected = {name: self.health.watching(name) for name in ("pods", "nodes")}
        for connected in self.connected.values():
            connected(True)
        self.beat()

    def beat(self) -> None:
        """A turn and a reading of the inventory, now."""
        self.health.handled(BindSlotsFree(1), [], 0.0)
        self.health.inventory_read()

    def probes(self) -> AbstractAsyncContextManager[TestClient[web.Request, web.Application]]:
        return asking(
            probes.routes(
                lambda: endpoints.live_checks(self.health),
                lambda: endpoints.ready_checks(self.health, 5.0),
            )
        )

    async def ask(self, path: str) -> tuple[int, str]:
        async with self.probes() as client, client.get(path) as answer:
            assert answer.content_type == "text/plain"
            return answer.status, await answer.text()


@pytest.fixture
def ward() -> Ward:
    return Ward()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz/inventory"])
async def test_all_is_well(ward: Ward, path: str) -> None:
    assert await ward.ask(path) == (200, "ok")


async def test_verbose_lists_every_check_as_kubernetes_does(ward: Ward) -> None:
    assert await ward.ask("/livez?verbose") == (
        200,
        "[+]ping ok\n[+]decision-loop ok\nlivez check passed\n",
    )
    _, listed = await ward.ask("/readyz?verbose")
    assert listed.splitlines() == [
        "[+]ping ok",
        "[+]decision-loop ok",
        "[+]pods-and-nodes-listed ok",
        "[+]watch-pods ok",
        "[+]watch-nodes ok",
        "[+]inventory ok",
        "[+]loop-lag ok",
        "readyz check passed",
    ]


async def test_a_loop_that_does_not_turn_is_neither_live_nor_ready(ward: Ward) -> None:
    ward.now += endpoints.LONGEST_SILENCE_S + 1
    for path in ("/livez", "/readyz", "/livez/decision-loop"):
        status, text = await ward.ask(path)
        assert status == 500
        assert "[-]decision-loop failed: no iteration for 61 s" in text
    assert (await ward.ask("/livez/ping"))[0] == 200


async def test_a_scheduler_that_stands_by_need_not_turn(ward: Ward) -> None:
    ward.health.iterations = 0
    ward.now += endpoints.LONGEST_SILENCE_S + 1
    assert (await ward.ask("/livez"))[0] == 200


async def test_before_the_lists_are_read_it_is_live_but_not_ready(ward: Ward) -> None:
    ward.health.machine = a_machine()
    assert (await ward.ask("/livez"))[0] == 200
    status, text = await ward.ask("/readyz")
    assert status == 500
    assert "[-]pods-and-nodes-listed failed: not yet" in text
    assert text.endswith("readyz check failed\n")


async def test_a_watch_may_be_away_for_a_while(ward: Ward) -> None:
    ward.connected["pods"](False)
    ward.now += endpoints.LONGEST_LOSS_S
    ward.beat()
    ward.connected["pods"](False)  # tried again in vain: still the same loss
    assert (await ward.ask("/readyz"))[0] == 200
    ward.now += 1
    status, text = await ward.ask("/readyz")
    assert status == 500
    assert "[-]watch-pods failed: not connected for 61 s" in text
    assert "[+]watch-nodes ok" in text
    ward.connected["pods"](True)
    assert (await ward.ask("/readyz"))[0] == 200


async def test_an_inventory_that_is_not_read_for_long_shows(ward: Ward) -> None:
    ward.now += endpoints.LONGEST_UNREAD_S + 1
    ward.health.handled(BindSlotsFree(1), [], 0.0)
    status, text = await ward.ask("/readyz")
    assert (status, "[-]inventory failed: not read for 61 s" in text) == (500, True)
    assert (await ward.ask("/livez"))[0] == 200, "a new start would not help"
    ward.health.inventory_at = None
    assert "[-]inventory failed: never read" in (await ward.ask("/readyz"))[1]


async def test_a_loop_that_lags_shows_for_a_minute(ward: Ward) -> None:
    ward.health.late(ward.now, endpoints.MAX_LAG_S + 2)
    status, text = await ward.ask("/readyz")
    assert (status, "[-]loop-lag failed: iterations came 3.0 s late" in text) == (500, True)
    ward.now += LAG_KEPT_S + 1
    ward.beat()
    ward.health.late(ward.now, 0.0)
    assert (await ward.ask("/readyz"))[0] == 200


async def test_a_check_can_be_left_out(ward: Ward) -> None:
    ward.connected["pods"](False)
    ward.now += endpoints.LONGEST_LOSS_S + 1
    ward.beat()
    status, text = await ward.ask("/readyz?exclude=watch-pods&verbose")
    assert status == 200
    assert "[+]watch-pods excluded: ok" in text


async def test_a_check_that_there_is_not_is_not_found(ward: Ward) -> None:
    assert (await ward.ask("/livez/nothing"))[0] == 404
