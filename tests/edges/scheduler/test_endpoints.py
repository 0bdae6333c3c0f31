"""Pages of metrics as Prometheus scrapes them."""

import asyncio
import gzip
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.configuration.scheduler import ConfigurationError, HamiMetrics
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.events import BindSlotsFree, ObjectsListed, PodSeen
from kubeshare_py.domain.quota import QuotaNames, QuotaObject
from kubeshare_py.edges.scheduler.endpoints import CONTENT_TYPE, MetricsPage, serve_hami_metrics
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.exporters.client_metrics import RequestTallies
from kubeshare_py.exporters.scheduler_metrics import WriteFigures
from kubeshare_py.scheduling.machine import Machine
from tests.controlplane.running import free_ports
from tests.each import each
from tests.edges.served_app import asking
from tests.making import GIB, Driver, a_claim, a_cluster, a_machine, a_pod, a_shape, a_share
from tests.patience import PATIENCE_S
from tests.scheduling.machine_state import expect_same_state, state_of

# --- /metrics as Prometheus scrapes it, from a real machine ---------------------------------------


Samples = dict[str, float]


def a_page(nodes: int = 2) -> MetricsPage:
    """A machine with pods placed and waiting, after some time."""
    process_health = ProcessHealth(a_machine(), lambda: 50.0)
    events = a_cluster({f"n{number}": 8 for number in range(nodes)})
    pods = [a_share(f"p{number}", 600) for number in range(4)]
    lost = a_pod("lost", a_shape(a_claim(600, models=("none",))))
    gated = a_pod("gated", gates=("later",))
    for pod in (*pods, lost, gated):
        events.append(PodSeen(pod))
    for event in (*events, BindSlotsFree(9)):
        process_health.handled(event, process_health.machine.handle(event, 0.0), 0.001)
    writes = WriteFigures(3, 2, {("binding", "403"): 7})
    return MetricsPage(process_health, lambda: writes, RequestTallies("here"), lambda: None)


def samples(text: str) -> Samples:
    """Every series, by its name and labels as text."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


async def scraped(page: MetricsPage) -> Samples:
    return samples(b"".join(await page.chunks()).decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("series", "value"),
    [
        ("scheduler_pending_pods{queue=active}", 0),
        ("scheduler_pending_pods{queue=unschedulable}", 1),
        ("scheduler_pending_pods{queue=gated}", 1),
        ("scheduler_unschedulable_pods{plugin=GpuModel,profile=kubeshare-scheduler}", 1),
        ("scheduler_schedule_attempts_total{profile=kubeshare-scheduler,result=error}", 0),
        ("scheduler_schedule_attempts_total{profile=kubeshare-scheduler,result=unschedulable}", 1),
        ("kubeshare_binds_in_flight{}", 4),
        ("kubeshare_prebinding_pods{}", 0),
        ("kubeshare_pre_bind_timeouts_total{}", 0),
        ("scheduler_cache_size{type=nodes}", 2),
        ("scheduler_cache_size{type=pods}", 4),
        ("scheduler_cache_size{type=assumed_pods}", 4),
        ("scheduler_scheduling_algorithm_duration_seconds_count{}", 5),
        ("scheduler_queue_incoming_pods_total{event=UnschedulablePodAdd,queue=active}", 5),
        ("scheduler_queue_incoming_pods_total{event=UnschedulablePodAdd,queue=unschedulable}", 1),
        (
            "scheduler_queue_incoming_pods_total{event=ScheduleAttemptFailure,queue=unschedulable}",
            1,
        ),
        ("kubeshare_cards{}", 16),
        ("kubeshare_idle_cards{}", 12),
        ("kubeshare_overcommitted_cards{}", 0),
        ("kubeshare_unheld_pods{isolation=none,part=memory}", 4),
        ("kubeshare_unheld_pods{isolation=none,part=time}", 4),
        ("kubeshare_unheld_pods{isolation=driver,part=time}", 0),
        ("kubeshare_unheld_pods{isolation=mps,part=time}", 0),
        ("kubeshare_unconfirmed_pods{isolation=mps}", 0),
        ("kubeshare_fragmentation_ratio{}", 4 * 400 / (4 * 400 + 12 * 1000)),
        ("kubeshare_reports_queued{}", 3),
        ("kubeshare_reports_dropped_total{}", 2),
        ("kubeshare_config_last_reload_successful{}", 1),
    ],
)
async def test_the_numbers_are_the_machines(series: str, value: float) -> None:
    assert (await scraped(a_page()))[series] == pytest.approx(value)


@pytest.mark.slow
async def test_every_card_is_there_with_what_pods_hold_of_it() -> None:
    found = await scraped(a_page(nodes=300))  # some portions
    held = [v for name, v in found.items() if name.startswith("kubeshare_card_allocated_milli")]
    assert len(held) == 2400
    assert sum(held) == 4 * 600


async def test_the_process_itself_is_there() -> None:
    found = await scraped(a_page())
    assert found["process_resident_memory_bytes{}"] > 0
    version, python = metadata.version("kubeshare-py"), platform.python_version()
    assert found[f"kubeshare_build_info{{python_version={python},version={version}}}"] == 1


async def test_others_get_their_turn_between_portions() -> None:
    page, turns = a_page(nodes=600), 0
    scrape = asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not scrape.is_set():
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        await page.chunks()
        scrape.set()
    assert turns > 5


@pytest.mark.slow
async def test_it_is_sent_as_text_and_compressed_for_who_can_read_that() -> None:
    page = a_page()
    async with asking(page.routes()) as client:
        async with client.get("/metrics", headers={"Accept-Encoding": "identity"}) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            plain = (await answer.read()).decode()
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            packed = gzip.decompress(await answer.read()).decode()
    wanted = ("kubeshare_", "scheduler_")
    stable = each(name for name in samples(plain) if name.startswith(wanted))
    assert {name: samples(plain)[name] for name in stable} == {
        name: samples(packed)[name] for name in stable
    }


async def test_scrapes_at_the_same_time_are_answered_one_after_the_other() -> None:
    async with asking(a_page(nodes=200).routes()) as client, asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.get("/metrics")) for _ in range(3)]
        for answer in [await task for task in tasks]:
            assert answer.status == 200
            await answer.read()
            answer.release()


async def test_a_scrape_changes_nothing() -> None:
    process_health = ProcessHealth(a_machine(), lambda: 50.0)
    machine = process_health.machine
    page = MetricsPage(process_health, WriteFigures, RequestTallies("here"), lambda: None)
    for event in (*a_cluster({"n1": 2}), PodSeen(a_share("a", 600))):
        machine.handle(event, 0.0)
    before = state_of(machine)
    assert await page.chunks()
    expect_same_state(before, state_of(machine), "a scrape")


# --- HAMi's metrics over HTTP, as its Prometheus scrapes them -------------------------------------


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
    pod = a_share("q", 500)
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


@pytest.mark.slow
async def test_readers_share_a_page_and_a_slow_one_keeps_no_other_from_it() -> None:
    """A page that took a while is made anew only after ten times as long."""
    driver = Driver({f"n{number}": 8 for number in range(600)})
    async with page_of(driver.machine) as url:
        first = await get(url)
        driver.place(a_share("late", 250))
        async with (
            aiohttp.ClientSession(read_bufsize=1024) as session,
            session.get(f"{url}/metrics") as slow,
        ):
            assert await slow.content.readexactly(10)
            assert [await get(url) for _ in range(3)] == [first] * 3
        async with asyncio.timeout(PATIENCE_S):
            while 'pod="late"' not in (await get(url))[1]:
                pass  # asked again
