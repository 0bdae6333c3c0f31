"""Leader election over one Lease, as a state machine.

Which candidate may send, from when, until when.

The algorithm is client-go's (tools/leaderelection/leaderelection.go). A Lease has expired when this
process has seen no change of it for its duration, on its own monotonic clock; the times written in
it are never computed with. What client-go leaves to its users is decided here as well: the
successor to a Lease that was not released waits until the last requests of its predecessor have
landed.
"""

import math
from dataclasses import dataclass, replace

from kubeshare_py.configuration.leader_election import JITTER
from kubeshare_py.domain.lease import LONGEST_LEASE_S, Lease, LeaseClaim, after, is_later

#: The duration (s) of a released Lease, as client-go writes it: the field must be positive.
RELEASED_S = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The durations of an election, in seconds.

    `hand_over_s` is how long a successor to an unreleased Lease waits after acquiring it. A longer
    duration on a Lease than `longest_s` counts as that. Raises ValueError unless JITTER x
    retry_period_s < renew_deadline_s < lease_duration_s <= longest_s.
    """

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    hand_over_s: float = 6.0
    longest_s: float = LONGEST_LEASE_S

    def __post_init__(self) -> None:
        """Refuse durations with which two candidates could lead."""
        if not self.renew_deadline_s < self.lease_duration_s:
            raise ValueError("the renew deadline must be shorter than the lease duration")
        if self.lease_duration_s > self.longest_s:
            raise ValueError(f"the lease duration must be at most {self.longest_s:g} s")
        if not 0 < JITTER * self.retry_period_s < self.renew_deadline_s:
            raise ValueError(f"{JITTER} retry periods must be shorter than the renew deadline")
        if self.hand_over_s < 0:
            raise ValueError("the hand-over must not be negative")

    @property
    def announced_s(self) -> int:
        """The lease duration as written on the Lease: in whole seconds, rounded up."""
        return math.ceil(self.lease_duration_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """One candidate leads: its term, and when it may send (s): `since` <= now < `until`.

    `until` is when it must have stopped sending, unless the Lease is renewed before.
    """

    term: int
    since: float
    until: float


class Election:
    """One candidate. It leads at most once: after a loss, a new process has a new name.

    With `resumes` the name is that of a place, such as a container, where one process runs at a
    time: a Lease of this name was left by an earlier one there, and is taken up in its term.
    `now` and `asked_at` are seconds of this process's monotonic clock. One thread calls the methods
    that change it. Others may read `leads`, `fence` and `may_send`: a mandate is replaced whole.
    """

    def __init__(self, name: str, terms: Terms, *, resumes: bool = False) -> None:
        self.name = name
        self.terms = terms
        self._mandate: Mandate | None = None
        self._known: Lease | None = None
        self._changed_at = -math.inf
        # What an earlier process there sent may still land.
        self._over_unreleased = resumes
        self._has_asked = resumes
        self._latest_term: int | None = None
        self._must_look = True
        self._over = False

    @property
    def leads(self) -> bool:
        """Whether it acquired the Lease, and has seen no other holder since."""
        return self._mandate is not None and not self._over

    @property
    def binds_from(self) -> float:
        """When (s) it may send for the first time; inf before it leads."""
        return math.inf if self._mandate is None else self._mandate.since

    @property
    def holder(self) -> str:
        """The Lease's holder when it was last read, "" for none."""
        return "" if self._known is None else self._known.holder

    @property
    def deadline(self) -> float:
        """When (s) it must have stopped sending, unless the Lease is renewed before."""
        return -math.inf if self._mandate is None else self._mandate.until

    @property
    def fence(self) -> str:
        """`holder/transitions`: names this term of leadership, "" before it leads."""
        return "" if self._mandate is None else f"{self.name}/{self._mandate.term}"

    @property
    def free_at(self) -> float:
        """When (s) another holder's Lease expires unless it changes; -inf if there is none."""
        known = self._known
        if known is None or not known.holder or self._is_ours(known):
            return -math.inf
        # Whole seconds are written, so a duration that ours rounds up to counts as ours.
        terms, longer = self.terms, known.duration_s > self.terms.announced_s
        said_s = min(known.duration_s, terms.longest_s)
        return self._changed_at + (said_s if longer else terms.lease_duration_s)

    def may_send(self, now: float) -> bool:
        """Whether binds and reports may be sent."""
        mandate = self._mandate
        return mandate is not None and not self._over and mandate.since <= now < mandate.until

    def lost(self, now: float) -> bool:
        """Whether it led and must end: another candidate leads, or renewals failed for too long."""
        return self._mandate is not None and (self._over or now >= self.deadline)

    def renewal(self) -> LeaseClaim | None:
        """The claim to write without reading first; None if the Lease's state is unknown."""
        mandate = self._mandate
        if mandate is None or self._over or self._must_look or self._known is None:
            return None
        return self._claim(self._known.version, mandate.term)

    def look(self, found: Lease | None, now: float) -> LeaseClaim | None:
        """Take in the Lease as just read, None if there is none; the claim to write, if any.

        `now` is when the answer arrived.
        """
        if self._over:
            return None
        if found is None:
            return self._create(now)
        if found != self._known:
            self._changed_at = now
        self._known = found
        latest = self._latest_term
        if latest is None or is_later(found.transitions, latest):
            self._latest_term = found.transitions
        if self._is_ours(found):
            term = found.transitions if self._mandate is None else self._mandate.term
            return self._claim(found.version, term)
        if self._mandate is not None:
            self._over = True
            return None
        if now < self.free_at:
            return None
        self._over_unreleased = bool(found.holder)
        return self._claim(found.version, self._next_term(), acquires=True)

    def written(self, found: Lease, asked_at: float, now: float) -> None:
        """A claim sent at `asked_at` was stored as `found`.

        The deadline counts from the sending, because other candidates saw the change after it.
        """
        self._known, self._changed_at, self._must_look = found, now, False
        until = asked_at + self.terms.renew_deadline_s
        if self._mandate is None:
            since = now + (self.terms.hand_over_s if self._over_unreleased else 0.0)
            self._mandate = Mandate(term=found.transitions, since=since, until=until)
        else:
            self._mandate = replace(self._mandate, until=max(self._mandate.until, until))

    def not_written(self) -> None:
        """A claim was refused or not answered: it may or may not have been stored."""
        self._must_look = True

    def release(self, now: float) -> LeaseClaim | None:
        """Stop leading for ever; the claim to write, so that a successor need not wait.

        None if the Lease must be left to expire: when it is lost, and while this process itself
        waits for its predecessor's last requests.
        """
        known, mandate, allowed = self._known, self._mandate, self.may_send(now)
        self._over = True
        if not allowed or known is None or mandate is None:
            return None
        claim = self._claim(known.version, mandate.term)
        return replace(claim, holder="", duration_s=RELEASED_S)

    def _create(self, now: float) -> LeaseClaim | None:
        """Claim a Lease that was deleted or never existed.

        A holder seen with it may not know that it is gone, and keeps its time.
        """
        if now < self.free_at:
            return None
        if self._mandate is not None:
            return self._claim("", self._mandate.term)
        known = self._known
        if known is None or not self._is_ours(known):
            self._over_unreleased = known is not None and bool(known.holder)
        return self._claim("", self._next_term(), acquires=True)

    def _is_ours(self, found: Lease) -> bool:
        """Whether the Lease names this candidate, which asked for it: others can write its name."""
        return found.holder == self.name and self._has_asked

    def _next_term(self) -> int:
        """The term after the latest one seen, even if the number was set back since."""
        return 0 if self._latest_term is None else after(self._latest_term)

    def _claim(self, version: str, transitions: int, *, acquires: bool = False) -> LeaseClaim:
        self._has_asked = True
        return LeaseClaim(
            version=version,
            holder=self.name,
            transitions=transitions,
            duration_s=self.terms.announced_s,
            acquires=acquires,
        )
