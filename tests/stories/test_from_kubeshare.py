"""From KubeShare 2.0 to this scheduler and back, while pods run (docs/from-kubeshare.md).

KubeShare's restart recovery, and the result annotations that it writes, are what both sides read.
"""

from collections import defaultdict
from decimal import Decimal

import pytest

from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.scheduling.machine import Machine
from tests.stories.conftest import Stage, annotations, card, gpu
from tests.stories.former_kubeshare import FormerCard, FormerKubeShare, free_by_kubeshare

GIB = 1 << 30
Free = dict[str, tuple[Decimal, int]]
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 2, memory: 16GiB}]}]'


def cards_of(stage: Stage) -> list[FormerCard]:
    """n1's two cards, then n2's."""
    return [
        FormerCard(node.name, one.uuid, one.model, one.memory_bytes, f"{node.name}/{number}")
        for node in stage.nodes
        for number, one in enumerate(node.cards, 1)
    ]


async def free_by_books(stage: Stage) -> Free:
    """By KubeShare's cache, of all pods of both schedulers."""
    return free_by_kubeshare(cards_of(stage), await stage.all_pods())


def free_by_ledger(stage: Stage, machine: Machine) -> Free:
    """By the charges of this scheduler."""
    milli: defaultdict[str, int] = defaultdict(int)
    memory: defaultdict[str, int] = defaultdict(int)
    for node in stage.nodes:
        for charge in machine.ledger.pods_on(NodeName(node.name)).values():
            for one in charge.allocation.cards if charge.allocation else ():
                milli[one.uuid] += one.milli
                memory[one.uuid] += one.memory_bytes
    return {
        one.uuid: (Decimal(1000 - milli[one.uuid]) / 1000, one.memory - memory[one.uuid])
        for one in cards_of(stage)
    }


@pytest.mark.slow
async def test_pods_of_kubeshare_are_charged_and_left_as_they_are(empty_stage: Stage) -> None:
    """A scheduler that starts finds the free amounts and ports that the last one left."""
    stage = empty_stage
    a, b, c, d = cards_of(stage)
    former = FormerKubeShare(stage.client, (a, b, c, d))
    old = [
        await former.place("half", gpu("0.5"), a.uuid),
        await former.place("more", gpu("0.3", gpu_mem=str(10 * GIB)), b.uuid),
        await former.place("watching", {"sharedgpu/gpu_limit": "1.0"}, b.uuid),
        await former.place("whole", gpu("2.0", "2.0"), c.uuid, d.uuid),
    ]
    for pod in old:
        await stage.expect_running(pod["metadata"]["name"])
    before = {pod["metadata"]["name"]: pod for pod in await stage.all_pods()}
    async with stage.scheduler() as machine:
        await stage.create("first", gpu("0.5"))
        await stage.expect_running("first")
        assert free_by_ledger(stage, machine) == await free_by_books(stage)
        held = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in old}
        ports = {
            name: charge.allocation.port
            for uid, name in held.items()
            if (charge := machine.ledger.charge_of(PodUid(uid))) and charge.allocation
        }
        assert ports == {"half": 50051, "more": 50052, "watching": 50053, "whole": None}
        await stage.create("big", gpu("0.8"))
        assert await stage.expect_reasons("big") == "0/2 nodes are available: 2 Insufficient GPU."
        after = {pod["metadata"]["name"]: pod for pod in await stage.all_pods()}
        for name, pod in before.items():
            assert after[name]["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]
        await stage.expect_deleted("whole")
        assert card(await stage.expect_running("big")) in {c.uuid, d.uuid}
        assert free_by_ledger(stage, machine) == await free_by_books(stage)


async def test_pods_that_kubeshare_still_places_are_charged_live(empty_stage: Stage) -> None:
    stage = empty_stage
    a, b, c, d = cards_of(stage)
    former = FormerKubeShare(stage.client, (a, b, c, d))
    async with stage.scheduler() as machine:
        await stage.warm_up()
        await former.place("live", gpu("0.9"), a.uuid)
        await former.place("whole", gpu("2.0", "2.0"), c.uuid, d.uuid)
        told = await stage.expect_event("live", "AllocationNotOurs")
        assert f"with {a.uuid}: charged as it says" in told["note"]
        await stage.expect_event("whole", "AllocationNotOurs")
        await stage.create("ours", gpu("0.2"))
        assert card(await stage.expect_running("ours")) == b.uuid
        assert free_by_ledger(stage, machine) == await free_by_books(stage)


async def test_kubeshare_reads_back_what_this_scheduler_placed(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler() as machine:
        for name, labels in {
            "share": gpu("0.4"),
            "memory": gpu("0.2", gpu_mem=str(3 * GIB)),
            "whole": gpu("2", "2"),
        }.items():
            await stage.create(name, labels)
            await stage.expect_running(name)
        ours = free_by_ledger(stage, machine)
    assert await free_by_books(stage) == ours
    assert sorted(part for part, _ in ours.values()) == [
        Decimal(0),
        Decimal(0),
        Decimal("0.4"),
        Decimal(1),
    ]
    shares = [await stage.pod("share"), await stage.pod("memory")]
    assert {annotations(pod)["sharedgpu/gpu_manager_port"] for pod in shares} == {"50051", "50052"}
