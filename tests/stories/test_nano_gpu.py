"""nano-gpu's and elastic-gpu's pods: the demos of their READMEs, and pods of the old scheduler."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubeshare_py.configuration.scheduler import read
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.nano_gpu import NanoGpu
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.process.plugin_entry_points import configured
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import pod_environment
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from kubeshare_py.scheduling.machine import Machine
from tests.dialects.pods import CORE, MEMORY, OLD_CORE, OLD_MEMORY, PERCENT
from tests.stories.conftest import PODS, Json, Stage, annotations, gpu
from tests.stories.test_deployments import DEPLOYMENTS

GIB, MIB = 1 << 30, 1 << 20
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, NanoGpu())})
CHOICES = {"kubeshare-scheduler": IsolationChoice((IsolationBackend.NONE,))}
SPREAD = Path(__file__).parents[2] / "config/nano-gpu-spread.yaml"
FLAG = "elasticgpu.io/assumed"
CLUSTER = """
nodes:
  - name: n1
    allocatable: {nano-gpu.io/gpu-core: "200", nano-gpu.io/gpu-memory: "32"}
    gpus: [{model: Tesla-T4, count: 2, memory: 16GiB}]
"""


def a_spec(*containers: Mapping[str, int], **fields: Any) -> Json:
    """Containers that ask for these amounts; the first is called cuda as in the READMEs."""
    found = [
        {
            "name": "cuda" if at == 0 else f"c{at}",
            "image": "nvidia/cuda:10.0-base",
            "resources": {"limits": {name: str(amount) for name, amount in asked.items()}},
        }
        for at, asked in enumerate(containers)
    ]
    return {"schedulerName": "kubeshare-scheduler", "containers": found, **fields}


def admitted(spec: Json, **metadata: Any) -> Json:
    """A pod of ours as the webhook leaves it."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return environment(CHOICES, DIALECTS)(pod, {})


async def create(stage: Stage, name: str, *containers: Mapping[str, int]) -> None:
    await stage.client.create(PODS, admitted(a_spec(*containers), name=name))


async def told(stage: Stage, name: str) -> dict[str, str]:
    """The annotations of nano-gpu on a pod, once it runs."""
    given = annotations(await stage.expect_running(name))
    return {key: text for key, text in given.items() if key.startswith(("nano-gpu", "elastic"))}


async def predecessors(
    stage: Stage, name: str, notes: Mapping[str, str], *containers: Mapping[str, int]
) -> None:
    """A pod that the old scheduler bound."""
    spec = a_spec(*containers, schedulerName="default-scheduler", nodeName="n1")
    labels = {FLAG: "true"} if notes else {}
    metadata = {"name": name, "annotations": {**notes}, "labels": labels}
    await stage.client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )


def left(machine: Machine) -> list[tuple[int, int]]:
    """What is free of each card: thousandths, and bytes."""
    columns = machine.ledger.columns
    row = columns.row_of[NodeName("n1")]
    return [
        (columns.free_milli.item(row, slot), columns.free_bytes.item(row, slot)) for slot in (0, 1)
    ]


async def test_g61_and_g62_the_demo_of_the_first_readme(empty_stage: Stage) -> None:
    stage = empty_stage
    spec = a_spec({OLD_CORE: 20, OLD_MEMORY: 1})
    spec["containers"][0]["resources"]["requests"] = spec["containers"][0]["resources"]["limits"]
    demo = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cuda-10c"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "gpu-test"}},
            "template": {"metadata": {"labels": {"app": "gpu-test"}}, "spec": spec},
        },
    }
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await stage.client.create(DEPLOYMENTS, demo)
        pods = await stage.expect_all(
            lambda found: [one["status"].get("phase") for one in found] == ["Running"] * 3
        )
        indices = {annotations(pod)["nano-gpu.io/gpu-cuda"] for pod in pods}
        assert len(indices) == 1
        assert {annotations(pod)["nano-gpu.io/gpu"] for pod in pods} == {"true"}
        assert {pod["metadata"]["labels"]["nano-gpu.io/gpu"] for pod in pods} == {"true"}
        assert left(machine)[int(indices.pop())] == (400, 13 * GIB)


async def test_g64_g65_and_g67_the_demos_of_the_newest_readme(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "memory", {MEMORY: 256})
        assert await told(stage, "memory") == {FLAG: "true", "elasticgpu.io/container-cuda": "0"}
        assert left(machine)[0] == (1000, 16 * GIB - 256 * MIB)
        await create(stage, "whole", {CORE: 200})
        await stage.expect_waiting("whole")
        await stage.expect_deleted("memory")
        assert (await told(stage, "whole"))["elasticgpu.io/container-cuda"] == "0,1"
        await create(stage, "late", {CORE: 1})
        await stage.expect_waiting("late")


