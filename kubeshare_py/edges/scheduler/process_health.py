"""The running scheduler's own health: iterations, lag, watches, inventory, durations.

Health checks and metrics are made from it. It decides nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter

from kubeshare_py.configuration.scheduler import ProfileConfiguration
from kubeshare_py.domain.effects import (
    Bind,
    Effect,
    LogPluginFailure,
    ReportCardChange,
    ReportOvercommit,
    ReportScheduled,
)
from kubeshare_py.domain.events import BindAnswered, BindSlotsFree
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.exporters.metric import EventLogTallies, Tallies
from kubeshare_py.inventory.card_use import CardUses, NodeUse
from kubeshare_py.scheduling.explain.held_time import HeldTime
from kubeshare_py.scheduling.machine import MAX_UNANSWERED, Machine, MachineEvent

#: Seconds between measurements of lateness, and for how long the worst is kept.
LAG_INTERVAL_S, LAG_KEPT_S = 0.5, 60.0
#: An idle scheduler is made to iterate at this interval (s): standing still is then a sign.
HEARTBEAT_S = 10.0
#: More pods than this cannot be under way: some are gone.
MAX_BEGUN = 4 * MAX_UNANSWERED


@dataclass(slots=True)
class ProcessHealth:
    """The health of one machine. Times are the event loop's, in seconds."""

    machine: Machine
    clock: Callable[[], float]
    #: Finer than the event loop's clock, which uvloop rounds to milliseconds.
    stopwatch: Callable[[], float] = perf_counter
    tallies: Tallies = field(default_factory=Tallies)
    #: What was written of the event log; None without one.
    event_log: EventLogTallies | None = None
    #: Iterations that decided; none while another process leads.
    iterations: int = 0
    last_iteration_at: float = field(init=False)
    #: When the inventory was last read; None before the first time.
    inventory_at: float | None = None
    #: The source in charge of the inventory, as the configuration spells it; "" before it is known.
    inventory_source: str = ""
    #: What is really used of cards, for those that ask; decisions do not.
    card_uses: CardUses = field(default_factory=CardUses)
    #: How long cards were held, while this process leads.
    held: HeldTime = field(init=False)
    #: The profiles in effect, if they are not those that the process began with.
    configured: tuple[ProfileConfiguration, ...] = ()
    started_at: float = field(init=False)
    _lost_at: dict[str, float | None] = field(default_factory=dict)
    _lags: deque[tuple[float, float]] = field(default_factory=deque)
    #: When the pods with unanswered binds were decided (by the stopwatch).
    _began_s: dict[PodUid, float] = field(default_factory=dict)
    _unschedulable: dict[str, int] = field(default_factory=dict)
    #: The machine's `failed_binds` when the last Binding was answered.
    _failed_binds: int = 0

    def __post_init__(self) -> None:
        self.started_at = self.last_iteration_at = self.clock()
        self.held = HeldTime(self.machine)

    # --- reported by the loop ------------------------------------------------------------------

    def handled(self, event: MachineEvent, effects: Iterable[Effect], took_s: float) -> None:
        """The machine just handled an event, in `took_s` (s)."""
        self.tallies.event_seconds.observe(took_s)
        self.held.handled(event, self.clock)
        if isinstance(event, BindSlotsFree):
            self.iterations += 1
            self.last_iteration_at = self.clock()
            self._decided(effects, took_s)
        for effect in effects:
            if isinstance(effect, ReportScheduled):
                self._scheduled(effect)
        if isinstance(event, BindAnswered):
            self._answered(event)

    def about(self, effect: Effect, took_s: float) -> dict[str, object]:
        """Additional log fields of an effect: its profile, and its iteration."""
        iteration: dict[str, object] = {"iteration": self.iterations, "ms": round(took_s * 1000, 3)}
        if isinstance(effect, ReportOvercommit | ReportCardChange | LogPluginFailure):
            return iteration
        progress = self.machine.progress_of(effect.uid)
        return {"profile": progress.scheduler_name if progress else "", **iteration}

    def inventory_read(self) -> None:
        """The source of the inventory answered, with or without changes."""
        self.inventory_at = self.clock()

    def inventory_from(self, source: str) -> None:
        """This source is in charge of the inventory from now on."""
        self.inventory_source = source

    def cards_used(self, nodes: Iterable[NodeUse]) -> None:
        """This was just read to be used of the cards of these nodes."""
        self.card_uses.take(nodes, self.clock())

    def watching(self, name: str) -> Callable[[bool], None]:
        """Register a watch; the returned function is called when it connects and disconnects."""
        self._lost_at[name] = self.clock()

        def connected(is_connected: bool) -> None:
            if is_connected:
                self._lost_at[name] = None
            elif self._lost_at[name] is None:
                self._lost_at[name] = self.clock()

        return connected

    async def run(self, wake: Callable[[], None]) -> None:
        """Measure the event loop's lateness, for ever, and `wake` it when it is idle."""
        while True:
            due = self.clock() + LAG_INTERVAL_S
            await asyncio.sleep(LAG_INTERVAL_S)
            now = self.clock()
            self.late(now, now - due)
            if now - self.last_iteration_at > HEARTBEAT_S:
                wake()

    def late(self, now: float, lag_s: float) -> None:
        """Something came `lag_s` (s) late."""
        self._lags.append((now, max(lag_s, 0.0)))
        while self._lags[0][0] < now - LAG_KEPT_S:
            self._lags.popleft()

    # --- read ----------------------------------------------------------------------------------

    @property
    def lag_s(self) -> float:
        """The worst lateness (s) of the last minute."""
        return max((lag_s for _, lag_s in self._lags), default=0.0)

    def inventory_age_s(self) -> float | None:
        """Seconds since the inventory was read."""
        return None if self.inventory_at is None else self.clock() - self.inventory_at

    def lost_s(self, watch: str) -> float:
        """Seconds that a watch has been disconnected; 0 while it is connected."""
        lost_at = self._lost_at.get(watch)
        return 0.0 if lost_at is None else self.clock() - lost_at

    @property
    def watches(self) -> list[str]:
        """Names of the watches."""
        return list(self._lost_at)

    # --- inside --------------------------------------------------------------------------------

    def _decided(self, effects: Iterable[Effect], took_s: float) -> None:
        """Split an iteration's time evenly among its attempts: timing each would cost as much."""
        began_s = self.stopwatch() - took_s
        tries = 0
        for effect in effects:
            if isinstance(effect, Bind):
                tries += 1
                # Sent again, it is still the same attempt.
                self._began_s.setdefault(effect.uid, began_s)
        unschedulable = self.machine.unschedulable_attempts
        new = {
            profile: count - self._unschedulable.get(profile, 0)
            for profile, count in unschedulable.items()
            if count != self._unschedulable.get(profile)
        }
        tries += sum(new.values())
        if not tries:
            return
        each_s = took_s / tries
        self.tallies.algorithm_seconds.observe(each_s, tries)
        if new:
            self._unschedulable = dict(unschedulable)
            for profile, count in new.items():
                self.tallies.attempt("unschedulable", profile, each_s, count)
        if len(self._began_s) > MAX_BEGUN:
            self._forget_the_gone()

    def _scheduled(self, effect: ReportScheduled) -> None:
        progress = self.machine.progress_of(effect.uid)
        assert progress is not None, effect.uid
        profile = progress.scheduler_name
        began_s = self._began_s.pop(effect.uid, None)
        if began_s is not None:
            self.tallies.attempt("scheduled", profile, self.stopwatch() - began_s)
        if progress.queued_at is not None:
            self.tallies.bound(progress.attempts, self.clock() - progress.queued_at)

    def _answered(self, event: BindAnswered) -> None:
        failed = self.machine.failed_binds
        is_failure, self._failed_binds = failed != self._failed_binds, failed
        progress, began_s = self.machine.progress_of(event.uid), self._began_s.get(event.uid)
        if progress is not None and is_failure and began_s is not None:
            self.tallies.attempt("error", progress.scheduler_name, self.stopwatch() - began_s)
        if progress is None or not progress.is_assumed:
            self._began_s.pop(event.uid, None)  # else it is sent again: the same attempt goes on

    def _forget_the_gone(self) -> None:
        """Drop pods that were deleted while their bind was not answered."""
        gone = [uid for uid in self._began_s if self.machine.progress_of(uid) is None]
        for uid in gone:
            del self._began_s[uid]
