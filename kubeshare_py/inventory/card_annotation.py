"""The annotation in which a collector writes its node's cards on the Node, for the scheduler.

A JSON list with one object a card: uuid, index, model, memory (bytes), healthy where it is false,
and isolation: by back-end, what it lacks or that it is ready. Where the driver says them also numa
(the NUMA node), parent (the uuid of the card that an instance is a part of), fabric (cluster and
clique of NVLinks beyond the node), and links: for each peer its index, the word of `nvidia-smi topo
-m`, and MB/s. It is written when it changes, so that its age says nothing.
"""

from collections.abc import Iterable

import msgspec

from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.readiness import as_labels, of_labels
from kubeshare_py.topology.wiring import shared

ANNOTATION = "sharedgpu/cards"


class CardAnnotationProblem(ValueError):
    """The annotation is no list of cards; the text begins with the annotation's name."""


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


_cards = msgspec.json.Decoder(list[_Card])


def write_cards(cards: Iterable[Gpu]) -> str:
    """The annotation's text for the cards of one node; equal cards, equal text."""
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
            )
            for card in ordered
        ]
    ).decode()


def read_cards(text: str) -> tuple[Gpu, ...]:
    """The cards of one node, by index. Raises CardAnnotationProblem: all of them or none."""
    try:
        cards = [
            Gpu(
                uuid=GpuUuid(card.uuid),
                index=card.index,
                model=card.model.replace(" ", "-"),
                memory_bytes=card.memory,
                healthy=card.healthy,
                numa_node=card.numa,
                parent=GpuUuid(card.parent) if card.parent else None,
                fabric=card.fabric,
                links=shared(tuple(PeerLink(*link) for link in card.links)),
                readiness=of_labels(card.isolation.items()),
            )
            for card in _cards.decode(text)
        ]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CardAnnotationProblem(f"{ANNOTATION}: {error}") from error
    uuids = [card.uuid for card in cards]
    twice = next((uuid for uuid in uuids if uuids.count(uuid) > 1), None)
    if twice is not None:
        raise CardAnnotationProblem(f"{ANNOTATION}: {twice} is there twice")
    return tuple(sorted(cards, key=lambda card: (card.index, card.uuid)))
