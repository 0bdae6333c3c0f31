"""Cards that HAMi's device plugins register on their Nodes, and whether these plugins are alive."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kubeshare_py.dialects.hami.annotations import (
    CARD_CORES,
    MIB,
    MODE_MIG,
    RegisteredCard,
    read_register,
)
from kubeshare_py.domain.events import InventoryRead
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.printable import value_text
from kubeshare_py.domain.quantity import CARDS_OF_NODE
from kubeshare_py.inventory.card_uuid import uuid_problem

# Whether a device plugin of HAMi lives, by what its Node shows; and when it is asked.
#
# The kubelet sets the allocatable amount of a resource to 0 when its device plugin is gone. A
# plugin that has just registered may not be advertised yet, so that a sign of life counts for a
# while too: a new `Reported …` in the handshake (the ancestor's plugin, every 30 s), or another
# text of the register annotation. `Requesting_…`, which schedulers write, is no sign of life, so
# that a dead plugin's cards do not come back because its scheduler asks for it again.
#
# HAMi's scheduler writes `Requesting_2006-01-02 15:04:05` in its local time, its ancestor with dots
# in the date; it removes the annotation when the plugin is found dead, and writes it again
# (CheckHealth in pkg/device/devices.go of github.com/Project-HAMi/HAMi). Here it is written in UTC,
# and stays.


#: A sign of life counts for so long (s), as in HAMi.
ALIVE_S = 60.0
REQUESTING, DELETED = "Requesting", "Deleted"
_TIME = re.compile(
    r"(?P<date>\d{4}[-.]\d{2}[-.]\d{2})[ T](?P<time>\d{2}:\d{2}:\d{2})"
    r"(?:\.\d+)?(?: ?(?P<zone>[+-]\d{4}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSigns:
    """What a Node shows of one plugin: two annotations, and the allocatable amount; "" is none."""

    register: str = ""
    handshake: str = ""
    offered: int = 0


def requesting(now: float) -> str:
    """The text that asks the plugin for a sign of life at `now` (Unix, s), in UTC."""
    return f"{REQUESTING}_{datetime.fromtimestamp(int(now), UTC):%Y-%m-%d %H:%M:%S}"


def time_in(text: str) -> float | None:
    """The time (Unix, s) that a handshake names; in UTC unless it has an offset; None for none."""
    found = _TIME.search(text)
    if found is None:
        return None
    date = found["date"].replace(".", "-")
    try:
        zoned = f"{date} {found['time']} {found['zone'] or '+0000'}"
        return datetime.strptime(zoned, "%Y-%m-%d %H:%M:%S %z").timestamp()
    except (ValueError, OverflowError):
        return None


class Handshake:
    """What is known of one node's plugin. Times are Unix time (s), and never go back by much."""

    def __init__(self, signs: PluginSigns, now: float) -> None:
        """`signs` are the first ones that are seen."""
        self._signs = signs
        self._sign_at = _first_sign(signs.handshake, now)

    def take(self, signs: PluginSigns, now: float) -> None:
        """The Node shows these signs now."""
        before, self._signs = self._signs, signs
        if before.offered and not signs.offered:
            self._sign_at = -math.inf
        if _is_report(signs.handshake) and signs.handshake != before.handshake:
            self._sign_at = now
        if signs.register and signs.register != before.register:
            self._sign_at = now

    def is_alive(self, now: float) -> bool:
        """Whether pods may be sent to the plugin's cards."""
        return bool(self._signs.offered) or now < self._sign_at + ALIVE_S

    def is_silent(self, now: float) -> bool:
        """Whether the plugin is to be asked for a sign of life, by `requesting` as its handshake.

        Once if the annotation is not there, and when a plugin that reports has stopped to.
        """
        text = self._signs.handshake
        if not text:
            return True
        return _is_report(text) and now >= self._sign_at + ALIVE_S

    def changes_at(self, now: float) -> float:
        """When (s) time alone changes an answer; infinity if it does not."""
        at = self._sign_at + ALIVE_S
        return at if now < at else math.inf


def _is_report(text: str) -> bool:
    return bool(text) and REQUESTING not in text and DELETED not in text


def _first_sign(text: str, now: float) -> float:
    """The last sign of life, as far as the first text says; `now` where it does not.

    A time that has not come yet was written in another zone, or by another clock.
    """
    if DELETED in text:
        return -math.inf
    at = time_in(text)
    return now if at is None or at > now else at


