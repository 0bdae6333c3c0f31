"""The dialect as a whole: what it owns, and what the chart's policies know of it."""

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import PodAsk
from kubeshare_py.dialects.dialects import DialectTable, container_variables, container_visibility
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest
from tests.dialects.gpushare_pods import COUNT, MEM, a_node, an_allocation, container

TABLE = DialectTable((SHAREDGPU, Gpushare()))
#: The keys of the first generation.
SIX = {
    f"ALIYUN_COM_GPU_MEM_{name}"
    for name in ("IDX", "DEV", "POD", "ASSIGNED", "ASSUME_TIME", "ASSIGN_TIME")
}


def test_nobody_but_scheduler_and_node_agent_writes_results() -> None:
    """All six keys of the first generation, and those of the second."""
    keys = Gpushare().result_keys
    assert keys.every >= SIX
    by_agent = {"ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"}
    assert keys.device_plugin.keys() >= by_agent
    assert {"ALIYUN_COM_GPU_MEM_IDX", "scheduler.framework.gpushare.allocation"} <= keys.scheduler
    for key in (*SIX, "gpushare.kubeshare.io/container-0"):
        assert TABLE.is_result(key)
    found = Gpushare().results(an_allocation((0, {0: (100, 2**30)})), a_node(15109))
    assert all(map(keys.has, found))


def test_each_container_that_asks_sees_its_share_and_knows_its_amounts() -> None:
    """They are the device plugin's variables, by the downward API."""
    pod = PodAsk({}, {}, (container(0, {MEM: 1}), container(1, {}), container(2, {MEM: 2})))
    assert container_visibility(TABLE, pod) == {
        ContainerRef(False, 0): CardVisibility.SHARE,
        ContainerRef(False, 2): CardVisibility.SHARE,
    }
    found = container_variables(TABLE, pod)
    assert found[ContainerRef(False, 1)] == ()
    assert found[ContainerRef(False, 2)] == (
        ("ALIYUN_COM_GPU_MEM_CONTAINER", "gpushare.kubeshare.io/container-2"),
        ("ALIYUN_COM_GPU_MEM_DEV", "ALIYUN_COM_GPU_MEM_DEV"),
        ("ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_IDX"),
        ("ALIYUN_COM_GPU_MEM_POD", "ALIYUN_COM_GPU_MEM_POD"),
    )


def test_a_pod_uses_one_dialect() -> None:
    mixed = PodAsk({"sharedgpu/gpu_request": "0.5"}, {}, (container(0, {MEM: 1}),))
    assert isinstance(TABLE.read(mixed), InvalidRequest)
    only = PodAsk({COUNT: "2"}, {}, (container(0, {MEM: 2}),))
    asked = TABLE.read(only)
    assert isinstance(asked, GpuRequest)
    assert asked.dialect == "gpushare"
    assert TABLE.node_rules(asked)[0].label == "gpushare"
    assert TABLE.marks(asked, only.containers) == ("aliyun.com/gpu-mem in GiB",)
