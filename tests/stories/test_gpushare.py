"""gpushare's pods: the demos of its README and user guide, and pods of the old scheduler."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.nano_gpu import NanoGpu
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import pod_environment
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from kubeshare_py.scheduling.machine import Machine
from tests.dialects.decoder import units_by_card
from tests.dialects.gpushare_pods import COUNT, MEM, PLACEMENT, WHOLE
from tests.stories.conftest import PODS, Json, Stage, annotations
from tests.stories.test_deployments import DEPLOYMENTS

GIB, MIB = 1 << 30, 1 << 20
OURS = "kubeshare-scheduler"
IN_GIB = Dialects({OURS: (SHAREDGPU, Gpushare(), NanoGpu())})
IN_MIB = Dialects({OURS: (SHAREDGPU, Gpushare(unit="MiB"))})
CHOICES = {OURS: IsolationChoice((IsolationBackend.NONE,))}
SPREAD = Path(__file__).parents[2] / "config/spread.yaml"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
IDX, POD, DEV = (f"ALIYUN_COM_GPU_MEM_{name}" for name in ("IDX", "POD", "DEV"))
CLUSTER = "nodes: [{name: n1, gpus: [{model: Tesla-V100, count: 2, memory: 16276MiB}]}]"


def of_cards(*counts: int, mib: int = 15500) -> str:
    """A cluster file of nodes with so many cards."""
    gpus = [
        {"name": f"n{at}", "gpus": [{"model": "Tesla-T4", "count": count, "memory": f"{mib}MiB"}]}
        for at, count in enumerate(counts, 1)
    ]
    return yaml.safe_dump({"nodes": gpus})


def a_spec(*containers: Mapping[str, int], **fields: Any) -> Json:
    found = [
        {
            "name": f"c{at}",
            "image": "cheyang/gpu-player:v2",
            "resources": {"limits": {name: str(amount) for name, amount in asked.items()}},
        }
        for at, asked in enumerate(containers)
    ]
    return {"schedulerName": OURS, "containers": found, **fields}


async def create(
    stage: Stage, name: str, *containers: Mapping[str, int], labels: dict[str, str] | None = None
) -> None:
    """A pod as the webhook leaves it."""
    metadata = {"name": name, "labels": labels or {}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": a_spec(*containers)}
    await stage.client.create(PODS, environment(CHOICES, IN_GIB)(pod, {}))


def workload(kind: str, name: str, units: int, replicas: int = 1) -> Json:
    """As in gpushare's samples, in the API version that servers have today."""
    labels = {"app": name}
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": a_spec({MEM: units})},
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def index_of(stage: Stage, app: str) -> str:
    """The index of the card of the one pod of a Deployment."""
    pods = await stage.expect_all(
        lambda found: (
            [one["status"].get("phase") for one in found if of_app(one, app)] == ["Running"]
        )
    )
    [pod] = [one for one in pods if of_app(one, app)]
    return annotations(pod)[IDX]


def of_app(pod: Json, app: str) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("app") == app)


def free(machine: Machine, node: str = "n1") -> list[int]:
    """The free bytes of a node's cards."""
    columns = machine.ledger.columns
    row = columns.row_of[NodeName(node)]
    return [int(columns.free_bytes[row, slot]) for slot in range(int(columns.gpu_count[row]))]


@pytest.mark.slow
async def test_the_first_demo_fills_one_card_then_the_other(empty_stage: Stage) -> None:
    """Units are MiB, and a card of 16276 takes two pods of 8138."""
    stage = empty_stage
    async with stage.scheduler(dialects=IN_MIB) as machine:
        indices = []
        for number in (1, 2, 3):
            name = f"binpack-{number}"
            await stage.client.create(DEPLOYMENTS, workload("Deployment", name, 8138))
            indices.append(await index_of(stage, name))
        assert indices == ["0", "0", "1"]
        assert free(machine) == [0, 8138 * MIB]
        await stage.client.create(DEPLOYMENTS, workload("Deployment", "binpack-4", 16276))
        await stage.expect_all(
            lambda found: any(of_app(one, "binpack-4") and one.get("status") for one in found)
        )
        await stage.client.delete(f"{DEPLOYMENTS}/binpack-3")
        assert await index_of(stage, "binpack-4") == "1"


@pytest.mark.parametrize("nodes", [of_cards(2, 2, 2, mib=16276)])
async def test_the_second_demo_looks_at_each_card_and_not_only_at_the_node(
    empty_stage: Stage,
) -> None:
    """As in the figure of gpushare's filter, what fits a node may fit none of its cards."""
    stage = empty_stage
    held = {"n1": (16276, 12207), "n2": (12207, 12207), "n3": (8138, 16276)}
    for node, cards in held.items():
        for index, units in enumerate(cards):
            told = {IDX: str(index), POD: str(units), DEV: "16276"}
            await bound_by_the_old_scheduler(stage, f"{node}-{index}", node, units, told)
    async with stage.scheduler(dialects=IN_MIB):
        await create(stage, "p", {MEM: 8138})
        pod = await stage.expect_running("p")
        assert (pod["spec"]["nodeName"], annotations(pod)[IDX]) == ("n3", "0")
        await create(stage, "q", {MEM: 8138})
        assert "Insufficient GPU memory" in await stage.expect_waiting("q")


async def bound_by_the_old_scheduler(
    stage: Stage, name: str, node: str, units: int, told: dict[str, str]
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": told},
        "spec": {**a_spec({MEM: units}), "schedulerName": "default-scheduler", "nodeName": node},
    }
    await stage.client.create(PODS, pod)


