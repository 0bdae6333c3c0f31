"""The machine's time in a log as time of day (UTC)."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kubeshare_py.event_log.records import LogHeader


@dataclass(frozen=True, slots=True)
class LogClock:
    """At `now` (s) of the machine it was `wall` (s since 1970)."""

    now: float
    wall: float

    @classmethod
    def of(cls, header: LogHeader) -> "LogClock":
        """The clock of a session."""
        return cls(header.now, header.wall)

    def text(self, now: float) -> str:
        """A moment, as 2026-11-23T12:00:00.123Z."""
        moment = datetime.fromtimestamp(self.wall + now - self.now, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"

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
