"""Processes end by SIGKILL, API servers go and come back, forget, and come back from a backup."""

import random

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from tests.faults.arena import PODS, Arena, pod, share
from tests.faults.conftest import Play
from tests.faults.ground import EmbeddedGround
from tests.faults.reference_model import ReferenceModel
from tests.faults.weather import Weather

KILLS, RESTARTS, HALVES = 3, 2, 24
NODES = 'nodes: [{name: "n{n}", count: 3, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'
ONE_CARD = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


async def create_halves(found: Arena, *names: object) -> None:
    for name in names:
        await found.create(pod(f"half-{name}", share("0.5")))


async def expect_bound(found: Arena, wanted: int) -> None:
    reference = found.reference
    assert await reference.until(lambda: reference.bound() >= wanted, found.pace.settles_s), (
        reference.bound()
    )


async def killed_in_a_burst(found: Arena) -> None:
    rng = random.Random(7)
    await create_halves(found, *range(HALVES))
    found.proxy.weather = Weather(7, requests=0.3, watches=0.2)
    placed = 0
    for _ in range(KILLS):
        placed += rng.randrange(1, HALVES // KILLS)
        found.schedulers.start()
        await expect_bound(found, placed)
        await found.schedulers.kill()
    found.proxy.calm()
    found.schedulers.start()
    await expect_bound(found, HALVES)
    assert not found.reference.problems


def test_a_process_killed_again_and_again_in_a_burst(play: Play) -> None:
    play(killed_in_a_burst, NODES, processes=True)


async def comes_back(found: Arena) -> None:
    rng, each = random.Random(8), HALVES // RESTARTS
    found.schedulers.start()
    for burst in range(RESTARTS):
        await create_halves(found, *range(burst * each, (burst + 1) * each))
        await expect_bound(found, burst * each + rng.randrange(1, each))
        await found.ground.stop()
        await found.ground.start()
    await expect_bound(found, HALVES)
    assert not found.reference.problems


def test_an_api_server_that_goes_and_comes_back_costs_a_pause(play: Play) -> None:
    play(comes_back, NODES)


async def is_forgotten(found: Arena, version: str) -> bool:
    """Whether the server can neither tell what was at this version nor what happened since."""
    past = {"resourceVersion": version, "resourceVersionMatch": "Exact", "limit": "500"}
    since = {"resourceVersion": version, "watch": "true"}
    with pytest.raises(KubeError) as error:
        await found.ground.client.get(PODS, past)
    async with found.ground.client.stream(PODS, query=since, read_timeout_s=30) as pieces:
        told = b"".join([piece async for piece in pieces])
    return error.value.status == 410 and b'"code":410' in told


async def forgets(found: Arena) -> None:
    found.schedulers.start()
    await create_halves(found, *range(HALVES))
    await expect_bound(found, HALVES)
    version = (await found.ground.client.get(PODS, {"limit": "1"}))["metadata"]["resourceVersion"]
    await found.proxy.refuse()
    for number in range(0, HALVES, 2):
        await found.delete(f"half-{number}")
    await create_halves(found, *range(HALVES, HALVES + HALVES // 2))
    await found.ground.compact()
    await found.ground.stop()
    await found.ground.start()
    assert await is_forgotten(found, version)
    await found.proxy.accept()
    await expect_bound(found, HALVES)
    await create_halves(found, "more")
    assert await found.reference.until(
        lambda: not found.reference.overlooked(), found.pace.settles_s
    )
    assert (found.reference.bound(), found.reference.problems) == (HALVES, [])


def test_what_a_server_has_forgotten_is_listed_anew(play: Play) -> None:
    play(forgets, NODES)


async def restored(found: Arena) -> None:
    assert isinstance(found.ground, EmbeddedGround)
    found.schedulers.start()
    server, reference = found.ground.server, found.reference
    await create_halves(found, "kept")
    await expect_bound(found, 1)
    backup = server.service.store.backup()
    await create_halves(found, *range(10))
    assert await reference.until(lambda: len(reference.waiting()) == 9, found.pace.settles_s)
    await server.stop()
    server.service.store.restore(backup)
    await server.start()
    async with found.keeping(ReferenceModel(reference.cards)) as again:
        await create_halves(found, "new")
        assert await again.until(
            lambda: again.bound() == 2 and not again.waiting(), found.pace.settles_s
        )
    assert not again.problems


@pytest.mark.embedded_only("restoring etcd takes a tool that is not built for the tests")
def test_a_server_restored_from_a_backup_is_listed_anew(play: Play) -> None:
    play(restored, ONE_CARD)
