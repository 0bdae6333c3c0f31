"""Cards, nodes and pods of a view in words that every table uses."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET
from rich.text import Text

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.values import replace
from kubeshare_py.terminal.grid import GridColumn, Row, grid
from kubeshare_py.views.figures import of_cards, scaling_words
from kubeshare_py.views.natural_order import natural_order
from kubeshare_py.views.view import CardView, ClusterView, ContainerView, NodeView, PodView

# Amounts in words for people: `0.5` of a GPU, `20.0 GiB`. Integers in, no floats between.


GIB = 1 << 30
MIB = 1 << 20
KIB = 1 << 10
#: Stands for what is used of a card if that is not known.
UNKNOWN = "-"
_RELATIONS = {"same card": "the same cards", "different cards": "different cards"}


def gpus(milli: int) -> str:
    """Thousandths of a GPU as a decimal number with at least one place: 500 is `0.5`."""
    whole, rest = divmod(abs(milli), WHOLE_MILLI)
    places = f"{rest:03d}".rstrip("0") or "0"
    return f"{'-' if milli < 0 else ''}{whole}.{places}"


def gpu_count(milli: int) -> str:
    """Thousandths of a GPU as a number of cards, as nodes are counted: `4`, `2.5`, `28,320`."""
    whole, rest = divmod(abs(milli), WHOLE_MILLI)
    places = f".{rest:03d}".rstrip("0") if rest else ""
    return f"{'-' if milli < 0 else ''}{whole:,}{places}"


def rounded_gib(amount: int) -> str:
    """A card's size in whole GiB, as its name has it: `40 GiB`; a smaller one exactly."""
    return f"{(amount + GIB // 2) // GIB} GiB" if amount >= GIB else memory(amount)


