"""Gemini on a node: which of its daemons run, and the files by which they know their pods."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.card_reading import IsolationBackend
from kubeshare_py.domain.identity import GpuUuid, PodKey, PodUid
from kubeshare_py.domain.quantity import as_decimal
from kubeshare_py.node_agent.tenants import NodeTenant

# Which of Gemini's daemons run on a node: `gem-schd` for each card, `gem-pmgr` for each pod.
#
# Options, ports and variables are those of KubeShare 2.0's launcher (docker/gemini-scheduler of
# github.com/NTHU-LSALab/KubeShare, release-2.0).


SCHEDULER, POD_MANAGER = "gem-schd", "gem-pmgr"
#: The port of the first card's `gem-schd`; those of the others follow.
FIRST_PORT = 49901
#: Milliseconds: a pod's first quota of time, the least one, and the window of all limits.
QUOTA_MS, LEAST_QUOTA_MS, WINDOW_MS = 300, 20, 10_000
_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True, order=True)
class GeminiDaemon:
    """A card's `gem-schd` at `card_port`, or a pod's `gem-pmgr` at `port`.

    `pod` is its namespace and name, "" for the former, and `port` is 0 then.
    """

    card: GpuUuid
    card_port: int
    pod: str = ""
    port: int = 0

    @property
    def program(self) -> str:
        """The name of its program."""
        return POD_MANAGER if self.pod else SCHEDULER

    def arguments(self, config_folder: str) -> tuple[str, ...]:
        """The arguments of its program; the pods' limits are in files of this folder."""
        if self.pod:
            return ()
        return (
            *("-p", config_folder, "-f", self.card, "-P", str(self.card_port)),
            *("-q", str(QUOTA_MS), "-m", str(LEAST_QUOTA_MS), "-w", str(WINDOW_MS)),
        )

    def environment(self) -> Mapping[str, str]:
        """The variables that its program reads."""
        if not self.pod:
            return {}
        return {
            "SCHEDULER_IP": "127.0.0.1",
            "SCHEDULER_PORT": str(self.card_port),
            "POD_MANAGER_IP": "0.0.0.0",
            "POD_MANAGER_PORT": str(self.port),
            "POD_NAME": self.pod,
        }


class GeminiPorts:
    """The ports of cards: the first free one, kept for as long as this process runs."""

    def __init__(self, first: int = FIRST_PORT) -> None:
        self._first = first
        self._by_card: dict[GpuUuid, int] = {}

    def of(self, cards: Iterable[GpuUuid]) -> Mapping[GpuUuid, int]:
        """The port of each of these cards. Those of cards that are gone are not given again."""
        cards = [*cards]
        for card in cards:
            self._by_card.setdefault(card, self._first + len(self._by_card))
        return {card: self._by_card[card] for card in cards}


def wanted(
    card_ports: Mapping[GpuUuid, int], port_files: Mapping[GpuUuid, str], ready: Container[GpuUuid]
) -> Sequence[GeminiDaemon]:
    """The daemons that should run now, for these port files.

    A pod manager connects only when it starts: it runs only while its card's `gem-schd` is `ready`.
    """
    found = [GeminiDaemon(card, port) for card, port in card_ports.items()]
    for card, port in card_ports.items():
        if card in ready:
            pods = read_ports(port_files.get(card, ""))
            found += [GeminiDaemon(card, port, pod, number) for pod, number in pods]
    return found


def read_ports(text: str) -> Sequence[tuple[str, int]]:
    """The pods of a port file with their ports, as far as its lines can be read."""
    count, *lines = text.splitlines() or [""]
    if not (count.isascii() and count.isdecimal()):
        return ()
    found = [line.split() for line in lines[: int(count)]]
    return tuple((pod, port) for pod, port in map(_pod_and_port, found) if port)


def _pod_and_port(words: Sequence[str]) -> tuple[str, int]:
    """A pod and its port; 0 for a line that is none."""
    match words:
        case [pod, port] if port.isascii() and port.isdecimal() and int(port) <= _LARGEST_PORT:
            return pod, int(port)
    return "", 0


# What Gemini's files say: one of each kind for each card, named after its uuid.
#
#     config/GPU-1              2\n
#                               default/a 0.5 1.0 4255350784\n
#                               default/b 0.3 0.6 2553210470\n
#     podmanagerport/GPU-1      2\n
#                               default/a 50051\n
#                               default/b 50052\n
#
# A line of `config` is a pod, its guaranteed part of the card's time, its limit, and its memory in
# bytes, as `gem-schd` reads them (src/scheduler.cpp of github.com/NTHU-LSALab/Gemini,
# v1.0-kubeshare). KubeShare 2.0 writes the limit first, so that each pod is stopped at its request.


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
