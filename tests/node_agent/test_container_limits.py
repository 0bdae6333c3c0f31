"""What a container gets of HAMi-core, by its part of its pod's allocation."""

from typing import Any

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.node_agent.allocation import HostMount
from kubeshare_py.node_agent.hami_core import (
    HamiContainer,
    HamiCoreSettings,
    HamiFiles,
    edits,
    is_held,
    limit_of,
)
from tests.making import a_gpu

MIB = 2**20
A, B, C = (GpuUuid(f"GPU-{letter}") for letter in "abc")
#: C is the first card of the bus.
CARDS = [a_gpu(C, index=0), a_gpu(A, index=1), a_gpu(B, index=2)]
FILES = HamiFiles(
    library="/usr/local/vgpu/libvgpu.so.v2.10.0",
    preload="/usr/local/vgpu/ld.so.preload",
    folder="/usr/local/vgpu/containers/u_main",
    region="abc.cache",
)


def charge(uuid: GpuUuid, mib: int, **given: Any) -> CardCharge:
    return CardCharge(uuid, 300, mib * MIB, **given)


def variables(
    *charges: CardCharge, limit: int = 300, settings: Any = None, **about: Any
) -> dict[str, str]:
    container = HamiContainer(charges, limit, **about)
    return dict(edits(container, settings or HamiCoreSettings(), FILES, CARDS).variables)


def mounts(settings: Any = None, files: HamiFiles = FILES, **about: Any) -> dict[str, HostMount]:
    container = HamiContainer((charge(A, 3000),), 300, **about)
    found = edits(container, settings or HamiCoreSettings(), files, CARDS).mounts
    return {one.container: one for one in found}


def test_a_container_gets_its_memory_its_cores_and_its_region_c3() -> None:
    assert variables(charge(A, 3000)) == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/abc.cache",
    }


