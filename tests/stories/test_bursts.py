"""Bursts that fill every card exactly: all are bound, each with its card, none too much."""

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
    return await stage.until_all(lambda pods: len(bound(pods)) == count)


def pods_of_cards(pods: list[Json]) -> list[int]:
    return list(Counter(card(pod) for pod in pods).values())


class TestOneNodeOfEightCards:
    @pytest.fixture
    def nodes(self) -> str:
        return "nodes: [{name: n1, gpus: [{model: T4, count: 8, memory: 16GiB}]}]"

    async def test_sixteen_halves_fill_it_again_and_again(self, stage: Stage) -> None:
        for _ in range(REPEATS):
            assert pods_of_cards(await burst(stage, 16)) == [2] * 8
            await stage.client.request("DELETE", PODS, query={"gracePeriodSeconds": 0})
            await stage.until_all(lambda pods: not pods)


class TestManyNodesOfOneCard:
    @pytest.fixture
    def nodes(self) -> str:
        return """
nodes:
  - {name: "n{n}", count: 60, gpus: [{model: T4, count: 1, memory: 16GiB}]}
"""

    async def test_as_many_halves_as_fit_each_get_their_card(self, stage: Stage) -> None:
        assert pods_of_cards(await burst(stage, 120)) == [2] * 60
