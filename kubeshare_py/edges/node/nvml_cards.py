"""The cards of a node with NVIDIA's driver: a CardReader."""

import time
from collections.abc import Callable
from dataclasses import replace

from kubeshare_py.domain.card_reading import DriverError, NodeReading, Unanswered
from kubeshare_py.edges.node.nvml import NoDriver, NvmlFailed
from kubeshare_py.edges.node.nvml_session import NvmlSession

#: Seconds between openings of the library while a card is lost, which is only found again in this
#: way.
REOPEN_S = 60.0


class NvmlCards:
    """Reads with one session of the library as long as that works."""

    def __init__(
        self, reopen_s: float = REOPEN_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reopen_s = reopen_s
        self._clock = clock
        self._session: NvmlSession | None = None
        self._opened_at = 0.0
        self._happened: list[DriverError] = []
        self._unanswered: list[Unanswered] = []

    def read(self) -> NodeReading:
        """All cards. Raises NvmlFailed if nothing can be read."""
        began = self._clock()
        try:
            if self._session is None:
                self._session, self._opened_at = NvmlSession(), began
            found = self._session.read()
        except NoDriver as why:
            return NodeReading(no_driver=str(why), took_s=self._clock() - began)
        except NvmlFailed:
            self._close()
            raise
        happened, self._happened = tuple(self._happened), []
        unanswered = (*self._unanswered, *found.unanswered)
        self._unanswered = []
        if self._session.has_lost and began - self._opened_at >= self._reopen_s:
            self._close()
        took_s = self._clock() - began
        return replace(found, happened=happened, unanswered=unanswered, took_s=took_s)

    def wait(self, timeout_s: float) -> tuple[DriverError, ...] | None:
        """The errors of cards within `timeout_s`; the next reading has them too."""
        if self._session is None or self._session.events is None:
            return None
        try:
            found = self._session.events.wait(timeout_s)
        except NvmlFailed as error:
            # Tried again when the library is opened again.
            self._session.events = None
            self._unanswered.append(
                Unanswered(card="", question="nvmlEventSetWait_v2", error=str(error))
            )
            return None
        errors = () if found is None else self._session.of_instances(*found)
        self._happened += errors
        return errors

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
