"""Init containers, sidecars and apps of one pod: each gets its own part of its own cards.

kubelet's own device manager gives the devices of an init container to the containers after it, and
its pod-resources service lists no init container but sidecars.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import ContainerRef
from tests.fake_nvml.board import Board
from tests.kubelet.device_managers import DeviceManagerRefused, Json, pod
from tests.kubelet.nodes import GPU_MEM, NVIDIA, VISIBLE, KubeletNode, kubelet_node
from tests.kubelet.test_hami_pods import HAMI, MIB, with_library
from tests.scale import scaled, seeds

pytestmark = pytest.mark.real_only("asks kubelet's device manager, which is built with Go")
NewBoard = Callable[[str], Board]
CARDS = 6
LIMIT, CACHE = "CUDA_DEVICE_MEMORY_LIMIT_", "CUDA_DEVICE_MEMORY_SHARED_CACHE"


@dataclass
class Container:
    """One container, the cards that the scheduler gave it, and its memory of each (MiB)."""

    name: str
    cards: list[GpuUuid]
    mib: int
    is_sidecar: bool = False


@dataclass
class Part:
    """A pod: init containers in order, then apps. Containers with no card have none."""

    name: str
    init: list[Container]
    apps: list[Container]
    stored: Json = field(default_factory=dict)

    @property
    def containers(self) -> list[Container]:
        return [*self.init, *self.apps]

    @property
    def asking(self) -> Json:
        def limits(few: list[Container]) -> dict[str, Mapping[str, int]]:
            return {one.name: {NVIDIA: len(one.cards)} if one.cards else {} for one in few}

        sidecars = [one.name for one in self.init if one.is_sidecar]
        return pod(self.name, limits(self.apps), init=limits(self.init), sidecars=sidecars)

    @property
    def allocation(self) -> Allocation:
        claims = tuple(
            ClaimCharge(
                container=ContainerRef(init=init, index=at),
                cards=tuple(CardCharge(card, 10, one.mib * MIB) for card in one.cards),
                limit_milli=10,
            )
            for init, few in ((True, self.init), (False, self.apps))
            for at, one in enumerate(few)
            if one.cards
        )
        return Allocation(
            token=DecisionToken("t"),
            dialect="hami",
            cards=summed(card for one in claims for card in one.cards),
            claims=claims,
            isolation=Isolation(IsolationBackend.HAMI_CORE, 10),
        )


async def expect_own_part(node: KubeletNode, part: Part, one: Container, order: list[str]) -> None:
    """The container starts, with its own cards, limits and region, and no others."""
    seen = await node.sees_at_last(part.stored, one.name)
    if not one.cards:
        assert VISIBLE not in seen
        return
    assert seen[VISIBLE].split(",") == one.cards, (part.asking, one)
    limits = {name: value for name, value in seen.items() if name.startswith(LIMIT)}
    assert limits == {f"{LIMIT}{at}": f"{one.mib}m" for at in range(len(one.cards))}
    mounts = await node.mounts(part.stored, one.name)
    region, _ = mounts["/usr/local/vgpu"]
    uid = part.stored["metadata"]["uid"]
    is_plain = one in part.init and not one.is_sidecar
    assert region.endswith(f"/{uid}_{'.init.' if is_plain else ''}{one.name}")
    order.append(seen[CACHE])


@pytest.mark.parametrize(
    ("init", "apps"),
    [
        ([1], []),
        ([1], [1]),
        ([2], [1]),
        ([1], [2]),
        ([1, 1], [1]),
        ([2, 1], [2, 1]),
        ([1, -1], [1]),
        ([-1, 1], [1]),
        ([-1], [1]),
        ([1, -1, 1], [1, 0]),
        ([0, 2, -2], [0, 2]),
        ([1, 0, 1], [0]),
    ],
    ids=str,
)
async def test_each_container_gets_its_own_claim(
    tmp_path: Path, new_board: NewBoard, init: list[int], apps: list[int]
) -> None:
    """The numbers of cards; a sidecar's are negative."""
    board, mib = new_board("t4-box"), iter(range(1000, 9000, 100))
    cards = iter(range(1000))

    def containers(word: str, counts: list[int]) -> list[Container]:
        return [
            Container(
                f"{word}-{at}",
                [board.uuid(next(cards) % CARDS) for _ in range(abs(count))],
                next(mib),
                count < 0,
            )
            for at, count in enumerate(counts)
        ]

    part = Part("a", containers("init", init), containers("app", apps or [0]))
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        with_library(node)
        part.stored = await node.bind(part.asking, allocation=part.allocation)
        await node.admit(part.stored)
        caches: list[str] = []
        for one in part.containers:
            await expect_own_part(node, part, one, caches)
        assert len({*caches}) == len(caches)


