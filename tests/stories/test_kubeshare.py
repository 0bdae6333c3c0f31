"""What users of KubeShare 2.0 rely on, seen from outside."""

import json
from pathlib import Path

import pytest

from kubeshare_py.domain.identity import GpuUuid
from tests.stories.conftest import Stage, annotations, card, gpu

CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 2, memory: 16GiB}]}]"


async def port(stage: Stage, name: str) -> str:
    await stage.create(name, gpu("0.1"))
    return annotations(await stage.expect_running(name))["sharedgpu/gpu_manager_port"]


@pytest.mark.slow
async def test_a_request_of_nothing_finds_a_place_on_a_full_card(stage: Stage) -> None:
    await stage.create("a", gpu("1.0"))
    await stage.create("b", gpu("1.0"))
    await stage.expect_bound(2)
    await stage.create("observer", {"sharedgpu/gpu_limit": "0.5"})
    assert card(await stage.expect_running("observer"))
    await stage.expect_deleted("a")
    await stage.expect_deleted("b")
    await stage.create("whole", gpu("2", "2"))
    assert await stage.expect_reasons("whole") == "0/1 nodes are available: 1 Insufficient GPU."


async def test_ports_go_up_before_they_are_used_again(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler():
        found = [await port(stage, name) for name in ("a", "b", "c")]
        await stage.expect_deleted("a")
        found.append(await port(stage, "d"))
    assert found == ["50051", "50052", "50053", "50054"]


@pytest.mark.slow
@pytest.mark.parametrize("code", ["0", pytest.param("7", marks=pytest.mark.long)])
async def test_a_finished_pod_gives_back_all_it_had_and_once(stage: Stage, code: str) -> None:
    plan = {"kubeshare.sim/run-seconds": "0.1", "kubeshare.sim/exit-code": code}
    for number in range(4):
        await stage.create(f"half-{number}", gpu("0.5"), annotations=plan, restartPolicy="Never")
    ended = ("Succeeded", "Failed")
    await stage.expect_all(
        lambda pods: [pod["status"].get("phase") in ended for pod in pods] == [True] * 4
    )
    for number in range(4):
        await stage.expect_deleted(f"half-{number}")
    await stage.create("whole", gpu("2", "2"))
    await stage.expect_running("whole")
    await stage.create("more", gpu("0.001"))
    assert await stage.expect_reasons("more") == "0/1 nodes are available: 1 Insufficient GPU."


async def test_labels_and_owners_stay_and_the_pod_keeps_its_uid(stage: Stage) -> None:
    made = await stage.create("a", {**gpu("0.5"), "app": "train"})
    pod = await stage.expect_running("a")
    assert pod["metadata"]["labels"] == made["metadata"]["labels"]
    assert pod["metadata"]["uid"] == made["metadata"]["uid"]
    allocation = json.loads(annotations(pod)["sharedgpu/allocation"])
    assert [claim["uuid"] for claim in allocation["claims"]] == [card(pod)]
    assert annotations(pod)["sharedgpu/gpu_mem"] == str(8 << 30)


async def test_a_model_is_asked_for_by_its_name_with_dashes(stage: Stage) -> None:
    await stage.create("a", gpu("0.5", gpu_model="T4"))
    await stage.expect_running("a")
    await stage.create("b", gpu("0.5", gpu_model="A100"))
    assert await stage.expect_reasons("b") == (
        'impossible: no card here is called "A100"; there are T4 (2). '
        "0/1 nodes are available: 1 no GPU of model A100."
    )


CELLS = """
cellTypes:
  2-T4-NODE: {childCellType: T4, childCellNumber: 2, childCellPriority: 50, isNodeLevel: true}
cells:
- {cellType: 2-T4-NODE, cellId: n1}
"""


async def test_pods_are_told_the_cells_of_their_cards(empty_stage: Stage, tmp_path: Path) -> None:
    stage, file = empty_stage, tmp_path / "kubeshare-config.yaml"
    file.write_text(CELLS)
    inventory = {"cellsFile": str(file), "intervalSeconds": 0.1}
    alone = {"leaderElection": {"leaderElect": False}}
    async with stage.scheduler({"inventory": inventory, **alone}) as machine:
        await stage.create("share", gpu("0.5"))
        pod = await stage.expect_running("share")
        # The first card is the last leaf, as KubeShare has it.
        index = [one.uuid for one in stage.nodes[0].cards].index(GpuUuid(card(pod)))
        cell = f"n1/{2 - index}"
        assert annotations(pod)["sharedgpu/cell_id"] == cell
        allocation = json.loads(annotations(pod)["sharedgpu/allocation"])
        assert [claim["cell"] for claim in allocation["claims"]] == [cell]
        (row,) = machine.ledger.columns.row_of.values()
        assert machine.ledger.columns.cell_priority[row].tolist()[:2] == [50, 50]