@pytest.mark.parametrize("nodes", [of_cards(1)])
async def test_the_user_guide_fits_five_pods_on_a_card(empty_stage: Stage) -> None:
    """Pods of 3 units on a card of 15; the sixth waits."""
    stage = empty_stage
    async with stage.scheduler(dialects=IN_GIB) as machine:
        await stage.client.create(STATEFUL_SETS, workload("StatefulSet", "binpack", 3, replicas=6))
        names = await stage.expect_bound(5)
        pods = [await stage.pod(name) for name in names]
        assert {annotations(pod)[IDX] for pod in pods} == {"0"}
        assert {annotations(pod)[DEV] for pod in pods} == {"15"}
        assert free(machine) == [500 * MIB - 360 * MIB]


async def test_containers_know_their_own_units_on_one_card(empty_stage: Stage) -> None:
    """Amounts are of each container, the card of the pod; what asks for nothing sees no card."""
    stage = empty_stage
    async with stage.scheduler(dialects=IN_GIB):
        await create(stage, "p", {MEM: 1, COUNT: 1}, {}, {MEM: 2})
        pod = await stage.expect_running("p")
    told = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")
    card = stage.nodes[0].cards[0].uuid
    common = {IDX: "0", POD: "3", DEV: "15", "NVIDIA_VISIBLE_DEVICES": card}
    for name, units in (("c0", "1"), ("c2", "2")):
        assert told[name].items() >= (common | {"ALIYUN_COM_GPU_MEM_CONTAINER": units}).items()
    assert told["c1"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert IDX not in told["c1"]


@pytest.mark.parametrize("nodes", [of_cards(4)])
async def test_the_label_divides_the_memory_over_cards(empty_stage: Stage) -> None:
    """8 units are 2 on each of four cards; a whole device is an idle one of exactly its size."""
    stage = empty_stage
    async with stage.scheduler(dialects=IN_GIB) as machine:
        await create(stage, "p", {MEM: 8}, labels={COUNT: "4"})
        pod = await stage.expect_running("p")
        notes = annotations(pod)
        assert units_by_card(notes, [8]) == {0: 2, 1: 2, 2: 2, 3: 2}
        variables = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")["c0"]
        assert variables["ALIYUN_COM_GPU_MEM_CONTAINER"] == "2"
        assert variables[DEV] == "15"
        assert len(variables["NVIDIA_VISIBLE_DEVICES"].split(",")) == 4
        await create(stage, "whole", {MEM: 15}, labels={PLACEMENT: WHOLE})
        await stage.expect_waiting("whole")
        await create(stage, "odd", {MEM: 14}, labels={PLACEMENT: WHOLE})
        assert "GPU of another size" in await stage.expect_waiting("odd")
        await stage.expect_deleted("p")
        assert annotations(await stage.expect_running("whole"))[POD] == "15"
        assert 0 in free(machine)


async def test_pods_of_the_old_scheduler_are_charged(empty_stage: Stage) -> None:
    """Both generations are read; the larger of annotation and limits counts."""
    stage = empty_stage
    first = {IDX: "1", POD: "3", DEV: "15"}
    second = {"scheduler.framework.gpushare.allocation": json.dumps({"0": {"0": 4, "1": 2}})}
    await bound_by_the_old_scheduler(stage, "first", "n1", 3, first)
    await bound_by_the_old_scheduler(stage, "second", "n1", 6, second)
    await bound_by_the_old_scheduler(stage, "small", "n1", 9, first | {POD: "1", IDX: "0"})
    await bound_by_the_old_scheduler(stage, "absent", "n1", 2, first | {IDX: "5"})
    await bound_by_the_old_scheduler(stage, "text", "n1", 2, first | {IDX: "abc"})
    async with stage.scheduler(dialects=IN_GIB) as machine:
        event = await stage.expect_event("small", "AllocationDiffers")
        assert f"its annotations say {GIB} bytes, its spec {9 * GIB}" in event["note"]
        unreadable = await stage.expect_event("text", "AllocationUnreadable")
        assert "ALIYUN_COM_GPU_MEM_IDX" in unreadable["note"]
        await create(stage, "p", {MEM: 1})
        await stage.expect_running("p")
        total = 16276 * MIB
        zero, one = free(machine)[:2]
        # The second generation's pod is charged what its annotations say, and its limits, on each.
        assert one <= total - (3 + 2) * GIB
        assert zero <= total - (9 + 4) * GIB


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [of_cards(4)])
async def test_spread_takes_a_card_each_and_binpack_one(empty_stage: Stage) -> None:
    """With config/spread.yaml, and with the default profile."""
    stage = empty_stage
    profiles = yaml.safe_load(SPREAD.read_text())["profiles"]
    alone: Json = {"inventory": {"intervalSeconds": 0.1}, "leaderElection": {"leaderElect": False}}
    for number, (document, wanted) in enumerate(
        ((alone | {"profiles": profiles}, {"0", "1", "2", "3"}), (alone, {"0"}))
    ):
        names = [f"p{number}-{at}" for at in range(4)]
        async with stage.scheduler(document, dialects=IN_GIB):
            found = set()
            for name in names:
                await create(stage, name, {MEM: 3})
                found.add(annotations(await stage.expect_running(name))[IDX])
            assert found == wanted
            for name in names:
                await stage.expect_deleted(name)


@pytest.mark.parametrize("nodes", [of_cards(1, 1)])
async def test_binpack_chooses_the_fuller_node(empty_stage: Stage) -> None:
    """5 and 15 are free, and the pod asks for 5."""
    stage = empty_stage
    told = {IDX: "0", POD: "10", DEV: "15"}
    await bound_by_the_old_scheduler(stage, "old", "n2", 10, told)
    async with stage.scheduler(dialects=IN_GIB):
        await create(stage, "p", {MEM: 5})
        assert (await stage.expect_running("p"))["spec"]["nodeName"] == "n2"
