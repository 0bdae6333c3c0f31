"""kill -9 of the agent, with its plugins, and of kubelet's device manager, at any point."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from kubeshare_py.domain.identity import GpuUuid
from tests.fake_nvml.board import Board
from tests.kubelet.device_managers import DeviceManagerRefused, pod
from tests.kubelet.nodes import GPU_MEM, NVIDIA, VISIBLE, Json, KubeletNode, kubelet_node
from tests.patience import PATIENCE_S
from tests.scale import scaled, seeds

pytestmark = pytest.mark.real_only("asks kubelet's device manager, which is built with Go")
NewBoard = Callable[[str], Board]
#: Cards of the board: native pods and placed ones together never need all of them.
CARDS = 6
MOST_NATIVE, MOST_PLACED = 2, 3
#: A kill comes within this time (s) after kubelet was asked: between any two calls that it makes.
LATEST_S = 0.2
_VICTIMS = ((), ("agent",), ("manager",), ("agent", "manager"), ("manager", "agent"))


class KilledNode:
    """A node with pods, and a book of what each of them saw."""

    def __init__(self, node: KubeletNode, board: Board, random: Random) -> None:
        self._node = node
        self._cards = [board.uuid(index) for index in range(CARDS)]
        self._random = random
        self._names = (f"p{number}" for number in range(1000))
        #: Pods that kubelet admitted, and the cards of those that the scheduler placed.
        self.pods: dict[str, Json] = {}
        self.placed: dict[str, GpuUuid] = {}
        #: What the first start of each pod saw.
        self.seen: dict[str, list[str]] = {}

    async def step(self) -> None:
        """Something happens to a pod, and meanwhile something dies."""
        native = len(self.pods) - len(self.placed)
        choices = [self._start] * bool(self.pods) + [self._delete] * bool(self.pods)
        choices += [self._place] * (len(self.placed) < MOST_PLACED)
        choices += [self._create_native] * (native < MOST_NATIVE)
        await self._random.choice(choices)()

    async def expect_the_same(self) -> None:
        """Every pod sees what it saw before; no card is given twice."""
        for name in [*self.pods]:
            await self._expect(name)
        native = {name: self.seen[name] for name in self.pods if name not in self.placed}
        given = [card for cards in native.values() for card in cards]
        assert len({*given}) == len(given)
        assert not {*given} & {*self.placed.values()}
        await self._node.expect_held(**native)

    async def expect_nothing_is_left(self) -> None:
        """All pods end; so do the files about them."""
        for name in [*self.pods]:
            await self._node.delete(self.pods.pop(name))
        await self._node.expect_held()
        root = self._node.manager.root
        last_look = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            given = json.loads((root / "var/lib/kubeshare/device-plugins.json").read_text())
            left = [*(root / "var/run/cdi").iterdir(), *given["choices"], *given["claims"]]
            if not left:
                return
            assert asyncio.get_running_loop().time() < last_look, left
            await asyncio.sleep(0.05)

    async def _place(self) -> None:
        """The scheduler gives a pod a card that no native pod has."""
        taken = {card for name in self.pods for card in self.seen.get(name, ())}
        card = self._random.choice([one for one in self._cards if one not in taken])
        name = next(self._names)
        asking = pod(name, {"main": {GPU_MEM: self._random.randint(1, 3)}})
        stored = await self._node.bind(asking, [card])
        if await self._admitted(name, stored):
            self.placed[name] = card
            await self._expect(name)

    async def _create_native(self) -> None:
        name = next(self._names)
        stored = await self._node.bind(pod(name, {"main": {NVIDIA: 1}}))
        if await self._admitted(name, stored):
            await self._expect(name)

    async def _admitted(self, name: str, stored: Json) -> bool:
        """Whether kubelet admits a pod: it fails one whose plugin dies, and asks again itself."""
        while True:
            outcome = await self._amid_kills(self._node.admit(stored), {name: stored})
            if outcome is None:
                return True
            if isinstance(outcome, DeviceManagerRefused):
                await self._node.delete(stored)
                return False

    async def _start(self) -> None:
        """A container starts again."""
        name = self._random.choice([*self.pods])
        await self._amid_kills(self._node.sees(self.pods[name]))
        await self._expect(name)

    async def _delete(self) -> None:
        name = self._random.choice([*self.pods])
        stored = self.pods.pop(name)
        self.placed.pop(name, None)
        await self._amid_kills(self._node.delete(stored))

    async def _expect(self, name: str) -> None:
        cards = (await self._node.sees_at_last(self.pods[name]))[VISIBLE].split(",")
        assert self.seen.setdefault(name, cards) == cards
        assert name not in self.placed or cards == [self.placed[name]]

    async def _amid_kills(
        self, work: Coroutine[Any, Any, object], new: Mapping[str, Json] = MappingProxyType({})
    ) -> object:
        """What comes of it, None if it was done, and `new` pods are there; then all are back."""
        victims = self._random.choice(_VICTIMS)
        task = asyncio.ensure_future(work)
        await asyncio.sleep(self._random.uniform(0, LATEST_S))
        for victim in victims:
            if victim == "manager":
                self._node.manager.strike()
            else:
                await self._node.kill_agent()
        [outcome] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(outcome, BaseException) and not victims:
            raise outcome
        if not isinstance(outcome, BaseException):
            self.pods |= new
        for victim in victims:
            if victim == "manager":
                await self._node.manager.kill()
                await self._node.manager.start([*self.pods.values()])
            else:
                await self._node.start_agent()
        await self._node.manager.expect_capacity(
            # Cards with shares are advertised as unhealthy: they are no cards for native pods.
            lambda capacity, free: (
                capacity.get(NVIDIA) == CARDS and bool(free.get(NVIDIA)) and bool(free.get(GPU_MEM))
            )
        )
        return outcome if isinstance(outcome, BaseException) else None


@pytest.mark.parametrize("seed", seeds(20))
async def test_whatever_is_killed_whenever_pods_keep_their_cards(
    tmp_path: Path, new_board: NewBoard, seed: int
) -> None:
    board, random = new_board("t4-box"), Random(seed)
    async with kubelet_node(tmp_path, board, NVIDIA, GPU_MEM) as node:
        killed = KilledNode(node, board, random)
        for _ in range(scaled(40, 8)):
            await killed.step()
        await killed.expect_the_same()
        await killed.expect_nothing_is_left()
