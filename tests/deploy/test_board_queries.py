"""Every query of Grafana's boards, put to a real Prometheus that has scraped an hour."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.boards.__main__ import BOARDS
from deploy.boards.grafana import Board, Panel, Table
from tests.controlplane.prometheus import NOT_HERE, find, find_promtool, started
from tests.deploy.demo_hour import BEGIN, END, SCRAPE_S, DemoHour

pytestmark = pytest.mark.real_only("it needs a Prometheus, which `make e2e` finds or fetches")

#: What a reader of the boards chooses: each variable has this value, and then all values.
CHOSEN = {
    "model": "Tesla-T4",
    "node": "a100-2",
    "namespace": "research",
    "instance": "scheduler-a",
}
#: A scrape's series that are gone are forgotten at once: the past that promtool makes does not say
#: that they are, as Prometheus notes it when it scrapes.
FLAGS = ("--storage.tsdb.retention.time=100y", f"--query.lookback-delta={SCRAPE_S - 1}s")

Series = list[dict[str, Any]]


def filled_in(expr: str, chosen: dict[str, str]) -> str:
    """The query as Grafana sends it."""
    known = {"__rate_interval": f"{4 * SCRAPE_S}s", "__range": f"{END - BEGIN}s", **chosen}
    return re.sub(r"\$([a-z_]{2,})", lambda found: known[found[1]], expr)


class Asked:
    """A Prometheus that knows the hour."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def get(self, path: str, **parameters: object) -> Any:
        """What it answers; AssertionError with its words if it refuses."""
        texts = {name: str(value) for name, value in parameters.items()}
        async with self._session.get(f"{self._url}/api/v1/{path}", params=texts) as response:
            answer = await response.json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    async def now(self, expr: str) -> Series:
        """The answer at the end of the hour."""
        found: Series = (await self.get("query", query=expr, time=END))["result"]
        return found

    async def hour(self, expr: str) -> Series:
        """The answers within the hour."""
        span = {"start": BEGIN, "end": END, "step": SCRAPE_S}
        found: Series = (await self.get("query_range", query=expr, **span))["result"]
        return found

    async def number(self, board: Board, title: str) -> float:
        """What the large number of this title shows at the end, of everything."""
        [panel] = [one for one in board.panels if one.title == title and one.height == 4]
        [query] = panel.queries()
        [series] = await self.now(filled_in(query.expr, dict.fromkeys(CHOSEN, ".*")))
        return float(series["value"][1])


def make_blocks(promtool: Path, lines: list[str], folder: Path) -> None:
    """Give a Prometheus that begins in this folder its past."""
    text = folder / "hour.txt"
    text.write_text("\n".join(lines) + "\n")
    command: list[str | Path] = [
        promtool,
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        text,
        folder / "prometheus",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def asked_of(board: Board) -> Iterator[tuple[Panel, str]]:
    """Each query of a board, with its panel."""
    for panel in board.panels:
        for query in panel.queries():
            yield panel, query.expr


async def unanswered(asked: Asked) -> list[tuple[str, str, str]]:
    """Board, title and text of each query that has no answer, for one value and for all of them."""
    found = []
    for board in BOARDS:
        for panel, expr in asked_of(board):
            for chosen in (CHOSEN, dict.fromkeys(CHOSEN, ".*")):
                query = filled_in(expr, chosen)
                ask = asked.now if isinstance(panel, Table) else asked.hour
                if not await ask(query):
                    found.append((board.uid, panel.title, query))
    return found


async def ambiguous(asked: Asked) -> list[tuple[str, str, str]]:
    """Those of which two series would be one line, one row or one number."""
    found = []
    for board in BOARDS:
        for panel, expr in asked_of(board):
            series = await asked.now(filled_in(expr, dict.fromkeys(CHOSEN, ".*")))
            if isinstance(panel, Table):
                shown = {*panel.keys}
            else:
                legends = [query.legend for query in panel.queries() if query.expr == expr]
                shown = {*re.findall(r"{{(\w+)}}", legends[0])}
            labels = [{name: one["metric"].get(name) for name in shown} for one in series]
            if any(labels.count(one) > 1 for one in labels):
                found.append((board.uid, panel.title, expr))
    return found


async def test_every_query_of_every_board_answers_over_an_hour_of_the_demo(tmp_path: Path) -> None:
    program, promtool = find(), find_promtool()
    if program is None or promtool is None:
        pytest.skip(NOT_HERE)
    hour = DemoHour()
    make_blocks(promtool, await hour.lines(), tmp_path)
    async with (
        started(program, {"scrape_configs": []}, tmp_path, *FLAGS) as url,
        aiohttp.ClientSession() as session,
    ):
        asked = Asked(url, session)
        assert await unanswered(asked) == []
        assert await ambiguous(asked) == []
        for board in BOARDS:
            for variable in board.variables:
                path = f"label/{variable.name}/values"
                span = {"start": BEGIN, "end": END}
                values = await asked.get(path, **{"match[]": variable.series}, **span)
                assert CHOSEN[variable.name] in values
        await expect_numbers(asked, hour)


async def expect_numbers(asked: Asked, hour: DemoHour) -> None:
    """Two replicas tell of one cluster: what the boards show is there once."""
    cluster, node, team, scheduler = BOARDS
    cards = [card for of_node in hour.cards.values() for card in of_node]
    parts = hour.leader.held_parts()
    held = sum(part.memory_bytes for part in parts)
    assert await asked.number(cluster, "Cards") == len(cards)
    assert await asked.number(cluster, "Unhealthy cards") == 1
    assert await asked.number(cluster, "Pods waiting") == hour.waiting()
    assert await asked.number(node, "Cards") == len(cards)
    assert await asked.number(node, "Pods") == len(parts)
    assert await asked.number(node, "Memory held") == held
    assert await asked.number(team, "Memory held") == held
    assert await asked.number(team, "Pods with cards") == len(
        {(part.namespace, part.pod) for part in parts}
    )
    shares = sum(part.milli for part in parts) / 1000
    assert await asked.number(team, "Cards held") == pytest.approx(shares)
    assert await asked.number(team, "Part of the cluster") == pytest.approx(shares / len(cards))
    assert await asked.number(cluster, "Share held") == pytest.approx(shares / len(cards))
    assert await asked.number(scheduler, "Leaders") == 1
