"""A dashboard before an API server, with views of our choice, and a browser that opens it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.dashboard.past import PastLog
from kubeshare_py.edges.event_log.past import LogOfPast
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from kubeshare_py.programs.dashboard import DashboardSettings, api_server, show
from tests.browser import chromium
from tests.browser.chromium import Tab, browser
from tests.browser.past_story import a_written_log
from tests.browser.sights import a_cluster, why_pretrain
from tests.edges.served_state import Behind, Served, behind_api_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of this folder, and say why they are not run where there is no browser."""
    own = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in own:
        item.add_marker(pytest.mark.browser)
        if chromium.found() is None:
            item.add_marker(pytest.mark.skip(reason=chromium.ABSENT))


@dataclass
class Sight:
    """A running dashboard, what is behind it, and a tab of a browser."""

    behind: Behind
    state: Served
    url: str
    tab: Tab
    #: Opens one more tab.
    open_tab: Callable[[], Any]
    clock: "Clock"

    @property
    def token(self) -> str:
        return self.behind.server.tokens[ADMIN]

    async def open(self, view: str = "#/cards", token: str | None = None) -> None:
        """Sign in, as by the demo's address, and show a view once the state is there."""
        await self.tab.open(f"{self.url}/#token={token or self.token}")
        await self.tab.until("document.querySelector('.tile')")
        await self.go(view)

    async def go(self, view: str) -> None:
        """Follow a link within the page."""
        await self.tab.run(f"location.hash = {view!r}; null")
        await self.settled()

    async def settled(self) -> None:
        """Return once two frames were drawn."""
        await self.tab.run(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    async def expect_no_errors(self) -> None:
        """Nothing went wrong in the page, and it asked for nothing elsewhere."""
        assert self.tab.errors == []
        elsewhere = [one for one in self.tab.requests if not one.startswith(self.url)]
        assert [one for one in elsewhere if one != "about:blank"] == []


@pytest.fixture
async def sight(tmp_path: Path) -> AsyncIterator[Sight]:
    """The page before a state API with the views of `sights`."""
    async with behind_api_server(tmp_path) as (behind, state):
        state.view = a_cluster()
        state.whys["vision", "pretrain"] = why_pretrain()
        settings = DashboardSettings(address="127.0.0.1", port=0, kubeconfig=behind.kubeconfig)
        clock = Clock()
        past = LogOfPast(a_written_log(tmp_path / "events"), IN_TREE)
        async with (
            dashboard(settings, clock, past) as url,
            browser(tmp_path / "profile") as open_tab,
            open_tab() as tab,
        ):
            yield Sight(behind, state, url, tab, open_tab, clock)


class Clock:
    """The dashboard's clock, which a test may set forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s


@asynccontextmanager
async def dashboard(
    settings: DashboardSettings,
    clock: Callable[[], float] | None = None,
    past: PastLog | None = None,
) -> AsyncIterator[str]:
    """Its URL while it runs."""
    async with asyncio.TaskGroup() as group:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        credentials: Any = api_server(settings)
        running = group.create_task(show(settings, credentials, ready.set_result, clock, past))
        yield await ready
        running.cancel()
