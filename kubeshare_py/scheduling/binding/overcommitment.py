"""When and how often overuse of a node's cards and ports is reported.

This scheduler places nothing beyond what is free; other clients may (a pod created on a node with
an allocation of its own, a native GPU pod, a late leader), and cards may shrink. Each card and port
is reported at most every ten seconds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import ReportOvercommit
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.scheduling.binding.overuse import Subject, ended, overused
from kubeshare_py.scheduling.queue.timers import Timers

SPACING_S = 10.0
#: Seconds between repeated reports while it lasts: events live for an hour.
REMINDER_S = 1800.0
#: The most nodes per iteration, about 20 µs each.
NODES_PER_ITERATION = 50
_RIGHT = ""


@dataclass(slots=True)
class _LastReport:
    """The last report of one subject, when (s), and whether it is due to be checked again."""

    note: str
    at: float
    is_due: bool = False


class Overcommitment:
    """Checks the nodes that the ledger names."""

    def __init__(self, ledger: Ledger, key_of: Callable[[PodUid], PodKey]) -> None:
        self._ledger = ledger
        self._key_of = key_of
        self._reported: dict[NodeName, dict[Subject, _LastReport]] = {}
        self._due: Timers[NodeName] = Timers()

    @property
    def more(self) -> bool:
        """Whether there is something to check now."""
        return bool(self._ledger.overdrafts)

    @property
    def next_at(self) -> float:
        """When (s) the next report or removal is due; infinity if none is."""
        return self._due.next_at

    def look(self, now: float) -> Iterator[ReportOvercommit]:
        """The reports for some nodes now; the others follow later."""
        overdrafts = self._ledger.overdrafts
        if now >= self._due.next_at:
            for node in self._due.due(now):
                overdrafts.suspect(node)
        if overdrafts:
            for node in overdrafts.take(NODES_PER_ITERATION):
                yield from self._look_at(node, now)

    def _look_at(self, node: NodeName, now: float) -> Iterator[ReportOvercommit]:
        found = dict(overused(self._ledger, node, self._key_of))
        reported = self._reported.setdefault(node, {})
        for subject in sorted(found.keys() | reported.keys()):
            note = found.get(subject, _RIGHT)
            if self._is_due(node, reported, subject, note, now):
                reported[subject] = _LastReport(note, now)
                self._due.add(now + (SPACING_S if note == _RIGHT else REMINDER_S), node)
                is_over, note = note != _RIGHT, note or ended(subject)
                uuid, port = subject.uuid or None, subject.port or None
                yield ReportOvercommit(node, uuid, is_over, note, subject.kind, port)
        if not reported:
            del self._reported[node]
            self._ledger.overdrafts.is_covered(node)

    def _is_due(
        self,
        node: NodeName,
        reported: dict[Subject, _LastReport],
        subject: Subject,
        note: str,
        now: float,
    ) -> bool:
        """Whether to report now; otherwise it is kept for later, or dropped."""
        last = reported.get(subject)
        if last is None:
            return True
        if note == last.note:
            if note == _RIGHT and now >= last.at + SPACING_S:
                del reported[subject]
            return note != _RIGHT and now >= last.at + REMINDER_S
        if now < last.at + SPACING_S and not last.is_due:
            last.is_due = True
            self._due.add(last.at + SPACING_S, node)
        return now >= last.at + SPACING_S
