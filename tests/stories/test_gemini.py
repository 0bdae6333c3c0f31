"""Pods with the isolation back-end gemini: Gemini's files say what the allocations say."""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeshare_py.edges.node.agent import NodeAgent
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.node.gemini.gemini_part import GeminiPart
from tests.node_agent.readings import a_reading
from tests.patience import PATIENCE_S
from tests.scale import scaled
from tests.stories.conftest import Json, Stage, annotations, gpu

NODES = ("n1", "n2")
#: All pods of the story, and how many of them come before some go.
PODS, AT_ONCE = scaled(200, 80), 40
WITH_GEMINI = {"profiles": [{"isolation": ["gemini", "none"]}]}
Files = dict[str, tuple[str, str]]
CLUSTER = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: T4, count: 8, memory: 16GiB}]}]'


class Told(CardSampler):
    """Its reading comes from the story."""

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def agents(stage: Stage, root: Path) -> AsyncIterator[list[NodeAgent]]:
    """Both nodes' agents, while entered."""
    found = []
    async with asyncio.TaskGroup() as group:
        for node in stage.nodes:
            folder = GeminiFolder(root / node.name)
            part = GeminiPart(node.name, folder, root / "alive", "10.0.0.7")
            found.append(NodeAgent(stage.client, Told(node.name), [part]))
        tasks = [group.create_task(one.run()) for one in found]
        for one, node in zip(found, stage.nodes, strict=True):
            one.sampler.took(a_reading(*(card.uuid for card in node.cards)))
        yield found
        for task in tasks:
            task.cancel()


def files_of(root: Path) -> dict[Path, Path]:
    """The files of limits of both nodes' cards, each with its file of ports."""
    folders = [GeminiFolder(root / name) for name in NODES]
    return {
        path: folder.ports / path.name
        for folder in folders
        if folder.ports.exists()
        for path in folder.config.iterdir()
    }


def written(root: Path) -> Files:
    """Both files of each card."""
    return {
        path.name: (path.read_text(), ports.read_text())
        for path, ports in files_of(root).items()
        if ports.exists()
    }


def allocated(stage: Stage, pods: list[Json]) -> Files:
    """What the files should say, from the annotations alone."""
    config, ports = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        held = json.loads(annotations(pod).get("sharedgpu/allocation", "{}"))
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        if held.get("isolation") == "gemini":
            [claim] = held["claims"]
            name = f"default/{pod['metadata']['name']}"
            amounts = f"{claim['milli'] / 1000} {held['limit'] / 1000} {claim['bytes']}"
            config[claim["uuid"]].append(f"{name} {amounts}\n")
            ports[claim["uuid"]].append(f"{name} {held['port']}\n")
    return {
        card.uuid: (text(config[card.uuid]), text(ports[card.uuid]))
        for node in stage.nodes
        for card in node.cards
    }


def text(lines: list[str]) -> str:
    return f"{len(lines)}\n{''.join(lines)}"


async def expect_equal(stage: Stage, root: Path, count: int) -> None:
    """Wait until so many pods are bound and the files say the same as their allocations."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            pods = await stage.all_pods()
            is_bound = all(pod["spec"].get("nodeName") for pod in pods)
            if len(pods) == count and is_bound and written(root) == allocated(stage, pods):
                return
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_the_files_follow_pods_that_come_and_go_on_16_cards(
    empty_stage: Stage, tmp_path: Path
) -> None:
    stage, rng = empty_stage, random.Random(20)
    alive: list[str] = []
    async with stage.scheduler(WITH_GEMINI), agents(stage, tmp_path):
        for first in range(0, PODS, AT_ONCE):
            for number in range(first, first + AT_ONCE):
                request, limit = rng.choice((0.05, 0.1, 0.125)), rng.choice((0.5, 1.0))
                await stage.create(f"p-{number}", gpu(str(request), str(limit)))
                alive.append(f"p-{number}")
            await expect_equal(stage, tmp_path, len(alive))
            for name in rng.sample(alive, AT_ONCE // 2):
                alive.remove(name)
                await stage.delete(name)
            await expect_equal(stage, tmp_path, len(alive))


@pytest.mark.slow
async def test_56_an_agent_that_is_restarted_leaves_the_files_alone(
    empty_stage: Stage, tmp_path: Path
) -> None:
    """Pods that run keep their pod managers."""
    stage = empty_stage
    async with stage.scheduler(WITH_GEMINI):
        async with agents(stage, tmp_path):
            for number in range(4):
                await stage.create(f"p-{number}", gpu("0.5"))
            await expect_equal(stage, tmp_path, 4)
        before = {path: path.stat().st_mtime_ns for path in files_of(tmp_path)}
        async with agents(stage, tmp_path) as found:
            await expect_listed(found)
            await expect_equal(stage, tmp_path, 4)
            assert {path: path.stat().st_mtime_ns for path in files_of(tmp_path)} == before
            stage.cluster.server.cut_watches()
            await stage.delete("p-0")
            await expect_equal(stage, tmp_path, 3)


async def expect_listed(found: list[NodeAgent]) -> None:
    """Wait until they know the pods of their nodes."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if all(one.state.tenants is not None for one in found):
                return
            await asyncio.sleep(0.01)
