"""The inventory from the collectors and from a Prometheus: real child processes, HTTP, changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubeshare_py.configuration.inventory import Inventory
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.inventory.auto_source import MANY, PATH, AutoSource
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode
from kubeshare_py.embedded_cluster.serving.simulated_collectors import SimulatedCollectors
from kubeshare_py.manifests.partial_objects import ConditionFields
from tests.edges.bare_server import Handler, client_of, serving, status
from tests.edges.collector_place import Place
from tests.edges.collector_place import serving as serving_collectors
from tests.edges.inventory.children import children
from tests.edges.inventory.test_collector_scrape import HOSTS, listed, pod
from tests.patience import PATIENCE_S

A, B = NodeName("a"), NodeName("b")


async def nothing(_request: web.Request) -> web.StreamResponse:
    """An API server without the Prometheus Operator."""
    return status(404, "NotFound", "the server could not find the requested resource")


@dataclass(slots=True)
class Seen:
    """What an AutoSource has said so far."""

    sources: list[str] = field(default_factory=list)
    cards: dict[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    silent: tuple[NodeName, ...] = ()
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, source: str, *silent: NodeName) -> None:
        """Wait until this source is in charge and these nodes are silent."""
        async with asyncio.timeout(PATIENCE_S):
            while (self.sources[-1:], self.silent) != ([source], silent):
                self.news.clear()
                await self.news.wait()

    def in_charge(self, source: str) -> None:
        self.sources.append(source)
        self.news.set()


@asynccontextmanager
async def following(
    targets: CollectorTargets,
    port: int,
    handler: Handler = nothing,
    many: int = MANY,
    **fields: Any,
) -> AsyncIterator[Seen]:
    """An AutoSource at work; no card that it has named may go."""
    settings = Inventory(source="auto", port=port, interval_seconds=0.1, **fields)
    seen = Seen()
    auto = AutoSource(settings, targets, seen.news.set, seen.in_charge, many)

    async def read() -> None:
        async with aclosing(auto.readings()) as events:
            async for event in events:
                for node, cards in getattr(event, "changed", ()):
                    known = {card.uuid for card in seen.cards.get(node, ())}
                    assert known <= {card.uuid for card in cards}
                    seen.cards[node] = cards
                seen.silent = getattr(event, "silent", seen.silent)
                seen.news.set()

    async with client_of(handler) as client, asyncio.TaskGroup() as group:
        tasks = [group.create_task(read()), group.create_task(auto.try_prometheus(client))]
        yield seen
        for task in tasks:
            task.cancel()
    assert children() == []


@pytest.fixture
async def place(nodes: tuple[SimulatedNode, ...]) -> AsyncIterator[Place]:
    place = Place(nodes, dict(HOSTS))
    async with serving_collectors(place):
        yield place


@pytest.fixture
async def prometheus(nodes: tuple[SimulatedNode, ...]) -> AsyncIterator[SimulatedCollectors]:
    async with SimulatedCollectors(nodes) as collectors:
        yield collectors


READY = {"conditions": (ConditionFields(type="Ready", status="True"),)}


def both() -> CollectorTargets:
    targets = CollectorTargets()
    targets.take(
        listed(pod("on-a", "a", "127.0.0.2", **READY), pod("on-b", "b", "127.0.0.3", **READY))
    )
    return targets


def said(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    records = [one for one in caplog.records if one.message == "inventory source"]
    return [one.__dict__["fields"] for one in records]


@pytest.mark.slow
async def test_the_source_changes_both_ways_and_no_card_goes(
    place: Place,
    prometheus: SimulatedCollectors,
    nodes: tuple[SimulatedNode, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    prometheus.targets.stop_scraping(B)
    async with following(both(), place.port, url=prometheus.url) as seen:
        every = {node.name: node.cards for node in nodes}
        async with asyncio.timeout(PATIENCE_S):
            while not any("every card of node b" in one["message"] for one in said(caplog)):
                seen.news.clear()
                await seen.news.wait()
        assert (seen.sources, seen.cards) == (["scrape"], every)
        prometheus.targets.bring_up(B)
        await seen.until("prometheus")
        place.collectors.take_down(B)
        prometheus.prometheus_answers = False
        await seen.until("scrape", B)
        prometheus.prometheus_answers = True
        place.collectors.bring_up(B)
        await seen.until("prometheus")
        # It answers, but not for every collector.
        prometheus.targets.stop_scraping(A)
        await seen.until("scrape")
        assert seen.cards == every
    changes = [(one["from"], one["to"]) for one in said(caplog) if "from" in one]
    assert changes == [("scrape", "prometheus"), ("prometheus", "scrape")] * 2
    assert {one["prometheus"] for one in said(caplog)} == {prometheus.url}
    # What stood against it is said once.
    texts = [one["message"] for one in said(caplog) if "from" not in one]
    assert len(texts) == len({*texts})


@pytest.mark.slow
async def test_without_collectors_any_prometheus_with_cards_is_asked(
    prometheus: SimulatedCollectors, nodes: tuple[SimulatedNode, ...]
) -> None:
    targets = CollectorTargets()
    targets.take(listed())
    async with following(targets, 1, url=prometheus.url) as seen:
        await seen.until("prometheus")
        async with asyncio.timeout(PATIENCE_S):
            while len(seen.cards) < len(nodes):
                seen.news.clear()
                await seen.news.wait()
        assert seen.cards == {node.name: node.cards for node in nodes}


@pytest.mark.slow
async def test_only_the_prometheus_that_is_configured_gets_the_token(
    place: Place, prometheus: SimulatedCollectors, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    sent: list[str] = []

    async def relay(request: web.Request) -> web.StreamResponse:
        sent.append(request.headers.get("Authorization", ""))
        raise web.HTTPTemporaryRedirect(f"{prometheus.url}{request.path_qs}")

    async with (
        serving(relay) as url,
        following(both(), place.port, url=url, bearer_token_file=str(token)) as seen,
    ):
        await seen.until("prometheus")
    assert {*sent} == {"Bearer secret"}
    assert await place.asked.get() == ""


def operated(*names: str, **spec: Any) -> Handler:
    """An API server with these Prometheuses of the Prometheus Operator."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.path == PATH
        items = [{"metadata": {"namespace": "m", "name": name}, "spec": spec} for name in names]
        return web.json_response({"kind": "PrometheusList", "items": items})

    return answer


