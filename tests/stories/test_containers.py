"""Containers of one pod with cards of their own: what each sees, and what a restart keeps."""

import json
from typing import Any

import pytest

from tests.stories.conftest import Json, Stage, gpu

GIB = 1 << 30


@pytest.fixture
def nodes() -> str:
    return "nodes: [{name: n1, gpus: [{model: T4, count: 2, memory: 16GiB}]}]"


def uuids(stage: Stage) -> list[str]:
    return [card.uuid for node in stage.nodes for card in node.cards]


def by_container(stage: Stage) -> dict[str, str]:
    """As a scheduler writes it: two containers share one card, and one has the other for itself."""
    shared, whole = uuids(stage)
    part: Json = {"uuid": shared, "milli": 300, "bytes": GIB, "model": "T4"}
    alone = part | {"uuid": whole, "milli": 1000, "bytes": 2 * GIB, "exclusive": True}
    parts: dict[str, list[Json]] = {
        "container-0": [part],
        "container-1": [part | {"milli": 200}, alone],
    }
    claims: list[Any] = [
        {"container": name, "limit_milli": 500, "cards": cards} for name, cards in parts.items()
    ]
    placed = {"v": 2, "token": "forged-1", "dialect": "d", "claims": claims, "port": 50500}
    results = {
        "allocation": json.dumps(placed),
        "gpu_uuid": f"{shared},{whole}",
        "gpu_mem": str(4 * GIB),
        "gpu_manager_port": "50500",
        "container-0.gpu_uuid": shared,
        "container-1.gpu_uuid": f"{shared},{whole}",
    }
    return {f"sharedgpu/{name}": value for name, value in results.items()}


async def test_what_containers_hold_together_is_charged_and_a_new_scheduler_knows_it(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    shared, _ = uuids(stage)
    async with stage.scheduler():
        await stage.create("both", annotations=by_container(stage), nodeName="n1")
        await stage.expect_event("both", "AllocationNotOurs")
        await stage.create("fits", gpu("0.4"))
        fits = await stage.expect_running("fits")
        assert fits["metadata"]["annotations"]["sharedgpu/gpu_uuid"] == shared
        await stage.create("too-big", gpu("0.2"))
        told = await stage.expect_waiting("too-big")
    async with stage.scheduler():
        await stage.create("again", gpu("0.2"))
        assert await stage.expect_waiting("again") == told
        await stage.create("rest", gpu("0.1"))
        await stage.expect_running("rest")
        await stage.expect_deleted("both")
        await stage.expect_running("too-big")
        await stage.expect_running("again")


async def test_a_container_that_is_told_anothers_cards_is_noticed(empty_stage: Stage) -> None:
    stage = empty_stage
    _, whole = uuids(stage)
    told = by_container(stage) | {"sharedgpu/container-0.gpu_uuid": whole}
    async with stage.scheduler():
        await stage.create("both", annotations=told, nodeName="n1")
        event = await stage.expect_event("both", "GPUMismatch")
        assert f"sharedgpu/container-0.gpu_uuid says {whole}" in event["note"]
