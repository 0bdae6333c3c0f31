"""Bursts that fill every card exactly: all are bound, each with its card, none too much.

Schedulers that bind in several steps strip some pods of a burst of their cards again, or make them
wait for a lock.
"""

import asyncio
from collections import Counter

import pytest

from tests.stories.conftest import PODS, Json, Stage, bound, card, gpu

REPEATS = 5


async def burst(stage: Stage, count: int) -> list[Json]:
    """So many halves at once, until all are bound."""
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(stage.create(f"half-{number}", gpu("0.5")))
    return await stage.expect_all(lambda pods: len(bound(pods)) == count)


async def expect_filled_again_and_again(stage: Stage, count: int) -> None:
    """Fill all cards, keep what was given until everything runs, and make room again."""
    for _ in range(REPEATS):
        given = cards(await burst(stage, count))
        assert sorted(Counter(given.values()).values()) == [2] * (count // 2)
        assert cards(await stage.expect_all(lambda pods: len(running(pods)) == count)) == given
        await stage.client.request("DELETE", PODS, query={"gracePeriodSeconds": 0})
        await stage.expect_all(lambda pods: not pods)


def cards(pods: list[Json]) -> dict[str, str]:
    """The card of each pod."""
    return {pod["metadata"]["uid"]: card(pod) for pod in pods}


def running(pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


class TestOneNodeOfEightCards:
    CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 8, memory: 16GiB}]}]"

    @pytest.mark.slow
    async def test_sixteen_halves_fill_it_again_and_again(self, stage: Stage) -> None:
        await expect_filled_again_and_again(stage, 16)


class TestEightNodesOfOneCard:
    CLUSTER = 'nodes: [{name: "n{n}", count: 8, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'

    @pytest.mark.long
    async def test_sixteen_halves_fill_them_again_and_again(self, stage: Stage) -> None:
        await expect_filled_again_and_again(stage, 16)


class TestManyNodesOfOneCard:
    CLUSTER = 'nodes: [{name: "n{n}", count: 60, gpus: [{model: T4, count: 1, memory: 16GiB}]}]'

    @pytest.mark.slow
    async def test_as_many_halves_as_fit_each_get_their_card(self, stage: Stage) -> None:
        given = cards(await burst(stage, 120))
        assert sorted(Counter(given.values()).values()) == [2] * 60
        assert cards(await stage.expect_all(lambda pods: len(running(pods)) == 120)) == given
