"""Decoding of JSON that anyone may have written: what it raises, and what is nested too deep."""

import re
from typing import TypeVar

import msgspec

# The exceptions that decoding arbitrary bytes may raise.


#: msgspec's; bad UTF-8 and deep nesting do not raise DecodeError.
UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


# `shallow_json` without numpy, for the command, which is installed alone and reads little.
#
# It takes some ten times as long, which a scheduler could not afford.


T = TypeVar("T")

#: The deepest nesting of lists and objects. Documents that are read have about 15 levels.
MAX_DEPTH = 64

_TEXT_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decoded(text: bytes, kind: type[T]) -> T:
    """The decoded JSON, cut off where it is too deep for a decoder; raises UNDECODABLE."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        return msgspec.json.decode(shallow(text), type=kind)


def shallow(text: bytes) -> bytes:
    """The same JSON with null for each list and object that is more than MAX_DEPTH levels deep.

    Bytes that are no JSON are returned as other bytes that are none.
    """
    depth, kept, begin = 0, [], 0
    for found in _TEXT_OR_BRACKET.finditer(text):
        bracket = found[0]
        if bracket in (b"[", b"{"):
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept.append(text[begin : found.start()])
        elif bracket in (b"]", b"}"):
            if depth == MAX_DEPTH + 1:
                begin = found.end()
            depth -= 1
    if depth <= MAX_DEPTH:
        kept.append(text[begin:])
    return b"null".join(kept)