def test_limits_are_those_of_the_right_cards_on_unequal_ones_h10_91() -> None:
    """24 and 80 GiB, half of each; HAMi counts as its annotation does."""
    found = variables(charge(A, 40960), charge(C, 12288))
    assert found["CUDA_DEVICE_MEMORY_LIMIT_0"] == "12288m"
    assert found["CUDA_DEVICE_MEMORY_LIMIT_1"] == "40960m"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_memory_is_never_rounded_to_no_limit_g6h() -> None:
    tiny = CardCharge(A, 10, MIB - 1)
    assert variables(tiny)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1m"
    assert variables(CardCharge(A, 10, 2 * MIB - 1))["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1m"


def test_a_container_without_memory_of_its_own_has_no_limit_of_it() -> None:
    assert "CUDA_DEVICE_MEMORY_LIMIT_0" not in variables(CardCharge(A, 300, 0))


@pytest.mark.parametrize(
    ("milli", "percent"), [(0, "0"), (1, "1"), (305, "30"), (1000, "100"), (2000, "100")]
)
def test_cores_are_hundredths_and_0_is_no_limit(milli: int, percent: str) -> None:
    assert variables(charge(A, 1), limit=milli)["CUDA_DEVICE_SM_LIMIT"] == percent


def test_a_whole_card_gets_nothing_of_the_library_2641() -> None:
    """HAMi injects it there too."""
    whole = charge(A, 16384, exclusive=True)
    found = edits(HamiContainer((whole,), 1000), HamiCoreSettings(), FILES, CARDS)
    assert (found.variables, found.mounts) == ({}, ())


def test_settings_of_the_node_are_told_c3_h8_85() -> None:
    """A node whose core limit is switched off tells the library `disable`."""
    settings = HamiCoreSettings(core_policy="disable", oversubscribe=True, log_level="3")
    found = variables(charge(A, 1), settings=settings)
    assert found["GPU_CORE_UTILIZATION_POLICY"] == "disable"
    assert (found["CUDA_OVERSUBSCRIBE"], found["LIBCUDA_LOG_LEVEL"]) == ("true", "3")


def test_a_containers_priority_is_that_of_its_resource_c3() -> None:
    told = {"nvidia.com/priority": "0"}
    assert variables(charge(A, 1), amounts=told)["CUDA_TASK_PRIORITY"] == "0"
    other = HamiCoreSettings(priority="example.com/rank")
    assert "CUDA_TASK_PRIORITY" not in variables(charge(A, 1), amounts=told, settings=other)
    odd = {"nvidia.com/priority": "1k\nX=1"}
    assert "CUDA_TASK_PRIORITY" not in variables(charge(A, 1), amounts=odd)


def test_mounts_are_hamis_c3() -> None:
    found = mounts()
    assert [*found.values()] == [
        HostMount("/usr/local/vgpu/containers/u_main", "/usr/local/vgpu"),
        HostMount(FILES.library, "/usr/local/vgpu/libvgpu.so", read_only=True),
        HostMount("/tmp/vgpulock", "/tmp/vgpulock"),
        HostMount("/usr/local/vgpu/ld.so.preload", "/etc/ld.so.preload", read_only=True),
    ]


@pytest.mark.parametrize(
    ("value", "is_there"),
    [("true", False), ("1", False), ("T", False), ("false", True), ("yes", True), ("", True)],
)
def test_a_container_may_do_without_the_library_h8_83(value: str, is_there: bool) -> None:
    """The mount is left out for that container alone; its limits stay known."""
    found = mounts(variables={"CUDA_DISABLE_CONTROL": value})
    assert ("/etc/ld.so.preload" in found) is is_there
    assert "/usr/local/vgpu/libvgpu.so" in found


def test_another_folder_is_the_same_in_containers_c3() -> None:
    files = HamiFiles("/opt/vgpu/l", "/opt/vgpu/p", "/opt/vgpu/c", "r.cache")
    assert {"/opt/vgpu", "/opt/vgpu/libvgpu.so"} < {*mounts(HamiCoreSettings("/opt"), files)}


def test_a_licence_is_mounted_where_the_node_has_one_c3() -> None:
    files = HamiFiles("l", "p", "c", "r", ("/usr/local/vgpu/license", "/usr/local/vgpu/v"))
    assert {"/tmp/license", "/usr/bin/vgpuvalidator"} < {*mounts(files=files)}


def allocation(backend: IsolationBackend, **given: Any) -> Allocation:
    cards = (charge(A, 1, exclusive=given.pop("exclusive", False)),)
    isolation = Isolation(backend, 300)
    return Allocation(token=DecisionToken("t"), cards=cards, isolation=isolation, **given)


def test_only_pods_with_this_back_end_and_a_share_are_held_by_it() -> None:
    assert is_held(allocation(IsolationBackend.HAMI_CORE))
    assert not is_held(allocation(IsolationBackend.HAMI_CORE, exclusive=True))
    assert not is_held(allocation(IsolationBackend.NONE))
    assert not is_held(None)


def test_a_containers_limit_is_its_own_and_else_its_pods() -> None:
    ref = ContainerRef(init=False, index=0)
    own = ClaimCharge(container=ref, cards=(charge(A, 1),), limit_milli=200)
    found = allocation(IsolationBackend.HAMI_CORE, claims=(own,))
    assert (limit_of(found, ref), limit_of(found, None)) == (200, 300)
    assert limit_of(allocation(IsolationBackend.HAMI_CORE), ref) == 300


def test_cards_of_the_node_tell_the_order_whatever_their_own() -> None:
    container = HamiContainer((charge(B, 3), charge(A, 2), charge(C, 1)), 0)
    shuffled: list[Gpu] = [CARDS[2], CARDS[0], CARDS[1]]
    found = edits(container, HamiCoreSettings(), FILES, shuffled).variables
    assert [found[f"CUDA_DEVICE_MEMORY_LIMIT_{n}"] for n in range(3)] == ["1m", "2m", "3m"]
