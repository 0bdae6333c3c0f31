"""What a family of inputs is, and what every refusal must be like."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

#: Of a sentence about one input, whatever the input repeats: characters.
MAX_SAID = 4096

#: Nested deeper than any reader of Python goes, by the generator.
_DEEP = re.compile(rb'\[{60,}\]{60,}|({"f:a":){60,}0}{60,}')

#: JSON-like data with bytes, so that any of it can be made smaller.
Input = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Inputs of one entry: how they are made, and what must be true of each.

    `judge` raises AssertionError for a wrong answer; what else it raises is wrong as well. `share`
    of all inputs are of this family. A list counts as so many inputs as it has, with `is_history`.
    """

    name: str
    make: Callable[[Random], Input]
    judge: Callable[[Input], None]
    share: float = 1.0
    is_history: bool = False

    def input(self, seed: int, index: int) -> Input:
        """The same input for the same numbers, in any process."""
        return self.make(Random(f"{self.name} {seed} {index}"))


def said(text: str, *names: str) -> None:
    """A sentence of a refusal: it says something, is not endless, and contains the names."""
    assert text, "nothing is said"
    assert len(text) <= MAX_SAID, f"{len(text)} characters are said: {text[:200]}"
    for name in names:
        assert name in text, f"{name!r} is not named: {text}"


def loaded(text: bytes) -> tuple[bool, Any]:
    """Whether these bytes are JSON as an API server could send it, by another reader; the value.

    The value has null for what is nested deep.
    """
    try:
        value = json.loads(_DEEP.sub(_flat, text).decode(), parse_constant=_refused)
        # Not Unicode; or a number that no reader holds.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False, None
    return True, value


def text_at(value: Any, *path: str) -> str:
    """The text at a path of a decoded object, "" where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _flat(found: re.Match[bytes]) -> bytes:
    """Null for what ends as often as it begins; all else is no JSON and stays."""
    opened = found[0].count(b"[") + found[0].count(b"{")
    closed = found[0].count(b"]") + found[0].count(b"}")
    return b"null" if opened == closed else found[0]


def _refused(constant: str) -> None:
    raise ValueError(constant)
