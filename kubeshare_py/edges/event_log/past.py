"""The cluster as it was at a moment that an event log covers.

The session is run again until then by a machine of its own, so that pods that waited have their
reasons. Later moments of the session go on from there; an earlier one begins anew.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.dashboard.past import (
    HeldRow,
    HeldUsage,
    MayName,
    PastMark,
    PastSpan,
    PastUnknown,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.event_log.held_log import HeldLog, gap_notes
from kubeshare_py.edges.event_log.log_folder import (
    DamagedFile,
    Session,
    UnusableLog,
    sessions,
)
from kubeshare_py.event_log.records import LogClock, LoggedEvent, LogHeader
from kubeshare_py.event_log.replay import Replay
from kubeshare_py.event_log.usage import HeldHistory, columns_of, usage
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.scheduling.explain.explanation import cluster_portions, whole_view, why
from kubeshare_py.scheduling.explain.question import namespaces
from kubeshare_py.views.view import ClusterView, WhyView

#: The placements and evictions that are remembered, the newest ones.
MAX_MARKS = 200
#: The most bytes of sessions that are read for usage: some 350,000 events, which take a minute.
MAX_READ = 8 << 20
#: The fields of a HeldRow by the words of `event_log/usage`: namespace and pod, model, node.
_COLUMNS = ("pod", "model", "node")
_CARD_HOUR, _GIB_HOUR = WHOLE_MILLI * 3_600_000, 2**30 * 3_600_000
_HAPPENED = {"Bind": "placed", "Evict": "evicted", "Nominate": "nominated"}
#: Events between two looks at the clock.
_EVERY = 20


class RunAgain:
    """One session, run again from its beginning; forward alone. It is a `PastMoment`."""

    def __init__(self, session: Session, factories: Mapping[str, PluginFactory]) -> None:
        """Raises PastUnknown."""
        self.name = session.name
        self.note = ""
        self._events = self._logged(session.records())
        try:
            header = next(self._events, None)
            if not isinstance(header, LogHeader):
                raise PastUnknown(self.note)
            self._replay = Replay(header, factories)
        except ConfigurationError as error:
            raise PastUnknown(f"{session.name}: {error}") from error
        self._clock = LogClock.of(header)
        #: The time of the last event that was handled (ms since 1970).
        self.at_ms = self._clock.ms(header.now)
        self._next: LoggedEvent | None = None
        self._is_at_end = False
        self._marks: deque[PastMark] = deque(maxlen=MAX_MARKS)

    def leads_to(self, until_ms: int) -> bool:
        """Whether that is not over yet. A file that was read to its end may have grown."""
        return self.at_ms == until_ms or (self.at_ms < until_ms and not self._is_at_end)

    def run(self, until_ms: int, within_s: float) -> bool:
        """Handle the events until that time; whether that was all of them. Raises PastUnknown."""
        last = time.monotonic() + within_s
        count = 0
        while (logged := self._ahead()) is not None:
            at_ms = self._clock.ms(logged.now)
            if at_ms > until_ms:
                return True
            self._next = None
            self._handle(logged, at_ms)
            count += 1
            if count % _EVERY == 0 and time.monotonic() > last:
                return False
        return True

    def namespaces(self) -> set[str]:
        """Those of all pods that were there."""
        return namespaces(self._replay.machine)

    def view(self, may_name: MayName) -> ClusterView:
        """The whole cluster."""
        portions = cluster_portions(self._replay.machine, topology=True, sees=may_name)
        return whole_view(list(portions))

    def why(self, namespace: str, name: str, may_name: MayName) -> WhyView | None:
        """Why that pod was where it was; None if there was none."""
        return why(self._replay.machine, PodKey(namespace, name), may_name)

    def marks(self, may_name: MayName) -> list[PastMark]:
        """The last placements and evictions by then, the newest first."""
        return [one for one in reversed(self._marks) if may_name(one.namespace)]

    def _ahead(self) -> LoggedEvent | None:
        """The next event, which stays the next one."""
        if self._next is None:
            found = next(self._events, None)
            assert not isinstance(found, LogHeader)
            self._is_at_end = found is None
            self._next = found
        return self._next

    def _handle(self, logged: LoggedEvent, at_ms: int) -> None:
        try:
            event = self._replay.made(logged)
        except ConfigurationError as error:
            raise PastUnknown(f"{self.name}: {error}") from error
        self._replay.machine.handle(event, logged.now)
        self.at_ms = at_ms
        for line in logged.placements:
            # Such as `Bind NAMESPACE/NAME NODE CARD …`, or `Evict NAMESPACE/NAME`.
            effect, pod, node = (*line.split(" "), "")[:3]
            self._marks.append(PastMark(at_ms, _HAPPENED[effect], pod, node))

    def _logged(
        self, records: Iterator[LogHeader | LoggedEvent]
    ) -> Iterator[LogHeader | LoggedEvent]:
        """The records; they end where the log is damaged, as one does that is being written."""
        try:
            yield from records
        except DamagedFile as error:
            self.note = str(error)


class LogOfPast:
    """A folder of event logs, as a `PastLog`."""

    def __init__(self, folder: Path, factories: Mapping[str, PluginFactory]) -> None:
        self._folder, self._factories = folder, factories
        #: By name, with the session's size: what is known of one that is written no more.
        self._spans: dict[str, tuple[int, PastSpan]] = {}
        self._running: RunAgain | None = None

    def spans(self) -> Sequence[PastSpan]:
        """The times that it covers, the oldest first. Raises PastUnknown."""
        return [span for _, span in self._found()]

    def moment(self, at_ms: int, within_s: float) -> RunAgain | int:
        """The cluster at that time; or how far (ms since 1970) the log was read in `within_s`.

        Of several sessions the last one that began by then. Raises PastUnknown.
        """
        earlier = [one for one in self._found() if one[1].begin_ms <= at_ms]
        if not earlier:
            raise PastUnknown("no event log was written yet")
        session, span = earlier[-1]
        running = self._running
        until_ms = min(at_ms, span.end_ms)
        if running is None or running.name != span.name or not running.leads_to(until_ms):
            self._running = running = RunAgain(session, self._factories)
        if not running.run(until_ms, within_s):
            return running.at_ms
        return running

    def usage(self, from_ms: int, to_ms: int) -> HeldUsage:
        """What was held between these times. Raises PastUnknown, also if that is long to read."""
        try:
            log = HeldLog(self._folder)
        except UnusableLog as error:
            raise PastUnknown(str(error)) from error
        to_ms = min(to_ms, log.end_ms)
        if log.size(from_ms, to_ms) > MAX_READ:
            raise PastUnknown(
                f"more than {MAX_READ >> 20} MiB of event logs would have to be read: ask for a "
                "shorter time, or use `kubectl kubeshare usage --log`"
            )
        history = HeldHistory()
        held = log.intervals(history, from_ms, to_ms)
        sums = usage(held, columns_of(_COLUMNS), from_ms, to_ms)
        if history.begin_ms is None or history.end_ms is None:
            raise PastUnknown("no session saw all pods and nodes before it ended")
        rows = [
            HeldRow(namespace, pod, model, node, one.milli_ms / _CARD_HOUR, one.byte_ms / _GIB_HOUR)
            for (namespace, pod, model, node), one in sums.items()
        ]
        gaps = [one for one in history.gaps if one.begin_ms < to_ms and one.end_ms > from_ms]
        begin_ms, end_ms = max(from_ms, history.begin_ms), min(to_ms, history.end_ms)
        return HeldUsage(begin_ms, end_ms, rows, [*gap_notes(gaps), *log.damage])

    def _found(self) -> list[tuple[Session, PastSpan]]:
        try:
            there = sessions(self._folder)
        except UnusableLog as error:
            raise PastUnknown(str(error)) from error
        found = []
        for session in there:
            size, known = session.size, self._spans.get(session.name)
            if known is None or known[0] != size:
                try:
                    _, begin_ms, end_ms = session.times_ms()
                except DamagedFile:
                    continue
                known = size, PastSpan(begin_ms, end_ms, session.name)
            self._spans[session.name] = known
            found.append((session, known[1]))
        return sorted(found, key=lambda one: one[1].begin_ms)
