"""NVIDIA's driver numbers in the terms of this project.

Numbers: nvml.h, https://docs.nvidia.com/deploy/nvml-api/. Speeds: NVIDIA's data sheets.
"""

import uuid
from collections.abc import Mapping

from kubeshare_py.domain.card_reading import BusPath, FarEnd, Repair

#: nvmlGpuTopologyLevel_t. Cards on one board (0) are joined by a switch on it.
_PATHS: Mapping[int, BusPath] = {
    0: BusPath.PIX,
    10: BusPath.PIX,
    20: BusPath.PXB,
    30: BusPath.PHB,
    40: BusPath.NODE,
    50: BusPath.SYS,
}
#: nvmlIntNvLinkDeviceType_t.
_FAR_ENDS: Mapping[int, FarEnd] = {0: FarEnd.CARD, 2: FarEnd.SWITCH}
#: nvmlDeviceGpuRecoveryAction_t.
_REPAIRS: Mapping[int, Repair] = {
    0: Repair.NONE,
    1: Repair.RESET,
    2: Repair.REBOOT,
    4: Repair.DRAIN_AND_RESET,
    6: Repair.RESET,
    7: Repair.REBOOT,
}
#: One NVLink in MB/s, both directions summed, by nvmlNvlinkVersion_t: 1.0, 2.0, 2.2, 3.0 ... 6.0.
_LINK_SPEEDS: Mapping[int, int] = {
    1: 40_000,
    2: 50_000,
    3: 50_000,
    4: 50_000,
    5: 50_000,
    6: 50_000,
    7: 100_000,
    8: 100_000,
}
#: One PCIe lane of the first generation, in MB/s and one direction; each generation doubles it.
_FIRST_LANE = 250
#: The sixth is specified; a shift by an invented number would take all memory.
_MAX_GENERATIONS = 12
#: Digits of the domain in a bus address: NVML writes eight, Linux the last four.
_DOMAIN_DIGITS = 4


def bus_path(level: int) -> BusPath | None:
    """The way between two cards (nvmlGpuTopologyLevel_t); None for an unknown number."""
    return _PATHS.get(level)


def far_end(kind: int) -> FarEnd:
    """What an NVLink leads to (nvmlIntNvLinkDeviceType_t)."""
    return _FAR_ENDS.get(kind, FarEnd.OTHER)


def repair(action: int) -> Repair:
    """The repair that a card needs (nvmlDeviceGpuRecoveryAction_t)."""
    return _REPAIRS.get(action, Repair.OTHER)


def link_speed(version: int, reported: int | None) -> int:
    """The speed of one NVLink in MB/s, both directions summed.

    `reported` is the driver's figure for one direction. It is a few per cent above the data sheets'
    figure for full links, and below it only where links are slower (bridges).
    """
    nominal = _LINK_SPEEDS.get(version, 0)
    if not reported:
        return nominal
    return min(nominal, 2 * reported) if nominal else 2 * reported


def bus_speed(generation: int, lanes: int) -> int:
    """The speed of a PCIe connection in MB/s, both directions summed, without encoding and headers.

    0 for an implausible generation.
    """
    if not 0 < generation <= _MAX_GENERATIONS:
        return 0
    return 2 * lanes * (_FIRST_LANE << generation - 1)


def bus_address(text: str) -> str:
    """The address as Linux writes it: 0000:3b:00.0 for 00000000:3B:00.0."""
    domain, _, rest = text.lower().partition(":")
    extra = len(domain) - _DOMAIN_DIGITS
    return f"{domain[extra:] if extra > 0 and not domain[:extra].strip('0') else domain}:{rest}"


def profile(name: str, slices: int, megabytes: int) -> str:
    """A MIG instance's profile: the end of its name, or composed of its size as NVIDIA does."""
    _, mig, reported = name.rpartition(" MIG ")
    if mig or not slices:
        return reported if mig else ""
    return f"{slices}g.{-(-megabytes // 1024)}gb"


def cluster_name(raw: bytes) -> str:
    """The name of an NVLink network of several nodes; "" for zeros, a network within one node."""
    return str(uuid.UUID(bytes=raw)) if any(raw) else ""
