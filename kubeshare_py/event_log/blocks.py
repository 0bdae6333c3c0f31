"""The bytes of an event log's file: compressed blocks of records, each with a checksum.

A file is MAGIC, then blocks: the length and the CRC-32 of the packed bytes (4 bytes each, big
endian), and the packed bytes, a part of one zlib stream that ends at a byte (RFC 1950, and
Z_SYNC_FLUSH of zlib). Unpacked, a block has whole records, each behind its length (4 bytes).
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

MAGIC = b"KubeShareEvents1\n"
#: The most bytes of a packed block, and of an unpacked one, that are read.
MAX_PACKED, MAX_UNPACKED = 256 << 20, 1 << 30
#: A block is closed once it has so many bytes of records.
_FULL = 1 << 20
_LEVEL = 1
_HEAD, _LENGTH = struct.Struct(">II"), struct.Struct(">I")


class DamagedLog(Exception):
    """From byte `at` of a file on, nothing can be used."""

    def __init__(self, at: int, why: str) -> None:
        self.at, self.why = at, why
        super().__init__(f"at byte {at}: {why}")


class BlockPacker:
    """Packs records for one file."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(_LEVEL)

    def packed(self, records: Sequence[bytes]) -> Iterator[bytes]:
        """The records as blocks, to be written in this order."""
        parts: list[bytes] = []
        size = 0
        for record in records:
            parts += (_LENGTH.pack(len(record)), record)
            size += len(record)
            if size >= _FULL:
                yield self._block(parts)
                parts, size = [], 0
        if parts:
            yield self._block(parts)

    def _block(self, parts: Iterable[bytes]) -> bytes:
        body = self._zlib.compress(b"".join(parts)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
        return _HEAD.pack(len(body), zlib.crc32(body)) + body


def records_in(chunks: Iterable[bytes], most: int = MAX_UNPACKED) -> Iterator[tuple[int, bytes]]:
    """The records of a file that is read in chunks of any size, each with its block's place.

    A block may have `most` bytes once it is unpacked. Raises DamagedLog for what is not as it was
    written, once all records before it were returned.
    """
    left = _ChunkedBytes(chunks)
    if left.take(len(MAGIC)) != MAGIC:
        raise DamagedLog(0, "this is no file of an event log")
    unpacker = zlib.decompressobj()
    while head := left.take(_HEAD.size):
        at = left.taken - len(head)
        if len(head) < _HEAD.size:
            raise DamagedLog(at, "the file ends within a block's head")
        length, checksum = _HEAD.unpack(head)
        if length > MAX_PACKED:
            raise DamagedLog(at, "the length of a block is impossible")
        body = left.take(length)
        if len(body) < length:
            raise DamagedLog(at, "the file ends within a block")
        if zlib.crc32(body) != checksum:
            raise DamagedLog(at, "the checksum of a block is wrong")
        for record in _records(at, unpacker, body, most):
            yield at, record


def _records(at: int, unpacker: "zlib._Decompress", body: bytes, most: int) -> Iterator[bytes]:
    try:
        text = unpacker.decompress(body, most)
    except zlib.error as error:
        raise DamagedLog(at, f"a block cannot be unpacked: {error}") from error
    if unpacker.unconsumed_tail:
        raise DamagedLog(at, "a block is larger than any that is written")
    place = 0
    while place < len(text):
        end = place + _LENGTH.size
        if end <= len(text):
            end += _LENGTH.unpack_from(text, place)[0]
        if end > len(text) or end < place + _LENGTH.size:
            raise DamagedLog(at, "a block ends within a record")
        yield text[place + _LENGTH.size : end]
        place = end


class _ChunkedBytes:
    """Bytes that come in chunks, taken in other pieces."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = b""
        self.taken = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes; fewer at the end."""
        parts, size = [self._held], len(self._held)
        while size < count and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            size += len(chunk)
        held = b"".join(parts)
        self._held = held[count:]
        self.taken += min(count, len(held))
        return held[:count]
