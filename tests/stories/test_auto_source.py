"""The source `auto`: collectors, then a Prometheus that begins to answer, and fails."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.programs.kubectl_kubeshare import UNREACHABLE
from tests.edges.collector_place import Place, serving
from tests.patience import PATIENCE_S
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import Json, Stage, gpu
from tests.stories.scheduler_port import port_of
from tests.stories.scraping import auto_of, start_collector

HOSTS = {"127.0.0.2": NodeName("n1"), "127.0.0.3": NodeName("n2")}


@asynccontextmanager
async def scheduling(stage: Stage) -> AsyncIterator[Place]:
    """A scheduler on this stage, beside collectors that it can reach."""
    place = Place(stage.nodes, dict(HOSTS))
    async with serving(place):
        for host, node in HOSTS.items():
            await start_collector(stage, node, host)
        async with stage.scheduler(auto_of(place, stage.cluster.collectors.url)):
            await stage.warm_up()
            yield place


async def gpus(stage: Stage, **asked: Any) -> str:
    kubeconfig = stage.cluster.server.write_kubeconfig(stage.folder / "asks", "admin")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            code, shown, said = await kubectl_kubeshare(kubeconfig, "gpus", **asked)
            # The API server trusts a scheduler's certificate a moment after it has started.
            if code != UNREACHABLE:
                assert code == 0, said
                return shown


async def expect_source(stage: Stage, source: str) -> None:
    """Wait until this source is in charge; every card is there, as `gpus` and the metric say."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found: Json = json.loads(await gpus(stage, output="json"))
            cards = {card["uuid"] for node in found["nodes"] for card in node["cards"]}
            assert cards == {card.uuid for node in stage.nodes for card in node.cards}
            assert not found["overcommitted"]
            if found["source"] == source:
                break
    _, page = await (await port_of(stage)).fetch("/metrics")
    lines = [one for one in page.splitlines() if one.startswith("kubeshare_inventory_source{")]
    assert lines == [f'kubeshare_inventory_source{{source="{source}"}} 1.0']
    shown = (await gpus(stage, summary=True)).splitlines()
    assert shown[-2:] == ["Source Of Cards:", source]


def messages(caplog: pytest.LogCaptureFixture) -> set[object]:
    """The sentences that the scheduler has logged so far."""
    return {one.__dict__.get("fields", {}).get("message") for one in caplog.records}


@pytest.mark.long
async def test_a_prometheus_comes_and_goes_and_no_card_goes_with_it(
    empty_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stage, prometheus = empty_stage, empty_stage.cluster.collectors
    prometheus.prometheus_answers = False
    async with scheduling(stage):
        await stage.create("first", gpu("0.6"))
        placed = [await stage.place("first")]
        await expect_source(stage, "scrape")
        prometheus.prometheus_answers = True
        await expect_source(stage, "prometheus")
        await stage.create("second", gpu("1"))
        placed.append(await stage.place("second"))
        prometheus.prometheus_answers = False
        await expect_source(stage, "scrape")
        # Two of four cards are free all the time, and one is shared.
        await stage.create("both", gpu("2", "2"))
        await stage.create("third", gpu("0.4"))
        assert (await stage.place("third")) == placed[0]
        await stage.expect_running("both")
        assert [await stage.place(name) for name in ("first", "second")] == placed
    said = [one.__dict__["fields"] for one in caplog.records if one.message == "inventory source"]
    changes = [one for one in said if "from" in one]
    assert [(one["from"], one["to"]) for one in changes] == [
        ("scrape", "prometheus"),
        ("prometheus", "scrape"),
    ]
    assert changes[0]["message"] == "it names every card of the collectors"
    assert "503" in changes[1]["message"]
    events = {one.message for one in caplog.records}
    assert "card" not in events, "a card has gone or come"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["scrape", "prometheus"])
async def test_what_is_really_used_of_a_card_is_shown_beside_what_pods_hold(
    empty_stage: Stage, source: str
) -> None:
    stage, prometheus = empty_stage, empty_stage.cluster.collectors
    prometheus.prometheus_answers = source == "prometheus"
    async with scheduling(stage) as place:
        for collectors in (place.collectors, prometheus.targets):
            uuid = collectors.use_card(NodeName("n2"), 1, 37, 3 * 2**30)
        await expect_used(stage, {uuid: (370, 3 * 2**30)})
        for collectors in (place.collectors, prometheus.targets):
            collectors.take_down(NodeName("n2"))
        await expect_used(stage, {})


async def expect_used(stage: Stage, wanted: dict[str, tuple[int, int]]) -> None:
    """Wait until these cards, and no others, are shown with what is used of them."""
    used: dict[str, tuple[int, int]] | None = None
    async with asyncio.timeout(PATIENCE_S):
        while used != wanted:
            found: Json = json.loads(await gpus(stage, output="json"))
            used = {
                card["uuid"]: (card["busy_milli"], card["in_use_bytes"])
                for node in found["nodes"]
                for card in node["cards"]
                if "busy_milli" in card
            }


@pytest.mark.slow
async def test_a_prometheus_that_scrapes_one_collector_alone_is_not_asked(
    empty_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    empty_stage.cluster.collectors.targets.stop_scraping(NodeName("n2"))
    async with scheduling(empty_stage):
        await empty_stage.expect_sent(lambda: empty_stage.cluster.collectors.queries >= 2)
        async with asyncio.timeout(PATIENCE_S):
            # The outcome of a trial is looked at after the next reading of the collectors.
            while "it does not name every card of node n2" not in messages(caplog):
                await expect_source(empty_stage, "scrape")
