"""What answers the scheduler that asks for cards: pages that are too large, too slow, or none.

A second scheduler asks it, which stands by: it reads cards as the one that leads does.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from aiohttp import web

from tests.attacks.attack import Attack, expect_eventually
from tests.attacks.attacked_cluster import rendered, scheduler_command
from tests.controlplane.processes import Process, process
from tests.controlplane.running import free_ports
from tests.edges.bare_server import Handler, serving

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

#: What the limit of an answer may cost (bytes): it is unpacked in pieces, in a process beside.
ROOM = 400 * 2**20


@cache
def compressed() -> bytes:
    """Half a gibibyte of nothing in 500 KB."""
    return gzip.compress(b"\0" * 2**29, 9)


async def bomb(_request: web.Request) -> web.Response:
    return web.Response(body=compressed(), headers={"Content-Encoding": "gzip"})


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b'{"status":"success","data":{"result":[' * 20_000)


async def nonsense(_request: web.Request) -> web.Response:
    return web.Response(
        body=b'{"status":"success","data":{"result":[{"metric":[],"value":1e999}]}}'
    )


async def nested(_request: web.Request) -> web.Response:
    return web.Response(body=b'{"status":"success","data":' + b"[" * 1_000_000)


async def elsewhere(_request: web.Request) -> web.Response:
    raise web.HTTPFound("file:///etc/passwd")


@asynccontextmanager
async def standing_by(
    attack: Attack, url: str, folder: Path
) -> AsyncIterator[tuple[Process, Path]]:
    """A second scheduler that asks this Prometheus."""
    [port] = free_ports(1)
    inventory = f'{{"source": "prometheus", "url": "{url}", "intervalSeconds": 0.5}}'
    chart = rendered(port, f"config.inventory={inventory}")
    command = await asyncio.to_thread(
        scheduler_command, attack.attacked_cluster.plane, chart, folder
    )
    log = folder / "standing-by.log"
    with process(command, log) as running:
        yield running, log


@pytest.mark.parametrize("page", [bomb, endless, nonsense, nested, elsewhere])
async def test_no_page_harms_the_scheduler(attack: Attack, tmp_path: Path, page: Handler) -> None:
    async with serving(page) as url, standing_by(attack, url, tmp_path) as (scheduler, log):

        async def said() -> dict[str, str]:
            return {"log": log.read_text()}

        await expect_eventually(said, lambda found: '"event":"inventory' in found["log"], 60)
        await attack.expect_victim_bound()
        assert scheduler.is_running()
        assert "Traceback" not in log.read_text()
        assert scheduler.resident_bytes() < ROOM
