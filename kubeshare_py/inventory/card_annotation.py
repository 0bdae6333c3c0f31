"""The Node annotation in which a collector writes its node's cards for the scheduler.

A JSON list with one object per card: uuid, index, model, memory (bytes), healthy if it is false,
and isolation: for each back-end what it lacks, or that it is ready. If the driver reports them,
also numa (the NUMA node), parent (the uuid of the card that an instance is a part of), fabric
(cluster and clique of NVLinks beyond the node), rdma (what lies between it and the nearest RDMA
device, as the word of `nvidia-smi topo -m`), and links: for each peer its index, the word of
`nvidia-smi topo -m`, and MB/s. It is written when it changes, so its age means nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.card_reading import BusPath
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.readiness import as_labels, of_labels
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.topology.wiring import shared

ANNOTATION = "sharedgpu/cards"


class CardAnnotationProblem(ValueError):
    """The annotation is no list of cards; the text begins with the annotation's name."""


@dataclass(frozen=True, slots=True)
class CardProblem:
    """A card that cannot be used as described; `uuid` is "" if it has none that can be read."""

    uuid: GpuUuid
    at: int
    rule: str

    def __str__(self) -> str:
        return f"{ANNOTATION}[{self.at}]: {self.rule}"


@dataclass(frozen=True, slots=True)
class AnnotatedCards:
    """The cards of one node, by index, and the problems of others in the annotation."""

    cards: tuple[Gpu, ...]
    problems: tuple[CardProblem, ...] = ()


class _Card(msgspec.Struct, omit_defaults=True):
    uuid: str
    index: int
    model: str
    memory: int
    healthy: bool = True
    numa: int | None = None
    parent: str = ""
    fabric: str = ""
    links: tuple[tuple[int, str, int], ...] = ()
    isolation: dict[str, str] = {}
    rdma: str = ""


class _CardName(msgspec.Struct):
    uuid: str


_cards = msgspec.json.Decoder(list[msgspec.Raw])
_card = msgspec.json.Decoder(_Card)
_names = msgspec.json.Decoder(_CardName)
#: Bad UTF-8 and deep nesting do not raise DecodeError.
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def write_cards(cards: Iterable[Gpu]) -> str:
    """The annotation's text for the cards of one node; equal cards give equal text."""
    ordered = sorted(cards, key=lambda card: (card.index, card.uuid))
    return msgspec.json.encode(
        [
            _Card(
                uuid=card.uuid,
                index=card.index,
                model=card.model.replace(" ", "-"),
                memory=card.memory_bytes,
                healthy=card.healthy,
                numa=card.numa_node,
                parent=card.parent or "",
                fabric=card.fabric,
                links=tuple((link.peer, link.kind, link.speed) for link in card.links),
                isolation=dict(as_labels(card.readiness)),
                rdma=card.rdma or "",
            )
            for card in ordered
        ]
    ).decode()


def read_annotation(text: str) -> AnnotatedCards:
    """The cards of one node; raises CardAnnotationProblem if the text is no list."""
    try:
        decoded = _cards.decode(text)
    except _UNDECODABLE as error:
        raise CardAnnotationProblem(f"{ANNOTATION}: {error}") from error
    cards: dict[GpuUuid, Gpu] = {}
    problems: list[CardProblem] = []
    for at, one in enumerate(decoded):
        found = _read(one, at)
        if isinstance(found, Gpu) and found.uuid in cards:
            found = CardProblem(found.uuid, at, f"{found.uuid} is there twice")
        if isinstance(found, Gpu) and len(cards) == CARDS_OF_NODE.most:
            found = CardProblem(found.uuid, at, f"number of cards {_too_many(len(decoded))}")
        if isinstance(found, CardProblem):
            problems.append(found)
        else:
            cards[found.uuid] = found
    ordered = sorted(cards.values(), key=lambda card: (card.index, card.uuid))
    return AnnotatedCards(tuple(ordered), tuple(problems))


def _read(raw: msgspec.Raw, at: int) -> Gpu | CardProblem:
    uuid = GpuUuid("")
    try:
        uuid = GpuUuid(_names.decode(raw).uuid)
        card = _card.decode(raw)
        found = Gpu(
            uuid=uuid,
            index=card.index,
            model=card.model.replace(" ", "-"),
            memory_bytes=card.memory,
            healthy=card.healthy,
            numa_node=card.numa,
            parent=GpuUuid(card.parent) if card.parent else None,
            fabric=card.fabric,
            links=shared(tuple(PeerLink(*link) for link in card.links)),
            readiness=of_labels(card.isolation.items()),
            rdma=BusPath(card.rdma) if card.rdma else None,
        )
    except (*_UNDECODABLE, ValueError) as error:
        return CardProblem(uuid, at, str(error))
    form = uuid_problem(uuid)
    return CardProblem(uuid, at, f"uuid {form}") if form else found


def _too_many(count: int) -> str:
    return CARDS_OF_NODE.problem(max(count, CARDS_OF_NODE.most + 1))
