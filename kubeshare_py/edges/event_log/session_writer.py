"""Writes one session of an event log: files by size and age, old sessions dropped in time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from kubeshare_py.edges.event_log.log_folder import SUFFIX, UnusableLog, sessions
from kubeshare_py.event_log.blocks import MAGIC, BlockPacker
from kubeshare_py.event_log.records import LogHeader, header_record

#: A process that wrote nothing for so long (s) has ended: at least its hourly file is due.
IDLE_S = 2 * 3600.0
#: A session is at least so many times as large as what it began with.
_WORTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """`file_bytes` and `file_s` end a file; `total_bytes` is the most of all sessions together.

    `waiting_bytes` is the most of records that wait to be written.
    """

    file_bytes: int = 64 << 20
    file_s: float = 3600.0
    total_bytes: int = 8 << 30
    waiting_bytes: int = 256 << 20


class SessionWriter:
    """One session. Its methods do file I/O and raise OSError."""

    def __init__(self, folder: Path, header: LogHeader, limits: LogLimits) -> None:
        """`header` is the first file's. Nothing is written yet."""
        self._folder, self._limits, self._header = folder, limits, header
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(header.wall))
        self._own = folder / f"{stamp}-{header.session}"
        self._file: BinaryIO | None = None
        self._packer = BlockPacker()
        self._opened_at = 0.0
        self._in_file = 0
        self._number = header.file
        #: The bytes of the first write, which may be a snapshot.
        self._began_with = 0
        #: The bytes that were written.
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether the next session should begin, so that this one can be dropped in time.

        Not while what it began with is most of it: the next one would be as large at once.
        """
        return self.size > max(self._limits.total_bytes // 2, _WORTH * self._began_with)

    def write(self, records: Sequence[bytes], now: float, wall: float) -> None:
        """Append records at `now` (s, the machine's time), which is `wall` (s since 1970)."""
        if self._file is None:
            self._open(now, wall)
        assert self._file is not None
        self._put(self._file, records)
        self._file.flush()
        self._began_with = self._began_with or self.size
        old = now - self._opened_at >= self._limits.file_s
        if old or self._in_file >= self._limits.file_bytes:
            self.close()
        self._keep_within_limits(wall)

    def close(self) -> None:
        """Close the file; the next `write` begins another one."""
        if self._file is not None:
            file, self._file = self._file, None
            self._number += 1
            file.close()

    def _open(self, now: float, wall: float) -> None:
        self._own.mkdir(parents=True, exist_ok=True)
        self._file = (self._own / f"{self._number:06}{SUFFIX}").open("xb")
        self._packer, self._opened_at, self._in_file = BlockPacker(), now, 0
        header = replace(self._header, file=self._number, now=now, wall=wall)
        self._file.write(MAGIC)
        self._put(self._file, [header_record(header)])

    def _put(self, file: BinaryIO, records: Sequence[bytes]) -> None:
        for block in self._packer.packed(records):
            file.write(block)
            self._in_file += len(block)
            self.size += len(block)

    def _keep_within_limits(self, wall: float) -> None:
        """Drop other sessions, the oldest first, while there is too much of all.

        Those of other processes only once they are idle: they may be running.
        """
        try:
            others = [one for one in sessions(self._folder) if one.folder != self._own]
        except UnusableLog:
            return
        sizes = {one.name: one.size for one in others}
        over = sum(sizes.values()) + self.size - self._limits.total_bytes
        for session in others:
            if over <= 0:
                return
            if f"-{self._header.name}-" in session.name or wall - session.written_at > IDLE_S:
                session.drop()
                over -= sizes[session.name]
