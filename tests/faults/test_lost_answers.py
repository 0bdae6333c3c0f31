"""Answers to Bindings are lost by the hundred, and the slots of unanswered ones never run out."""

from tests.faults.arena import Arena, pod, share
from tests.faults.conftest import Play
from tests.faults.survival import NODES
from tests.faults.weather import ANSWERS_LOST, Weather

#: Fifteen on each card; all stay, because a pod's end frees its slot in any case.
PODS, LEAST_LOST = 360, 300


async def nearly_all_lost(found: Arena) -> None:
    reference, proxy = found.reference, found.proxy
    proxy.weather = Weather(3, requests=0.9, watches=0.0, where="/binding$", kinds=ANSWERS_LOST)
    found.schedulers.start()
    for number in range(PODS):
        await found.create(pod(f"pod-{number}", share("0.05")))
    settled = await reference.until(lambda: reference.bound() == PODS, found.pace.settles_s)
    lost = proxy.counts.total()
    assert settled, f"{reference.bound()} are bound, {lost} answers were lost"
    assert lost >= LEAST_LOST
    assert not reference.problems
    print(f"\n{lost} answers lost")


def test_hundreds_of_lost_answers_hold_up_nobody(play: Play) -> None:
    play(nearly_all_lost, NODES)
