"""HAMi's metrics over HTTP, as its Prometheus scrapes them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from kubeshare_py.configuration.scheduler import ConfigurationError, HamiMetrics
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.events import ObjectsListed, PodSeen
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.gpu_quota import QuotaNames, QuotaObject
from kubeshare_py.edges.scheduler.hami_page import serve_hami_metrics
from kubeshare_py.scheduling.machine import Machine
from tests.builders import GIB, a_claim, a_machine, a_pod, a_shape
from tests.controlplane.running import free_ports
from tests.patience import PATIENCE_S
from tests.scheduling.driver import Driver


def settings(port: int, *, legacy: bool = False) -> HamiMetrics:
    return HamiMetrics(bind_address="127.0.0.1", port=port, legacy=legacy)


@asynccontextmanager
async def page_of(
    machine: Machine, *quotas: QuotaNames, legacy: bool = False
) -> AsyncIterator[str]:
    [port] = free_ports(1)
    async with serve_hami_metrics(settings(port, legacy=legacy), machine, quotas) as url:
        yield url


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return answer.status, await answer.text()


def a_driver() -> Driver:
    driver = Driver({"n1": 2})
    driver.place(a_pod("p", a_shape(a_claim(250, memory_bytes=2 * GIB))))
    return driver


@pytest.mark.parametrize("legacy", [False, True])
async def test_the_ledger_is_scraped_under_hamis_names(*, legacy: bool) -> None:
    async with page_of(a_driver().machine, legacy=legacy) as url:
        status, text = await get(url)
    assert status == 200
    lines = text.splitlines()
    part = 'namespace="default",node="n1",pod="p",container_index="0",device_uuid="GPU-n1-0"'
    assert f'hami_vgpu_core_allocated_ratio{{{part},zone="vGPU"}} 25' in lines
    assert sum(line.startswith("hami_gpu_memory_limit_bytes{") for line in lines) == 2
    assert any(line.startswith("vGPUCoreAllocated{") for line in lines) == legacy


async def test_quotas_are_on_the_page_where_a_dialect_has_them() -> None:
    driver = a_driver()
    limits = (("nvidia.com/gpumem", 4096),)
    quota = QuotaObject(name="q", namespace="default", hard_limits=limits)
    driver.tell(ObjectsListed(WatchedKind.RESOURCE_QUOTA, (quota,)))
    names = Hami().quota_names
    assert names is not None
    async with page_of(driver.machine, names) as url:
        lines = (await get(url))[1].splitlines()
    of = 'namespace="default",quota_name="nvidia.com/gpumem"'
    assert f'hami_resource_quota_used{{{of},limit="4096",zone="vGPU"}} 2048' in lines
    assert f'hami_resource_quota_limit{{{of},zone="vGPU"}} 4096' in lines
    assert any(line.startswith('hami_build_info{version="kubeshare-py ') for line in lines)
    async with page_of(driver.machine) as url:
        assert "hami_resource_quota" not in (await get(url))[1]


async def test_scraping_changes_nothing() -> None:
    driver = a_driver()
    pod = a_pod("q", a_shape(a_claim(500)))
    driver.tell(PodSeen(pod))
    async with page_of(driver.machine) as url:
        pages = [await get(url) for _ in range(3)]
    assert pages[0] == pages[1] == pages[2]
    assert [bind.key.name for bind in driver.decide()] == ["q"]


async def test_a_page_without_cards_is_not_served_before_they_are_known() -> None:
    async with page_of(a_machine()) as url:
        assert (await get(url))[0] == 503


async def test_with_port_0_nothing_is_served_and_a_taken_port_is_an_error() -> None:
    machine = a_driver().machine
    async with serve_hami_metrics(HamiMetrics(), machine) as url:
        assert url == ""
    [port] = free_ports(1)
    async with serve_hami_metrics(settings(port), machine):
        with pytest.raises(ConfigurationError, match="hamiMetrics: cannot listen on"):
            async with serve_hami_metrics(settings(port), machine):
                pass


async def test_readers_share_a_page_and_a_slow_one_keeps_no_other_from_it() -> None:
    """A page that took a while is made anew only after ten times as long."""
    driver = Driver({f"n{number}": 8 for number in range(600)})
    async with page_of(driver.machine) as url:
        first = await get(url)
        driver.place(a_pod("late", a_shape(a_claim(250))))
        async with (
            aiohttp.ClientSession(read_bufsize=1024) as session,
            session.get(f"{url}/metrics") as slow,
        ):
            assert await slow.content.readexactly(10)
            assert [await get(url) for _ in range(3)] == [first] * 3
        async with asyncio.timeout(PATIENCE_S):
            while 'pod="late"' not in (await get(url))[1]:
                pass  # asked again
