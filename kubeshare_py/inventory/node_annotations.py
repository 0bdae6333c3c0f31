"""The inventory from the annotations of Nodes, from one reading to the next."""

from collections.abc import Iterable

from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.card_annotation import CardAnnotationProblem, read_annotation
from kubeshare_py.inventory.sample_merge import taken_out


class NodeAnnotations:
    """All nodes' annotations; `read` returns what changed since it was last called.

    A node whose annotation cannot be read, or is gone, keeps its last known cards; without an
    annotation it is silent. A card with an impossible description stays as known. Where a card
    counts that several nodes list is decided in `cluster/claims`.
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
