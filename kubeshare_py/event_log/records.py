"""The records of an event log: a header, and events with their effects; MessagePack by msgspec."""

import dataclasses
import math
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    ProfileConfiguration,
    SchedulerConfiguration,
    effective,
    read,
)
from kubeshare_py.domain import events
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Bind, Effect, Evict, Nominate, ReportScheduled
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import NodeTerm, Pod, Shape
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.values import field_names
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.manifests.pods.placement import PackedTerms, packed
from kubeshare_py.scheduling.machine import MachineEvent

# Domain values of what msgspec made of them: by the annotations of their fields.
#
# msgspec writes values fast, private fields included, but reads neither unions of dataclasses nor
# hashable sequences. Invariants are checked again, because each value is constructed.


_Make = Callable[[Any], Any]
_PLAIN = (str, int, float, bool, bytes)


class UnreadableValue(ValueError):
    """What was written is no value of this type; the text says which field is wrong."""


def built(kind: Any, raw: object) -> Any:
    """The value of this type that `raw` describes. Raises UnreadableValue."""
    try:
        return _builder(kind)(raw)
    except UnreadableValue:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableValue(f"{_name(kind)}: {error}") from error


@cache
def _builder(kind: Any) -> _Make:
    """What makes values of this type."""
    kind = getattr(kind, "__supertype__", kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _of_union(arguments)
    if origin is not None:
        return _of_collection(origin, arguments)
    is_value = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    return _of_value(kind) if is_value else _of_plain(kind)


def _of_collection(origin: Any, arguments: Sequence[Any]) -> _Make:
    if origin is tuple and arguments[-1:] != (...,):
        parts = [_builder(one) for one in arguments]
        return lambda raw: tuple(part(one) for part, one in zip(parts, raw, strict=True))
    if origin in (tuple, Sequence):
        return _of_terms if arguments[0] is NodeTerm else _collected(tuple, arguments[0])
    if origin in (frozenset, AbstractSet):
        return _collected(frozenset, arguments[0])
    if origin in (dict, Mapping):
        key, value = map(_builder, arguments)
        return lambda raw: {key(name): value(one) for name, one in raw.items()}
    raise UnreadableValue(f"{_name(origin)} is no type of the event log")


def _of_plain(kind: Any) -> _Make:
    if issubclass(kind, Enum):
        member: _Make = kind
        return member
    if kind not in _PLAIN:
        raise UnreadableValue(f"{_name(kind)} is no type of the event log")
    accepted = (int, float) if kind is float else kind

    def plain(raw: object) -> object:
        if not isinstance(raw, accepted) or (isinstance(raw, bool) and kind is not bool):
            raise UnreadableValue(f"{raw!r:.80} is no {_name(kind)}")
        return kind(raw)

    return plain


def _of_value(kind: Any) -> _Make:
    hints, known = get_type_hints(kind), field_names(kind)
    builders = {name: _builder(hints[name]) for name in field_names(kind, given=True)}

    def make(raw: dict[str, Any]) -> Any:
        given = {}
        for name, value in raw.items():
            build = builders.get(name)
            if build is not None:
                given[name] = value if value is None else build(value)
            elif name not in known:
                raise UnreadableValue(f"{_name(kind)} has no field {name!r:.80}")
        return kind(**given)

    return make


def _of_union(kinds: Sequence[Any]) -> _Make:
    """One of several types: the one whose fields are those that were written."""
    some = [kind for kind in kinds if kind is not type(None)]
    if len(some) == 1:
        build = _builder(some[0])
        return lambda raw: None if raw is None else build(raw)
    by_fields = {frozenset(field_names(kind)): _builder(kind) for kind in some}

    def make(raw: dict[str, Any]) -> Any:
        build = by_fields.get(frozenset(raw))
        if build is None:
            raise UnreadableValue(f"none of {', '.join(map(_name, some))} has these fields")
        return build(raw)

    return make


def _collected(collection: Callable[[Any], Any], kind: Any) -> _Make:
    build = _builder(kind)

    def collected(raw: object) -> Any:
        if not isinstance(raw, list):
            raise UnreadableValue(f"{raw!r:.80} is no list")
        return collection([build(one) for one in raw])

    return collected


def _of_terms(raw: Any) -> Sequence[NodeTerm]:
    """Terms of a node affinity as `manifests` hands them over, packed if they are many."""
    if isinstance(raw, dict):
        raw_terms = PackedTerms(raw["text"], raw["length"], 0)
        return packed(tuple(raw_terms))
    return packed(_collected(tuple, NodeTerm)(raw))


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


#: The version of the records.
FORMAT = 1
#: Sections of the configuration that no decision depends on; they name hosts and files.
_ELSEWHERE = (
    *("inventory", "server", "extender", "hamiMetrics", "leaderElection", "parallelBinds"),
)
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(events.PodSeen, events.PodGone, events.PodsListed),
        *(events.PodGroupSeen, events.PodGroupGone, events.PodGroupsListed),
        *(events.NodeSeen, events.NodeGone, events.NodesListed),
        *(events.InventoryRead, events.InventoryFailed),
        *(events.BudgetSeen, events.BudgetGone, events.BudgetsListed),
        *(events.ObjectSeen, events.ObjectGone, events.ObjectsListed),
        *(events.BindAsked, events.BindAnswered, events.ObjectWritten),
        *(events.EvictionFailed, events.BindSlotsFree, events.TimePassed),
    )
}
_PROFILES, _POD_SEEN = ProfilesReplaced.__name__, events.PodSeen.__name__
#: The names of the fields of pods, without their shape, and of shapes.
_FieldNames = tuple[tuple[str, ...], tuple[str, ...]]
_FIELDS: _FieldNames = (
    tuple(name for name in field_names(Pod) if name != "shape"),
    field_names(Shape, given=True),
)
_pod_values, _shape_values = (attrgetter(*names) for names in _FIELDS)
#: The fields of a header besides its configuration.
_HEADER: dict[str, type] = {
    **{"name": str, "version": str, "session": str, "file": int},
    **{"now": float, "wall": float, "is_snapshot": bool},
}
_UNREADABLE = (
    *(UnreadableValue, ConfigurationError, msgspec.DecodeError, RecursionError),
    *(TypeError, ValueError, KeyError, OverflowError),
)
_encode = msgspec.msgpack.Encoder().encode
#: Sets in a fixed order: their order in memory differs between processes.
_encode_effects = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder().decode


