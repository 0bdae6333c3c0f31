"""JSON that is nested deeper than decoders go, with the deep parts cut off.

Every recursive decoder gives up at some depth, Python's at about 1,000 levels, also in parts that
it skips. kube-apiserver accepts 10,000, and keeps what any client wrote into an object's
`metadata.managedFields[].fieldsV1`: one such pod would make every list of pods unreadable.
"""

from typing import TypeVar

import msgspec

from kubeshare_py.manifests.decoding import MAX_DEPTH

T = TypeVar("T")

_QUOTE, _OPENING, _CLOSING = ord('"'), (ord("{"), ord("[")), (ord("}"), ord("]"))


def decoded(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    """The decoded JSON, cut off where it is too deep; raises what the decoder raises."""
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(shallow(text))


def shallow(text: bytes) -> bytes:
    """The same JSON with null for each list and object that is more than MAX_DEPTH levels deep.

    The same bytes if there is none. It costs about 15 ms per MB, so it is only for JSON that cannot
    be decoded otherwise. Bytes that are no JSON are returned as other bytes that are none.
    """
    # Imported late: of the programs that read JSON, only the scheduler has it anyway.
    import numpy as np  # noqa: PLC0415

    # Escapes replaced by characters of the same length.
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    chars = np.frombuffer(plain, np.uint8)
    outside = np.cumsum(chars == _QUOTE, dtype=np.int32) & 1 == 0
    steps = np.isin(chars, _OPENING).astype(np.int8) - np.isin(chars, _CLOSING)
    depths = np.cumsum(steps * outside, dtype=np.int32)
    # From the opening character to the last one before the closing one, in pairs.
    edges = np.flatnonzero(np.diff(depths > MAX_DEPTH, prepend=False, append=False)).tolist()
    if not edges:
        return text
    starts, ends = edges[::2], edges[1::2]
    kept = [text[end + 1 : start] for end, start in zip([-1, *ends], [*starts, None], strict=True)]
    return b"null".join(kept)
