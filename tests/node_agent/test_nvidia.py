"""NVML's numbers in our words."""

import pytest

from kubeshare_py.domain.card_reading import BusPath, FarEnd, Repair
from kubeshare_py.node_agent import nvidia


@pytest.mark.parametrize(
    ("level", "word"),
    [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS")],
)
def test_levels_are_called_as_nvidia_smi_does(level: int, word: str) -> None:
    assert nvidia.bus_path(level) == BusPath(word)


def test_numbers_of_newer_drivers_are_not_guessed() -> None:
    assert nvidia.bus_path(60) is None
    assert nvidia.far_end(255) is FarEnd.OTHER
    assert nvidia.repair(99) is Repair.OTHER
    assert nvidia.link_speed(99, None) == 0
    assert nvidia.link_speed(99, 60_000) == 120_000


@pytest.mark.parametrize(
    ("version", "links", "gigabytes"),
    [(1, 4, 160), (2, 6, 300), (4, 12, 600), (6, 18, 900), (7, 18, 1800), (8, 36, 3600)],
)
def test_all_links_of_a_card_move_what_its_data_sheet_says(
    version: int, links: int, gigabytes: int
) -> None:
    assert links * nvidia.link_speed(version, None) == gigabytes * 1000


def test_the_driver_is_believed_when_links_are_slower() -> None:
    assert nvidia.link_speed(6, 26_562) == 50_000  # with what the protocol needs
    assert 4 * nvidia.link_speed(4, 14_062) == 112_496  # the bridge of an A40


@pytest.mark.parametrize(("generation", "gigabytes"), [(3, 32), (4, 64), (5, 128), (6, 256)])
def test_sixteen_lanes_move_so_much_both_ways(generation: int, gigabytes: int) -> None:
    assert nvidia.bus_speed(generation, 16) == gigabytes * 1000


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("0000FA10:00:00.0", "fa10:00:00.0"),
        ("00010000:01:00.0", "00010000:01:00.0"),
    ],
)
def test_bus_addresses_are_those_of_linux(told: str, address: str) -> None:
    assert nvidia.bus_address(told) == address


def test_a_profile_is_in_the_name_or_made_of_the_size() -> None:
    assert nvidia.profile("NVIDIA A100 MIG 1c.3g.20gb", 3, 20096) == "1c.3g.20gb"
    assert nvidia.profile("NVIDIA A100", 1, 4864) == "1g.5gb"
    assert nvidia.profile("NVIDIA A100", 0, 0) == ""


def test_a_network_within_one_node_has_no_name() -> None:
    assert nvidia.cluster_name(bytes(16)) == ""
    assert nvidia.cluster_name(bytes(range(16))) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
