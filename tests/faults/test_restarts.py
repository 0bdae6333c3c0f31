"""Processes end by SIGKILL, API servers go and come back, forget, and come back from a backup."""

import random

import pytest

from kubeshare_py.edges.kube.errors import KubeError
from tests.faults.api_servers import EmbeddedApiServer
from tests.faults.chaos_cluster import PODS, ChaosCluster, pod, share
from tests.faults.conftest import RunScenario
from tests.faults.fault_plan import FaultPlan
from tests.faults.reference_model import ReferenceModel

KILLS, RESTARTS, HALVES = 3, 2, 24
NODES = 'nodes: [{name: "n{n}", count: 3, gpus: [{model: T4, count: 4, memory: 16GiB}]}]'
ONE_CARD = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


async def create_halves(found: ChaosCluster, *names: object) -> None:
    for name in names:
        await found.create(pod(f"half-{name}", share("0.5")))


async def expect_bound(found: ChaosCluster, wanted: int) -> None:
    reference = found.reference
    assert await reference.until(lambda: reference.bound() >= wanted, found.durations.settles_s), (
        reference.bound()
    )


async def expect_all_bound_after_kills(found: ChaosCluster) -> None:
    rng = random.Random(7)
    await create_halves(found, *range(HALVES))
    found.proxy.fault_plan = FaultPlan(7, requests=0.3, watches=0.2)
    placed = 0
    for _ in range(KILLS):
        placed += rng.randrange(1, HALVES // KILLS)
        found.schedulers.start()
        await expect_bound(found, placed)
        await found.schedulers.kill()
    found.proxy.end_faults()
    found.schedulers.start()
    await expect_bound(found, HALVES)
    assert not found.reference.problems


@pytest.mark.slow
def test_a_process_killed_again_and_again_in_a_burst(run_scenario: RunScenario) -> None:
    run_scenario(expect_all_bound_after_kills, NODES, processes=True)


async def expect_short_pause(found: ChaosCluster) -> None:
    rng, each = random.Random(8), HALVES // RESTARTS
    found.schedulers.start()
    for burst in range(RESTARTS):
        await create_halves(found, *range(burst * each, (burst + 1) * each))
        await expect_bound(found, burst * each + rng.randrange(1, each))
        await found.api_server.stop()
        await found.api_server.start()
    await expect_bound(found, HALVES)
    assert not found.reference.problems


@pytest.mark.slow
def test_an_api_server_that_goes_and_comes_back_costs_a_pause(run_scenario: RunScenario) -> None:
    run_scenario(expect_short_pause, NODES)


async def is_forgotten(found: ChaosCluster, version: str) -> bool:
    """Whether the server can neither tell what was at this version nor what happened since."""
    past = {"resourceVersion": version, "resourceVersionMatch": "Exact", "limit": "500"}
    since = {"resourceVersion": version, "watch": "true"}
    with pytest.raises(KubeError) as error:
        await found.api_server.client.get(PODS, past)
    async with found.api_server.client.stream(PODS, query=since, read_timeout_s=30) as pieces:
        told = b"".join([piece async for piece in pieces])
    return error.value.status == 410 and b'"code":410' in told


async def expect_new_list(found: ChaosCluster) -> None:
    found.schedulers.start()
    await create_halves(found, *range(HALVES))
    await expect_bound(found, HALVES)
    version = (await found.api_server.client.get(PODS, {"limit": "1"}))["metadata"][
        "resourceVersion"
    ]
    await found.proxy.refuse()
    for number in range(0, HALVES, 2):
        await found.delete(f"half-{number}")
    await create_halves(found, *range(HALVES, HALVES + HALVES // 2))
    await found.api_server.compact()
    await found.api_server.stop()
    await found.api_server.start()
    assert await is_forgotten(found, version)
    await found.proxy.accept()
    await expect_bound(found, HALVES)
    await create_halves(found, "more")
    assert await found.reference.until(
        lambda: not found.reference.overlooked(), found.durations.settles_s
    )
    assert (found.reference.bound(), found.reference.problems) == (HALVES, [])


@pytest.mark.slow
def test_what_a_server_has_forgotten_is_listed_anew(run_scenario: RunScenario) -> None:
    run_scenario(expect_new_list, NODES)


async def expect_list_after_restore(found: ChaosCluster) -> None:
    assert isinstance(found.api_server, EmbeddedApiServer)
    found.schedulers.start()
    server, reference = found.api_server.server, found.reference
    await create_halves(found, "kept")
    await expect_bound(found, 1)
    backup = server.service.store.backup()
    await create_halves(found, *range(10))
    assert await reference.until(lambda: len(reference.waiting()) == 9, found.durations.settles_s)
    await server.stop()
    server.service.store.restore(backup)
    await server.start()
    async with found.keeping(ReferenceModel(reference.cards)) as again:
        await create_halves(found, "new")
        assert await again.until(
            lambda: again.bound() == 2 and not again.waiting(), found.durations.settles_s
        )
    assert not again.problems


@pytest.mark.slow
@pytest.mark.embedded_only("restoring etcd takes a tool that is not built for the tests")
def test_a_server_restored_from_a_backup_is_listed_anew(run_scenario: RunScenario) -> None:
    run_scenario(expect_list_after_restore, ONE_CARD)