class BadRecord(ValueError):
    """A record cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """What a replay needs besides events; every file begins with one.

    `name` is the machine's, with which decision tokens begin. `session` tells processes apart, and
    `file` counts its files from 0. At `now` (s, the machine's time) it was `wall` (s since 1970).
    With `is_snapshot`, the first events are what was known then, not all since the process began.
    `configuration` has the profiles and the options that decisions depend on.
    """

    name: str
    version: str
    session: str
    file: int
    now: float
    wall: float
    configuration: SchedulerConfiguration
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class ProfilesConfigured:
    """A ProfilesReplaced as it is written: its plugins must be made first."""

    configured: tuple[ProfileConfiguration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """An event at `now` (s). `digest` is that of its effects, and `placements` are some of them."""

    event: events.Event | ProfilesConfigured
    now: float
    digest: int
    placements: tuple[str, ...]


def header_record(header: LogHeader) -> bytes:
    """The record of a header."""
    settings = {
        name: value
        for name, value in effective(header.configuration).items()
        if name not in _ELSEWHERE
    }
    plain = {
        "format": FORMAT,
        "name": header.name,
        "version": header.version,
        "session": header.session,
        "file": header.file,
        "now": header.now,
        "wall": header.wall,
        "is_snapshot": header.is_snapshot,
        "configuration": settings,
        "fields": _FIELDS,
    }
    return _encode(plain)


def event_record(event: MachineEvent, now: float, effects: Sequence[Effect]) -> bytes:
    """The record of an event; about 3 µs for a pod.

    A pod that is seen, which most events are, is written without the names of its fields, and its
    shape as it was written for the last pod with it.
    """
    body: object = event
    if isinstance(event, events.PodSeen):
        body = (_pod_values(event.pod), _written_shape(event.pod.shape))
    elif isinstance(event, ProfilesReplaced):
        body = {"configured": event.configured}
    if not effects:
        return _encode((type(event).__name__, now, body))
    placements = placements_of(effects)
    return _encode((type(event).__name__, now, body, digest_of(effects), placements))


@remembered(1024)
def _written_shape(shape: Shape) -> msgspec.Raw:
    return msgspec.Raw(_encode(_shape_values(shape)))


def digest_of(effects: Sequence[Effect]) -> int:
    """A number that is the same for the same effects in any process; 0 if there are none.

    What nodes had when pods were bound, and since when a Binding is open, is left out, because
    earlier events say that; what a pod holds counts once, in its Bind.
    """
    named = [(type(effect).__name__, _digested(effect)) for effect in effects]
    return zlib.crc32(_encode_effects(named)) or 1 if effects else 0


class _DigestedBind(msgspec.Struct, gc=False):
    """The fields of a Bind that count in digests."""

    uid: PodUid
    key: PodKey
    node: NodeName
    allocation: Allocation
    stale_results: tuple[str, ...]


class _DigestedScheduled(msgspec.Struct, gc=False):
    """The fields of a ReportScheduled that count in digests."""

    uid: PodUid
    key: PodKey
    node: NodeName


def _digested(effect: Effect) -> Effect | _DigestedBind | _DigestedScheduled:
    if isinstance(effect, ReportScheduled):
        return _DigestedScheduled(effect.uid, effect.key, effect.node)
    if not isinstance(effect, Bind):
        return effect
    held, stale = effect.allocation, effect.stale_results
    return _DigestedBind(effect.uid, effect.key, effect.node, held, stale)


def placements_of(effects: Sequence[Effect]) -> list[str]:
    """The effects that say where pods go, in words, so that differences can be named."""
    return [_in_words(effect) for effect in effects if isinstance(effect, (Bind, Evict, Nominate))]


class RecordReader:
    """Reads the records of one file, the header first: it names the fields of pods."""

    def __init__(self) -> None:
        self._fields = _FIELDS

    def read(self, body: bytes) -> LogHeader | LoggedEvent:
        """Read the next record. Raises BadRecord."""
        try:
            raw = _decode(body)
            if isinstance(raw, list):
                return _event(raw, self._fields)
            found = _header(raw)
            self._fields = built(tuple[tuple[str, ...], tuple[str, ...]], raw["fields"])
        except BadRecord:
            raise
        except _UNREADABLE as error:
            raise BadRecord(f"a record cannot be read: {error}"[:400]) from error
        return found


def moment_of(body: bytes) -> float:
    """The machine's time (s) of a record, without reading the rest of it. Raises BadRecord."""
    try:
        raw = _decode(body)
        return float(raw["now"] if isinstance(raw, dict) else raw[1])
    except (*_UNREADABLE, IndexError) as error:
        raise BadRecord(f"a record cannot be read: {error}"[:400]) from error


def record_of(body: bytes) -> LogHeader | LoggedEvent:
    """Read a record that this version wrote. Raises BadRecord."""
    return RecordReader().read(body)


def _header(raw: dict[str, Any]) -> LogHeader:
    if raw["format"] != FORMAT:
        raise BadRecord(f"its format is {raw['format']!r:.40}, and this version reads {FORMAT}")
    given = {name: built(kind, raw[name]) for name, kind in _HEADER.items()}
    return LogHeader(**given, configuration=read(raw["configuration"]))


def _event(raw: list[Any], names: _FieldNames) -> LoggedEvent:
    name, now, body, *rest = raw
    digest, placements = rest or (0, ())
    event: events.Event | ProfilesConfigured
    if name == _PROFILES:
        configured = msgspec.convert(body["configured"], tuple[ProfileConfiguration, ...])
        event = ProfilesConfigured(configured)
    elif name == _POD_SEEN:
        pod, shape = (dict(zip(*both, strict=True)) for both in zip(names, body, strict=True))
        event = events.PodSeen(built(Pod, {**pod, "shape": shape}))
    elif name in _KINDS:
        event = built(_KINDS[name], body)
    else:
        raise BadRecord(f"this version knows no event {name!r:.80}")
    if not math.isfinite(now):
        raise BadRecord(f"its time is {now}")
    return LoggedEvent(
        event=event, now=float(now), digest=int(digest), placements=tuple(map(str, placements))
    )


def _in_words(effect: Bind | Evict | Nominate) -> str:
    if isinstance(effect, Evict):
        return f"Evict {effect.key}"
    if isinstance(effect, Bind):
        where: str = effect.node
        cards = [card.uuid for card in effect.allocation.cards]
    else:
        where, cards = effect.node or "none", [*effect.cards]
    return " ".join((type(effect).__name__, str(effect.key), where, *cards))


# The machine's time in a log as time of day (UTC).


@dataclass(frozen=True, slots=True)
class LogClock:
    """At `now` (s) of the machine it was `wall` (s since 1970)."""

    now: float
    wall: float

    @classmethod
    def of(cls, header: LogHeader) -> "LogClock":
        """The clock of a session."""
        return cls(header.now, header.wall)

    def ms(self, now: float) -> int:
        """A moment in whole milliseconds since 1970."""
        return round(self.wall * 1000) + round((now - self.now) * 1000)

    def text(self, now: float) -> str:
        """A moment, as 2026-11-23T12:00:00.123Z."""
        moment = datetime.fromtimestamp(self.wall + now - self.now, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"

    def since_s(self, now: float) -> float:
        """Seconds since the session began, as --until takes them."""
        return round(now - self.now, 3)

    def stamp(self, now: float) -> str:
        """A moment in both forms, as `2026-11-23T12:00:00.123Z +8.123 s`."""
        return f"{self.text(now)} +{self.since_s(now):.3f} s"

    def moment(self, text: str) -> float:
        """The machine's time (s) of a text: RFC 3339, or seconds since the session began.

        Raises ValueError for another text.
        """
        try:
            return self.now + float(text)
        except ValueError:
            pass
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return self.now + moment.timestamp() - self.wall