@pytest.mark.slow
async def test_containers_see_their_own_cards_and_a_new_scheduler_has_the_same_books(
    empty_stage: Stage,
) -> None:
    """No patched toolkit is needed: the container's variable names its card."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "mixed", {CORE: 100}, {}, {CORE: 50, MEMORY: 1000})
        pod = await stage.expect_running("mixed")
        before = left(machine)
    given = annotations(pod)
    cards = [card.uuid for card in stage.nodes[0].cards]
    seen = {
        name: variables["NVIDIA_VISIBLE_DEVICES"]
        for name, variables in pod_environment(
            msgspec.convert(pod, UnstructuredObject), "", ""
        ).items()
    }
    assert seen == {
        "cuda": cards[int(given["elasticgpu.io/container-cuda"])],
        "c1": "void",
        "c2": cards[int(given["elasticgpu.io/container-c2"])],
    }
    assert sorted(before) == [(0, 0), (500, 16 * GIB - 1000 * MIB)]
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "rest", {CORE: 10, MEMORY: 1})
        await stage.expect_running("rest")
        await stage.expect_deleted("rest")
        assert left(machine) == before


async def test_g82_pods_of_the_old_scheduler_are_charged_to_their_cards_and_left_alone(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    first = {"elasticgpu.io/container-cuda": "1", FLAG: "true"}
    await predecessors(stage, "before", first, {CORE: 50, MEMORY: 1000})
    second = {"nano-gpu/container-cuda": "-1", "nano-gpu/container-c1": "1"}
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "ours", {CORE: 50, MEMORY: 16 << 10})
        assert (await told(stage, "ours"))["elasticgpu.io/container-cuda"] == "0"
        assert left(machine) == [(500, 0), (500, 16 * GIB - 1000 * MIB)]
        # What it still binds while ours runs counts as well.
        await predecessors(stage, "meanwhile", second, {}, {PERCENT: 40})
        await create(stage, "late", {CORE: 20, MEMORY: 1})
        await stage.expect_waiting("late")
        assert left(machine)[1][0] == 100
        await stage.expect_deleted("before")
        assert (await told(stage, "late"))["elasticgpu.io/container-cuda"] == "1"
    assert await told(stage, "meanwhile") == second


async def test_g83_what_is_no_card_of_the_node_is_told_and_not_charged_to_another(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await stage.warm_up()
        note = "elasticgpu.io/container-cuda"
        await predecessors(stage, "text", {note: "abc"}, {CORE: 50})
        event = await stage.expect_event("text", "AllocationUnreadable")
        assert f"{note}: 'abc' is no index of a GPU" in event["note"]
        await predecessors(stage, "beyond", {note: "7"}, {CORE: 50})
        await stage.expect_event("beyond", "GPUUnknown")
        assert left(machine) == [(1000, 16 * GIB)] * 2


async def test_g85_and_g86_pods_of_two_dialects_share_a_card_but_never_a_whole_one(
    empty_stage: Stage,
) -> None:
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS) as machine:
        await create(stage, "nano", {MEMORY: 2048})
        await stage.expect_running("nano")
        await stage.create("label", gpu("0.1", gpu_mem=str(4 * GIB)))
        await stage.expect_running("label")
        assert left(machine)[0] == (900, 10 * GIB)
        await create(stage, "whole", {CORE: 100})
        assert (await told(stage, "whole"))["elasticgpu.io/container-cuda"] == "1"
        await stage.create("more", gpu("0.95"))
        await stage.expect_waiting("more")


async def test_g77_spread_splits_pods_over_the_cards(empty_stage: Stage) -> None:
    stage = empty_stage
    found = yaml.safe_load(SPREAD.read_text())
    dialects = configured(read(found))
    assert [one.name for one in dialects.every.dialects] == ["sharedgpu", "nano-gpu"]
    async with stage.scheduler({"profiles": found["profiles"]}, dialects=dialects):
        for at in range(5):
            await create(stage, f"p{at}", {OLD_CORE: 20, OLD_MEMORY: 1})
        pods = [await told(stage, f"p{at}") for at in range(5)]
    indices = [notes["nano-gpu.io/gpu-cuda"] for notes in pods]
    assert sorted(indices.count(one) for one in ("0", "1")) == [2, 3]


async def test_a_pod_that_mixes_two_spellings_waits_with_both_keys(empty_stage: Stage) -> None:
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS):
        await create(stage, "mixed", {OLD_CORE: 20}, {CORE: 20})
        message = await stage.expect_waiting("mixed")
        assert f"resources[{OLD_CORE}]" in message
        assert f"resources[{CORE}]" in message
