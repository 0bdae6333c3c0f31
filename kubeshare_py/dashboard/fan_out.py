"""When the scheduler's state is read, for which viewers, and with whose rights.

Viewers who may see the same are one audience: one answer is for all of them. All reads together
take the scheduler at most SHARE of one core, however many look on: the time that an answer takes is
never less than the CPU that it costs, and a rest follows that is as much longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NewType, assert_never

from kubeshare_py.domain.events import TimePassed

#: A digest of the viewer's token.
ViewerId = NewType("ViewerId", str)
#: Of those who may see the same; another one shares no answer with it.
Audience = NewType("Audience", str)

#: The part of a core that all reads together may take of the scheduler.
SHARE = 0.05
#: Seconds from the end of one read to the next for the same audience, at least.
LEAST_S = 2.0
#: A new audience waits for none of these rests, unless they add up to more than this (s).
MAX_REST_S = 60.0
#: Seconds for which a viewer counts after its last request; the page asks more often.
PRESENT_S = 60.0
#: Seconds after a failed read, doubled up to the last.
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 15.0


@dataclass(frozen=True, slots=True)
class ViewerSeen:
    """A viewer asked for the state of its audience."""

    viewer: ViewerId
    audience: Audience


@dataclass(frozen=True, slots=True)
class ReadEnded:
    """An answer arrived, after this time (s)."""

    audience: Audience
    took_s: float


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """There was no usable answer, after this time (s)."""

    audience: Audience
    took_s: float


@dataclass(frozen=True, slots=True)
class ReadRefused:
    """The viewer whose token was used may not read the state, or not any more."""

    audience: Audience
    viewer: ViewerId


FanOutEvent = ViewerSeen | ReadEnded | ReadFailed | ReadRefused | TimePassed


@dataclass(frozen=True, slots=True)
class Read:
    """Read the state for this audience with this viewer's token; one event tells how it ended."""

    audience: Audience
    viewer: ViewerId


@dataclass(frozen=True, slots=True)
class Forget:
    """No viewer is left: drop what was read for this audience."""

    audience: Audience


FanOutEffect = Read | Forget


@dataclass(slots=True)
class _Watched:
    """An audience with viewers. `due` is when it may be read again, `pause_s` the last pause."""

    viewers: dict[ViewerId, float] = field(default_factory=dict)
    due: float = float("-inf")
    is_new: bool = True
    pause_s: float = 0.0


class FanOut:
    """Decides; it has no clock and does no I/O."""

    def __init__(self) -> None:
        self._watched: dict[Audience, _Watched] = {}
        self._reading: Audience | None = None
        #: Until when the scheduler rests from the reads so far.
        self._rest_until = float("-inf")

    def handle(self, event: FanOutEvent, now: float) -> list[FanOutEffect]:
        """Handle one event at monotonic time `now` (s); the effects to perform."""
        match event:
            case ViewerSeen():
                seen = self._watched.setdefault(event.audience, _Watched())
                seen.viewers[event.viewer] = now
            case ReadEnded():
                self._ended(event.audience, event.took_s, now, has_failed=False)
            case ReadFailed():
                self._ended(event.audience, event.took_s, now, has_failed=True)
            case ReadRefused():
                self._refused(event)
            case TimePassed():
                pass
            case _:
                assert_never(event)
        return [*self._forgotten(now), *self._next(now)]

    def wake_at(self, now: float) -> float | None:
        """When `TimePassed` is due; None if nothing happens by itself."""
        times = [max(one.viewers.values()) + PRESENT_S for one in self._watched.values()]
        if self._reading is None:
            times += [self._at(one) for one in self._watched.values()]
        return max(now, min(times)) if times else None

    def _ended(self, audience: Audience, took_s: float, now: float, *, has_failed: bool) -> None:
        self._reading = None
        rest_s = took_s * (1 / SHARE - 1)
        self._rest_until = max(self._rest_until, now) + rest_s
        watched = self._watched.get(audience)
        if watched is None:
            return
        watched.pause_s = min(LAST_PAUSE_S, watched.pause_s * 2 or FIRST_PAUSE_S) * has_failed
        # An audience that has no state yet goes on being new, and waits for the pause alone.
        watched.is_new = watched.is_new and has_failed
        watched.due = now + max(LEAST_S, watched.pause_s)

    def _refused(self, event: ReadRefused) -> None:
        self._reading = None
        watched = self._watched.get(event.audience)
        if watched is not None:
            watched.viewers.pop(event.viewer, None)

    def _forgotten(self, now: float) -> Iterator[Forget]:
        for audience, watched in list(self._watched.items()):
            there = {
                viewer: seen for viewer, seen in watched.viewers.items() if seen + PRESENT_S > now
            }
            watched.viewers = there
            if not there and audience != self._reading:
                del self._watched[audience]
                yield Forget(audience)

    def _next(self, now: float) -> Iterator[Read]:
        """The audience that has been due for longest, if it may be read now."""
        if self._reading is not None:
            return
        # By when they were due, not by when they may be read: all wait for the same rest.
        ready = [(one.due, name) for name, one in self._watched.items() if self._at(one) <= now]
        if ready:
            _, self._reading = min(ready)
            viewers = self._watched[self._reading].viewers
            # The one seen last: its rights are the latest that were looked at.
            yield Read(self._reading, max(viewers, key=lambda one: (viewers[one], one)))

    def _at(self, watched: _Watched) -> float:
        """When this audience may be read."""
        rest = self._rest_until - MAX_REST_S if watched.is_new else self._rest_until
        return max(watched.due, rest)
