"""The inventory from objects: collectors' annotations of Nodes, ConfigMaps of unhealthy cards."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from kubeshare_py.domain.card_reading import BusPath, as_labels, of_labels
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu, PeerLink
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.printable import beginning
from kubeshare_py.domain.quantity import CARDS_OF_NODE
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.inventory.sample_merge import taken_out
from kubeshare_py.topology.wiring import shared

# The Node annotation in which a collector writes its node's cards for the scheduler.
#
# A JSON list with one object per card: uuid, index, model, memory (bytes), healthy if it is false,
# and isolation: for each back-end what it lacks, or that it is ready. If the driver reports them,
# also numa (the NUMA node), parent (the uuid of the card that an instance is a part of), fabric
# (cluster and clique of NVLinks beyond the node), rdma (what lies between it and the nearest RDMA
# device, as the word of `nvidia-smi topo -m`), and links: for each peer its index, the word of
# `nvidia-smi topo -m`, and MB/s. It is written when it changes, so its age means nothing.


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


# The inventory from the annotations of Nodes, from one reading to the next.


class NodeAnnotations:
    """All nodes' annotations; `read` returns what changed since it was last called.

    A node whose annotation cannot be read, or is gone, keeps its last known cards; without an
    annotation it is silent. A card with an impossible description stays as known. Where a card
    counts that several nodes list is decided in `cluster/card_disputes`.
    """

    def __init__(self) -> None:
        #: The problems found by the last `read`, as sentences.
        self.diagnostics: tuple[str, ...] = ()
        self._texts: dict[NodeName, str] = {}
        self._unread: set[NodeName] = set()
        self._cards: dict[NodeName, tuple[Gpu, ...]] = {}
        #: Nodes that are gone, and had cards when they were last read.
        self._gone: set[NodeName] = set()
        self._problems: dict[NodeName, tuple[str, ...]] = {}

    def take(self, node: NodeName, text: str) -> bool:
        """A node is there with this annotation ("" for none); whether that is new."""
        if self._texts.get(node) == text:
            return False
        self._texts[node] = text
        self._unread.add(node)
        return True

    def gone(self, node: NodeName) -> None:
        """A node is gone; its cards may be in another one."""
        self._texts.pop(node, None)
        self._unread.discard(node)
        if self._cards.pop(node, ()):
            self._gone.add(node)
        self._problems.pop(node, None)

    def only(self, nodes: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        for node in set(self._texts) - set(nodes):
            self.gone(node)

    def read(self) -> InventoryRead:
        """The nodes whose cards changed, and all silent nodes."""
        changed: dict[NodeName, tuple[Gpu, ...]] = dict.fromkeys(sorted(self._gone), ())
        self._gone.clear()
        for node in sorted(self._unread):
            cards, self._problems[node] = self._read(node)
            if self._cards.get(node, ()) != cards:
                changed[node] = self._cards[node] = cards
        self._unread.clear()
        self.diagnostics = tuple(
            line for node in sorted(self._problems) for line in self._problems[node]
        )
        return InventoryRead(tuple(changed.items()), tuple(sorted(self._silent())))

    def _silent(self) -> Iterable[NodeName]:
        """The nodes that had an annotation and have none now."""
        return (node for node, cards in self._cards.items() if cards and not self._texts.get(node))

    def _read(self, node: NodeName) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
        known = self._cards.get(node, ())
        text = self._texts[node]
        if not text:
            return known, ()
        try:
            listed = read_annotation(text)
        except CardAnnotationProblem as problem:
            return known, (f"node {node}: {problem}",)
        problems = tuple(f"node {node}: {problem}" for problem in listed.problems)
        unusable = {problem.uuid for problem in listed.problems}
        uuids = {card.uuid for card in listed.cards}
        kept = (
            card
            for card in known
            if card.uuid not in uuids and (card.uuid in unusable or "" in unusable)
        )
        cards = sorted((*listed.cards, *kept), key=lambda card: (card.index, card.uuid))
        ill = [card.uuid for card in cards if not card.healthy]
        problems += (taken_out(node, "", ill),) if ill else ()
        return tuple(cards[: CARDS_OF_NODE.most]), problems


# Cards that are declared unhealthy in a ConfigMap of their node, as gpushare reads them.
#
# The ConfigMap `kube-system/unhealthy-gpu-NODE` has in `data.gpus` the indices of cards that take
# no new pods, with commas between. gpushare-scheduler-extender takes a text that is no number for
# the index 0, and so an empty text too; here such a text means no card, and is reported.


NAMESPACE = "kube-system"
_PREFIX = "unhealthy-gpu-"
#: The most digits of an index, and the most characters of a text in a message.
_MAX_DIGITS, _MAX_SHOWN = 9, 60


@dataclass(slots=True)
class UnhealthyConfigMaps:
    """The texts of the ConfigMaps, by node."""

    _texts: dict[NodeName, str] = field(default_factory=dict)
    _indices: dict[NodeName, frozenset[int]] = field(default_factory=dict)

    @property
    def nodes(self) -> Mapping[NodeName, frozenset[int]]:
        """The indices of unhealthy cards by node, for nodes that have some."""
        return self._indices

    def put(self, name: str, text: str | None) -> NodeName | None:
        """Take `data.gpus` of a ConfigMap, None for one that is gone; its node if that matters."""
        node = node_of(name)
        if node is None or self._texts.get(node) == text:
            return None
        indices, _ = read_indices(text or "")
        before = self._indices.get(node, frozenset())
        if text is None:
            del self._texts[node]
        else:
            self._texts[node] = text
        if indices:
            self._indices[node] = indices
        else:
            self._indices.pop(node, None)
        return None if indices == before else node

    def others(self, names: set[str]) -> list[str]:
        """The names of known ConfigMaps that are none of these, sorted."""
        return sorted({f"{_PREFIX}{node}" for node in self._texts} - names)

    def applied(self, node: NodeName, cards: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """The cards of a node, unhealthy where their index is listed, and so are its instances."""
        listed = self._indices.get(node)
        if not listed:
            return cards
        return tuple(
            replace(card, healthy=False) if card.healthy and card.index in listed else card
            for card in cards
        )

    def problems(self) -> Iterator[str]:
        """A sentence about each ConfigMap with a text that names no card."""
        for node, text in sorted(self._texts.items()):
            _, odd = read_indices(text)
            if odd:
                parts = ", ".join(repr(beginning(part, _MAX_SHOWN)) for part in odd[:3])
                where = f"ConfigMap {NAMESPACE}/{_PREFIX}{node}: data.gpus"
                yield f"{where}: {parts}: no index of a card: it makes no card unhealthy"


def node_of(name: str) -> NodeName | None:
    """The node that a ConfigMap is about; None for another ConfigMap."""
    return NodeName(name[len(_PREFIX) :]) if name.startswith(_PREFIX) else None


def read_indices(text: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """The indices in a text, and its parts that are none. An empty text has neither."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    good = {part for part in parts if part.isascii() and part.isdecimal()}
    good = {part for part in good if len(part) <= _MAX_DIGITS}
    return frozenset(map(int, good)), tuple(part for part in parts if part not in good)
