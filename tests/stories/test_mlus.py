"""Cambricon's MLUs beside GPUs: pods as HAMi's and 4paradigm's users write them, and the answers.

On n1 Cambricon's own plugin advertises cores and memory of two MLUs (smlu); on n2 4paradigm's
registers two MLU370; n3 has GPUs that HAMi's plugin registers.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubeshare_py.dialects.cambricon import Cambricon
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from tests.controlplane.running import ControlPlane
from tests.controlplane.token_limits import limits_of
from tests.stories.conftest import PODS, Json, Stage, annotations
from tests.stories.hami_plugin import SETTINGS, allow_node_patches, annotate, cards, register
from tests.stories.mlu_plugin import MluPlugin
from tests.stories.test_hami import GPU, MEM, MIB, a_pod

OURS = "kubeshare-scheduler"
DIALECTS = Dialects({OURS: (SHAREDGPU, Hami(), Cambricon())})
PROFILES = [
    {
        "schedulerName": OURS,
        "dialects": [{"name": one} for one in ("sharedgpu", "hami", "cambricon")],
    }
]
IN_HAMI: Json = {**SETTINGS, "profiles": PROFILES}
VMLU, VCORE = "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vcore"
VMEMORY = "cambricon.com/mlu.smlu.vmemory"
MLUNUM, MLUMEM = "cambricon.com/mlunum", "cambricon.com/mlumem"
TO_ALLOCATE = "hami.io/cambricon-mlu-devices-to-allocate"
ALLOCATED = "hami.io/cambricon-mlu-devices-allocated"
#: 24 GiB, in MiB and in units of Cambricon's plugin.
CARD_MIB, CARD_UNITS = 24576, 96
MLU370S = ("MLU-370a", "MLU-370b")
CLUSTER = f"""
nodes:
  - {{name: n1, allocatable: {{cpu: 96, memory: 1Ti, {VCORE}: 200, {VMEMORY}: {2 * CARD_UNITS}}}}}
  - {{name: n2, allocatable: {{cpu: 96, memory: 1Ti, {MLUNUM}: 20}}}}
  - name: n3
    allocatable: {{cpu: 96, memory: 1Ti, {GPU}: 20}}
    gpus: [{{model: A100, count: 2, memory: 40GiB}}]
"""


@pytest.fixture(scope="module", autouse=True)
def limits(plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scheduler's account may write the annotations of these dialects."""
    values = {"config": {"profiles": PROFILES}}
    with limits_of(values, Cambricon(), plane, tmp_path_factory.mktemp("limits")):
        yield


