"""The interface to a vendor's driver that the collector needs."""

from typing import Protocol

from kubeshare_py.domain.card_reading import DriverError, NodeReading


class CardReader(Protocol):
    """Asks the driver of one kind of cards. Calls may take long, or never return."""

    def read(self) -> NodeReading:
        """All cards now. What the driver does not report is None; failed answers are `unanswered`.

        Raises OSError if nothing can be read at all; the next call starts afresh.
        """

    def wait(self, timeout_s: float) -> tuple[DriverError, ...] | None:
        """The driver errors within `timeout_s` (s); returns as soon as there is one.

        None, and at once, if the driver does not report errors.
        """
