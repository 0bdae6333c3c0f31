"""From gpushare's scheduler to ours and back while pods run, and what its inspect tool shows."""

import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.nano_gpu import NanoGpu
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.scheduling.machine import Machine
from tests.dialects.gpushare_pods import COUNT, MEM, PLACEMENT, WHOLE
from tests.dialects.inspect_table import rows, summary
from tests.stories.conftest import NODES, Json, Stage, annotations
from tests.stories.former_gpushare import FormerGpushare

GIB = 1 << 30
UNITS = 15
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Gpushare(), NanoGpu())})
CLUSTER = f"""
nodes:
  - name: n{{n}}
    count: 2
    allocatable: {{{MEM}: "{2 * UNITS}", {COUNT}: "2"}}
    gpus: [{{model: Tesla-T4, count: 2, memory: {UNITS}GiB}}]
"""


async def create(
    stage: Stage,
    name: str,
    *units: int,
    labels: dict[str, str] | None = None,
    node: str = "",
) -> None:
    """A pod whose containers ask for these units."""
    containers = [
        {"name": f"c{at}", "image": "x", "resources": {"limits": {MEM: str(one)} if one else {}}}
        for at, one in enumerate(units)
    ]
    there = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    await stage.create(name, labels, containers=containers, **there)


def used(stage: Stage, machine: Machine, node: str = "n1") -> list[int]:
    """The units that are charged of each card, in the order of their indices."""
    columns = machine.ledger.columns
    row = columns.row_of[NodeName(node)]
    slots = {str(uuid): slot for slot, uuid in enumerate(columns.uuids[row])}
    [cards] = [one.cards for one in stage.nodes if one.name == node]
    return [UNITS - columns.free_bytes.item(row, slots[card.uuid]) // GIB for card in cards]


async def fixed(stage: Stage) -> list[tuple[str, str]]:
    """Each pod with the version of its object."""
    return [
        (pod["metadata"]["uid"], pod["metadata"]["resourceVersion"])
        for pod in await stage.all_pods()
    ]


async def test_inspect_shows_what_ours_holds(empty_stage: Stage) -> None:
    """One card, two containers, several cards, a whole card, and a pod that waits."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "one", 3)
        await create(stage, "two", 1, 0, 2)
        await create(stage, "both", 8, labels={COUNT: "2"})
        await create(stage, "whole", UNITS, labels={PLACEMENT: WHOLE})
        for name in ("one", "two", "both", "whole"):
            await stage.expect_running(name)
        # Unlike gpushare's: nothing on the node needs the mark, so that it stays as it was written.
        assert annotations(await stage.pod("one"))["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"
        await create(stage, "waits", 16)
        await stage.expect_waiting("waits")
        shown: list[Json] = await stage.client.list_all(NODES)
        pods = await stage.all_pods()
        for row in rows(shown, pods):
            assert [row.given.get(at, 0) for at in (0, 1)] == used(stage, machine, row.name)
    said = summary(shown, pods).splitlines()
    assert "PENDING" not in said[0]
    assert said[0].endswith("GPU Memory(GiB)")
    assert said[-1] == "29/60 (48%)"


@pytest.mark.slow
async def test_a_cluster_moves_over_while_pods_run_and_back_again(empty_stage: Stage) -> None:
    """Old pods stay as they are; each side counts what the other one placed."""
    stage = empty_stage
    former = FormerGpushare(stage.client, "n1", 2, UNITS)
    assert [await former.place(f"old-{at}", units) for at, units in enumerate((9, 8, 4))] == [
        0,
        1,
        0,
    ]
    for at in range(3):
        await stage.expect_running(f"old-{at}")
    before = await fixed(stage)
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "ours", 7, node="n1")
        assert annotations(await stage.expect_running("ours"))["ALIYUN_COM_GPU_MEM_IDX"] == "1"
        assert used(stage, machine) == [13, 15]
        assert {*before} < {*await fixed(stage)}
        # What the old scheduler still binds counts at once.
        assert await former.place("live", 2) == 0
        await create(stage, "late", 1, node="n1")
        await stage.expect_waiting("late")
        await stage.expect_deleted("old-2")
        assert annotations(await stage.expect_running("late"))["ALIYUN_COM_GPU_MEM_IDX"] == "0"
        assert used(stage, machine) == [12, 15]
    assert former.free(await stage.all_pods()) == [3, 0]
    assert await former.place("back", 3) == 0
    await stage.expect_running("back")
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "elsewhere", 1)
        assert (await stage.expect_running("elsewhere"))["spec"]["nodeName"] == "n2"
        assert used(stage, machine) == [15, 15]


async def test_of_two_pods_for_the_last_units_one_waits(empty_stage: Stage) -> None:
    """Both are there at once."""
    stage = empty_stage
    former = FormerGpushare(stage.client, "n1", 2, UNITS)
    for name, units in (("a", 15), ("b", 10)):
        await former.place(name, units)
    await create(stage, "first", 5, node="n1")
    await create(stage, "second", 5, node="n1")
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await stage.expect_all(
            lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 3
        )
        assert used(stage, machine) == [15, 15]
        bound = {one["metadata"]["name"] for one in await stage.all_pods() if node_of(one)}
        [loser] = {"first", "second"} - bound
        await stage.expect_waiting(loser)


@pytest.mark.slow
async def test_a_binding_that_fails_costs_no_units(empty_stage: Stage) -> None:
    """The answer is an error; the next attempt binds, and units count once."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await stage.warm_up()
        stage.spoil_binds(status=500, times=2)
        await create(stage, "p", 12, node="n1")
        await stage.expect_running("p")
        assert used(stage, machine) == [12, 0]
        await stage.expect_deleted("p")
        await create(stage, "q", 15, node="n1")
        await stage.expect_running("q")
        assert sorted(used(stage, machine)) == [0, 15]


def node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName", ""))