@pytest.fixture
async def registered(empty_stage: Stage) -> Stage:
    """The plugins have registered their cards."""
    stage = empty_stage
    await allow_node_patches(stage.client)
    # As every kubelet writes it.
    await annotate(
        stage, "n1", **{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    )
    stage.observer.know("n1", {f"n1-cambricon-mlu-{at}": CARD_MIB * MIB for at in range(2)})
    stage.observer.know("n2", dict.fromkeys(MLU370S, CARD_MIB * MIB))
    records = "".join(f"{uuid},10,{CARD_MIB},0,MLU-MLU370-X4,0,true:" for uuid in MLU370S)
    told = {"4pd.io/node-mlu-register": records, "4pd.io/node-handshake-mlu": "Reported now"}
    await annotate(stage, "n2", **told)
    await register(stage, "n3", cards(stage, "n3"))
    return stage


@asynccontextmanager
async def deciding(stage: Stage) -> AsyncIterator[MluPlugin]:
    """A scheduler, and Cambricon's plugin on n1."""
    plugin = MluPlugin(stage.client)
    async with stage.scheduler(IN_HAMI, dialects=DIALECTS), asyncio.TaskGroup() as group:
        running = group.create_task(plugin.run())
        yield plugin
        running.cancel()


async def create(stage: Stage, name: str, *containers: Mapping[str, int], **more: Any) -> None:
    await stage.client.create(PODS, a_pod(name, *containers, **more))


async def placed(
    stage: Stage, name: str, *containers: Mapping[str, int], **more: Any
) -> dict[str, str]:
    """The annotations of a new pod once it runs."""
    await create(stage, name, *containers, **more)
    pod = await stage.expect_running(name)
    told = annotations(pod)
    assert told["hami.io/vgpu-node"] == pod["spec"]["nodeName"]
    assert told["hami.io/bind-phase"] == "allocating"
    assert len(told["hami.io/bind-time"]) == 10, "seconds"
    assert told[TO_ALLOCATE] == told[ALLOCATED]
    return told


async def test_parts_of_mlus_are_given_in_the_words_of_hami_and_of_cambricons_plugin(
    registered: Stage,
) -> None:
    """examples/mlu of HAMi: a part, and a whole MLU; PatchAnnotations of its device/cambricon."""
    stage = registered
    part = {VMLU: 1, VMEMORY: 20, VCORE: 10}
    async with deciding(stage) as plugin:
        first = await placed(stage, "part", {}, part)
        number = first["CAMBRICON_DSMLU_PROFILE"].partition("_")[0]
        assert first[ALLOCATED] == f";n1-cambricon-mlu-{number},MLU,5120,10:;"
        assert first["CAMBRICON_DSMLU_PROFILE"] == f"{number}_10_20"
        whole = await placed(stage, "whole", {VMLU: 1})
        other = 1 - int(number)
        assert whole[ALLOCATED] == f"n1-cambricon-mlu-{other},MLU,{CARD_MIB},100:;"
        await create(stage, "another", {VMLU: 1})
        await stage.expect_waiting("another")
        # What the part has left.
        rest = {VMLU: 1, VMEMORY: CARD_UNITS - 20, VCORE: 90}
        last = await placed(stage, "rest", rest)
        assert last["CAMBRICON_DSMLU_PROFILE"] == f"{number}_90_{CARD_UNITS - 20}"
        assert [*plugin.made] == ["part", "whole", "rest"]
        await stage.expect_deleted("whole")
        assert (await stage.expect_running("another"))["spec"]["nodeName"] == "n1"


async def test_memory_of_an_mlu370_is_shared_as_with_4paradigm(registered: Stage) -> None:
    """examples/mlu of 4paradigm: default_use.yaml, multi-pods.yaml, specify_card_type_…yaml."""
    stage = registered
    share = {MLUNUM: 1, MLUMEM: 10240}
    async with deciding(stage):
        told = await placed(stage, "one", share)
        uuid = told[ALLOCATED].partition(",")[0]
        assert (told[ALLOCATED], uuid in MLU370S) == (f"{uuid},MLU,10240,0:;", True)
        two = await placed(stage, "two", share, share)
        given = [one.split(",") for one in two[ALLOCATED].replace(";", "").split(":") if one]
        assert [(mib, cores) for _, _, mib, cores in given] == [("10240", "0")] * 2
        await create(stage, "three", share, share)
        await stage.expect_waiting("three")
        kind = {"cambricon.com/use-mlutype": "270"}
        await create(stage, "type", share, told=kind)
        await stage.expect_waiting("type", "no GPU of model")


async def test_cards_of_one_vendor_take_no_pods_that_ask_for_the_others(
    registered: Stage,
) -> None:
    stage = registered
    async with deciding(stage):
        await create(stage, "gpus", {GPU: 2})
        assert (await stage.expect_running("gpus"))["spec"]["nodeName"] == "n3"
        for name, asked in (
            ("gpu", {GPU: 1, MEM: 1}),
            ("mlus", {VMLU: 3}),
            ("both", {GPU: 1, VMLU: 1}),
        ):
            await create(stage, name, asked)
            await stage.expect_waiting(name)


async def test_what_hami_gave_away_is_charged(registered: Stage) -> None:
    """Its scheduler bound a pod to one of the MLUs; the other one is left."""
    stage = registered
    told = {ALLOCATED: f"n1-cambricon-mlu-0,MLU,{CARD_MIB},100:;", "hami.io/vgpu-node": "n1"}
    bound: Json = {"schedulerName": "hami-scheduler", "nodeName": "n1"}
    await create(stage, "old", {VMLU: 1}, told=told, **bound)
    async with deciding(stage):
        found = await placed(stage, "new", {VMLU: 1, VMEMORY: 1, VCORE: 1})
        assert found["CAMBRICON_DSMLU_PROFILE"] == "1_1_1"
