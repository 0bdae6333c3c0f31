"""How a node's cards are wired: bandwidths of links, the wiring as a value, and its reading."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kubeshare_py.domain.card_reading import PATHS, BusPath, CardLink
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.quantity import NUMA_NODE
from kubeshare_py.domain.remembered import MAX_BYTES, remembered

# The wiring of a node: links, NUMA nodes, parents and fabric of its cards, apart from the cards.
#
# It is reported later than the cards, and rarely changes.


#: Nodes of one kind have the same few sets of links: 64 kinds of eight cards.
SETS_KEPT = 512
KINDS_KEPT = 1024
_NONE_NEAR: Mapping[GpuUuid, BusPath] = {}

Peers = tuple[PeerLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Keyed by card index, so that nodes of equal hardware have equal values; parents by uuid.

    `links` are those to whole cards, `rdma` what lies between cards and the nearest RDMA device.
    `fabric` is the NVLink network beyond the node that the cards
    belong to, "" for none.
    """

    links: tuple[tuple[int, Peers], ...] = ()
    numa_nodes: tuple[tuple[int, int], ...] = ()
    parents: tuple[tuple[GpuUuid, GpuUuid], ...] = ()
    rdma: tuple[tuple[int, BusPath], ...] = ()
    fabric: str = ""


def wiring_of(
    cards: Sequence[Gpu],
    links: Iterable[CardLink],
    numa_nodes: Mapping[GpuUuid, int],
    parents: Mapping[GpuUuid, GpuUuid],
    fabric: str = "",
    rdma: Mapping[GpuUuid, BusPath] = _NONE_NEAR,
) -> Wiring:
    """The wiring of one node's cards, from reports by uuid. Reports about other cards are left out.

    If two reports of one link differ, the slower one counts.
    """
    inside = {card.uuid: parents[card.uuid] for card in cards if card.uuid in parents}
    whole = {card.uuid: card.index for card in cards if card.uuid not in inside}
    by_card: dict[int, dict[int, PeerLink]] = {}
    for link in links:
        if link.uuid in whole and link.peer in whole and link.uuid != link.peer:
            peer = PeerLink(whole[link.peer], link.kind, link.speed)
            of_card = by_card.setdefault(whole[link.uuid], {})
            known = of_card.setdefault(peer.peer, peer)
            of_card[peer.peer] = min(known, peer, key=lambda one: (one.speed, one.kind))
    numa = {card.index: numa_nodes[card.uuid] for card in cards if card.uuid in numa_nodes}
    near = {card.index: rdma[card.uuid] for card in cards if card.uuid in rdma}
    return one_object(
        Wiring(
            links=tuple(
                (index, shared(tuple(peers[at] for at in sorted(peers))))
                for index, peers in sorted(by_card.items())
            ),
            numa_nodes=tuple(sorted(numa.items())),
            parents=tuple(sorted(inside.items())),
            rdma=tuple(sorted(near.items())),
            fabric=fabric,
        )
    )


def wired(cards: Sequence[Gpu], wiring: Wiring) -> tuple[Gpu, ...]:
    """The cards of one node with this wiring in place of theirs."""
    links, numa, parents = dict(wiring.links), dict(wiring.numa_nodes), dict(wiring.parents)
    rdma = dict(wiring.rdma)
    return tuple(
        replace(
            card,
            links=() if card.uuid in parents else links.get(card.index, ()),
            numa_node=numa.get(card.index),
            parent=parents.get(card.uuid),
            fabric=wiring.fabric,
            rdma=rdma.get(card.index),
        )
        for card in cards
    )


def with_links(cards: Sequence[Gpu], links: Iterable[CardLink]) -> tuple[Gpu, ...]:
    """The cards of one node with these links in place of theirs.

    Links of cards that are not among these, or of instances, are left out.
    """
    numa = {card.uuid: card.numa_node for card in cards if card.numa_node is not None}
    parents = {card.uuid: card.parent for card in cards if card.parent is not None}
    rdma = {card.uuid: card.rdma for card in cards if card.rdma is not None}
    return wired(cards, wiring_of(cards, links, numa, parents, fabric_of(cards), rdma))


def fabric_of(cards: Iterable[Gpu]) -> str:
    """The fabric of one node's cards; of several, the last by name."""
    return max((card.fabric for card in cards), default="")


def still_counts(old: Iterable[Gpu], new: Iterable[Gpu]) -> bool:
    """Whether a wiring by the indices of `old` is right for `new`: cards come and go."""
    places = {card.uuid: card.index for card in old}
    taken = {*places.items()}
    indices = {index for _, index in taken}
    return all(
        (card.uuid, card.index) in taken or (card.uuid not in places and card.index not in indices)
        for card in new
    )


def links_of(cards: Sequence[Gpu]) -> tuple[CardLink, ...]:
    """The links of one node's cards, by uuid."""
    uuids = {card.index: card.uuid for card in cards if card.parent is None}
    return tuple(
        CardLink(uuid=card.uuid, peer=uuids[link.peer], kind=link.kind, speed=link.speed)
        for card in cards
        for link in card.links
        if link.peer in uuids
    )


@remembered(KINDS_KEPT, heavy=MAX_BYTES)
def one_object(wiring: Wiring) -> Wiring:
    """The same object for equal values: thousands of nodes need not keep a copy each."""
    links = tuple((index, shared(peers)) for index, peers in wiring.links)
    return replace(wiring, links=links)


@remembered(SETS_KEPT)
def shared(links: Peers) -> Peers:
    """The same object for equal links."""
    return links


# The bandwidth of a link between two cards, from its word in `nvidia-smi topo -m` and its speed.
#
# Bandwidths are in MB/s, both directions summed.


#: The ways over the bus, from near to far, and the percentage of the bus's bandwidth that counts.
#: Only the order is a fact: drivers report the speed of the bus, which is the same with any number
#: of bridges in between, and nearer cards must come first.
BUS_PERCENT = {"PIX": 100, "PXB": 90, "PHB": 75, "NODE": 65, "SYS": 50}

#: Speeds that a driver does not report: PCIe 3.0 with 16 lanes, and one link of NVLink 2 to 4.
BUS_SPEED = 32_000
NVLINK_SPEED = 50_000

#: Not bandwidths, but an order where nothing else is known: instances of one card first, so that
#: other cards can still be divided, then cards of one NUMA node.
SAME_CARD = 2
SAME_NUMA_NODE = 1

#: The most NVLinks of one card. A card with more shares them with its peers through a switch.
MAX_NVLINKS = 18

_NVLINKS = re.compile(r"NV(\d{1,3})")


def nvlinks(kind: str) -> int:
    """The number of NVLinks: 12 for NV12, 0 for other words."""
    found = _NVLINKS.fullmatch(kind)
    return int(found[1]) if found else 0


def speed(link: PeerLink) -> int:
    """The bandwidth of the link itself in MB/s, before losses on the way; 0 for unknown words."""
    count = nvlinks(link.kind)
    if count:
        return link.speed or count * NVLINK_SPEED
    return (link.speed or BUS_SPEED) if link.kind in BUS_PERCENT else 0


# Reads the output of `nvidia-smi topo -m` as wiring, for inventories that people write.


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
