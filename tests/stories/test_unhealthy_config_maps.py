"""gpushare's ConfigMaps of unhealthy cards, read by the scheduler."""

import pytest

from kubeshare_py.domain.identity import GpuUuid
from tests.stories.conftest import Json, Stage, gpu
from tests.stories.rights import allow

MAPS = "/api/v1/namespaces/kube-system/configmaps"
SETTINGS = {"inventory": {"intervalSeconds": 0.1, "unhealthyConfigMaps": True}}
HERE: dict[str, object] = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}


@pytest.fixture
async def reading_stage(empty_stage: Stage) -> Stage:
    """The scheduler may read ConfigMaps of kube-system, as by the chart with this setting."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    await allow(empty_stage.client, "kubeshare-scheduler-unhealthy-cards", rule, "kube-system")
    return empty_stage


def config_map(gpus: str, name: str = "unhealthy-gpu-n1") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"gpus": gpus},
    }


def index_of(stage: Stage, uuid: str) -> int:
    return [one.uuid for one in stage.nodes[0].cards].index(GpuUuid(uuid))


@pytest.mark.slow
async def test_a_listed_card_takes_no_new_pods(reading_stage: Stage) -> None:
    """Running pods are left alone."""
    stage = reading_stage
    async with stage.scheduler(SETTINGS):
        await stage.create("first", gpu("0.3"), **HERE)
        _, uuid = await stage.place("first")
        index = index_of(stage, uuid)
        await stage.client.create(MAPS, config_map(str(index)))
        await stage.create("both", gpu("2", "2"), **HERE)
        await stage.expect_waiting("both", "healthy")
        await stage.create("second", gpu("0.3"), **HERE)
        _, other = await stage.place("second")
        assert other != uuid
        assert (await stage.pod("first"))["status"]["phase"] == "Running"
        await stage.delete("second")
        await stage.create("full", gpu("1", "1"), **HERE)
        await stage.expect_running("full")
        await stage.create("third", gpu("0.3"), **HERE)
        await stage.expect_waiting("third")
        await stage.client.delete(f"{MAPS}/unhealthy-gpu-n1")
        await stage.expect_running("third")


async def test_it_counts_from_the_start_and_odd_texts_make_no_card_unhealthy(
    reading_stage: Stage,
) -> None:
    stage = reading_stage
    await stage.client.create(MAPS, config_map("0,1"))
    await stage.client.create(MAPS, config_map("abc", "unhealthy-gpu-n2"))
    await stage.create("here", gpu("0.3"), **HERE)
    stage.spoil(method="GET", path="/configmaps$", status=503, times=2)
    async with stage.scheduler(SETTINGS):
        await stage.expect_waiting("here", "healthy")
        await stage.create("whole", gpu("2", "2"))
        node, _ = await stage.place("whole")
        assert node == "n2", "GPU 0 of n2 is healthy"


async def test_without_the_setting_nothing_of_kube_system_is_read(empty_stage: Stage) -> None:
    stage = empty_stage
    await stage.client.create(MAPS, config_map("0,1"))
    async with stage.scheduler():
        await stage.create("here", gpu("0.3"), **HERE)
        await stage.expect_running("here")
    assert not stage.sent("GET", "/configmaps")
