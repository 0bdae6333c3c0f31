"""Attribution: which pod held how much of which card, from when to when, by event logs alone.

The events of a log are handed to a machine that decides nothing, as a scheduler that stands by: it
knows what the API server showed, and charges bound pods by the same rules as every scheduler. So
neither plugins nor the version that wrote the log matter, and nothing is decided again.

Logs of several processes are one history. At each moment one of them counts: the first one goes on
until its end, then the next one that has seen all pods and nodes by then. A pod that one shows at
its end and the next one shows at its beginning held its cards all the while, because a pod is bound
once. What began or ended while no log was written is not guessed: it counts as far as it was seen,
and the gap says how much more it may have been.

Times are whole milliseconds since 1970, and sums are integers: of thousandths of a card times
milliseconds, and of bytes times milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.cluster_objects import Labels
from kubeshare_py.domain.events import (
    BindAnswered,
    BindAsked,
    BindSlotsFree,
    Event,
    EvictionFailed,
    ObjectWritten,
    TimePassed,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.event_log.records import LogClock, LoggedEvent, LogHeader, ProfilesConfigured
from kubeshare_py.scheduling.explain.held_time import FollowedHoldings, Holding
from kubeshare_py.scheduling.machine import Machine

_MS = 1000
#: The labels by which Kueue, KAI and Volcano know a pod's queue; the first one that it has counts.
QUEUE_LABELS = (
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
)
#: How long (ms) the first reading of the cards is waited for once pods and nodes are known. Some
#: pods name their cards by index, and of others only the node's agent knows the cards.
INVENTORY_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldInterval:
    """A pod held this of a card from `begin_ms` until before `end_ms`.

    `owner` is the kind and name of its controller, "" if it has none or the log does not say.
    `queue` is the one that its labels name (QUEUE_LABELS), "" for none.
    """

    uid: PodUid
    key: PodKey
    owner: str
    queue: str
    node: NodeName
    card: GpuUuid
    model: str
    milli: int
    memory_bytes: int
    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGap:
    """A time that no log covers.

    `ended` pods held cards before it and not after it, `began` ones the other way around. Until
    they ended, and since they began, they held at most `milli_ms` and `byte_ms` that do not count.
    Of pods that came and went within it nothing is known.
    """

    begin_ms: int
    end_ms: int
    ended: int
    began: int
    milli_ms: int
    byte_ms: int


_Part = tuple[PodUid, GpuUuid]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A part of a card that is held since `begin_ms`."""

    holding: Holding
    card: CardCharge
    begin_ms: int

    def until(self, end_ms: int) -> HeldInterval:
        """The interval that ends then."""
        held, card = self.holding, self.card
        return HeldInterval(
            uid=held.uid,
            key=held.key,
            owner=held.owner,
            queue=_queue(held.labels),
            node=held.node,
            card=card.uuid,
            model=card.model,
            milli=card.milli,
            memory_bytes=card.memory_bytes,
            begin_ms=self.begin_ms,
            end_ms=end_ms,
        )

    def is_same(self, holding: Holding, card: CardCharge) -> bool:
        """Whether this goes on: the same amounts of the card, on the same node."""
        mine = self.card
        return self.holding.node == holding.node and (mine.milli, mine.memory_bytes) == (
            card.milli,
            card.memory_bytes,
        )


class HeldHistory:
    """Reads sessions one after the other, in the order in which they began."""

    def __init__(self) -> None:
        #: From when on the logs say what was held, and until when so far; None before the first.
        self.begin_ms: int | None = None
        self.end_ms: int | None = None
        self.gaps: list[LogGap] = []
        self._open: dict[_Part, _Begun] = {}

    def session(self, header: LogHeader, events: Iterable[LoggedEvent]) -> Iterator[HeldInterval]:
        """The intervals that end in this session."""
        machine = Machine(
            (), header.name, lingering_s=header.configuration.forced_delete_hold_seconds
        )
        held, counts, ready_ms = FollowedHoldings(machine), False, 0
        clock = LogClock.of(header)
        for logged in events:
            now_ms = clock.ms(logged.now)
            event = _as_seen(logged, machine)
            if event is not None:
                machine.handle(event, logged.now)
                changes = held.changes(event)
            else:
                changes = []
            if not machine.ready:
                continue
            ready_ms = ready_ms or now_ms
            if counts:
                for before, after in changes:
                    yield from self._changed(before, after, now_ms)
                self.end_ms = max(now_ms, self.end_ms or 0)
            elif (machine.inventory_read or now_ms >= ready_ms + INVENTORY_MS) and (
                self.end_ms is None or now_ms >= self.end_ms
            ):
                counts = True
                yield from self._goes_on(held.now, now_ms)

    def rest(self) -> Iterator[HeldInterval]:
        """What is still held at the end of the last session, up to there."""
        for one in self._open.values():
            assert self.end_ms is not None
            yield one.until(self.end_ms)

    def _changed(
        self, before: Holding | None, after: Holding | None, now_ms: int
    ) -> Iterator[HeldInterval]:
        """End what is not held any more, and begin what is new."""
        cards = {} if after is None else {card.uuid: card for card in after.cards}
        for card in () if before is None else before.cards:
            assert before is not None
            part = before.uid, card.uuid
            begun, now = self._open[part], cards.get(card.uuid)
            if now is None or after is None or not begun.is_same(after, now):
                yield self._open.pop(part).until(now_ms)
        for card in cards.values():
            assert after is not None
            part = after.uid, card.uuid
            if part not in self._open:
                self._open[part] = _Begun(after, card, now_ms)

    def _goes_on(self, held: Mapping[PodUid, Holding], now_ms: int) -> Iterator[HeldInterval]:
        """A session counts from now on: compare what it knows with the end of the one before."""
        now = {(one.uid, card.uuid): (one, card) for one in held.values() for card in one.cards}
        end_ms = now_ms if self.end_ms is None else self.end_ms
        ended = [
            begun
            for part, begun in self._open.items()
            if part not in now or not begun.is_same(*now[part])
        ]
        for begun in ended:
            del self._open[begun.holding.uid, begun.card.uuid]
            yield begun.until(end_ms)
        began = [_Begun(*now[part], now_ms) for part in now if part not in self._open]
        self._open.update({(one.holding.uid, one.card.uuid): one for one in began})
        if self.end_ms is None:
            self.begin_ms = now_ms
        elif now_ms > end_ms:
            lost_ms = now_ms - end_ms
            self.gaps.append(
                LogGap(
                    begin_ms=end_ms,
                    end_ms=now_ms,
                    ended=len({one.holding.uid for one in ended}),
                    began=len({one.holding.uid for one in began}),
                    milli_ms=sum(one.card.milli for one in (*ended, *began)) * lost_ms,
                    byte_ms=sum(one.card.memory_bytes for one in (*ended, *began)) * lost_ms,
                )
            )
        self.end_ms = now_ms


