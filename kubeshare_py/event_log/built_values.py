"""Domain values of what msgspec made of them: dataclasses by their fields' annotations.

msgspec writes dataclasses fast, private fields included, but reads neither unions of them nor
hashable sequences. Invariants are checked again, because each value is constructed.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.manifests.pods.packed_terms import PackedTerms, packed

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
    return _of_dataclass(kind) if dataclasses.is_dataclass(kind) else _of_plain(kind)


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


def _of_dataclass(kind: Any) -> _Make:
    hints = get_type_hints(kind)
    known = {one.name: one for one in dataclasses.fields(kind)}
    builders = {name: _builder(hints[name]) for name, one in known.items() if one.init}

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
    by_fields = {
        frozenset(one.name for one in dataclasses.fields(kind)): _builder(kind) for kind in some
    }

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