# A node's cards from the annotation in which HAMi's device plugin registers them.
#
# Memory is what the plugin lets pods hold in all: it multiplies a card's own memory by its setting
# `deviceMemoryScaling` first, which the annotation does not repeat. Cores are hundredths of a card,
# multiplied by `deviceCoreScaling`. `count` is the most pods on a card. Encodings:
# `dialects/hami/annotations`.


#: What the ancestor writes before a product name that begins with the vendor itself.
_TWICE, _ONCE = "NVIDIA-NVIDIA-", "NVIDIA-"
_MILLI_OF_CORE = WHOLE_MILLI // CARD_CORES
_MAX_SHOWN = 64


@dataclass(frozen=True, slots=True)
class RegisteredCards:
    """The cards of one annotation by index, and a sentence about each that is used otherwise."""

    cards: tuple[Gpu, ...]
    problems: tuple[str, ...] = ()


def registered_cards(
    text: str, problem_of_uuid: Callable[[str], str] = uuid_problem
) -> RegisteredCards | str:
    """The cards of an annotation; a sentence if it cannot be read at all.

    A card that no card can be is left out. One in MIG mode, or on which no pod may be, is there and
    takes no pods. `problem_of_uuid` says what is wrong with a uuid, "" if nothing.
    """
    listed = read_register(text)
    if isinstance(listed, str):
        return listed
    cards: dict[GpuUuid, Gpu] = {}
    problems: list[str] = []
    for position, one in enumerate(_numbered(listed)):
        shown = f"[{position}]: {value_text(one.uuid, _MAX_SHOWN)}"
        if len(cards) == CARDS_OF_NODE.most:
            number = CARDS_OF_NODE.problem(max(len(listed), CARDS_OF_NODE.most + 1))
            problems.append(f"number of cards {number}: the first are used")
            break
        if one.uuid in cards:
            problems.append(f"{shown} is there twice")
            continue
        form = problem_of_uuid(one.uuid)
        card = _card(one) if not form else f"uuid {form}"
        if isinstance(card, str):
            problems.append(f"{shown}: {card}: left out")
            continue
        cards[card.uuid] = card
        if remark := _remark(one):
            problems.append(f"{shown}: {remark}: takes no pods")
    ordered = sorted(cards.values(), key=lambda card: (card.index, card.uuid))
    return RegisteredCards(tuple(ordered), tuple(problems))


def _numbered(listed: Sequence[RegisteredCard]) -> Sequence[RegisteredCard]:
    """The cards with their places as indices if none has one: the ancestor's records have none."""
    if any(one.index for one in listed):
        return listed
    return [_with_index(one, place) for place, one in enumerate(listed)]


def _with_index(card: RegisteredCard, index: int) -> RegisteredCard:
    return RegisteredCard(
        uuid=card.uuid, index=index, count=card.count, memory_mib=card.memory_mib,
        cores=card.cores, type=card.type, numa=card.numa, mode=card.mode,
        mig_profiles=card.mig_profiles, health=card.health,
    )  # fmt: skip


def _card(one: RegisteredCard) -> Gpu | str:
    """The card, or what is wrong with it. Cores of 0 mean that the plugin does not divide them."""
    try:
        return Gpu(
            uuid=GpuUuid(one.uuid),
            index=one.index,
            model=_model(one.type),
            memory_bytes=one.memory_mib * MIB,
            healthy=one.health and not _remark(one),
            max_tenants=max(one.count, 0),
            cores_scaling=one.cores * _MILLI_OF_CORE if one.cores else WHOLE_MILLI,
            numa_node=one.numa if one.numa >= 0 else None,
        )
    except ValueError as error:
        return str(error)


def _remark(one: RegisteredCard) -> str:
    """Why the card takes no pods, though it may be healthy; "" if it does."""
    if one.mode == MODE_MIG:
        return "its mode is mig, and its plugin makes instances only for HAMi's scheduler"
    return "no pod may be on it, its count is 0" if one.count <= 0 else ""


def _model(kind: str) -> str:
    model = kind.replace(" ", "-")
    return f"{_ONCE}{model[len(_TWICE) :]}" if model.startswith(_TWICE) else model


# The device plugins of one node: their cards, whether they take pods, and what is odd.


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
        """The problems of the annotations, as sentences."""
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


# The inventory from nodes that HAMi's device plugins register, from one reading to the next.


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
