"""JSON that is nested deeper than a decoder goes, without its depths.

Every decoder that calls itself gives up at some depth, Python's at about 1,000 levels, also in what
it only skips. kube-apiserver takes 10,000, and keeps what anybody wrote into an object's
`metadata.managedFields[].fieldsV1`: one such pod would make every list of pods unreadable.
"""

from typing import TypeVar

import msgspec
import numpy as np

from kubeshare_py.manifests.plain_shallow_json import MOST_DEPTH

T = TypeVar("T")

_QUOTE, _OPENING, _CLOSING = ord('"'), (ord("{"), ord("[")), (ord("}"), ord("]"))


def decoded(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """What a decoder makes of JSON, without its depths where it is too deep; raises the same."""
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(shallow(text))


def shallow(text: bytes) -> bytes:
    """The same JSON with null for each list and object that is below MOST_DEPTH others.

    The very same bytes if there is none. It costs about 15 ms a MB: only for what cannot be decoded
    otherwise. Of bytes that are no JSON it makes others that are none.
    """
    # Without escapes, whose lengths stay.
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    chars = np.frombuffer(plain, np.uint8)
    outside = np.cumsum(chars == _QUOTE, dtype=np.int32) & 1 == 0
    steps = np.isin(chars, _OPENING).astype(np.int8) - np.isin(chars, _CLOSING)
    depths = np.cumsum(steps * outside, dtype=np.int32)
    # From the opening character to the last one before the closing one, and so on.
    edges = np.flatnonzero(np.diff(depths > MOST_DEPTH, prepend=False, append=False)).tolist()
    if not edges:
        return text
    starts, ends = edges[::2], edges[1::2]
    kept = [text[end + 1 : start] for end, start in zip([-1, *ends], [*starts, None], strict=True)]
    return b"null".join(kept)