class Pods:
    """A node and pods that come, start and go; the book is what the scheduler decided."""

    def __init__(self, node: KubeletNode, board: Board, random: Random) -> None:
        self._node = node
        self._board = board
        self._random = random
        self._made = 0
        #: Pods with the number of their containers that have started.
        self._started: dict[str, int] = {}
        self._pods: dict[str, Part] = {}

    async def step(self) -> None:
        """Something happens."""
        ways = [self._create] * (len(self._pods) < 4) * 3 + [self._start] * 8
        ways += [self._again] * 2 + [self._delete, self._restart_kubelet, self._restart_agent]
        await self._random.choice(ways)()

    async def expect_all_start(self) -> None:
        """All containers of all pods start."""
        for name, part in self._pods.items():
            for one in part.containers[self._started[name] :]:
                await expect_own_part(self._node, part, one, [])

    async def _create(self) -> None:
        """One pod or two, admitted before any of their containers starts."""
        for _ in range(self._random.randint(1, 2)):
            self._made += 1
            part = self._part(f"p{self._made}")
            part.stored = await self._node.bind(part.asking, allocation=part.allocation)
            try:
                await self._node.admit(part.stored)
            except DeviceManagerRefused:
                await self._node.delete(part.stored)
                continue
            self._pods[part.name], self._started[part.name] = part, 0

    def _part(self, name: str) -> Part:
        def containers(word: str, most: int, least: int = 0) -> list[Container]:
            return [
                Container(
                    f"{word}-{at}",
                    [self._board.uuid(one) for one in self._random.sample(range(CARDS), count)],
                    self._random.randint(100, 9000),
                    word == "init" and self._random.random() < 0.3,
                )
                for at in range(self._random.randint(least, most))
                for count in [self._random.choice([0, 1, 1, 2])]
            ]

        part = Part(name, containers("init", 3), containers("app", 2, 1))
        if not any(one.cards for one in part.containers):
            part.init.append(Container("init-last", [self._board.uuid(0)], 77))
        return part

    async def _start(self) -> None:
        waiting = [
            name for name, part in self._pods.items() if self._started[name] < len(part.containers)
        ]
        if waiting:
            name = self._random.choice(waiting)
            part = self._pods[name]
            await expect_own_part(self._node, part, part.containers[self._started[name]], [])
            self._started[name] += 1

    async def _again(self) -> None:
        """A container of a pod starts once more."""
        begun = [name for name, count in self._started.items() if count]
        if begun:
            name = self._random.choice(begun)
            one = self._random.choice(self._pods[name].containers[: self._started[name]])
            await expect_own_part(self._node, self._pods[name], one, [])

    async def _delete(self) -> None:
        if self._pods:
            name = self._random.choice([*self._pods])
            await self._node.delete(self._pods.pop(name).stored)
            del self._started[name]

    async def _restart_kubelet(self) -> None:
        await self._node.manager.kill()
        await self._node.manager.start([one.stored for one in self._pods.values()])
        await self._awaits_devices()

    async def _restart_agent(self) -> None:
        await self._node.kill_agent()
        await self._node.start_agent()
        await self._awaits_devices()

    async def _awaits_devices(self) -> None:
        await self._node.manager.expect_capacity(lambda _, free: bool(free.get(NVIDIA)))


@pytest.mark.parametrize("seed", seeds(10))
async def test_pods_of_any_containers_through_restarts_get_what_was_decided(
    tmp_path: Path, new_board: NewBoard, seed: int
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        with_library(node)
        pods = Pods(node, board, Random(seed))
        for _ in range(scaled(120, 25)):
            await pods.step()
        await pods.expect_all_start()


async def test_a_native_init_container_has_a_free_card_until_its_pod_ends(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """kubelet keeps its devices for the pod, and gives them to no one else."""
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, NVIDIA) as node:
        only = await node.bind(pod("only", {"main": {}}, init={"first": {NVIDIA: 1}}))
        both = await node.bind(pod("both", {"main": {NVIDIA: 2}}, init={"first": {NVIDIA: 2}}))
        for one in (only, both):
            await node.admit(one)
        [card] = [(await node.sees(only, "first"))[VISIBLE]]
        two = (await node.sees(both, "first"))[VISIBLE].split(",")
        assert card not in two
        await node.expect_held(only=[card], both=[*two])
        await node.kill_agent()
        await node.start_agent()
        assert (await node.sees_at_last(both))[VISIBLE].split(",") == two
        await node.expect_held(only=[card], both=[*two])
        assert (await node.sees(only, "first"))[VISIBLE] == card
        await node.delete(only)
        await node.expect_held(both=[*two])


async def test_a_promise_of_an_older_agent_for_two_containers_is_refused(
    tmp_path: Path, new_board: NewBoard
) -> None:
    """Its name was that of the devices, which an init container and an app may share."""
    board = new_board("t4-box")
    part = Part(
        "a", [Container("first", [board.uuid(0)], 1000)], [Container("main", [board.uuid(1)], 500)]
    )
    async with kubelet_node(tmp_path, board, NVIDIA, **HAMI) as node:
        with_library(node)
        part.stored = await node.bind(part.asking, allocation=part.allocation)
        await node.admit(part.stored)
        checkpoint = node.manager.plugins / "kubelet_internal_checkpoint"
        document = json.loads(checkpoint.read_bytes())
        first, main = document["Data"]["PodDeviceEntries"]
        assert first["DeviceIDs"] == main["DeviceIDs"]
        first["AllocResp"] = main["AllocResp"]
        checkpoint.write_text(json.dumps(document))
        with pytest.raises(DeviceManagerRefused, match="one promise of an older agent"):
            await node.sees(part.stored, "main")


async def test_without_kubelets_checkpoint_no_container_gets_a_card(
    tmp_path: Path, new_board: NewBoard
) -> None:
    board = new_board("t4-box")
    async with kubelet_node(tmp_path, board, GPU_MEM) as node:
        stored = await node.bind(pod("a", {"main": {GPU_MEM: 1}}), [board.uuid(0)])
        await node.admit(stored)
        checkpoint = node.manager.plugins / "kubelet_internal_checkpoint"
        content = checkpoint.read_bytes()
        checkpoint.write_text("{")
        with pytest.raises(DeviceManagerRefused, match="kubelet_internal_checkpoint cannot be"):
            await node.sees(stored)
        checkpoint.unlink()
        with pytest.raises(DeviceManagerRefused, match="checkpoint has no pod with these 1 dev"):
            await node.sees(stored)
        checkpoint.write_bytes(content)
        assert (await node.sees(stored))[VISIBLE] == board.uuid(0)
