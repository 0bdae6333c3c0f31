"""What the collector needs of a vendor's driver."""

from typing import Protocol

from kubeshare_py.domain.card_reading import DriverError, NodeReading


class CardReader(Protocol):
    """Asks the driver of one kind of cards. Calls may take long, or never return."""

    def read(self) -> NodeReading:
        """All cards now. What the driver does not say is None, what it cannot say `unanswered`.

        Raises OSError when nothing can be read at all; the next call starts afresh.
        """

    def wait(self, timeout_s: float) -> tuple[DriverError, ...] | None:
        """What happens to cards within so many seconds; returns as soon as something does.

        None, and at once, when the driver does not tell such things.
        """
