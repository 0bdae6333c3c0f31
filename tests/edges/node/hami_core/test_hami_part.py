"""The agent's part for HAMi-core, and the page of HAMi's monitor."""

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.card_reading import CardReading, IsolationBackend, NodeReading
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.hami_core.hami_folder import HamiFolder
from kubeshare_py.edges.node.hami_core.hami_part import HamiPage, HamiPart, region_of
from kubeshare_py.node_agent.hami_core import HamiCoreSettings, SharedRegion
from kubeshare_py.node_agent.tenants import AgentState, NodeTenant
from tests.node_agent.regions import UUIDS, full_region, newest, with_numbers
from tests.patience import PATIENCE_S

N1 = NodeName("n1")
LAST_KERNEL = 1795000000
CLAIM = "5f" * 16


def tenant(name: str) -> NodeTenant:
    return NodeTenant(uid=PodUid(f"uid-{name}"), key=PodKey("ml", name))


@pytest.fixture
def vgpu(tmp_path: Path) -> Path:
    folder = tmp_path / "usr/local/vgpu"
    folder.mkdir(parents=True)
    (folder / "libvgpu.so").write_bytes(b"\x7fELF")
    return folder


def part_of(root: Path, now: float = LAST_KERNEL + 7.5, *, feedback: bool = False) -> HamiPart:
    folder = HamiFolder(root, HamiCoreSettings(feedback=feedback))
    return HamiPart(N1, folder, look_s=0.01, unix_clock=lambda: now)


def region(vgpu: Path, folder: str, content: bytes) -> None:
    own = vgpu / "containers" / folder
    own.mkdir(parents=True)
    (own / f"{CLAIM}.cache").write_bytes(content)


def test_hami_core_is_enforced_while_its_library_is_there(tmp_path: Path, vgpu: Path) -> None:
    part = part_of(tmp_path)
    told: list[object] = []
    part.on_report = lambda: told.append(part.report())
    assert part.report() is None
    part.look()
    part.look()
    assert [one.enforces for one in told] == [(IsolationBackend.HAMI_CORE,)]  # type: ignore[attr-defined]
    (vgpu / "libvgpu.so").unlink()
    part.look()
    assert [one.enforces for one in told][1:] == [()]  # type: ignore[attr-defined]
    assert part.problem() == ""


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path, vgpu: Path) -> None:
    (vgpu / "containers").write_text("")
    part = part_of(tmp_path)
    part.look()
    assert part.problem() == "HAMi-core's folder cannot be used: File exists"
    assert part.report() is not None
    assert part.report().enforces == ()  # type: ignore[union-attr]


async def test_it_looks_again_and_again(tmp_path: Path) -> None:
    part = part_of(tmp_path)
    vgpu = tmp_path / "usr/local/vgpu"
    is_enforced = asyncio.Event()
    part.on_report = lambda: (
        is_enforced.set() if (found := part.report()) and found.enforces else None
    )
    running = asyncio.create_task(part.run())
    await asyncio.sleep(0)
    vgpu.mkdir(parents=True)
    (vgpu / "libvgpu.so").write_bytes(b"\x7fELF")
    async with asyncio.timeout(PATIENCE_S):
        await is_enforced.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert (vgpu / "ld.so.preload").exists()


async def test_what_containers_wrote_is_read_by_another_thread(tmp_path: Path, vgpu: Path) -> None:
    looked, threads = asyncio.Event(), set[int]()

    def now() -> float:
        threads.add(threading.get_ident())
        return LAST_KERNEL

    part = HamiPart(N1, HamiFolder(tmp_path, HamiCoreSettings()), unix_clock=now)
    part.on_report = looked.set
    running = asyncio.create_task(part.run())
    async with asyncio.timeout(PATIENCE_S):
        await looked.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert threads
    assert threading.get_ident() not in threads


def test_a_look_does_not_add_up_what_processes_use(tmp_path: Path, vgpu: Path) -> None:
    region(vgpu, "uid-a_main", full_region())
    part = part_of(tmp_path)
    part.look()
    [found] = part.regions.values()
    assert {one.used_bytes for one in found.cards} == {None}


def test_a_name_of_any_bytes_is_no_trouble(tmp_path: Path, vgpu: Path) -> None:
    own = vgpu / "containers/uid-a_main"
    own.mkdir(parents=True)
    (own / os.fsdecode(b"\xff.cache")).write_bytes(newest())
    (own / os.fsdecode(b"\xff.cache")).chmod(0o400)
    (own / os.fsdecode(b"\xfe")).mkdir()
    part = part_of(tmp_path)
    part.take(AgentState((), {}))
    part.look()
    assert [*part.values().values()] == [{(N1,): 1}, {(N1,): 0}, {(N1,): 0}]


