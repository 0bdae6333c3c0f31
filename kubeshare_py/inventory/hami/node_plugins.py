"""The device plugins of one node: their cards, whether they take pods, and what is odd."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeshare_py.domain.bounds import CARDS_OF_NODE
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.inventory.hami.handshake import Handshake, PluginSigns
from kubeshare_py.inventory.hami.registered_cards import registered_cards

#: A pod that was sent to a node so long (s) ago and has not been given its devices shows that their
#: plugin does not answer: it needs milliseconds, and the kubelet asks it before images are pulled.
LATE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginKeys:
    """Where a Node shows one kind of plugin.

    `registers` and `handshakes` are annotations, in pairs, the newer release's first; `resource` is
    what the plugin advertises, and `vendor` that of its cards, "" for GPUs. `problem_of_uuid`: see
    `registered_cards`.
    """

    registers: tuple[str, ...]
    handshakes: tuple[str, ...]
    resource: str
    problem_of_uuid: Callable[[str], str] = uuid_problem
    vendor: str = ""

    def shown_in(self, annotations: Mapping[str, str]) -> tuple[str, str] | None:
        """The first register annotation that has a text, and its handshake; None if none has."""
        pairs = zip(self.registers, self.handshakes, strict=True)
        return next((pair for pair in pairs if annotations.get(pair[0])), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginNode:
    """What counts of a Node: those of its annotations and allocatable amounts that are read.

    `lock` is the text of the annotation that says which pod is on its way to a plugin of the node.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    offered: Mapping[str, int] = field(default_factory=dict)
    lock: str = ""


@dataclass(slots=True)
class _Plugin:
    """One plugin, by the name of its register annotation and of its handshake."""

    register: str
    asks_by: str
    handshake: Handshake
    text: str = ""
    cards: tuple[Gpu, ...] = ()
    problems: tuple[str, ...] = ()

    def read(self, text: str, keys: PluginKeys) -> None:
        """Read another text; one that cannot be read leaves the cards as they are."""
        if text == self.text:
            return
        self.text = text
        found = registered_cards(text, keys.problem_of_uuid)
        if isinstance(found, str):
            self.problems = (f"{self.register}: {found}",)
            return
        self.cards = tuple(replace(card, vendor=keys.vendor) for card in found.cards)
        self.problems = tuple(f"{self.register}{one}" for one in found.problems)


class NodePlugins:
    """The plugins that a node shows. Times are Unix time (s)."""

    def __init__(self, kinds: Sequence[PluginKeys]) -> None:
        self._kinds = kinds
        self.shown = PluginNode()
        self._lock_since = 0.0
        self._plugins: dict[str, _Plugin] = {}

    def take(self, shown: PluginNode, now: float) -> None:
        """The Node shows this now."""
        if shown.lock != self.shown.lock:
            self._lock_since = now
        self.shown = shown
        before, self._plugins = self._plugins, {}
        for keys in self._kinds:
            pair = keys.shown_in(shown.annotations)
            if pair is None:
                continue
            register, asks_by = pair
            signs = PluginSigns(
                register=shown.annotations[register],
                handshake=shown.annotations.get(asks_by, ""),
                offered=shown.offered.get(keys.resource, 0),
            )
            plugin = before.get(register)
            if plugin is None:
                plugin = _Plugin(register, asks_by, Handshake(signs, now))
            else:
                plugin.handshake.take(signs, now)
            plugin.read(signs.register, keys)
            self._plugins[register] = plugin

    @property
    def problems(self) -> tuple[str, ...]:
        """What is odd in the annotations."""
        return tuple(one for plugin in self._plugins.values() for one in plugin.problems)

    def cards(self, now: float) -> tuple[Gpu, ...]:
        """The cards of all plugins; those that take no pods, for whatever reason, are unhealthy."""
        late = bool(self.shown.lock) and now >= self._lock_since + LATE_S
        cards: list[Gpu] = []
        for plugin in self._plugins.values():
            takes = plugin.handshake.is_alive(now) and not late
            cards += plugin.cards if takes else map(_unhealthy, plugin.cards)
        return tuple(cards[: CARDS_OF_NODE.most])

    def silent(self, now: float) -> Iterator[str]:
        """The handshakes of plugins that are to be asked for a sign of life."""
        for plugin in self._plugins.values():
            if plugin.asks_by and plugin.handshake.is_silent(now):
                yield plugin.asks_by

    def changes_at(self, now: float) -> float:
        """When (s) time alone changes an answer; infinity if it does not."""
        late = self._lock_since + LATE_S if self.shown.lock else math.inf
        times = (plugin.handshake.changes_at(now) for plugin in self._plugins.values())
        return min(late if now < late else math.inf, *times, math.inf)


def _unhealthy(card: Gpu) -> Gpu:
    return replace(card, healthy=False) if card.healthy else card
