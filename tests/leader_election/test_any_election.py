"""Several candidates, whatever their clocks, the network and their owners do to them.

Judged by a list of what landed on the server and when, which no candidate sees.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.lease import Lease, LeaseClaim, is_later
from kubeshare_py.domain.values import replace
from kubeshare_py.leader_election.leadership import Election, Terms
from tests.scale import examples

#: Little between deadline and expiry, so that whatever else keeps leaders apart is needed.
TERMS = Terms(lease_duration_s=10.6, longest_s=40.0)
BIND_S = 5.0
TROUBLE_S, CALM_S = 300.0, 120.0
LAST = 2**31 - 1


@dataclass(frozen=True)
class Landed:
    """One bind, from its sending to its taking effect on the server."""

    sent: float
    at: float
    fence: str


class Server:
    """One Lease, replaced only by who knows its version."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._version = 0

    def edit(self, rng: random.Random) -> None:
        """Somebody writes anything on it but another holder."""
        if self.lease is None:
            return
        self._version += 1
        self.lease = replace(
            self.lease,
            version=str(self._version),
            transitions=rng.choice([0, 1, LAST, LAST - 1, 2**30, rng.randrange(2**31)]),
            duration_s=rng.choice([0, 1, 11, LAST, rng.randrange(60)]),
            renewed=rng.choice(["", "9999-12-31T23:59:59.999999Z", self.lease.renewed]),
        )

    def write(self, claim: LeaseClaim) -> Lease | None:
        """The Lease as stored, None where somebody was faster."""
        if claim.version != (self.lease.version if self.lease else ""):
            return None
        self._version += 1
        self.lease = Lease(
            version=str(self._version),
            holder=claim.holder,
            transitions=claim.transitions,
            duration_s=claim.duration_s,
            renewed=str(self._version),
        )
        return self.lease


class World:
    """True time, an agenda, and a network that is bad until the calm."""

    def __init__(self, rng: random.Random, *, resumes: bool) -> None:
        self.rng = rng
        self.resumes = resumes
        self.now = 0.0
        self.server = Server()
        self.landed: list[Landed] = []
        self.living: list[Candidate] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def calm(self) -> bool:
        return self.now >= TROUBLE_S

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (self.now + delay, self._count, action))

    def trip_s(self) -> float:
        """How long a message takes."""
        if self.calm:
            return self.rng.uniform(0.001, 0.1)
        return self.rng.choice([0.01, 0.01, 0.1, 1.0, 2.0, self.rng.uniform(0, 12)])

    def is_lost(self) -> bool:
        return not self.calm and self.rng.random() < 0.1

    def run(self) -> None:
        while self._agenda:
            at, _, action = heapq.heappop(self._agenda)
            if at > TROUBLE_S + CALM_S:
                return
            self.now = at
            action()
            senders = [one for one in self.living if one.election.may_send(one.clock())]
            assert len(senders) <= 1

    def join(self, name: str = "") -> None:
        """A new process, under the name of an earlier one if there is one given."""
        self._count += 1
        candidate = Candidate(self, name or f"c{self._count}", resumes=bool(name))
        self.living.append(candidate)
        candidate.attempt()
        candidate.work()


