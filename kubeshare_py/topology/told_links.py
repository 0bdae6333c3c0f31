"""Links as they are told, by uuid, to cards that carry their own."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from kubeshare_py.domain.card_reading import CardLink
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid

#: Nodes of one kind have the same few sets of links: 64 kinds of eight cards.
SETS_KEPT = 512


def with_links(cards: Sequence[Gpu], links: Iterable[CardLink]) -> tuple[Gpu, ...]:
    """The cards of one node with these links in place of those that they had.

    What is told of cards that are not among these, or of instances, is left out.
    """
    whole = {card.uuid: card.index for card in cards if card.parent is None}
    told: dict[GpuUuid, list[PeerLink]] = {}
    for link in links:
        if link.uuid in whole and link.peer in whole and link.uuid != link.peer:
            peer = PeerLink(whole[link.peer], link.kind, link.speed)
            told.setdefault(link.uuid, []).append(peer)
    return tuple(replace(card, links=_of(told.get(card.uuid, ()))) for card in cards)


def _of(links: Iterable[PeerLink]) -> tuple[PeerLink, ...]:
    return _shared(tuple(sorted(links, key=lambda link: (link.peer, link.kind, link.speed))))


@lru_cache(maxsize=SETS_KEPT)
def _shared(links: tuple[PeerLink, ...]) -> tuple[PeerLink, ...]:
    """The same object for equal links: thousands of nodes need not keep a copy each."""
    return links
