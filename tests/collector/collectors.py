"""A collector as a process of its own, and what is asked of it."""

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.exporters.collector_metrics import NAME, PATH
from tests.fake_nvml.board import NAMES
from tests.module_forks import Fork, fork
from tests.patience import PATIENCE_S

PIPE = asyncio.subprocess.PIPE
#: make test tries one board of each kind: whole GPUs, MIG instances, and one that is broken.
_ONE_OF_EACH = {"t4-box", "hgx-h100-mig", "broken-card"}
EACH_BOARD = [
    name if name in _ONE_OF_EACH else pytest.param(name, marks=pytest.mark.long) for name in NAMES
]
#: Series by name, with the values of their labels but for the node's, in alphabetical order.
Page = dict[str, float]
Parser = Callable[[str], Iterable[Family]]


class Collector:
    """One that listens at `url`."""

    def __init__(self, process: Process | Fork, session: aiohttp.ClientSession) -> None:
        self.process = process
        self.url = ""
        #: What it logged.
        self.log: list[dict[str, Any]] = []
        self._session = session

    async def listens(self) -> None:
        """Wait until it does, and read its log from then on."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.url:
                await self.logged()
                if self.log[-1]["event"] == "started":
                    listening = self.log[-1]
                    url = listening["addresses"][0] + listening["path"]
                    self.url = url.replace("0.0.0.0", "127.0.0.1")

    async def logged(self) -> bool:
        """Read a line; False when it has ended."""
        assert self.process.stderr is not None
        line = await self.process.stderr.readline()
        if line:
            self.log.append(json.loads(line))
        return bool(line)

    async def get(self, path: str = PATH, **headers: str) -> tuple[int, str]:
        """Status and text."""
        url = self.url.replace(PATH, path)
        async with self._session.get(url, headers=headers) as response:
            return response.status, await response.text()

    async def page(self) -> Page:
        """What Prometheus reads."""
        status, text = await self.get()
        assert status == 200, text
        return series(text)

    async def expect_eventually(self, wanted: Callable[[Page], object]) -> Page:
        """Scrape until the page is as wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                status, text = await self.get()
                if status == 200 and wanted(found := series(text)):
                    return found
                await asyncio.sleep(0.05)

    async def expect_answer(self, path: str, status: int, part: str = "") -> str:
        """Ask until the answer has this status and this in its text, which is given."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found, text = await self.get(path)
                if found == status and part in text:
                    return text
                await asyncio.sleep(0.05)

    def children(self) -> list[int]:
        """Process ids."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def end(self, *, by_force: bool = False) -> int:
        """Tell it to end, or end it; the exit code, once nobody can write to its log any more."""
        (self.process.kill if by_force else self.process.terminate)()
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


def series(text: str, parsed: Parser = text_string_to_metric_families) -> Page:
    """Every series of a page, in the text format or in that of another parser."""
    found: Page = {}
    for family in parsed(text):
        for sample in family.samples:
            labels = (value for name, value in sorted(sample.labels.items()) if name != "node")
            found[f"{sample.name}{{{','.join(labels)}}}"] = sample.value
    return found


def capacity(text: str) -> list[Mapping[str, str]]:
    """The labels of each series of gpu_capacity."""
    families = text_string_to_metric_families(text)
    samples = (one for family in families if family.name == NAME for one in family.samples)
    return [sample.labels for sample in samples]


async def start(environment: Mapping[str, str], *arguments: str) -> Fork:
    """Start kubeshare-collector."""
    return await fork("kubeshare_cmd.collector", *arguments, environment=environment)


async def run(environment: Mapping[str, str], *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, stdout, stderr."""
    process = await start(environment, *arguments)
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


@asynccontextmanager
async def collector(
    environment: Mapping[str, str],
    interval_s: float = 0.1,
    stale_after_s: float = 30.0,
    *options: str,
) -> AsyncIterator[Collector]:
    """One that listens on a free port of this machine; ended in order."""
    process = await start(
        environment, "--node-name", "n1", "--address", "127.0.0.1", "--port", "0",
        "--interval", str(interval_s), "--stale-after", str(stale_after_s), *options,
    )  # fmt: skip
    async with aiohttp.ClientSession() as session:
        found = Collector(process, session)
        try:
            await found.listens()
            async with asyncio.TaskGroup() as group:
                log = group.create_task(_all(found))
                yield found
                if process.returncode is None:
                    await found.end()
                async with asyncio.timeout(PATIENCE_S):
                    await log
        finally:
            if process.returncode is None:
                # In order, or a process that hangs in the driver would be left.
                await found.end()
            async with asyncio.timeout(PATIENCE_S):
                await process.communicate()


async def _all(found: Collector) -> None:
    while await found.logged():
        pass
