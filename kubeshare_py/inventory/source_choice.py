"""Which source is in charge of the cards where the configuration leaves it open (`auto`).

Two sources see the same collectors: a Prometheus that scrapes them, and the scheduler itself. What
is known passes from one to the other, and a node stays silent until the next source has answered
for it, so that a change alone takes no card away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.printable import listed
from kubeshare_py.inventory.sample_merge import LATE_AFTER_S, Reading

#: Seconds, and intervals if these are less, for which Prometheus may fail before the collectors
#: themselves are asked.
PATIENCE_S, PATIENCE = LATE_AFTER_S, 24
#: Seconds, and intervals if these are less, between two trials of Prometheus: doubled with each.
FIRST_TRIAL_S, FIRST_TRIAL = 10.0, 2
LONGEST_TRIAL_S, LONGEST_TRIAL = 300.0, 60
#: In charge for so many patiences, Prometheus is tried soon again once it has failed.
_STEADY = 5


class SourceInCharge(StrEnum):
    """A source as the configuration spells it."""

    PROMETHEUS = "prometheus"
    SCRAPE = "scrape"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """Another source is in charge from now on; `reason` says why, in a sentence without a dot."""

    before: SourceInCharge
    after: SourceInCharge
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What is known by the source in charge. `failure`: why its last attempt failed, "" if not.

    `collectors` are the nodes on which a collector's pod is ready, by Kubernetes.
    """

    reading: Reading
    failure: str = ""
    collectors: frozenset[NodeName] = frozenset()

    def answering(self) -> Mapping[NodeName, tuple[Gpu, ...]]:
        """The cards of the nodes of which the source has an answer now."""
        if self.failure:
            return {}
        return _answering(self.reading)


@dataclass(slots=True)
class SourceChoice:
    """Says when another source takes over. Times are seconds of any clock that is never set.

    The collectors themselves are in charge at first.
    """

    interval_s: float
    in_charge: SourceInCharge = SourceInCharge.SCRAPE
    _trial_at: float = float("-inf")
    _next_trial_s: float = field(init=False)
    _changed_at: float = float("-inf")
    #: Since when Prometheus names too little; None while it does not.
    _failing_since: float | None = None
    #: Nodes with a ready collector that answered neither of the two at the last change.
    _excused: frozenset[NodeName] = frozenset()

    def __post_init__(self) -> None:
        self._next_trial_s = self._first_trial_s

    @property
    def patience_s(self) -> float:
        """Seconds for which Prometheus may fail."""
        return min(PATIENCE_S, PATIENCE * self.interval_s)

    def trial_is_due(self, now: float) -> bool:
        """Whether Prometheus is to be asked which cards it names."""
        return self.in_charge is SourceInCharge.SCRAPE and now >= self._trial_at

    def tried(self, now: float, standing: SourceState, found: Reading | str) -> SourceChange | str:
        """Take the outcome of a trial: what Prometheus names, or why it names nothing.

        It takes over if it names every card of the nodes that answer the scheduler itself. Then a
        change is returned, otherwise what stands against it.
        """
        problem = found if isinstance(found, str) else _lacking(standing, found)
        if problem:
            self._trial_at = now + self._next_trial_s
            longest_s = min(LONGEST_TRIAL_S, LONGEST_TRIAL * self.interval_s)
            self._next_trial_s = min(2 * self._next_trial_s, longest_s)
            return problem
        self._excused = standing.collectors - {*standing.answering()}
        return self._change(now, SourceInCharge.PROMETHEUS, "it names every card of the collectors")

    def failed(self, now: float, standing: SourceState) -> SourceChange | None:
        """Look at what Prometheus names while it is in charge; a change once it fails too long."""
        if self.in_charge is not SourceInCharge.PROMETHEUS:
            return None
        reported = _reported(standing.reading)
        if not standing.failure:
            self._excused -= reported
        problem = _problem(standing, standing.collectors - self._excused - reported)
        if not problem:
            self._failing_since = None
            return None
        if self._failing_since is None:
            self._failing_since = now
        lasted_s = now - self._failing_since
        if lasted_s < self.patience_s:
            return None
        if now - self._changed_at > _STEADY * self.patience_s:
            self._next_trial_s = self._first_trial_s
        self._trial_at = now + self._next_trial_s
        return self._change(now, SourceInCharge.SCRAPE, f"for {lasted_s:.0f} s {problem}")

    # --- inside --------------------------------------------------------------------------------

    @property
    def _first_trial_s(self) -> float:
        return min(FIRST_TRIAL_S, FIRST_TRIAL * self.interval_s)

    def _change(self, now: float, after: SourceInCharge, reason: str) -> SourceChange:
        before, self.in_charge = self.in_charge, after
        self._changed_at, self._failing_since = now, None
        return SourceChange(before=before, after=after, reason=reason)


def passed_on(reading: Reading) -> Reading:
    """What the next source begins with: all but the addresses by which the last one knew nodes.

    Prometheus may call a collector otherwise. By an address from before, one that answers and of
    which Prometheus keeps no cards would look like one that has none any more.
    """
    return Reading(cards=reading.cards, silent_since=reading.silent_since)


def _answering(reading: Reading) -> dict[NodeName, tuple[Gpu, ...]]:
    return {
        node: cards
        for node, cards in reading.cards.items()
        if cards and node not in reading.silent_since
    }


def _reported(reading: Reading) -> frozenset[NodeName]:
    """The nodes that the source speaks of; those without cards are among them."""
    return frozenset({*reading.collectors.values(), *_answering(reading)}) - {*reading.silent_since}


def _lacking(standing: SourceState, found: Reading) -> str:
    """Why Prometheus names too little to take over, "" if it does not."""
    named = _answering(found)
    if not named:
        return "it names no card of a collector that answers"
    lacking = [
        node
        for node, cards in standing.answering().items()
        if not {card.uuid for card in cards} <= {card.uuid for card in named.get(node, ())}
    ]
    return f"it does not name every card of {_nodes(lacking)}" if lacking else ""


def _problem(standing: SourceState, unnamed: Iterable[NodeName]) -> str:
    """Why Prometheus is no good source now, "" if it is one."""
    if standing.failure:
        return f"it has given no usable answer: {standing.failure}"
    if not standing.answering():
        return "it has named no card of a collector that answers"
    if nodes := _nodes(unnamed):
        return f"it has not named the cards of {nodes}, where a collector is ready"
    return ""


def _nodes(nodes: Iterable[NodeName]) -> str:
    found = sorted(nodes)
    return f"{'node' if len(found) == 1 else 'nodes'} {listed(found)}" if found else ""
