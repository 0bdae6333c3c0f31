"""The inventory from nodes that HAMi's device plugins register, from one reading to the next."""

import math
from collections.abc import Iterable, Iterator, Sequence

from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.hami.node_plugins import NodePlugins, PluginKeys, PluginNode


class PluginNodes:
    """All nodes' plugins; `read` returns what changed since it was last called.

    An annotation that cannot be read leaves its node's last known cards. Without one the cards are
    gone. Cards of a dead plugin are there and take no pods; nor do they while a pod waits for the
    plugin for too long. Times are Unix time (s).
    """

    def __init__(self, kinds: Sequence[PluginKeys]) -> None:
        #: What is odd, as sentences that name the node, as `read` found it.
        self.diagnostics: tuple[str, ...] = ()
        self._kinds = kinds
        self._nodes: dict[NodeName, NodePlugins] = {}
        self._cards: dict[NodeName, tuple[Gpu, ...]] = {}
        self._problems: dict[NodeName, tuple[str, ...]] = {}
        self._silent: dict[NodeName, tuple[str, ...]] = {}
        #: Nodes to look at because they changed, and when to look at others.
        self._doubtful: set[NodeName] = set()
        self._due: dict[NodeName, float] = {}
        self._gone: set[NodeName] = set()

    @property
    def next_at(self) -> float:
        """When (s) time alone may change something; infinity if it does not."""
        return min(self._due.values(), default=math.inf)

    @property
    def silent(self) -> Iterator[tuple[NodeName, str]]:
        """The handshake annotations that were to be written, by node, as `read` found them."""
        for node in sorted(self._silent):
            for annotation in self._silent[node]:
                yield node, annotation

    def take(self, name: NodeName, shown: PluginNode, now: float) -> bool:
        """A node is there and shows this; whether that is new."""
        known = self._nodes.get(name)
        if known is None:
            if not any(kind.shown_in(shown.annotations) for kind in self._kinds):
                return False
            known = self._nodes[name] = NodePlugins(self._kinds)
        elif known.shown == shown:
            return False
        known.take(shown, now)
        self._doubtful.add(name)
        return True

    def gone(self, name: NodeName) -> None:
        """A node is gone; its cards may be in another one."""
        for table in (self._nodes, self._due, self._problems, self._silent):
            table.pop(name, None)
        self._doubtful.discard(name)
        if self._cards.pop(name, ()):
            self._gone.add(name)

    def only(self, names: Iterable[NodeName]) -> None:
        """Forget all nodes but these."""
        for name in set(self._nodes) - set(names):
            self.gone(name)

    def read(self, now: float) -> InventoryRead:
        """The nodes whose cards changed."""
        changed: dict[NodeName, tuple[Gpu, ...]] = dict.fromkeys(sorted(self._gone), ())
        self._gone.clear()
        due = {name for name, at in self._due.items() if at <= now}
        for name in sorted(self._doubtful | due):
            known = self._nodes[name]
            cards = known.cards(now)
            if cards != self._cards.get(name, ()):
                changed[name] = self._cards[name] = cards
            self._problems[name], self._silent[name] = known.problems, tuple(known.silent(now))
            self._due[name] = known.changes_at(now)
        self._doubtful.clear()
        self.diagnostics = tuple(
            f"node {name}: {problem}"
            for name in sorted(name for name, found in self._problems.items() if found)
            for problem in self._problems[name]
        )
        return InventoryRead(tuple(changed.items()), ())
