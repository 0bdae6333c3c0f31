"""Cards that are declared unhealthy in a ConfigMap of their node, as gpushare reads them.

The ConfigMap `kube-system/unhealthy-gpu-NODE` has in `data.gpus` the indices of cards that take no
new pods, with commas between. gpushare-scheduler-extender takes a text that is no number for the
index 0, and so an empty text too; here such a text means no card, and is reported.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.printable import beginning

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