def test_regions_are_counted_by_whether_they_can_be_read(tmp_path: Path, vgpu: Path) -> None:
    part = part_of(tmp_path)
    region(vgpu, "uid-a_main", newest())
    region(vgpu, "uid-b_main", b"short")
    (vgpu / "containers/uid-c_main").mkdir()
    part.look()
    assert [*part.values().values()] == [{(N1,): 1}, {(N1,): 1}, {(N1,): 0}]


async def page(
    part: HamiPart, *, legacy: bool = False
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples of the page, by name."""
    sampler = CardSampler(node=N1)
    card = CardReading(
        uuid=GpuUuid(UUIDS[0]),
        index=0,
        model="Tesla V100",
        memory_bytes=16 << 30,
        used_bytes=5 << 30,
        reserved_bytes=1 << 30,
        busy_percent=40,
    )
    sampler.took(NodeReading(cards=(card,), driver="550"))
    async with (
        HamiPage(sampler, part, legacy=legacy).served("127.0.0.1", 0) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics") as answer,
    ):
        text = await answer.text()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def test_the_page_has_hamis_names_labels_and_units_d2(tmp_path: Path, vgpu: Path) -> None:
    part = part_of(tmp_path)
    part.take(AgentState((), {one.uid: one for one in (tenant("a"),)}))
    region(vgpu, "uid-a_main", newest())
    found = await page(part)
    card = {"zone": "vGPU", "device_index": "0", "device_uuid": UUIDS[0]}
    card |= {"device_type": "NVIDIA-Tesla V100", "node": "n1"}
    assert found["hami_host_gpu_memory_used_bytes"] == [(card, 6 << 30)]
    assert found["hami_host_gpu_utilization_ratio"] == [(card, 40)]
    assert "hami_host_gpu_memory_controller_utilization_ratio" not in found
    first, second = found["hami_vgpu_memory_used_bytes"]
    own = {"zone": "vGPU", "namespace": "ml", "pod": "a", "container": "main"}
    own |= {"vdevice_index": "0", "device_uuid": UUIDS[0]}
    assert first == (own, 12_000_012)
    assert second[0]["device_uuid"] == UUIDS[1]
    values = {name: series[0][1] for name, series in found.items()}
    assert values["hami_vgpu_memory_limit_bytes"] == 3000 << 20
    assert values["hami_container_device_memory_bytes"] == 12_000_012
    assert values["hami_container_device_utilization_ratio"] == 40
    assert values["hami_container_last_kernel_elapsed_seconds"] == 7
    assert values["hami_vgpu_memory_context_bytes"] == 4_000_002
    assert values["hami_vgpu_memory_module_bytes"] == 4_000_004
    assert values["hami_vgpu_memory_buffer_bytes"] == 4_000_006


async def test_clients_that_ask_often_get_one_page(tmp_path: Path, vgpu: Path) -> None:
    part = part_of(tmp_path)
    part.take(AgentState((), {one.uid: one for one in (tenant("a"),)}))
    region(vgpu, "uid-a_main", full_region())
    served = HamiPage(CardSampler(node=N1), part, legacy=False).served("127.0.0.1", 0)
    async with served as url, aiohttp.ClientSession() as session:
        texts = []
        for _ in range(2):
            async with session.get(f"{url}/metrics") as answer:
                texts.append(await answer.text())
            (vgpu / f"containers/uid-a_main/{CLAIM}.cache").write_bytes(newest())
    assert texts[0].count("hami_vgpu_memory_used_bytes{") == 16
    assert texts[1] == texts[0]


async def test_what_is_not_known_is_absent_and_never_0(tmp_path: Path, vgpu: Path) -> None:
    """A pod that never called CUDA, one of another node, an init container, and a broken region."""
    part = part_of(tmp_path)
    pods = (tenant("a"), tenant("b"), tenant("i"))
    part.take(AgentState((), {one.uid: one for one in pods}))
    (vgpu / "containers/uid-a_main").mkdir(parents=True)
    region(vgpu, "uid-b_main", b"\0" * 100)
    region(vgpu, "uid-i_.init", newest())
    region(vgpu, "uid-elsewhere_main", newest())
    found = await page(part)
    of_card = {"hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio"}
    assert {*found} == {*of_card, "hami_build_info"}


async def test_a_container_without_a_limit_of_memory_shows_none(tmp_path: Path, vgpu: Path) -> None:
    """HAMi shows 0."""
    part = part_of(tmp_path)
    part.take(AgentState((), {one.uid: one for one in (tenant("a"),)}))
    region(vgpu, "uid-a_main", newest().replace((3000 << 20).to_bytes(8, "little"), bytes(8)))
    limits = (await page(part))["hami_vgpu_memory_limit_bytes"]
    assert [labels["vdevice_index"] for labels, _ in limits] == ["1"]


async def test_the_names_of_before_are_there_by_option(tmp_path: Path, vgpu: Path) -> None:
    part = part_of(tmp_path)
    part.take(AgentState((), {one.uid: one for one in (tenant("a"),)}))
    region(vgpu, "uid-a_main", newest())
    assert "HostGPUMemoryUsage" not in await page(part)
    found = await page(part, legacy=True)
    labels, value = found["Device_memory_desc_of_container"][0]
    assert value == 12_000_012
    parts = [int(labels[name]) for name in ("context", "module", "data", "offset")]
    assert parts == [4_000_002, 4_000_004, 4_000_006, 0]
    assert {"podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid"} < {*labels}
    assert found["HostGPUMemoryUsage"][0][0]["nodeid"] == "n1"
    assert {"HostCoreUtilization", "vGPU_device_memory_usage_in_bytes"} < {*found}
    assert {"vGPU_device_memory_limit_in_bytes", "Device_last_kernel_of_container"} < {*found}


async def test_cards_of_a_driver_that_does_not_answer_are_absent(tmp_path: Path) -> None:
    sampler = CardSampler(node=N1)
    async with (
        HamiPage(sampler, part_of(tmp_path), legacy=False).served("127.0.0.1", 0) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics") as answer,
    ):
        [line] = [one for one in (await answer.text()).splitlines() if not one.startswith("#")]
    assert line.startswith('hami_build_info{version="kubeshare-py ')


def said(vgpu: Path, folder: str) -> tuple[int, bool]:
    """What a region says now: the recent kernel, and whether limits count."""
    found = region_of(vgpu / "containers" / folder)
    assert isinstance(found, SharedRegion)
    return found.recent_kernel, found.is_limiting


#: Of the newest layout.
SWITCH, RECENT, PRIORITY = "at_2008900", "at_2008904", "at_2008908"


def test_one_waits_for_another_of_higher_priority_and_then_goes_on_c7(
    tmp_path: Path, vgpu: Path
) -> None:
    region(vgpu, "uid-high_main", with_numbers(newest(), "=i", **{PRIORITY: 0}))
    region(vgpu, "uid-low_main", newest())
    part_of(tmp_path, feedback=True).look()
    assert said(vgpu, "uid-low_main") == (-1, True)
    assert said(vgpu, "uid-high_main") == (1, False)
    written = (vgpu / f"containers/uid-low_main/{CLAIM}.cache").read_bytes()
    assert written == with_numbers(newest(), "=i", **{RECENT: -1})
    part_of(tmp_path, LAST_KERNEL + 60, feedback=True).look()
    part_of(tmp_path, LAST_KERNEL + 65, feedback=True).look()
    assert said(vgpu, "uid-low_main") == (0, False)


def test_limits_come_back_when_a_second_container_works_c7(tmp_path: Path, vgpu: Path) -> None:
    """With v1.2 of the library, HAMi's monitor never switches them on again."""
    region(vgpu, "uid-a_main", newest())
    for later in (0, 5, 10):
        part_of(tmp_path, LAST_KERNEL + later, feedback=True).look()
    assert said(vgpu, "uid-a_main") == (0, False)
    region(vgpu, "uid-b_main", newest())
    part_of(tmp_path, LAST_KERNEL + 10, feedback=True).look()
    assert said(vgpu, "uid-a_main")[1]
    assert said(vgpu, "uid-b_main")[1]


async def test_an_agent_that_ends_lets_all_go_on_within_their_limits(
    tmp_path: Path, vgpu: Path
) -> None:
    region(vgpu, "uid-high_main", with_numbers(newest(), "=i", **{PRIORITY: 0}))
    region(vgpu, "uid-low_main", newest())
    part, has_looked = part_of(tmp_path, feedback=True), asyncio.Event()
    part.on_report = has_looked.set
    running = asyncio.create_task(part.run())
    async with asyncio.timeout(PATIENCE_S):
        await has_looked.wait()
    assert said(vgpu, "uid-low_main") == (-1, True)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert said(vgpu, "uid-low_main") == (0, True)
    assert said(vgpu, "uid-high_main")[1]


def test_without_feedback_limits_always_count(tmp_path: Path, vgpu: Path) -> None:
    region(vgpu, "uid-a_main", with_numbers(newest(), "=i", **{RECENT: -1, SWITCH: 0}))
    part_of(tmp_path).look()
    assert said(vgpu, "uid-a_main") == (0, True)


def test_a_file_with_another_name_too_is_not_written(tmp_path: Path, vgpu: Path) -> None:
    """It could be any file of the file system."""
    region(vgpu, "uid-a_main", newest())
    other = tmp_path / "other"
    other.hardlink_to(vgpu / f"containers/uid-a_main/{CLAIM}.cache")
    part = part_of(tmp_path, feedback=True)
    part.look()
    assert other.read_bytes() == newest()
    assert [*part.values().values()] == [{(N1,): 0}, {(N1,): 1}, {(N1,): 0}]