#: What a scheduler decided, and what became of that: a machine that stands by has no part in it.
_DECIDED = (BindSlotsFree, BindAsked, BindAnswered, ObjectWritten, EvictionFailed)


def _as_seen(logged: LoggedEvent, machine: Machine) -> Event | None:
    """The event as a machine takes it that stands by; None if it has no part in it."""
    event = logged.event
    if isinstance(event, ProfilesConfigured):
        return None
    if isinstance(event, _DECIDED):
        # Pods linger no more once some time is over.
        return TimePassed() if any(machine.lingering.pods()) else None
    return event


def _queue(labels: Labels) -> str:
    there = dict(labels)
    return next((there[name] for name in QUEUE_LABELS if there.get(name)), "")


# Sums of intervals, by what they are asked for.


#: The columns of each word of `--by`.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "namespace": ("namespace",),
    "pod": ("namespace", "pod"),
    "owner": ("namespace", "owner"),
    "queue": ("queue",),
    "model": ("model",),
    "node": ("node",),
    "card": ("node", "card", "model"),
}
_VALUES: Mapping[str, Callable[[HeldInterval], str]] = {
    "namespace": lambda one: one.key.namespace,
    "pod": lambda one: one.key.name,
    "owner": lambda one: one.owner,
    "queue": lambda one: one.queue,
    "model": lambda one: one.model,
    "node": lambda one: one.node,
    "card": lambda one: one.card,
}


def columns_of(by: Iterable[str]) -> tuple[str, ...]:
    """The columns of these words, each once. Raises KeyError for another word."""
    return tuple(dict.fromkeys(column for word in by for column in COLUMNS[word]))


@dataclass(slots=True)
class HeldSum:
    """What was held in all, and by how many pods; ResourceClaims count as pods."""

    milli_ms: int = 0
    byte_ms: int = 0
    uids: set[PodUid] = field(default_factory=set)

    @property
    def card_seconds(self) -> Decimal:
        """Whole cards times seconds, exactly."""
        return exact(self.milli_ms, WHOLE_MILLI * _MS)

    @property
    def byte_seconds(self) -> Decimal:
        """Bytes times seconds, exactly."""
        return exact(self.byte_ms, _MS)

    def add(self, one: HeldInterval, lasted_ms: int) -> None:
        """Add so many milliseconds of an interval."""
        self.milli_ms += one.milli * lasted_ms
        self.byte_ms += one.memory_bytes * lasted_ms
        self.uids.add(one.uid)


def total(sums: Iterable[HeldSum]) -> HeldSum:
    """All of them together; a pod in several counts once."""
    found = HeldSum()
    for one in sums:
        found.milli_ms += one.milli_ms
        found.byte_ms += one.byte_ms
        found.uids |= one.uids
    return found


def exact(amount: int, parts: int) -> Decimal:
    """So many parts of a unit, of which it has a power of ten."""
    digits = len(str(parts)) - 1
    whole, rest = divmod(amount, parts)
    return Decimal(f"{whole}.{rest:0{digits}}".rstrip("0").rstrip("."))


def usage(
    intervals: Iterable[HeldInterval],
    columns: Sequence[str],
    from_ms: int,
    to_ms: int,
    namespace: str = "",
) -> dict[tuple[str, ...], HeldSum]:
    """What was held between these times by the values of the columns, in their order.

    With a namespace, by its pods alone. Only what was held counts: no sum is 0.
    """
    found: dict[tuple[str, ...], HeldSum] = {}
    values = [_VALUES[name] for name in columns]
    for one in intervals:
        lasted_ms = min(one.end_ms, to_ms) - max(one.begin_ms, from_ms)
        if lasted_ms > 0 and namespace in ("", one.key.namespace):
            found.setdefault(tuple([value(one) for value in values]), HeldSum()).add(one, lasted_ms)
    return dict(sorted(found.items()))
