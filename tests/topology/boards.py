"""Boards for tests: those of the fake driver, as the collector tells their links, and others."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from kubeshare_py.domain.card_reading import BusPath, CardLink, CardReading, FarEnd, OwnLink
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.node_agent.links import card_links
from kubeshare_py.topology.card_sets import PositionSet
from kubeshare_py.topology.node_topology import NodeTopology, topology_of
from kubeshare_py.topology.wiring import with_links
from tests.making import a_gpu

FAKES = Path(__file__).parents[1] / "fake_nvml" / "boards"
BUS = 32_000
LEVELS = (BusPath.SYS, BusPath.NODE, BusPath.PHB, BusPath.PXB)


def uuid(index: int) -> GpuUuid:
    return GpuUuid(f"GPU-{index:02}")


def described(pcie: str, nvlink: Mapping[str, Any] | None = None, **each: Any) -> tuple[Gpu, ...]:
    """Whole cards by where they are ("numa.bridge.switches.switch"), and their NVLinks."""
    places = pcie.split()
    readings = [
        CardReading(
            uuid=uuid(index),
            index=index,
            model="",
            memory_bytes=1,
            bus=str(index),
            bus_speed=BUS,
            paths=tuple(
                (uuid(at), path(places[index], place)) for at, place in others(index, places)
            ),
            links=tuple(own_links(index, nvlink or {})),
        )
        for index in range(len(places))
    ]
    cards = [
        a_gpu(uuid(at), index=at, numa_node=int(place.split(".")[0]), **each)
        for at, place in enumerate(places)
    ]
    return with_links(cards, card_links(readings))


def fake(name: str) -> tuple[Gpu, ...]:
    """The whole cards of a board of the fake driver."""
    document = yaml.safe_load((FAKES / f"{name}.yaml").read_text())
    down = {at: card.get("links_down", 0) for at, card in document.get("cards", {}).items()}
    return described(" ".join(document["pcie"]), {**document.get("nvlink", {}), "down": down})


def path(one: str, other: str) -> BusPath:
    pairs = zip(one.split("."), other.split("."), strict=True)
    return next((word for word, (a, b) in zip(LEVELS, pairs, strict=True) if a != b), BusPath.PIX)


def others(index: int, places: list[str]) -> list[tuple[int, str]]:
    return [(at, place) for at, place in enumerate(places) if at != index]


def own_links(index: int, nvlink: Mapping[str, Any]) -> list[OwnLink]:
    speed = round(nvlink.get("speed", 25_000) * 2 / 1000) * 1000
    count = nvlink.get("to_switch", 0) - nvlink.get("down", {}).get(index, 0)
    links = [OwnLink(far_end=FarEnd.SWITCH, speed=speed)] * max(count, 0)
    for pair, number in nvlink.get("pairs", {}).items():
        ends = [int(end) for end in pair.split("-")]
        if index in ends:
            far = str(sum(ends) - index)
            links += [OwnLink(far_end=FarEnd.CARD, speed=speed, bus=far)] * number
    return links


def linked(count: int, links: Mapping[tuple[int, int], tuple[str, int]]) -> tuple[Gpu, ...]:
    """Cards with these links, each told by both ends."""
    told = [
        CardLink(uuid=uuid(a), peer=uuid(b), kind=kind, speed=speed)
        for ends, (kind, speed) in links.items()
        for a, b in (ends, ends[::-1])
    ]
    return with_links([a_gpu(uuid(index), index=index) for index in range(count)], told)


TWO_SOCKETS = "0.0.0.0 0.0.0.0 0.1.0.0 0.1.0.0 1.0.0.0 1.0.0.0 1.1.0.0 1.1.0.0"
MESH = {f"{a}-{b}": 4 for a, b in combinations(range(4), 2)}

BOARDS: dict[str, tuple[Gpu, ...]] = {
    "dgx-1v": fake("dgx-1v"),
    "dgx-a100": described(TWO_SOCKETS, {"to_switch": 12}),
    "dgx-a100-links-down": fake("dgx-a100"),
    "hgx-h100": described(TWO_SOCKETS, {"to_switch": 18}),
    "hgx-a100-4": described("0.0.0.0 0.1.0.0 1.0.0.0 1.1.0.0", {"pairs": MESH}),
    "pcie": described(TWO_SOCKETS),
    "bridges": described(TWO_SOCKETS, {"pairs": {"0-1": 4, "2-3": 4, "4-5": 4, "6-7": 4}}),
    "mixed": described(TWO_SOCKETS, {"pairs": {"0-1": 4, "2-3": 4, "4-6": 2}}),
    "t4-box": fake("t4-box"),
    "untold": tuple(a_gpu(uuid(index), index=index) for index in range(6)),
    "single": (a_gpu(uuid(0)),),
}


def board(name: str) -> NodeTopology:
    return topology_of(BOARDS[name])


def bits(*positions: int) -> PositionSet:
    return PositionSet(sum(1 << position for position in positions))