def gib(amount: int) -> str:
    """Bytes as GiB with one place, rounded to the nearest: 20 GiB is `20.0`."""
    tenths = (abs(amount) * 10 + GIB // 2) // GIB
    sign = "-" if amount < 0 and tenths else ""
    return f"{sign}{tenths // 10}.{tenths % 10}"


def memory(amount: int) -> str:
    """Bytes with their unit; less than a GiB in MiB, less than a MiB in bytes."""
    size = abs(amount)
    if size >= GIB or not size:
        return f"{gib(amount)} GiB"
    if size >= MIB:
        return f"{_rounded(amount, MIB)} MiB"
    return f"{amount} B"


def memory_pair(asked: int, free: int) -> tuple[str, str]:
    """Both amounts in one unit, fine enough to show their difference."""
    if asked == free:
        return memory(asked), memory(free)
    return next(pair for pair in _pairs(asked, free) if pair[0] != pair[1])


def percent(used: int, total: int) -> int:
    """The used part in percent, rounded down; 0 if there is nothing."""
    return used * 100 // total if total > 0 else 0


def busy(card: CardView) -> str:
    """The part of the time in which the card was busy, `37%`; "-" if it is not known."""
    if card.busy_milli is UNSET:
        return UNKNOWN
    return f"{(card.busy_milli * 100 + WHOLE_MILLI // 2) // WHOLE_MILLI}%"


def in_use(card: CardView) -> str:
    """GiB of the card's memory that are really used; "-" if it is not known."""
    return UNKNOWN if card.in_use_bytes is UNSET else gib(card.in_use_bytes)


def unmeasured(card: CardView) -> bool:
    """Whether nothing is known of what is really used of the card."""
    return card.busy_milli is UNSET and card.in_use_bytes is UNSET


def measured(nodes: Iterable[NodeView]) -> str:
    """The same of all cards: `34% busy, 52.1 GiB used (12 of 16 cards)`; "" if none is known."""
    cards = [card for node in nodes for card in node.cards]
    times = [card.busy_milli for card in cards if card.busy_milli is not UNSET]
    amounts = [card.in_use_bytes for card in cards if card.in_use_bytes is not UNSET]
    words = [
        *([f"{percent(sum(times), WHOLE_MILLI * len(times))}% busy"] if times else ()),
        *([f"{gib(sum(amounts))} GiB used"] if amounts else ()),
    ]
    most = max(len(times), len(amounts))
    return f"{', '.join(words)} ({most} of {counted(len(cards), 'card')})" if words else ""


def asks(pod: PodView) -> str:
    """What a pod asks for: `0.5 GPU, 20.0 GiB`, or of containers `0.5 GPU + 2 times 1.0 GPU`."""
    return _together(map(_claim, _asking(pod)), pod) or _claim(pod)


def asks_of(pod: PodView) -> str:
    """The same with the accepted models: `0.5 GPU on Tesla-T4`."""
    return _together(map(claim_of, _asking(pod)), pod) or claim_of(pod)


def claim_of(one: PodView | ContainerView) -> str:
    """One claim, per card if it is for several, with the accepted models."""
    return f"{_claim(one)} on {' or '.join(one.models)}" if one.models else _claim(one)


def relation(pod: PodView) -> str:
    """How its containers' cards relate: `, on different cards`; "" if that does not matter."""
    return f", on {_RELATIONS[pod.relation]}" if pod.relation in _RELATIONS else ""


def _asking(pod: PodView) -> list[ContainerView]:
    return [one for one in pod.containers if one.count]


def _together(claims: Iterable[str], pod: PodView) -> str:
    """The claims of containers, alike ones counted; "" for none."""
    counts = Counter(claims)
    parts = [f"{count} times {claim}" if count > 1 else claim for claim, count in counts.items()]
    return f"{' + '.join(parts)}{relation(pod)}" if parts else ""


def _claim(one: PodView | ContainerView) -> str:
    if not one.count:
        return "no GPU"
    if not one.milli and one.memory_bytes is not None:
        of_each = f"{memory(one.memory_bytes)} of "
        return f"{of_each}{'a card' if one.count == 1 else f'each of {one.count} cards'}"
    if one.count == 1:
        text = f"{gpus(one.milli)} GPU"
    elif one.milli == WHOLE_MILLI:
        text = f"{one.count} GPUs"
    else:
        text = f"{one.count} x {gpus(one.milli)} GPU"
    if one.share_of:
        text = f"{gpus(one.milli)} of one {one.share_of}"
    if one.memory_bytes is not None:
        text += f", {memory(one.memory_bytes)}" + (" each" if one.count > 1 else "")
    if one.memory_milli is not None:
        text += f", {one.memory_milli / 10:g}% of its memory"
    return text


def held(pod: PodView | ContainerView) -> str:
    """What it holds, summed over its cards if they differ: `0.5 GPU, 20.0 GiB`."""
    parts = pod.holds
    if not parts:
        return ""
    first = parts[0]
    if all((one.milli, one.memory_bytes) == (first.milli, first.memory_bytes) for one in parts):
        return amount_of(len(parts), first.milli, first.memory_bytes)
    share, memory_bytes = (sum(one.milli for one in parts), sum(one.memory_bytes for one in parts))
    return f"{gpus(share)} GPU, {memory(memory_bytes)} of {counted(len(parts), 'card')}"


def amount_of(count: int, milli: int, memory_bytes: int) -> str:
    """A number of cards, and the amount of each: `2 GPUs, 40.0 GiB each`."""
    if not milli:
        return f"{memory(memory_bytes)}{' each' if count > 1 else ''}"
    if count == 1:
        return f"{gpus(milli)} GPU, {memory(memory_bytes)}"
    share = f"{count} GPUs" if milli == WHOLE_MILLI else f"{count} x {gpus(milli)} GPU"
    return f"{share}, {memory(memory_bytes)} each"


def without_share(pod: PodView) -> str:
    """That the pod has a part of a card's memory alone, as the rest of a sentence; else ""."""
    is_memory = pod.count and not pod.milli and pod.memory_bytes is not None
    return ", no share of its time" if is_memory and not pod.containers else ""


def is_unclear(pod: PodView) -> bool:
    """Whether the pod's request may not have been understood: it is held, asking for nothing."""
    return pod.state == "gated" and not pod.count


def counted(count: int, thing: str) -> str:
    """A number and its noun: `1 node`, `5,000 nodes`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _pairs(asked: int, free: int) -> Iterator[tuple[str, str]]:
    if max(abs(asked), abs(free)) >= GIB:
        yield f"{gib(asked)} GiB", f"{gib(free)} GiB"
    for size, unit in ((MIB, "MiB"), (KIB, "KiB"), (1, "B")):
        yield f"{_rounded(asked, size)} {unit}", f"{_rounded(free, size)} {unit}"


def _rounded(amount: int, unit: int) -> int:
    size = (abs(amount) + unit // 2) // unit
    return -size if amount < 0 else size


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
        words.append(_disputed(card))
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
        yield f"{card_name(card.uuid, card.index)} {_disputed(card)}"
    if len(claimed) > _MAX_CLAIMS:
        yield f"{len(claimed) - _MAX_CLAIMS} more cards are claimed by other nodes too"


def _disputed(card: CardView) -> str:
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


# A row of amounts by card: a column for each card, or one list if that is too wide.


#: Stands for the index of cards that are not in the inventory.
NO_INDEX = "?"
_SHORTEST_NAME = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """The leading cells, one amount for each card index, and the last cell."""

    lead: tuple[str, ...]
    by_card: Mapping[str, str]
    tail: str


def index_label(card: CardView) -> str:
    """The header of this card's column."""
    return str(card.index) if card.index >= 0 else NO_INDEX


def by_index(cards: Iterable[CardView]) -> dict[str, list[CardView]]:
    """Cards under their index, in order; those without an index together."""
    found: dict[str, list[CardView]] = {}
    for card in ordered(cards):
        found.setdefault(index_label(card), []).append(card)
    return found


def card_matrix(
    rows: Sequence[MatrixRow],
    *,
    heads: tuple[str, ...],
    amount: str,
    empty: str,
    width: int | None,
) -> list[Text]:
    """Lines with a column `GPU0(amount)` for each card; `empty` where a row has no such card.

    Amounts, also that of `tail`, are right-aligned. A terminal too narrow for that gets one list
    per row instead: `0:amount 1:amount`.
    """
    labels = sorted({label for row in rows for label in row.by_card}, key=_in_order)
    *leading, last = heads
    names = [GridColumn(header=head) for head in leading]
    wide = grid(
        [
            *names,
            *(GridColumn(header=f"GPU{label}({amount})", right=True) for label in labels),
            GridColumn(header=last, right=True),
        ],
        [
            Row(cells=[*row.lead, *(row.by_card.get(label, empty) for label in labels), row.tail])
            for row in rows
        ],
        None,
    )
    if width is None or all(line.cell_len <= width for line in wide):
        return wide
    return grid(
        [GridColumn(header=head, least=_SHORTEST_NAME) for head in leading]
        + [GridColumn(header=last, right=True)],
        [
            Row(
                cells=[*row.lead, row.tail],
                flow=" ".join(f"{label}:{one}" for label, one in row.by_card.items()),
            )
            for row in rows
        ],
        width,
        flow_header=f"GPU:{amount}",
    )


def _in_order(label: str) -> tuple[bool, int]:
    return (label == NO_INDEX, 0 if label == NO_INDEX else int(label))
