"""Cards, nodes and pods of a view in words that every table uses."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.terminal.amounts import counted, gpu_count, gpus, rounded_gib
from kubeshare_py.views.card_scaling import of_cards, scaling_words
from kubeshare_py.views.natural_order import natural_order
from kubeshare_py.views.view import CardView, ClusterView, NodeView, PodView

UNREAD = "unread"
#: The text for pods on a card that the reader may not see.
UNNAMED = "(in other namespaces)"
READ = "read"
_READY, _NOT_KNOWN = "ready", "not known"
#: The most claims that are shown: a lying node may claim hundreds of cards.
_MAX_CLAIMS = 8


def card_label(card: CardView) -> str:
    """Its index on the node, or its uuid if the index is unknown."""
    return str(card.index) if card.index >= 0 else card.uuid


def ordered(cards: Iterable[CardView]) -> list[CardView]:
    """By index, those without one last."""
    return sorted(cards, key=lambda card: (card.index < 0, card.index, card.uuid))


def card_state(node: NodeView, card: CardView, overcommitted: frozenset[tuple[str, str]]) -> str:
    """What is wrong with a card, or ""."""
    words = []
    if not card.known:
        words.append("not in inventory")
    elif card.claimed_by:
        words.append(_claim(card))
    elif not card.healthy:
        words.append("unhealthy")
    if card.cordoned:
        words.append("cordoned")
    if (node.name, card.uuid) in overcommitted:
        words.append("overcommitted")
    if card.reserved_for:
        words.append(f"reserved for {' and '.join(card.reserved_for)}")
    words += [
        f"{gpus(one.milli)} held for {one.for_s} s after the forced deletion of "
        + (f"{one.namespace}/{one.name}" if one.name else "a pod of another namespace")
        for one in card.lingering
    ]
    return ", ".join(words)


def claims(cards: Iterable[CardView]) -> Iterator[str]:
    """A sentence for each of these cards that other nodes claim, the first of many."""
    claimed = [card for card in ordered(cards) if card.claimed_by]
    for card in claimed[:_MAX_CLAIMS]:
        yield f"{card_name(card.uuid, card.index)} {_claim(card)}"
    if len(claimed) > _MAX_CLAIMS:
        yield f"{len(claimed) - _MAX_CLAIMS} more cards are claimed by other nodes too"


def _claim(card: CardView) -> str:
    first, *others = card.claimed_by
    nodes = f"{first} and {counted(len(others), 'more node')}" if others else first
    return f"claimed by {nodes} too" + ("" if card.healthy else ", takes no new pods")


def unheld(cards: Iterable[CardView]) -> dict[str, int]:
    """For each part, how many pods are not held to their part of these cards."""
    pods = {
        (tenant.namespace, tenant.name): tenant.unheld for card in cards for tenant in card.tenants
    }
    return dict(sorted(Counter(part for parts in pods.values() for part in parts).items()))


def isolation(cards: Sequence[CardView]) -> Iterator[tuple[str, bool]]:
    """A line for each back-end that pods may use: where it works, and whether that is everywhere.

    Cards are named if they differ.
    """
    by_backend: dict[str, dict[str, list[str]]] = {}
    for card in ordered(cards):
        for one in card.isolation:
            state = _READY if one.ready else _NOT_KNOWN if one.ready is None else one.reason
            by_backend.setdefault(one.backend, {}).setdefault(state, []).append(card_label(card))
    for backend, states in by_backend.items():
        parts = [
            state if len(states) == 1 else f"{state} on {','.join(labels)}"
            for state, labels in sorted(states.items(), key=_worst_first)
        ]
        yield f"{backend} {', '.join(parts)}", [*states] == [_READY]


def _worst_first(state: tuple[str, list[str]]) -> tuple[bool, bool, str]:
    return state[0] == _READY, state[0] == _NOT_KNOWN, state[0]


def node_state(node: NodeView) -> str:
    """What is special about a node, or ""."""
    words = []
    if not node.known:
        words.append("unknown node")
    if node.not_ready:
        words.append("NotReady")
    if node.unschedulable:
        words.append("SchedulingDisabled")
    if node.silent:
        words.append("collector silent")
    return ", ".join(words)


def card_name(uuid: str, index: int) -> str:
    """A card in a sentence: `GPU 0 (GPU-…)`, or its uuid if the inventory does not show it."""
    return f"GPU {index} ({uuid})" if index >= 0 else uuid


def held_labels(pod: PodView) -> str:
    """The cards of its node that a pod has: `0,1`; uuids if no index is known."""
    known = sorted(one.index for one in pod.holds if one.index >= 0)
    return ",".join([*map(str, known), *(one.uuid for one in pod.holds if one.index < 0)])


#: Ways to sort nodes; by the second and third the nodes with the most come first.
NAME_ORDER, FREE_ORDER, USED_ORDER = "name", "free", "used"
SORTS = (NAME_ORDER, FREE_ORDER, USED_ORDER)


def sorted_nodes(nodes: Iterable[NodeView], by: str = NAME_ORDER) -> list[NodeView]:
    """The nodes in one of these orders, equal ones by name, and those without cards last."""
    found = sorted(nodes, key=lambda node: (not node.cards, natural_order(node.name)))
    if by == FREE_ORDER:
        found.sort(key=lambda node: -free_milli((node,)))
    elif by == USED_ORDER:
        found.sort(key=lambda node: -used_milli((node,)))
    return found


def of_model(nodes: Iterable[NodeView], text: str) -> list[NodeView]:
    """The nodes with cards whose model contains a text, in any case, with only these cards."""
    found = (
        replace(node, cards=tuple(c for c in node.cards if text.lower() in c.model.lower()))
        for node in nodes
    )
    return [node for node in found if node.cards]


def used_milli(nodes: Iterable[NodeView]) -> int:
    """Share charged on all cards."""
    return sum(card.used_milli for node in nodes for card in node.cards)


def used_bytes(nodes: Iterable[NodeView]) -> int:
    """Memory charged on all cards."""
    return sum(card.used_bytes for node in nodes for card in node.cards)


def total_bytes(nodes: Iterable[NodeView]) -> int:
    """Memory of all cards; a card that the inventory does not show adds nothing."""
    return sum(card.memory_bytes for node in nodes for card in node.cards)


def total_milli(nodes: Iterable[NodeView]) -> int:
    """What pods may hold of all cards that the inventory shows, in milli."""
    return sum(card.capacity_milli for node in nodes for card in node.cards if card.known)


def is_open(node: NodeView, card: CardView) -> bool:
    """Whether new pods may get part of a card, if it is free."""
    is_closed = node.unschedulable or node.not_ready or not node.known
    return card.known and card.healthy and not (card.cordoned or is_closed)


def free_milli(nodes: Iterable[NodeView]) -> int:
    """The share of cards that new pods may get, in milli."""
    return sum(
        max(0, card.capacity_milli - card.used_milli - card.reserved_milli)
        for node in nodes
        for card in node.cards
        if is_open(node, card) and not any(one.exclusive for one in card.tenants)
    )


def closed_cards(nodes: Iterable[NodeView]) -> int:
    """How many cards of the inventory take no new pods."""
    return sum(card.known and not is_open(node, card) for node in nodes for card in node.cards)


def free_and_closed(nodes: Sequence[NodeView]) -> str:
    """What new pods may get: `1.5 free, 2 cards take no new pods`."""
    closed = closed_cards(nodes)
    words = f"{counted(closed, 'card')} take{'s' if closed == 1 else ''} no new pods"
    return f"{gpu_count(free_milli(nodes))} free" + (f", {words}" if closed else "")


def models(nodes: Iterable[NodeView]) -> str:
    """The models of nodes' cards and a card's memory: `Tesla-T4 15 GiB`, several by a comma."""
    found = {
        f"{card.model} {rounded_gib(card.memory_bytes)}": None
        for node in nodes
        for card in ordered(node.cards)
        if card.known and card.model
    }
    return ", ".join(found)


def scaling(cards: Iterable[CardView]) -> tuple[str, ...]:
    """A line for each way in which the capacities of cards are scaled, or their pods limited."""
    return of_cards(
        (
            card_label(card),
            scaling_words(
                card.memory_bytes * WHOLE_MILLI // card.memory_scaling,
                card.memory_scaling,
                card.capacity_milli,
                card.max_tenants,
            ),
        )
        for card in ordered(cards)
        if card.known and card.memory_scaling > 0
    )


def warnings(view: ClusterView) -> list[str]:
    """What a reader must know before believing the rest, one sentence each."""
    sentences = []
    if not view.ready:
        sentences.append("The scheduler has not read all pods and nodes yet: this is incomplete.")
    if view.inventory == UNREAD:
        sentences.append("The GPU inventory has not been read yet: GPU pods wait.")
    elif view.inventory != READ:
        sentences.append(f"The GPU inventory could not be read: {view.inventory}")
    if view.overcommitted:
        places = ", ".join(f"{uuid} on {node}" for node, uuid in view.overcommitted)
        cards = counted(len(view.overcommitted), "card")
        sentences.append(f"More is promised than there is on {cards}: {places}")
    return sentences
