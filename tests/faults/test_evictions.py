"""Evictions when requests fail: whoever must go goes, and nobody goes for nothing."""

import random

from tests.faults.arena import CLASSES, Arena, pod, share
from tests.faults.conftest import Play
from tests.faults.survival import TIGHT
from tests.faults.weather import Weather

CARDS, URGENT, NEWCOMERS = 12, 4, 40
#: Who is evicted is told so, then deleted; who gets a place is told that.
OF_EVICTIONS = "/pods/[^/]+(/status)?$"


async def create_gang(found: Arena, name: str, size: int, asked: str, rank: str) -> None:
    group = {"group_name": name, "group_headcount": str(size), "group_threshold": "1.0"}
    for number in range(size):
        labels = share(asked, **group)
        await found.create(pod(f"{name}-{number}", labels, priorityClassName=rank))


async def until_settled(found: Arena) -> None:
    books, left = found.books, found.books.evictions
    settled = await books.until(
        lambda: not books.overlooked() and books.is_settled(), found.pace.settles_s
    )
    wrong = [*books.problems, *left.undue(await found.events())]
    assert settled, (books.overlooked(), left.torn(), left.nominations())
    assert not wrong


async def go_whole(found: Arena) -> None:
    """Some requests fail: of a gang some members leave soon, others must be asked again."""
    found.schedulers.start()
    for number in range(CARDS // 4):
        await create_gang(found, f"gang-{number}", 4, "1.0", "low")
    assert await found.books.until(lambda: found.books.bound() == CARDS, found.pace.settles_s)
    found.proxy.weather = Weather(5, requests=0.6, watches=0.0, where=OF_EVICTIONS)
    for number in range(URGENT):
        await found.create(pod(f"urgent-{number}", share("1.0"), priorityClassName="high"))
    urgent = [f"urgent-{number}" for number in range(URGENT)]
    assert await found.books.until(
        lambda: all(map(found.books.is_bound, urgent)), found.pace.settles_s
    )
    await until_settled(found)
    assert len(found.books.evictions.evicted) == 4


def test_a_gang_that_gives_way_goes_whole_whatever_is_answered(play: Play) -> None:
    play(go_whole, TIGHT, preempts=True)


async def gain(found: Arena) -> None:
    """Nothing goes wrong, nobody deletes anything, and no pod ends."""
    rng, books = random.Random(6), found.books
    found.schedulers.start()
    for number in range(NEWCOMERS):
        rank = rng.choice([*CLASSES])
        if rng.random() < 0.2:
            await create_gang(found, f"gang-{number}", rng.choice([2, 3]), "1.0", rank)
        else:
            asked = rng.choice(["0.3", "0.5", "1.0", "2"])
            await found.create(pod(f"pod-{number}", share(asked), priorityClassName=rank))
        if rng.random() < 0.5:
            await until_settled(found)
    await until_settled(found)
    assert books.evictions.evicted
    assert [*books.evictions.in_vain(await found.events())] == []


def test_without_faults_each_eviction_is_for_somebody_who_gets_the_place(play: Play) -> None:
    play(gain, TIGHT, preempts=True)
