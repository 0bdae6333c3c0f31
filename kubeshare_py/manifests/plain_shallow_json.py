"""As `shallow_json`, without numpy: for the command, which is installed alone and reads little.

It takes some ten times as long, which a scheduler does not have.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

#: Lists and objects in each other. Those that are read have about 15.
MOST_DEPTH = 64

_TEXT_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decoded(text: bytes, kind: type[T]) -> T:
    """What is in JSON, without its depths where a decoder cannot go; raises as UNDECODABLE says."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        return msgspec.json.decode(shallow(text), type=kind)


def shallow(text: bytes) -> bytes:
    """The same JSON with null for each list and object that is below MOST_DEPTH others.

    Of bytes that are no JSON it makes others that are none.
    """
    depth, kept, begin = 0, [], 0
    for found in _TEXT_OR_BRACKET.finditer(text):
        bracket = found[0]
        if bracket in (b"[", b"{"):
            depth += 1
            if depth == MOST_DEPTH + 1:
                kept.append(text[begin : found.start()])
        elif bracket in (b"]", b"}"):
            if depth == MOST_DEPTH + 1:
                begin = found.end()
            depth -= 1
    if depth <= MOST_DEPTH:
        kept.append(text[begin:])
    return b"null".join(kept)