class Candidate:
    """One process: its own clock, its attempts one after the other, its binds."""

    def __init__(self, world: World, name: str, *, resumes: bool) -> None:
        self.world = world
        self.election = Election(name, TERMS, resumes=resumes)
        self._offset = world.rng.uniform(0, 1e6)
        self._rate = world.rng.uniform(0.98, 1.02)
        self._in_flight = 0
        self._asked = 0

    def clock(self) -> float:
        return self._offset + self._rate * self.world.now

    def attempt(self) -> None:
        """Renew or look; whatever comes of it, try again."""
        if self not in self.world.living:
            return
        if self.election.lost(self.clock()):
            self.end()
            return
        self._asked += 1
        asked, rng = self._asked, self.world.rng
        pause = 0.0 if self.world.calm else rng.choice([0] * 9 + [rng.uniform(0, 30)])
        self.world.later(TERMS.renew_deadline_s / 2, lambda: self._give_up(asked))
        self.world.later(pause, lambda: self._send(asked))

    def work(self) -> None:
        """Bind whenever it may; end or be killed now and then."""
        if self not in self.world.living:
            return
        self._bind()
        chance = self.world.rng.random()
        if not self.world.calm and chance < 0.01:
            self.end()
        elif not self.world.calm and chance < 0.03 and self._in_flight == 0:
            self._release()
        self.world.later(self.world.rng.uniform(0.01, 0.5), self.work)

    def end(self) -> None:
        """Dead at once; what is under way lands all the same. Another process follows."""
        self.world.living.remove(self)
        name = self.election.name if self.world.resumes and self.world.rng.random() < 0.7 else ""
        self.world.later(self.world.rng.uniform(0, 5), lambda: self.world.join(name))

    def _send(self, asked: int) -> None:
        if self not in self.world.living or asked != self._asked:
            return
        claim = self.election.renewal()
        if claim is not None:
            self._write(claim, asked)
            return
        there = self.world.trip_s()
        if not self.world.is_lost():
            self.world.later(there, lambda: self._read(asked))

    def _read(self, asked: int) -> None:
        found = self.world.server.lease

        def answered() -> None:
            if asked == self._asked and self in self.world.living:
                claim = self.election.look(found, self.clock())
                if claim is None:
                    self._again()
                else:
                    self._write(claim, asked)

        self.world.later(self.world.trip_s(), answered)

    def _write(self, claim: LeaseClaim, asked: int) -> None:
        asked_at = self.clock()

        def arrived() -> None:
            stored = self.world.server.write(claim)
            if not self.world.is_lost():
                self.world.later(self.world.trip_s(), lambda: answered(stored))

        def answered(stored: Lease | None) -> None:
            if asked != self._asked or self not in self.world.living:
                return
            if stored is None:
                self.election.not_written()
            else:
                self.election.written(stored, asked_at, self.clock())
            self._again()

        if not self.world.is_lost():
            self.world.later(self.world.trip_s(), arrived)

    def _give_up(self, asked: int) -> None:
        if asked == self._asked:
            self.election.not_written()
            self._again()

    def _again(self) -> None:
        self._asked += 1
        self.world.later(self.world.rng.uniform(1, 2.2) * TERMS.retry_period_s, self.attempt)

    def _bind(self) -> None:
        if not self.election.may_send(self.clock()):
            return
        sent, fence = self.world.now, self.election.fence
        self._in_flight += 1

        def land() -> None:
            self._in_flight -= 1
            self.world.landed.append(Landed(sent, self.world.now, fence))

        self.world.later(
            self.world.rng.choice([0.01, BIND_S * self.world.rng.random(), BIND_S]), land
        )

    def _release(self) -> None:
        claim = self.election.release(self.clock())

        def arrived() -> None:
            assert claim is not None
            self.world.server.write(claim)

        if claim is not None:
            self.world.later(self.world.trip_s(), arrived)
        self.end()


def play(seed: int, *, shipped: int | None = None, edits: int = 0, resumes: bool = False) -> World:
    """Play one history of an election.

    `shipped` is the term of a Lease that exists before the first process, None for no Lease;
    `edits` is how often a user writes the Lease. With `resumes` most processes have the name of the
    process that they follow.
    """
    rng = random.Random(seed)
    world = World(rng, resumes=resumes)
    if shipped is not None:
        world.server.lease = Lease(version="0", transitions=shipped)
    for _ in range(edits):
        world.later(rng.uniform(0, TROUBLE_S), lambda: world.server.edit(rng))
    for _ in range(rng.choice([2, 3, 5])):
        world.later(rng.uniform(0, 20), world.join)
    world.run()
    return world


def leaders(world: World) -> list[str]:
    """The fences of those that sent, in order; nothing of one lands when the next has sent."""
    first: dict[str, float] = {}
    for one in sorted(world.landed, key=lambda one: one.sent):
        first.setdefault(one.fence, one.sent)
    found = sorted(first, key=first.__getitem__)
    for one in world.landed:
        later = found[found.index(one.fence) + 1 :]
        assert all(one.at <= first[fence] for fence in later)
    return found


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    shipped=st.sampled_from([None, 0, LAST - 2, LAST]),
    resumes=st.booleans(),
)
def test_no_bind_lands_once_a_later_leader_sends_and_somebody_leads_in_the_end(
    seed: int, shipped: int | None, *, resumes: bool
) -> None:
    world = play(seed, shipped=shipped, resumes=resumes)
    terms = [int(fence.rpartition("/")[2]) for fence in leaders(world)]
    assert all(is_later(term, than) for than, term in pairwise(terms))
    assert sum(one.election.may_send(one.clock()) for one in world.living) == 1


@examples(60)
@given(seed=st.integers(0, 2**32), edits=st.integers(1, 100))
def test_whatever_somebody_writes_beside_the_holder_nothing_lands_late_and_one_leads_in_the_end(
    seed: int, edits: int
) -> None:
    world = play(seed, edits=edits)
    found = leaders(world)
    assert len(found) == len({fence.partition("/")[0] for fence in found})
    assert sum(one.election.may_send(one.clock()) for one in world.living) == 1


def test_trouble_makes_leaders_change() -> None:
    terms = [len({one.fence for one in play(seed).landed}) for seed in range(10)]
    assert sum(terms) > 10 * 3


def test_the_same_lease_twice_is_one() -> None:
    assert replace(Lease(version="1"), version="2") == Lease(version="1")
