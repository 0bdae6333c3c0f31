r"""What Gemini's files say: one of each kind for each card, named after its uuid.

    config/GPU-1              2\n
                              default/a 0.5 1.0 4255350784\n
                              default/b 0.3 0.6 2553210470\n
    podmanagerport/GPU-1      2\n
                              default/a 50051\n
                              default/b 50052\n

A line of `config` is a pod, its guaranteed part of the card's time, its limit, and its memory in
bytes, as `gem-schd` reads them (src/scheduler.cpp of github.com/NTHU-LSALab/Gemini,
v1.0-kubeshare). KubeShare 2.0 writes the limit first, so that each pod is stopped at its request.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.quantity import as_decimal
from kubeshare_py.node_agent.tenants import NodeTenant

#: A file without pods.
EMPTY = "0\n"
#: A longer `namespace/name` would be written past the end of Gemini's messages of 80 bytes.
LONGEST_NAME = 47
#: The whole of a card's time, in milli.
_WHOLE = 1000
#: The uuids that can be names of files.
_FILE_NAME = re.compile("(GPU|MIG)-[0-9A-Za-z][0-9A-Za-z_-]*")

NO_ROOM = f"Gemini takes at most {LONGEST_NAME} characters for namespace/name, this pod has {{}}"
NO_PORT = "it has no pod manager's port"
SEVERAL = "Gemini limits a pod on one card, and it holds {}"
ODD_UUID = "Gemini knows no card {!r}"
NO_MEMORY = "it sets no memory aside, and the memory of {} is not known"
PORT_TAKEN = "port {} is that of {}"


@dataclass(frozen=True, slots=True)
class GeminiFiles:
    """Texts by card. `unserved` says of pods with this back-end why they have no line."""

    config: Mapping[GpuUuid, str] = field(default_factory=dict)
    ports: Mapping[GpuUuid, str] = field(default_factory=dict)
    served: frozenset[PodUid] = frozenset()
    unserved: Mapping[PodKey, str] = field(default_factory=dict)


@dataclass(slots=True)
class _CardLines:
    """Lines of one card's two files."""

    config: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)


def gemini_files(
    tenants: Iterable[NodeTenant], memory_of: Mapping[GpuUuid, int], cards: Iterable[GpuUuid] = ()
) -> GeminiFiles:
    """The files of these pods; those of the other `cards` are empty.

    Only pods whose isolation back-end is Gemini have a line. One that sets no memory aside may have
    all of its card (`memory_of`, in bytes): Gemini refuses every allocation of a pod with 0.
    """
    lines: dict[GpuUuid, _CardLines] = {
        uuid: _CardLines() for uuid in cards if _FILE_NAME.fullmatch(uuid)
    }
    taken: dict[int, PodKey] = {}
    served: set[PodUid] = set()
    unserved: dict[PodKey, str] = {}
    for one in sorted(tenants, key=lambda tenant: (tenant.key, tenant.uid)):
        if one.allocation is None or one.allocation.backend is not IsolationBackend.GEMINI:
            continue
        if problem := next(_problems(one, memory_of, taken), ""):
            unserved.setdefault(one.key, problem)
            continue
        [card] = one.allocation.cards
        assert one.allocation.port is not None
        taken[one.allocation.port] = one.key
        served.add(one.uid)
        found = lines.setdefault(card.uuid, _CardLines())
        found.config.append(_config_line(one, card, memory_of))
        found.ports.append(f"{one.key} {one.allocation.port}\n")
    return GeminiFiles(
        {uuid: _text(one.config) for uuid, one in lines.items()},
        {uuid: _text(one.ports) for uuid, one in lines.items()},
        frozenset(served),
        unserved,
    )


def _problems(
    tenant: NodeTenant, memory_of: Mapping[GpuUuid, int], taken: Mapping[int, PodKey]
) -> Iterator[str]:
    """Why a pod cannot have a line."""
    allocation, name = tenant.allocation, str(tenant.key)
    assert allocation is not None
    if len(allocation.cards) > 1:
        yield SEVERAL.format(len(allocation.cards))
    [card, *_] = allocation.cards
    if not _FILE_NAME.fullmatch(card.uuid):
        yield ODD_UUID.format(card.uuid)
    if len(name.encode()) > LONGEST_NAME:
        yield NO_ROOM.format(len(name.encode()))
    if allocation.port is None:
        yield NO_PORT
    elif allocation.port in taken:
        yield PORT_TAKEN.format(allocation.port, taken[allocation.port])
    if not card.memory_bytes and not memory_of.get(card.uuid):
        yield NO_MEMORY.format(card.uuid)


def _config_line(tenant: NodeTenant, card: CardCharge, memory_of: Mapping[GpuUuid, int]) -> str:
    isolation = tenant.allocation.isolation if tenant.allocation else None
    limit = min((isolation.limit_milli if isolation else 0) or _WHOLE, _WHOLE)
    request = min(card.milli, _WHOLE)
    memory = card.memory_bytes or memory_of[card.uuid]
    return f"{tenant.key} {as_decimal(request)} {as_decimal(max(limit, request))} {memory}\n"


def _text(lines: list[str]) -> str:
    return f"{len(lines)}\n{''.join(lines)}"
