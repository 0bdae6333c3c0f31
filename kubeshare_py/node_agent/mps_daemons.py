"""Which cards' MPS daemons to start and end, and when to restart one that died.

Each card that pods may use has a daemon of its own, shared or not: a pod's folder must be there
before its containers start, and an idle daemon costs no GPU memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeshare_py.domain.identity import GpuUuid

#: Seconds until a daemon that died is started again, doubled each time, and their limit.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0


@dataclass(slots=True)
class _Daemon:
    """One card's daemon. `since` None: it does not run, and is due at `due_at`.

    Times in seconds.
    """

    due_at: float = 0.0
    wait_s: float = FIRST_WAIT_S
    since: float | None = None
    is_wanted: bool = True
    is_ending: bool = False


class MpsDaemons:
    """Follows cards and daemons; returns each start and end once."""

    def __init__(self) -> None:
        self._daemons: dict[GpuUuid, _Daemon] = {}
        self._ends: list[GpuUuid] = []

    @property
    def running(self) -> tuple[GpuUuid, ...]:
        """The cards whose daemon was started and has not ended."""
        return tuple(uuid for uuid, one in self._daemons.items() if one.since is not None)

    def listed(self, cards: Iterable[GpuUuid]) -> None:
        """Set all cards of the node."""
        wanted = {*cards}
        for uuid in sorted(wanted):
            self._daemons.setdefault(uuid, _Daemon()).is_wanted = True
        for uuid, one in [*self._daemons.items()]:
            if uuid in wanted or not one.is_wanted:
                continue
            one.is_wanted = False
            if one.since is None:
                del self._daemons[uuid]
            elif not one.is_ending:
                one.is_ending = True
                self._ends.append(uuid)

    def starts(self, now: float) -> list[GpuUuid]:
        """The cards whose daemon is to be started now; they count as running from here on."""
        due = [uuid for uuid, one in self._daemons.items() if one.since is None]
        due = [uuid for uuid in due if self._daemons[uuid].due_at <= now]
        for uuid in due:
            self._daemons[uuid].since = now
        return due

    def ends(self) -> list[GpuUuid]:
        """The cards whose daemon is to be ended, because they are gone."""
        ends, self._ends = self._ends, []
        return ends

    def ended(self, uuid: GpuUuid, now: float) -> None:
        """A daemon ended, or could not be started."""
        one = self._daemons.pop(uuid)
        if not one.is_wanted:
            return
        self._daemons[uuid] = one
        if one.is_ending:
            one.is_ending, one.since, one.due_at = False, None, now
            return
        ran_s = now - (now if one.since is None else one.since)
        wait_s = FIRST_WAIT_S if ran_s >= LONGEST_WAIT_S else one.wait_s
        one.since, one.due_at = None, now + wait_s
        one.wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    @property
    def next_at(self) -> float | None:
        """When the next daemon is to be restarted; None if none is."""
        return min(
            (one.due_at for one in self._daemons.values() if one.since is None), default=None
        )
