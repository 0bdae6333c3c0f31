"""Processes end by SIGKILL, API servers stop, start again, and come back from a backup."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import yaml

from tests.faults.arena import PODS, Arena, arena, pod
from tests.faults.books import Books
from tests.faults.fast_time import run_fast
from tests.faults.weather import Weather

KILLS, HALVES = 3, 24
NODES = 'nodes: [{name: "n{n}", count: 3, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'
ONE_CARD = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


async def create_half(found: Arena, name: str) -> None:
    labels = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
    await found.cluster.client.create(PODS, pod(name, labels, {}))


@asynccontextmanager
async def process(found: Arena) -> AsyncIterator[asyncio.subprocess.Process]:
    """kubeshare-scheduler behind the proxy, killed at the end."""
    settings = {
        "leaderElection": {"leaderElect": False},
        "inventory": {
            "source": "file", "path": str(found.cards_file()), "intervalSeconds": 0.5,
        },
        "server": {"bindAddress": "127.0.0.1", "port": 0},
    }  # fmt: skip
    file = found.folder / "settings.yaml"
    file.write_text(yaml.safe_dump(settings))
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubeshare_cmd.scheduler",
        "--config", str(file), "--kubeconfig", str(found.kubeconfig()),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        await started.wait()


async def test_a_process_killed_again_and_again_in_a_burst(tmp_path: Path) -> None:
    rng = random.Random(7)
    async with arena(tmp_path, NODES) as found:
        books = found.books

        def bound(wanted: int) -> bool:
            return len(books.pods) - len(books.waiting()) >= wanted

        placed = 0
        for number in range(HALVES):
            await create_half(found, f"half-{number}")
        found.proxy.weather = Weather(7, requests=0.3, watches=0.2)
        for kill in range(KILLS):
            placed += rng.randrange(1, HALVES // KILLS)
            async with process(found):
                assert await books.until(partial(bound, placed), 30), kill
        found.proxy.calm()
        async with process(found):
            assert await books.until(partial(bound, HALVES), 30)
    assert not books.problems


async def comes_back(folder: Path) -> None:
    async with arena(folder, NODES) as found:
        found.start()
        server, books = found.cluster.server, found.books
        await create_half(found, "before")
        assert await books.until(lambda: bool(books.pods) and not books.waiting(), 60)
        await server.stop()
        await asyncio.sleep(2)
        await server.start()
        await create_half(found, "after")
        assert await books.until(lambda: len(books.pods) == 2 and not books.waiting(), 60)
        assert (books.gaps, books.problems) == (0, [])


def test_an_api_server_that_stops_and_starts_again_costs_a_pause(tmp_path: Path) -> None:
    run_fast(lambda: comes_back(tmp_path))


async def restored(folder: Path) -> None:
    async with arena(folder, ONE_CARD) as found:
        found.start()
        server, books = found.cluster.server, found.books
        await create_half(found, "kept")
        assert await books.until(lambda: bool(books.pods) and not books.waiting(), 60)
        backup = server.service.store.backup()
        for number in range(10):
            await create_half(found, f"lost-{number}")
        assert await books.until(lambda: len(books.waiting()) == 9, 60)
        await server.stop()
        server.service.store.restore(backup)
        await server.start()
        async with found.keeping(Books(books.cards)) as again:
            await create_half(found, "new")
            assert await again.until(lambda: len(again.pods) == 2 and not again.waiting(), 60)
        assert not again.problems


def test_a_server_restored_from_a_backup_is_listed_anew(tmp_path: Path) -> None:
    run_fast(lambda: restored(tmp_path))
