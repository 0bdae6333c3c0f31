"""Which daemons to start and end, and when to restart one that died.

A daemon is known by a key: a card's MPS daemon by the card's uuid, Gemini's by more. Each card that
pods may use has an MPS daemon of its own, shared or not: a pod's folder must be there before its
containers start, and an idle daemon costs no GPU memory.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: Seconds until a daemon that died is started again, doubled each time, and their limit.
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0


@dataclass(slots=True)
class _Daemon:
    """One daemon. `since` None: it does not run, and is due at `due_at`.

    Times in seconds.
    """

    due_at: float = 0.0
    wait_s: float = FIRST_WAIT_S
    since: float | None = None
    is_wanted: bool = True
    is_ending: bool = False


class Daemons(Generic[K]):
    """Follows what is wanted and what runs; returns each start and end once."""

    def __init__(self) -> None:
        self._daemons: dict[K, _Daemon] = {}
        self._ends: list[K] = []

    @property
    def running(self) -> tuple[K, ...]:
        """The daemons that were started and have not ended."""
        return tuple(key for key, one in self._daemons.items() if one.since is not None)

    def want(self, keys: Iterable[K]) -> None:
        """Set all daemons that should run, in the order in which they are started."""
        wanted = dict.fromkeys(keys)
        for key in wanted:
            self._daemons.setdefault(key, _Daemon()).is_wanted = True
        for key, one in [*self._daemons.items()]:
            if key in wanted or not one.is_wanted:
                continue
            one.is_wanted = False
            if one.since is None:
                del self._daemons[key]
            elif not one.is_ending:
                one.is_ending = True
                self._ends.append(key)

    def starts(self, now: float) -> list[K]:
        """The daemons to be started now; they count as running from here on."""
        due = [key for key, one in self._daemons.items() if one.since is None]
        due = [key for key in due if self._daemons[key].due_at <= now]
        for key in due:
            self._daemons[key].since = now
        return due

    def ends(self) -> list[K]:
        """The daemons to be ended, because they are not wanted any more."""
        ends, self._ends = self._ends, []
        return ends

    def ended(self, key: K, now: float) -> None:
        """A daemon ended, or could not be started."""
        one = self._daemons.pop(key)
        if not one.is_wanted:
            return
        self._daemons[key] = one
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
