"""Seeded odd values, and documents and texts with something odd in some places.

As `tests.odd_input` for Hypothesis, at a hundred times its speed and without shrinking: see
`tests.fuzz.shrinking`.
"""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.odd_input import MODELS, NUMBERS, QUANTITIES, WORDS

Json = Any

_STEERING = ("\n", "\r", "\t", "\x00", "\x1b[2J", "\x7f", "\x85", "\x9b31m", "\u2028", "\u202e")
_STRANGE = (
    "\ufeff",
    "\ud800",
    "\U0001f600",
    "İ",
    "ß",
    "\u0435",
    "½",
    "²",
    "\uff11",
    "%00",
    "..",
    "/",
    "\\",
)
_SYNTAX = ('"', "'", "{", "}", "[", "]", ",", ":", "=", "#", "&", "*", "|", ">", "-", "!", "`", "$")
PIECES = (*_STEERING, *_STRANGE, *_SYNTAX, "0", "9", "e", "E", "+", ".", "_", " ", "i", "nan")
_LONG = ("9" * 64, "0" * 64, "a" * 254, "a" * 70_000, "0." + "0" * 60 + "1", "1e999", "9" * 5000)
#: Stand for lists and objects in each other, so many, which json would not write.
_DEPTHS = (70, 950, 1100, 5000)
_NESTED = {f"@nested{levels}{kind}": (levels, kind) for levels in _DEPTHS for kind in "[{"}
#: No API server takes more, and no file of ours is as large.
_MAX_BYTES = 3 * 2**20
#: More entries than any list of a pod, a node or a file should have.
_MANY = 700


def text(rng: Random, like: str = "") -> str:
    """An odd text: a known one, one that was changed here and there, or noise."""
    way = rng.random()
    if way < 0.45 and like:
        return garbled(rng, like)
    if way < 0.6:
        return str(rng.choice(NUMBERS))
    if way < 0.9:
        return rng.choice((*QUANTITIES, *MODELS, *WORDS))
    if way < 0.93:
        return rng.choice(_LONG)
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 6)))


def number(rng: Random, like: float = 0) -> float:
    """A number at the end of some range, or next to one that was there."""
    if rng.random() < 0.3:
        return like + rng.choice((1, -1, 0.5, -0.5)) if abs(like) < 2**60 else -like
    return rng.choice(NUMBERS)


def value(rng: Random, most_depth: int = 3) -> Json:
    """Anything."""
    way = rng.random()
    if way < 0.1:
        return None
    if way < 0.2:
        return rng.random() < 0.5
    if way < 0.4:
        return number(rng)
    if way < 0.7 or not most_depth:
        return text(rng)
    if way < 0.72:
        return rng.choice([*_NESTED])
    inner = [value(rng, most_depth - 1) for _ in range(rng.randint(0, 3))]
    return inner if way < 0.86 else {text(rng): one for one in inner}


def garbled(rng: Random, was: str) -> str:
    """The text with up to three small changes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(was))
        end = min(len(was), at + rng.randint(0, 3))
        piece = rng.choice(PIECES) if rng.random() < 0.7 else was[at:end] * 2
        was = was[:at] + piece + was[end:]
    return was


def changed(rng: Random, made: Json, keys: Sequence[str] = (), most: int = 4) -> Json:
    """The document, which becomes another one, with up to `most` odd places.

    `keys` are names of fields that may be put in where they do not belong, or do.
    """
    for _ in range(rng.randint(1, most)):
        spots = _spots(made)
        if not spots or rng.random() < 0.01:
            return value(rng)
        holder, key = rng.choice(spots)
        _change(rng, holder, key, spots, keys)
    return made


def as_bytes(document: Json) -> bytes:
    """As JSON, with what stands for lists in each other written out; null for a huge one."""
    written = json.dumps(document)
    if "@nested" in written:
        for name, (levels, kind) in _NESTED.items():
            opening, closing = ("[", "]") if kind == "[" else ('{"f:a":', "}")
            inner = "" if kind == "[" else "0"
            written = written.replace(f'"{name}"', opening * levels + inner + closing * levels)
    return written.encode() if len(written) <= _MAX_BYTES else b"null"


def broken(rng: Random, written: bytes) -> bytes:
    """Bytes that were cut, changed or given twice somewhere."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(written))
        end = min(len(written), at + rng.choice((0, 1, 1, 4, 40)))
        way = rng.random()
        if way < 0.15:
            written = written[:at]
        elif way < 0.3:
            written = written[:end] + written[at:]
        elif way < 0.5:
            written = written[:at] + bytes([rng.randrange(256)]) + written[end:]
        elif way < 0.6:
            written = written.replace(b'":', b'":0,"a":', 1)
        else:
            piece = rng.choice(PIECES).encode("utf-8", "surrogatepass")
            written = written[:at] + piece + written[end:]
    return written


def _spots(made: Json) -> list[tuple[Any, Any]]:
    """Each list or object with each of its places."""
    found: list[tuple[Any, Any]] = []
    left = [made]
    while left:
        holder = left.pop()
        if isinstance(holder, dict):
            found += [(holder, key) for key in holder]
            left += [one for one in holder.values() if isinstance(one, dict | list)]
        elif isinstance(holder, list):
            found += [(holder, at) for at in range(len(holder))]
            left += [one for one in holder if isinstance(one, dict | list)]
    return found


def _change(
    rng: Random, holder: Any, key: Any, spots: list[tuple[Any, Any]], keys: Sequence[str]
) -> None:
    was, way = holder[key], rng.random()
    if way < 0.4:
        holder[key] = _like(rng, was)
    elif way < 0.6:
        holder[key] = value(rng)
    elif way < 0.7:
        del holder[key]
    elif way < 0.75 and isinstance(was, list) and was:
        holder[key] = [*was, *was] if rng.random() < 0.8 else was * (_MANY // len(was))
    elif way < 0.8:
        other, place = rng.choice(spots)
        # Only scalars: what is inside itself cannot be written.
        if not isinstance(was, dict | list) and not isinstance(other[place], dict | list):
            holder[key], other[place] = other[place], was
    elif isinstance(holder, dict):
        name = rng.choice(keys) if keys and rng.random() < 0.6 else text(rng, str(key))
        holder[name] = was if rng.random() < 0.4 else value(rng)
    else:
        holder.insert(key, value(rng) if rng.random() < 0.5 else was)


def _like(rng: Random, was: Json) -> Json:
    if isinstance(was, str):
        return text(rng, was)
    if isinstance(was, bool) or was is None:
        return value(rng)
    if isinstance(was, int | float):
        return number(rng, was)
    return rng.choice(([], {}, None, was, [was]))
