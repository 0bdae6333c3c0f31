"""What the scheduler notices about itself: tries, waits, lateness."""

import asyncio

from kubeshare_py.domain.effects import Bind, Effect
from kubeshare_py.domain.events import (
    BindAnswered,
    BindOutcome,
    BindRefused,
    BindSlotsFree,
    BindUnknown,
    Bound,
    Event,
    PodGone,
    PodSeen,
    Refusal,
)
from kubeshare_py.domain.pod import Pod
from kubeshare_py.edges.scheduler.process_health import HEARTBEAT_S, ProcessHealth
from tests.making import a_cluster, a_machine, a_share, of
from tests.patience import PATIENCE_S

PROFILE = "kubeshare-scheduler"
EVENT_S = 0.002


class Watched:
    """A machine whose every event its signs are told of."""

    def __init__(self) -> None:
        self.now = 0.0
        self.machine = a_machine()
        self.health = ProcessHealth(self.machine, lambda: self.now, lambda: self.now)
        for event in a_cluster({"n1": 1}):
            self.tell(event)

    def tell(self, event: Event) -> list[Effect]:
        effects = self.machine.handle(event, self.now)
        self.health.handled(event, effects, EVENT_S)
        return effects

    def bind(self, pod: Pod) -> Bind:
        self.tell(PodSeen(pod))
        [bind] = of(Bind, self.tell(BindSlotsFree(9)))
        return bind

    def answer(self, bind: Bind, outcome: BindOutcome) -> None:
        self.tell(BindAnswered(bind.uid, bind.allocation.token, outcome))

    def took(self, result: str) -> float:
        """Seconds of all tries with this result."""
        return self.health.tallies.attempt_seconds[result, PROFILE].total

    def tries(self) -> dict[str, int]:
        timed = self.health.tallies.attempt_seconds
        return {result: seconds.count for (result, profile), seconds in timed.items() if profile}


def share(name: str = "a", milli: int = 500) -> Pod:
    return a_share(name, milli)


def test_a_pod_that_is_bound_is_one_try_from_deciding_to_the_answer() -> None:
    watched = Watched()
    bind = watched.bind(share())
    assert watched.tries() == {}
    watched.now = 4.0
    watched.answer(bind, Bound())
    assert watched.tries() == {"scheduled": 1}
    assert watched.took("scheduled") == 4.0 + EVENT_S
    assert watched.machine.attempts.scheduled == {PROFILE: 1}
    [(attempts, waited)] = watched.health.tallies.sli_seconds.items()
    assert (attempts, waited.total) == ("1", 4.0)


def test_a_refused_binding_is_an_error_and_the_next_try_counts_on() -> None:
    watched = Watched()
    bind = watched.bind(share())
    watched.answer(bind, BindRefused(Refusal.GATED, "gated"))
    assert watched.tries() == {"error": 1}
    watched.now = 20.0
    [again] = of(Bind, watched.tell(BindSlotsFree(9)))
    watched.answer(again, Bound())
    assert watched.tries() == {"error": 1, "scheduled": 1}
    [(attempts, waited)] = watched.health.tallies.sli_seconds.items()
    assert (attempts, waited.total) == ("2", 20.0)


def test_an_answer_that_leaves_a_binding_open_is_an_error_and_the_try_goes_on() -> None:
    watched = Watched()
    bind = watched.bind(share())
    watched.answer(bind, BindUnknown("lost"))
    watched.now = 20.0
    [again] = of(Bind, watched.tell(BindSlotsFree(9)))
    assert watched.tries() == {"error": 1}
    assert watched.machine.attempts.failed == {PROFILE: 1}
    watched.answer(again, Bound())
    assert watched.tries() == {"error": 1, "scheduled": 1}
    assert watched.took("scheduled") == 20.0 + EVENT_S
    watched.answer(again, BindUnknown("late"))
    assert watched.tries() == {"error": 1, "scheduled": 1}


def test_a_pod_that_fits_nowhere_is_a_try_that_took_its_turns_time() -> None:
    watched = Watched()
    watched.tell(PodSeen(share("big", 900)))
    watched.answer(watched.bind(share("small")), Bound())
    for name in ("b", "c"):
        watched.tell(PodSeen(share(name, 600)))
    watched.tell(BindSlotsFree(9))
    assert watched.machine.attempts.unschedulable == {PROFILE: watched.tries()["unschedulable"]}
    assert watched.took("unschedulable") <= EVENT_S * watched.tries()["unschedulable"]


def test_pods_that_are_deleted_under_way_are_forgotten() -> None:
    watched = Watched()
    for number in range(300):
        bind = watched.bind(share(f"p{number}", 1))
        watched.answer(bind, BindUnknown("lost"))
        watched.tell(PodGone(bind.uid))
        watched.answer(bind, BindRefused(Refusal.GONE, "gone"))
    assert not watched.health._began_s


async def test_an_idle_scheduler_is_woken() -> None:
    watched = Watched()
    watched.now = watched.health.last_iteration_at + HEARTBEAT_S + 1
    woken = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        running = group.create_task(watched.health.run(woken.set))
        await woken.wait()
        running.cancel()
    assert woken.is_set()
