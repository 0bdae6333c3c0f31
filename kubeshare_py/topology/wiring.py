"""The wiring of a node: links, NUMA nodes, parents and fabric of its cards, apart from the cards.

It is reported later than the cards, and rarely changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kubeshare_py.domain.card_reading import BusPath, CardLink
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.remembered import MAX_BYTES, remembered

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
