"""Reads the output of `nvidia-smi topo -m` as wiring, for inventories that people write."""

import re
from collections.abc import Iterator

from kubeshare_py.domain.bounds import NUMA_NODE
from kubeshare_py.domain.card_reading import PATHS, BusPath
from kubeshare_py.domain.gpu import PeerLink
from kubeshare_py.topology.bandwidth import BUS_PERCENT, nvlinks
from kubeshare_py.topology.wiring import Wiring, one_object

_CARD = re.compile(r"GPU(\d{1,3})")
#: Escape sequences: the first line is underlined.
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ITSELF = "X"
_MAX_DIGITS = 9


class MatrixProblem(ValueError):
    """The text is no such matrix; the message says why."""


def read_matrix(text: str) -> Wiring:
    """The links of the cards, and their NUMA nodes if the columns on the right have them.

    Of network cards, which the driver lists if they have RDMA, the nearest counts. Raises
    MatrixProblem.
    """
    lines = [line.split() for line in _ESCAPES.sub("", text).splitlines()]
    heads = next((line for line in lines if line and _CARD.fullmatch(line[0])), [])
    devices = [head for head in heads if head.isalnum() or "_" in head]
    devices = devices[: devices.index("CPU")] if "CPU" in devices else devices
    count = sum(bool(_CARD.fullmatch(head)) for head in devices)
    if not count or devices[:count] != [f"GPU{index}" for index in range(count)]:
        raise MatrixProblem("begins with a line of GPU0, GPU1 and so on")
    rows = {
        line[0]: line[1:]
        for line in lines
        if len(line) > 1 and line is not heads and _CARD.fullmatch(line[0])
    }
    if [*rows] != devices[:count]:
        raise MatrixProblem(f"has {count} columns and rows for {' '.join(rows) or 'no GPU'}")
    numa = [(at, _numa_node(rows[f"GPU{at}"][len(devices) :])) for at in range(count)]
    near = [(at, _nearest(rows[f"GPU{at}"][count : len(devices)])) for at in range(count)]
    return one_object(
        Wiring(
            links=tuple((at, tuple(_links(at, rows[f"GPU{at}"], count))) for at in range(count)),
            numa_nodes=tuple((at, number) for at, number in numa if number is not None),
            rdma=tuple((at, path) for at, path in near if path is not None),
        )
    )


def _links(card: int, row: list[str], count: int) -> Iterator[PeerLink]:
    if len(row) < count or row[card] != _ITSELF:
        raise MatrixProblem(f"row GPU{card} needs {count} words with {_ITSELF} for itself")
    for peer, word in enumerate(row[:count]):
        if peer != card:
            if word not in BUS_PERCENT and not nvlinks(word):
                raise MatrixProblem(f"row GPU{card}: {word!r} is no way to GPU{peer}")
            yield PeerLink(peer, word, 0)


def _nearest(words: list[str]) -> BusPath | None:
    """The way to the nearest of a card's network cards; None without any."""
    return next((path for path in PATHS if path in words), None)


def _numa_node(rest: list[str]) -> int | None:
    """The column after the CPUs (0-23,48-71); None for several NUMA nodes."""
    value = rest[1] if len(rest) > 1 else ""
    if not value.isascii() or not value.isdecimal():
        return None
    number = int(value) if len(value) <= _MAX_DIGITS else NUMA_NODE.most + 1
    problem = NUMA_NODE.problem(number)
    if problem:
        raise MatrixProblem(f"NUMA node {problem}")
    return number