async def forbidden(_request: web.Request) -> web.StreamResponse:
    return status(403, "Forbidden", "prometheuses is forbidden")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (nothing, f"no inventory.url is set, and {PATH} cannot be read: 404 NotFound"),
        (forbidden, f"no inventory.url is set, and {PATH} cannot be read: 403 Forbidden"),
        (operated(), "no inventory.url is set and the Prometheus Operator runs no Prometheus"),
        (operated("x", "y"), "there are several Prometheuses (m/x, m/y): inventory.url says"),
        (operated("x", shards=2), "the Prometheus m/x listens to its pod alone or has shards"),
        (operated("x", shards="two"), f"{PATH}: Expected `int | null`, got `str`"),
        (operated("x", routePrefix="/p"), "ConnectionError: "),
    ],
    ids=["none", "forbidden", "empty", "several", "shards", "odd", "unreachable"],
)
async def test_without_a_url_the_log_says_once_why_no_prometheus_is_asked(
    place: Place, handler: Handler, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with following(both(), place.port, handler) as seen:
        async with asyncio.timeout(PATIENCE_S):
            while not said(caplog):
                seen.news.clear()
                await seen.news.wait()
        assert seen.sources == ["scrape"]
    (only,) = said(caplog)
    assert only["message"].startswith(why)
    assert only["source"] == "scrape"


@pytest.mark.slow
async def test_for_many_collectors_the_log_recommends_a_prometheus_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(both(), place.port, operated(), many=1):
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                await place.asked.get()
            while not said(caplog):
                await place.asked.get()
        for _ in range(6):
            await place.asked.get()
    (only,) = said(caplog)
    assert only["message"] == "2 collectors are asked one by one: a Prometheus costs less"
